"""pykafka.aio: what cannot work is refused by name, and what goes another way than usual works all the same."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable, Coroutine, Iterator
from functools import partial
from typing import Any

import pytest

from pykafka import EmbeddedCluster
from pykafka.aio import KafkaClient
from pykafka.exceptions import MessagesNotDelivered
from tests.support import loops

Run = Callable[[Coroutine[Any, Any, Any]], Any]


@pytest.fixture(scope="module")
def cluster() -> Iterator[EmbeddedCluster]:
    """Yield a cluster of one broker."""
    with EmbeddedCluster(brokers=1) as cluster:
        yield cluster


@pytest.fixture(params=loops.KINDS)
def run(request: pytest.FixtureRequest) -> Run:
    """Return what runs a coroutine on a new loop of each kind."""
    return partial(loops.run_coroutine, request.param)


def test_a_message_with_more_than_a_value_does_not_wait_either(
    cluster: EmbeddedCluster, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        told: list[Any] = []

        async def tell(error: Any, delivery: Any) -> None:
            told.append(error)

        async with KafkaClient(cluster.hosts) as client, client.producer() as producer:
            await (await producer.produce("more", b"first"))

            def produce(*args: Any, **kwargs: Any) -> None:
                raise AssertionError("it takes the bridge")

            with monkeypatch.context() as patch:
                patch.setattr("pykafka.aio.base.bridged", produce)
                made = [
                    await producer.produce("more", b"headers", headers=iter([("a", b"b")])),
                    await producer.produce("more", b"timestamp", timestamp=1000),
                    await producer.produce("more", b"partition", partition=0, key=b"k"),
                    await producer.produce("more", b"told", on_delivery=tell),
                ]
            for delivery in made:
                await delivery
            assert [made[0].headers, made[2].partition] == [[("a", b"b")], 0]
            cold = await producer.produce("more-still", b"headers", headers=iter([("a", b"b")]))  # not known: it waits
            assert (await cold).headers == [("a", b"b")]
            await producer.flush()
            assert told == [None]

    run(main())


def test_delivery_reports_are_those_of_the_task(cluster: EmbeddedCluster, run: Run) -> None:
    async def work(producer: Any, value: bytes) -> list[bytes | None]:
        for number in range(3):
            await producer.produce(value, headers={"number": b"%d" % number})
        return [(await producer.get_delivery_report(timeout=10))[0].value for _ in range(3)]

    async def main() -> None:
        async with KafkaClient(cluster.hosts) as client:
            topic = await client.topics["reports"]
            async with topic.get_producer(delivery_reports=True, linger_ms=0) as producer:
                found = await asyncio.gather(work(producer, b"one"), work(producer, b"two"))
                assert list(found) == [[b"one"] * 3, [b"two"] * 3]

    run(main())


@pytest.mark.parametrize("cancels", [True, False], ids=["cancelled", "just-closed"])
def test_a_client_of_a_loop_that_is_closed(
    cluster: EmbeddedCluster, run: Run, cancels: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """After `asyncio.run()`, which cancels the client's tasks; and after a loop that is only closed."""

    async def open_one() -> tuple[Any, ...]:
        client = await KafkaClient(cluster.hosts)
        producer = await client.producer()
        await (await producer.produce("closed", b"one"))
        of_topic = await (await client.topics["closed"]).get_producer(linger_ms=60_000)
        consumer = await client.consumer("closed", group=f"g-{uuid.uuid4().hex}", auto_offset_reset="earliest")
        await consumer.poll(timeout=20)
        await of_topic.produce(b"queued")
        return client, producer, of_topic, consumer

    if cancels:
        client, producer, of_topic, consumer = run(open_one())
    else:
        loop = asyncio.new_event_loop()
        client, producer, of_topic, consumer = loop.run_until_complete(open_one())
        loop.close()

    async def use() -> None:
        calls: list[Callable[[], Any]] = [
            lambda: producer.produce("closed", b"two"),
            lambda: producer.produce("closed", b"two", headers={"a": b"b"}),
            producer.flush,
            producer.close,
            lambda: of_topic.produce(b"two"),
            of_topic.stop,
            lambda: consumer.poll(timeout=1),
            consumer.close,
            client.update_cluster,
        ]
        for call in calls:
            with pytest.raises(RuntimeError, match="event loop of this client is closed"):
                await call()
        with pytest.raises(MessagesNotDelivered):
            await client.close()
        await client.close()

    run(use())
    assert not [record for record in caplog.records if record.exc_info]
    assert not [record for record in caplog.records if "destroyed" in record.getMessage()]


async def encode(value: Any) -> bytes:
    return b""


async def encode_for(value: Any, ctx: Any) -> bytes:
    return b""


class Intercepts:
    """Interceptors whose methods are coroutine functions."""

    async def on_send(self, record: Any) -> None: ...
    async def on_consume(self, records: Any) -> None: ...


@pytest.mark.parametrize(
    ("method", "options", "said"),
    [
        ("producer", {"value_serializer": encode}, "encode is asynchronous"),
        ("producer", {"key_serializer": encode_for}, "encode_for is asynchronous"),
        ("consumer", {"value_deserializer": encode}, "encode is asynchronous"),
        ("consumer", {"key_deserializer": encode_for}, "encode_for is asynchronous"),
        ("producer", {"interceptors": [Intercepts()]}, r"interceptors: Intercepts\.on_send\(\) is asynchronous"),
        ("consumer", {"interceptors": [Intercepts()]}, r"interceptors: Intercepts\.on_consume\(\) is asynchronous"),
    ],
)
def test_what_cannot_be_awaited_is_refused_by_name(
    cluster: EmbeddedCluster, method: str, options: dict[str, Any], said: str
) -> None:
    async def main() -> None:
        async with KafkaClient(cluster.hosts) as client:
            with pytest.raises(TypeError, match=said):
                await getattr(client, method)(**options)

    asyncio.run(main())


def test_what_is_not_open_says_how_to_open_it(cluster: EmbeddedCluster, run: Run) -> None:
    async def main() -> None:
        async with KafkaClient(cluster.hosts) as client:
            producer: Any = client.producer()
            with pytest.raises(AttributeError, match="'produce' is asked of what is not open yet: use `async with"):
                await producer.produce("more", b"value")
            opened = await producer
            await (await opened.produce("more", b"value"))
            await opened.close()

    run(main())
