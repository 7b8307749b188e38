"""kafka-python."""

from __future__ import annotations

import os
import time
from typing import Any, ClassVar

from benchmarks.clients.base import Client, Job, Measures, Seen, Stopwatch

STALLS = ("hub_stall_producing", "hub_stall_consuming")
if os.environ.get("BENCHMARK_TASK") in STALLS:
    # It has no other way to run on greenlets.
    from gevent import monkey

    monkey.patch_all()

from kafka import KafkaConsumer, KafkaProducer, TopicPartition  # noqa: E402

from benchmarks.footprint import CONSUMERS, IDLE_S, SETTLE_S, Footprint  # noqa: E402
from benchmarks.hub import Gate, gevent_stalls  # noqa: E402
from benchmarks.job import payloads  # noqa: E402

STRIDE = 256
WARM_UP, PACE_S = 200, 0.001
PRODUCING: dict[str, Any] = {"linger_ms": 20, "batch_size": 1_000_000}
POLL_RECORDS = 10_000


class KafkaPython(Client):
    """kafka-python, pure Python."""

    distributions = ("kafka-python",)
    tunings: ClassVar = {
        "produce": ", ".join(f"{name}={value}" for name, value in PRODUCING.items()),
        "consume": f"max_poll_records={POLL_RECORDS}",
        "consume_batch": f"poll(), max_poll_records={POLL_RECORDS}",
        "sync_latency": "linger_ms=0; send().get()",
        "end_to_end": "linger_ms=0",
        "hub_stall_producing": "gevent.monkey.patch_all()",
        "hub_stall_consuming": "gevent.monkey.patch_all()",
    }

    def producer(self, job: Job, **settings: Any) -> Any:
        """Return a producer."""
        wanted = {"acks": "all" if job.acks == -1 else job.acks, "enable_idempotence": job.idempotent}
        codec = None if job.codec == "none" else job.codec
        return KafkaProducer(bootstrap_servers=job.hosts, compression_type=codec, **wanted | PRODUCING | settings)

    def consumer(self, job: Job, reset: str = "earliest", **settings: Any) -> Any:
        """Return a consumer of all topics."""
        return KafkaConsumer(
            *job.topics,
            bootstrap_servers=job.hosts,
            auto_offset_reset=reset,
            enable_auto_commit=False,
            max_poll_records=POLL_RECORDS,
            **{"consumer_timeout_ms": 20_000} | settings,
        )

    def produce(self, job: Job, watch: Stopwatch) -> None:
        """Produce to all topics in turn."""
        pool, topics = payloads(job.size), job.topics
        watch.start()
        producer = self.producer(job)
        for index in range(job.messages):
            producer.send(topics[index % len(topics)], pool[index % len(pool)])
        producer.flush(timeout=300)
        watch.stop()
        producer.close()

    def consume(self, job: Job, watch: Stopwatch) -> Seen:
        """Read all topics, one message at a time."""
        watch.start()
        consumer = self.consumer(job)
        seen, last = 0, None
        for message in consumer:
            seen += 1
            if seen == job.messages:
                last = message.value
                break
        watch.stop()
        consumer.close()
        return Seen(seen, last)

    def consume_batch(self, job: Job, watch: Stopwatch) -> Seen:
        """Read a topic, many messages at a time."""
        watch.start()
        consumer = self.consumer(job)
        seen, last = 0, None
        while seen < job.messages:
            for messages in consumer.poll(20_000).values():
                seen += len(messages)
                last = messages[-1].value
        watch.stop()
        consumer.close()
        return Seen(seen, last)

    def sync_latency(self, job: Job, watch: Stopwatch) -> list[float]:
        """Time each `send().get()` (s)."""
        value, taken = payloads(job.size)[0], []
        producer = self.producer(job, linger_ms=0)
        for _ in range(WARM_UP):
            producer.send(job.topic, value).get(20)
        watch.start()
        for _ in range(job.messages):
            start = time.perf_counter()
            producer.send(job.topic, value).get(20)
            taken.append(time.perf_counter() - start)
        watch.stop()
        producer.close()
        return taken

    def end_to_end(self, job: Job, watch: Stopwatch) -> list[float]:
        """Time each message from `send()` to iteration (s), at a thousand a second."""
        from threading import Thread

        taken: list[float] = []
        consumer = self.consumer(job)

        def receive() -> None:
            for message in consumer:
                taken.append(time.perf_counter() - float(message.value))
                if len(taken) == WARM_UP + job.messages:
                    return

        worker = Thread(target=receive)
        worker.start()
        producer = self.producer(job, linger_ms=0)
        watch.start()
        due = time.perf_counter()
        for _ in range(WARM_UP + job.messages):
            producer.send(job.topic, b"%.9f" % time.perf_counter())
            due += PACE_S
            time.sleep(max(0.0, due - time.perf_counter()))
        worker.join(20)
        watch.stop()
        producer.close()
        consumer.close()
        return taken[WARM_UP:]

    def hub_stall_producing(self, job: Job, watch: Stopwatch) -> Measures:
        """Produce at full speed beside a ticker, monkey-patched."""
        pool, producer = payloads(job.size), self.producer(job)

        def flood(gate: Gate) -> int:
            done = 0
            while not gate.closed:
                producer.send(job.topic, pool[done % len(pool)])
                done += 1
                if done % STRIDE == 0:
                    time.sleep(0)
            return done

        watch.start()
        measures = gevent_stalls(flood)
        watch.stop()
        producer.flush(timeout=300)
        producer.close()
        return measures

    def hub_stall_consuming(self, job: Job, watch: Stopwatch) -> Measures:
        """Consume at full speed beside a ticker, monkey-patched."""
        consumer = self.consumer(job)
        seen = 0

        def flood(gate: Gate) -> int:
            nonlocal seen
            before = seen
            while not gate.closed:
                next(consumer)
                seen += 1
                if seen % STRIDE == 0:
                    time.sleep(0)
                if seen % job.messages == 0:
                    consumer.seek_to_beginning()
            return seen - before

        watch.start()
        measures = gevent_stalls(flood)
        watch.stop()
        consumer.close()
        return measures

    def many_consumers(self, job: Job, watch: Stopwatch) -> Measures:
        """Create many consumers, and let them idle."""
        watch.start()
        footprint = Footprint()
        consumers = [self.consumer(job, "latest") for _ in range(CONSUMERS)]
        for consumer in consumers:
            consumer.poll(0)
            consumer.position(TopicPartition(job.topic, 0))
        footprint.opened()
        time.sleep(SETTLE_S)
        footprint.settled()
        time.sleep(IDLE_S)
        measures = footprint.measures()
        watch.stop()
        for consumer in consumers:
            consumer.close()
        return measures
