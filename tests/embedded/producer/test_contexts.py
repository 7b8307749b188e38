"""Callbacks see the context variables of the call that they belong to."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextvars import ContextVar
from typing import Any

import pytest

import pykafka.aio
from pykafka import EmbeddedCluster, KafkaClient, ProducerRecord
from pykafka.exceptions import OnDeliveryError
from tests.support.loops import Concurrency
from tests.support.waiting import until

TRACE: ContextVar[str] = ContextVar("TRACE", default="none")


@pytest.fixture(scope="module")
def cluster() -> Iterator[EmbeddedCluster]:
    with EmbeddedCluster(brokers=1, topics={"a": 3}) as cluster:
        yield cluster


@pytest.fixture(autouse=True)
def untraced() -> Iterator[None]:
    token = TRACE.set("none")
    yield
    TRACE.reset(token)


class Interceptor:
    """Notes the context of each acknowledgement."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    def on_acknowledgement(self, delivery: Any, error: Any) -> None:
        self.seen.append(TRACE.get())


@pytest.mark.on_asyncio
@pytest.mark.parametrize("given", ["producer", "call", "interceptor", "partition"])
def test_on_delivery_sees_the_context_of_its_produce(client: KafkaClient, given: str) -> None:
    """It saw that of its worker, which has none: the id of a trace was lost."""
    seen: list[tuple[bytes | None, str]] = []
    hear = Interceptor()

    def tell(error: Any, delivery: Any) -> None:
        seen.append((delivery.value, TRACE.get()))
        TRACE.set("of the callback")  # which no other one sees

    options: dict[str, Any] = {"on_delivery": tell} if given == "producer" else {}
    options |= {"interceptors": [hear]} if given == "interceptor" else {}
    each: dict[str, Any] = {} if given == "producer" else {"on_delivery": tell}
    each |= {"partition": 1} if given == "partition" else {}
    with client.producer(**options) as producer:
        for number in range(50):
            TRACE.set(f"trace {number}")
            producer.produce("a", b"%d" % number, **each)
        TRACE.set("later")
        producer.flush()
    assert TRACE.get() == "later"
    assert sorted(seen) == sorted((b"%d" % number, f"trace {number}") for number in range(50))
    assert sorted(hear.seen) == (sorted(trace for _, trace in seen) if given == "interceptor" else [])


@pytest.mark.on_asyncio
def test_each_worker_has_its_own(client: KafkaClient) -> None:
    handler = client.cluster.handler
    seen: list[tuple[bytes | None, str]] = []
    with client.producer(on_delivery=lambda error, one: seen.append((one.value, TRACE.get()))) as producer:

        def work(name: str) -> None:
            TRACE.set(name)
            for _ in range(20):
                producer.produce("a", name.encode())
                handler.sleep(0.001)

        workers = [handler.spawn(work, f"worker {number}") for number in range(5)]
        assert all(worker.join(30) for worker in workers)
        producer.flush()
    assert len(seen) == 100
    assert all(value == trace.encode() for value, trace in seen)


@pytest.mark.on_asyncio
@pytest.mark.parametrize("options", [{}, {"sync": True}, {"delivery_reports": True}], ids=["", "sync", "reports"])
def test_the_producer_of_a_topic_likewise(client: KafkaClient, options: dict[str, Any]) -> None:
    seen: list[tuple[bytes | None, str]] = []

    def tell(error: Any, message: Any) -> None:
        seen.append((message.value, TRACE.get()))

    with client.topics["a"].get_producer(linger_ms=1, **options) as producer:
        for number in range(20):
            TRACE.set(f"trace {number}")
            # reports and callbacks may share a batch
            producer.produce(b"%d" % number, on_delivery=tell if number % 2 else None)
        producer.flush()
        if "delivery_reports" in options:
            assert [producer.get_delivery_report(timeout=5)[1] for _ in range(10)] == [None] * 10
    assert sorted(seen) == sorted((b"%d" % number, f"trace {number}") for number in range(1, 20, 2))


def test_the_producer_of_librdkafka_likewise(cluster: EmbeddedCluster) -> None:
    seen: list[str] = []
    with KafkaClient(cluster.hosts) as client:
        with client.topics["a"].get_producer(use_rdkafka=True, linger_ms=1) as producer:
            for number in range(3):
                TRACE.set(f"trace {number}")
                producer.produce(b"x", on_delivery=lambda error, message: seen.append(TRACE.get()))
            TRACE.set("later")
            producer.flush()
    assert sorted(seen) == ["trace 0", "trace 1", "trace 2"]


@pytest.mark.on_asyncio
def test_failures_and_what_raises(client: KafkaClient, caplog: pytest.LogCaptureFixture) -> None:
    """The next callback has its own context all the same, and so has one of a message that failed."""
    seen: list[tuple[str, bool]] = []

    def tell(error: Any, delivery: Any) -> None:
        seen.append((TRACE.get(), error is not None))
        raise ValueError("of the callback")

    with client.producer(on_delivery=tell, linger_ms=60_000) as producer:
        for number in range(4):
            TRACE.set(f"trace {number}")
            producer.produce("a", b"x", partition=0)
            if number == 1:
                producer.purge()
        with pytest.raises(OnDeliveryError):
            producer.flush()
    assert seen == [("trace 0", True), ("trace 1", True), ("trace 2", False), ("trace 3", False)]


