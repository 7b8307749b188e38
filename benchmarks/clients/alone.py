"""`KafkaProducer` and `KafkaConsumer`, on threads and on greenlets: what a message alone takes."""

from __future__ import annotations

import time
from typing import Any, ClassVar

from benchmarks.clients.base import Job, Stopwatch
from benchmarks.clients.front import any_topic
from benchmarks.clients.ours import PACE_S, WARM_UP, Greenlets, Threads
from benchmarks.job import payloads


def _options(job: Job, linger_ms: int) -> dict[str, Any]:
    return any_topic(job) | {"linger_ms": linger_ms}


class AloneThreads(Threads):
    """The client for any topic, on threads."""

    tunings: ClassVar = {"sync_latency": "produce(...).get()", "end_to_end": "linger_ms=0"}

    def sync_latency(self, job: Job, watch: Stopwatch) -> list[float]:
        """Time each `produce(...).get()` (s)."""
        value, taken = payloads(job.size)[0], []
        with self.connect(job) as client, client.producer(**_options(job, 5)) as producer:
            for _ in range(WARM_UP):
                producer.produce(job.topic, value).get()
            watch.start()
            for _ in range(job.messages):
                start = time.perf_counter()
                producer.produce(job.topic, value).get()
                taken.append(time.perf_counter() - start)
            watch.stop()
        return taken

    def end_to_end(self, job: Job, watch: Stopwatch) -> list[float]:
        """Time each message from `produce()` to the iteration (s), at a thousand a second."""
        taken: list[float] = []

        def receive() -> None:
            for record in consumer:
                taken.append(time.perf_counter() - float(record.value or b""))
                if len(taken) == WARM_UP + job.messages:
                    return

        with self.connect(job) as client, client.consumer(job.topic, consumer_timeout_ms=20_000) as consumer:
            worker = self.handler.spawn(receive)
            with client.producer(**_options(job, 0)) as producer:
                watch.start()
                due = time.perf_counter()
                for _ in range(WARM_UP + job.messages):
                    producer.produce(job.topic, b"%.9f" % time.perf_counter())
                    due += PACE_S
                    self.handler.sleep(max(0.0, due - time.perf_counter()))
                worker.join(20)
                watch.stop()
        return taken[WARM_UP:]


class AloneGreenlets(AloneThreads):
    """The same on greenlets."""

    distributions = Greenlets.distributions
    greenlets = True
    handler = Greenlets.handler
