"""This client on an event loop: asyncio's own, and uvloop's."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Coroutine
from typing import Any, ClassVar, TypeVar

from benchmarks.clients.base import Client, Job, Measures, Seen, Stopwatch
from benchmarks.clients.front import CONSUMING, TUNINGS, WORKERS, Handled, Told, any_topic
from benchmarks.hub import Gate, asyncio_stalls
from benchmarks.job import payloads
from pykafka import Scram, SslConfig
from pykafka.aio import KafkaClient

STRIDE = 256
WARM_UP, PACE_S = 200, 0.001
T = TypeVar("T")


class Asyncio(Client):
    """`pykafka.aio`: the producer and the consumer of any topic, one message at a time."""

    distributions: ClassVar[tuple[str, ...]] = ("pykafka", "greenlet")
    tunings: ClassVar = {
        "produce": TUNINGS["produce_any"],
        "consume": TUNINGS["records"],
        "sync_latency": "client.producer(), defaults; await produce(), then await the delivery",
        "end_to_end": "linger_ms=0",
        "produce_any_callbacks": TUNINGS["produce_any_callbacks"],
        "parallel_key": TUNINGS["parallel_key"],
        "parallel_none": TUNINGS["parallel_none"],
    }

    def run(self, main: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on a loop of this kind."""
        return asyncio.run(main)

    def connect(self, job: Job) -> KafkaClient:
        """Return a client."""
        return KafkaClient(
            hosts=job.hosts,
            ssl_config=SslConfig(job.cafile) if job.cafile else None,
            sasl=Scram(*job.user) if job.user else None,
        )

    def produce(self, job: Job, watch: Stopwatch) -> None:
        """Produce to a topic."""
        self.run(self._produce(job, watch, None))

    def produce_any_callbacks(self, job: Job, watch: Stopwatch) -> None:
        """Produce to a topic, and be called for each message."""
        told = Told()
        self.run(self._produce(job, watch, told))
        assert told.count == job.messages, told.count

    async def _produce(self, job: Job, watch: Stopwatch, told: Told | None) -> None:
        pool = payloads(job.size)
        mask, topic = len(pool) - 1, job.topic
        watch.start()
        async with self.connect(job) as client:
            async with client.producer(**any_topic(job), on_delivery=told) as producer:
                for index in range(job.messages):
                    await producer.produce(topic, pool[index & mask])
            watch.stop()

    def consume(self, job: Job, watch: Stopwatch) -> Seen:
        """Read a topic, one record at a time."""
        return self.run(self._consume(job, watch))

    async def _consume(self, job: Job, watch: Stopwatch) -> Seen:
        watch.start()
        async with self.connect(job) as client:
            seen, last = 0, None
            async with client.consumer(job.topic, **CONSUMING) as consumer:
                async for record in consumer:
                    seen += 1
                    if seen == job.messages:
                        last = record.value
                        break
            watch.stop()
        return Seen(seen, last)

    def sync_latency(self, job: Job, watch: Stopwatch) -> list[float]:
        """Time each `produce()` with its delivery (s)."""
        return self.run(self._sync_latency(job, watch))

    async def _sync_latency(self, job: Job, watch: Stopwatch) -> list[float]:
        value, topic, taken = payloads(job.size)[0], job.topic, []
        async with self.connect(job) as client, client.producer(acks=1, enable_idempotence=False) as producer:
            for _ in range(WARM_UP):
                await (await producer.produce(topic, value))
            watch.start()
            for _ in range(job.messages):
                start = time.perf_counter()
                delivery = await producer.produce(topic, value)
                await delivery
                taken.append(time.perf_counter() - start)
            watch.stop()
        return taken

    def end_to_end(self, job: Job, watch: Stopwatch) -> list[float]:
        """Time each message from `produce()` to `async for` (s), at a thousand a second."""
        return self.run(self._end_to_end(job, watch))

    async def _end_to_end(self, job: Job, watch: Stopwatch) -> list[float]:
        taken: list[float] = []

        async def receive() -> None:
            async for record in consumer:
                taken.append(time.perf_counter() - float(record.value or b""))
                if len(taken) == WARM_UP + job.messages:
                    return

        options = any_topic(job) | {"linger_ms": 0}
        async with (
            self.connect(job) as client,
            client.consumer(job.topic, **CONSUMING) as consumer,
            client.producer(**options) as producer,
        ):
            worker = asyncio.ensure_future(receive())
            watch.start()
            due = time.perf_counter()
            for _ in range(WARM_UP + job.messages):
                await producer.produce(job.topic, b"%.9f" % time.perf_counter())
                due += PACE_S
                await asyncio.sleep(max(0.0, due - time.perf_counter()))
            await asyncio.wait_for(worker, 20)
            watch.stop()
        return taken[WARM_UP:]

    def hub_stall_producing(self, job: Job, watch: Stopwatch) -> Measures:
        """Produce at full speed beside a ticker of the loop."""
        return self.run(self._hub_stall_producing(job, watch))

    async def _hub_stall_producing(self, job: Job, watch: Stopwatch) -> Measures:
        pool = payloads(job.size)
        async with self.connect(job) as client, client.producer(**any_topic(job)) as producer:

            async def flood(gate: Gate) -> int:
                done = 0
                while not gate.closed:
                    for value in pool[:STRIDE]:
                        await producer.produce(job.topic, value)
                    done += STRIDE
                return done

            watch.start()
            measures = await asyncio_stalls(flood)
            watch.stop()
        return measures

    def hub_stall_consuming(self, job: Job, watch: Stopwatch) -> Measures:
        """Consume at full speed beside a ticker of the loop, from the beginning again at the end."""
        return self.run(self._hub_stall_consuming(job, watch))

    async def _hub_stall_consuming(self, job: Job, watch: Stopwatch) -> Measures:
        async with self.connect(job) as client, client.consumer(job.topic, **CONSUMING) as consumer:
            seen = 0

            async def flood(gate: Gate) -> int:
                nonlocal seen
                before = seen
                async for _ in consumer:
                    seen += 1
                    if seen % job.messages == 0:
                        await consumer.seek_to_beginning()
                    if gate.closed:
                        break
                return seen - before

            watch.start()
            measures = await asyncio_stalls(flood)
            watch.stop()
        return measures

    def parallel_key(self, job: Job, watch: Stopwatch) -> Seen:
        """Handle records by many tasks, those of a key in order."""
        return self.run(self._parallel(job, watch, "key"))

    def parallel_none(self, job: Job, watch: Stopwatch) -> Seen:
        """Handle records by many tasks, in any order."""
        return self.run(self._parallel(job, watch, None))

    async def _parallel(self, job: Job, watch: Stopwatch, order: Any) -> Seen:
        handled, done = Handled(job), asyncio.Event()
        handled.stop = done.set
        watch.start()
        async with self.connect(job) as client:
            consumer = client.consumer(job.topic, group=f"parallel-{os.getpid()}", **CONSUMING)
            async with consumer as reader, reader.parallel(handled, workers=WORKERS, order=order):
                await done.wait()
            watch.stop()
        return handled.seen()


class Uvloop(Asyncio):
    """The same on uvloop."""

    distributions: ClassVar = ("pykafka", "greenlet", "uvloop")

    def run(self, main: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on uvloop."""
        from uvloop import new_event_loop

        make: Callable[[], asyncio.AbstractEventLoop] = new_event_loop
        with asyncio.Runner(loop_factory=make) as runner:
            return runner.run(main)