@pytest.mark.on_asyncio
def test_a_callback_may_produce(client: KafkaClient) -> None:
    """A context that is entered cannot be entered again: what it produces has a copy."""
    seen: list[str] = []
    with client.producer() as producer:

        def tell(error: Any, delivery: Any) -> None:
            seen.append(TRACE.get())
            if len(seen) < 5:
                TRACE.set(f"{TRACE.get()}+")
                producer.produce("a", b"x", on_delivery=tell)

        TRACE.set("trace")
        producer.produce("a", b"x", on_delivery=tell)
        until(client.cluster.handler, lambda: len(seen) == 5, 10)
    assert seen == ["trace", "trace+", "trace++", "trace+++", "trace++++"]


@pytest.mark.on_asyncio
def test_a_batch_that_is_produced_as_records(client: KafkaClient) -> None:
    seen: list[str] = []
    with client.producer(on_delivery=lambda error, one: seen.append(TRACE.get())) as producer:
        TRACE.set("many")
        producer.produce_many("a", [b"x", ProducerRecord(b"y", key=b"k"), None])
        producer.flush()
    assert seen == ["many"] * 3


@pytest.mark.on_asyncio
def test_on_commit_sees_the_context_of_commit_async(client: KafkaClient) -> None:
    seen: list[str] = []
    with client.producer() as producer:
        producer.produce("a", b"x").get()
    with client.consumer("a", group=f"contexts-{client.cluster.handler.name}", auto_commit=False) as consumer:
        consumer.poll(timeout=10)
        for number in range(3):
            TRACE.set(f"commit {number}")
            consumer.commit_async(on_commit=lambda error, offsets: seen.append(TRACE.get()))
        TRACE.set("later")
        until(client.cluster.handler, lambda: len(seen) == 3, 10)
    assert seen == [f"commit {number}" for number in range(3)]


@pytest.mark.on_asyncio
def test_handlers_of_parallel_work_see_the_context_of_its_run(client: KafkaClient, concurrency: Concurrency) -> None:
    """They saw that of whatever had their worker started. A worker handles many records, and keeps its context."""
    seen: list[str] = []

    def handle(record: Any) -> None:
        seen.append(TRACE.get())
        client.cluster.handler.sleep(0.001)

    with client.producer() as producer:
        producer.produce_many("a", [b"x"] * 30)
    with client.consumer("a", auto_commit=False, consumer_timeout_ms=2000) as consumer:
        consumer.seek_to_beginning()
        TRACE.set("run")
        with consumer.parallel(handle, workers=3):
            TRACE.set("later")
            until(client.cluster.handler, lambda: len(seen) >= 30, 10)
    assert set(seen) == {"run"}


def test_coroutine_functions(cluster: EmbeddedCluster) -> None:
    """Their steps run in the task of the worker that calls them, which had its own context."""
    seen: list[tuple[str, str]] = []

    async def tell(error: Any, delivery: Any) -> None:
        before = TRACE.get()
        await asyncio.sleep(0)
        TRACE.set(f"{before}+")
        async with asyncio.timeout(5):
            await asyncio.sleep(0.001)
        seen.append((before, TRACE.get()))

    async def main() -> None:
        async with pykafka.aio.KafkaClient(cluster.hosts) as client, client.producer(on_delivery=tell) as producer:

            async def work(number: int) -> None:
                TRACE.set(f"task {number}")
                await producer.produce("a", b"x")
                await producer.produce("a", b"x", partition=1, on_delivery=tell)

            async with asyncio.TaskGroup() as group:
                for number in range(5):
                    group.create_task(work(number))
            await producer.flush()

    asyncio.run(main())
    assert sorted(seen) == sorted((f"task {number}", f"task {number}+") for number in [0, 1, 2, 3, 4] * 2)


def test_coroutine_functions_that_raise_or_are_cancelled(cluster: EmbeddedCluster) -> None:
    seen: list[str] = []

    async def tell(error: Any, delivery: Any) -> None:
        seen.append(TRACE.get())
        await asyncio.sleep(0)
        if len(seen) == 1:
            raise ValueError("of the callback")
        if len(seen) == 2:
            task = asyncio.current_task()
            assert task is not None
            task.cancel()
            await asyncio.sleep(1)

    async def main() -> None:
        async with pykafka.aio.KafkaClient(cluster.hosts) as client:
            producer = await client.producer(on_delivery=tell)
            for number in range(4):
                TRACE.set(f"trace {number}")
                await producer.produce("a", b"x", partition=0)
            with pytest.raises(OnDeliveryError):
                await producer.close()

    asyncio.run(main())
    assert seen == [f"trace {number}" for number in range(4)]
