"""aiokafka: one message at a time, and by batches that the application builds."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, ClassVar

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition

from benchmarks.clients.base import Client, Job, Measures, Seen, Stopwatch
from benchmarks.footprint import CONSUMERS, IDLE_S, SETTLE_S, Footprint
from benchmarks.hub import Gate, asyncio_stalls
from benchmarks.job import payloads

STRIDE = 256
WARM_UP, PACE_S = 200, 0.001
PRODUCING: dict[str, Any] = {"linger_ms": 20, "max_batch_size": 1_000_000}
POLL_RECORDS = 10_000


@asynccontextmanager
async def _producer(job: Job, **settings: Any) -> AsyncIterator[Any]:
    codec = None if job.codec == "none" else job.codec
    wanted = {"acks": job.acks, "compression_type": codec} | ({"enable_idempotence": True} if job.idempotent else {})
    producer = AIOKafkaProducer(bootstrap_servers=job.hosts, **wanted | PRODUCING | settings)
    await producer.start()
    try:
        yield producer
    finally:
        await producer.stop()


@asynccontextmanager
async def _consumer(job: Job, reset: str = "earliest", **settings: Any) -> AsyncIterator[Any]:
    consumer = AIOKafkaConsumer(
        *job.topics, bootstrap_servers=job.hosts, auto_offset_reset=reset, enable_auto_commit=False, **settings
    )
    await consumer.start()
    try:
        yield consumer
    finally:
        await consumer.stop()


class Messages(Client):
    """aiokafka, one message at a time; `consume_batch` is its `getmany()`."""

    distributions = ("aiokafka",)
    tunings: ClassVar = {
        "produce": ", ".join(f"{name}={value}" for name, value in PRODUCING.items()),
        "produce_any_callbacks": "as produce, add_done_callback() of each future",
        "consume_batch": f"getmany(), max_poll_records={POLL_RECORDS}",
        "sync_latency": "linger_ms=0; send_and_wait()",
        "end_to_end": "linger_ms=0",
        "hub_stall_producing": "its own loop in the place of gevent's hub",
        "hub_stall_consuming": "its own loop in the place of gevent's hub",
    }

    def produce(self, job: Job, watch: Stopwatch) -> None:
        """Produce to all topics in turn."""
        asyncio.run(self._produce(job, watch))

    async def _produce(self, job: Job, watch: Stopwatch) -> None:
        pool, topics = payloads(job.size), job.topics
        watch.start()
        async with _producer(job) as producer:
            for index in range(job.messages):
                await producer.send(topics[index % len(topics)], pool[index % len(pool)])
            await producer.flush()
            watch.stop()

    def produce_any_callbacks(self, job: Job, watch: Stopwatch) -> None:
        """Produce to a topic, with a callback of the future of each message."""
        asyncio.run(self._produce_callbacks(job, watch))

    async def _produce_callbacks(self, job: Job, watch: Stopwatch) -> None:
        pool, told = payloads(job.size), 0

        def count(future: asyncio.Future[Any]) -> None:
            nonlocal told
            assert future.exception() is None, future.exception()
            told += 1

        watch.start()
        async with _producer(job) as producer:
            for index in range(job.messages):
                (await producer.send(job.topic, pool[index % len(pool)])).add_done_callback(count)
            await producer.flush()
            await asyncio.sleep(0)
            watch.stop()
        assert told == job.messages, told

    def consume(self, job: Job, watch: Stopwatch) -> Seen:
        """Read all topics, one message at a time."""
        return asyncio.run(self._consume(job, watch))

    async def _consume(self, job: Job, watch: Stopwatch) -> Seen:
        watch.start()
        async with _consumer(job) as consumer:
            seen, last = 0, None
            async for message in consumer:
                seen += 1
                if seen == job.messages:
                    last = message.value
                    break
            watch.stop()
        return Seen(seen, last)

    def consume_batch(self, job: Job, watch: Stopwatch) -> Seen:
        """Read a topic, many messages at a time."""
        return asyncio.run(self._consume_batch(job, watch))

    async def _consume_batch(self, job: Job, watch: Stopwatch) -> Seen:
        watch.start()
        async with _consumer(job, max_poll_records=POLL_RECORDS) as consumer:
            seen, last = 0, None
            while seen < job.messages:
                for messages in (await consumer.getmany(timeout_ms=20_000)).values():
                    seen += len(messages)
                    last = messages[-1].value
            watch.stop()
        return Seen(seen, last)

    def sync_latency(self, job: Job, watch: Stopwatch) -> list[float]:
        """Time each `send_and_wait()` (s)."""
        return asyncio.run(self._sync_latency(job, watch))

    async def _sync_latency(self, job: Job, watch: Stopwatch) -> list[float]:
        value, taken = payloads(job.size)[0], []
        async with _producer(job, linger_ms=0) as producer:
            for _ in range(WARM_UP):
                await producer.send_and_wait(job.topic, value)
            watch.start()
            for _ in range(job.messages):
                start = time.perf_counter()
                await producer.send_and_wait(job.topic, value)
                taken.append(time.perf_counter() - start)
            watch.stop()
        return taken

    def end_to_end(self, job: Job, watch: Stopwatch) -> list[float]:
        """Time each message from `send()` to `async for` (s), at a thousand a second."""
        return asyncio.run(self._end_to_end(job, watch))

    async def _end_to_end(self, job: Job, watch: Stopwatch) -> list[float]:
        taken: list[float] = []

        async def receive() -> None:
            async for message in consumer:
                taken.append(time.perf_counter() - float(message.value))
                if len(taken) == WARM_UP + job.messages:
                    return

        async with _consumer(job) as consumer, _producer(job, linger_ms=0) as producer:
            worker = asyncio.ensure_future(receive())
            watch.start()
            due = time.perf_counter()
            for _ in range(WARM_UP + job.messages):
                await producer.send(job.topic, b"%.9f" % time.perf_counter())
                due += PACE_S
                await asyncio.sleep(max(0.0, due - time.perf_counter()))
            await asyncio.wait_for(worker, 20)
            watch.stop()
        return taken[WARM_UP:]

    def hub_stall_producing(self, job: Job, watch: Stopwatch) -> Measures:
        """Produce at full speed beside a ticker of asyncio's loop."""
        return asyncio.run(self._hub_stall_producing(job, watch))

    async def _hub_stall_producing(self, job: Job, watch: Stopwatch) -> Measures:
        pool = payloads(job.size)
        async with _producer(job) as producer:

            async def flood(gate: Gate) -> int:
                done = 0
                while not gate.closed:
                    await producer.send(job.topic, pool[done % len(pool)])
                    done += 1
                    if done % STRIDE == 0:
                        await asyncio.sleep(0)
                return done

            watch.start()
            measures = await asyncio_stalls(flood)
            watch.stop()
        return measures

    def hub_stall_consuming(self, job: Job, watch: Stopwatch) -> Measures:
        """Consume at full speed beside a ticker of asyncio's loop."""
        return asyncio.run(self._hub_stall_consuming(job, watch))

    async def _hub_stall_consuming(self, job: Job, watch: Stopwatch) -> Measures:
        async with _consumer(job) as consumer:
            seen = 0

            async def flood(gate: Gate) -> int:
                nonlocal seen
                before = seen
                while not gate.closed:
                    await consumer.getone()
                    seen += 1
                    if seen % STRIDE == 0:
                        await asyncio.sleep(0)
                    if seen % job.messages == 0:
                        await consumer.seek_to_beginning()
                return seen - before

            watch.start()
            measures = await asyncio_stalls(flood)
            watch.stop()
        return measures

    def many_consumers(self, job: Job, watch: Stopwatch) -> Measures:
        """Create many consumers, and let them idle."""
        return asyncio.run(self._many_consumers(job, watch))

    async def _many_consumers(self, job: Job, watch: Stopwatch) -> Measures:
        async with AsyncExitStack() as stack:
            watch.start()
            footprint = Footprint()
            consumers = [await stack.enter_async_context(_consumer(job, "latest")) for _ in range(CONSUMERS)]
            for consumer in consumers:
                await consumer.position(TopicPartition(job.topic, 0))
            footprint.opened()
            await asyncio.sleep(SETTLE_S)
            footprint.settled()
            await asyncio.sleep(IDLE_S)
            measures = footprint.measures()
            watch.stop()
        return measures


class Batches(Client):
    """aiokafka with batches and partitions that the application chooses: its user does more work."""

    distributions = ("aiokafka",)
    tunings: ClassVar = {"produce": "create_batch() and send_batch(), partitions in turn, max_batch_size=1000000"}

    def produce(self, job: Job, watch: Stopwatch) -> None:
        """Produce to a topic."""
        asyncio.run(self._produce(job, watch))

    async def _produce(self, job: Job, watch: Stopwatch) -> None:
        pool = payloads(job.size)
        watch.start()
        async with _producer(job) as producer:
            sent = turn = 0
            while sent < job.messages:
                batch = producer.create_batch()
                while sent < job.messages:
                    if batch.append(key=None, value=pool[sent % len(pool)], timestamp=None) is None:
                        break
                    sent += 1
                await producer.send_batch(batch, job.topic, partition=turn % job.partitions)
                turn += 1
            await producer.flush()
            watch.stop()
