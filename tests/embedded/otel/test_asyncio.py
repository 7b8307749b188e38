"""Spans of `pykafka.aio`: loops, tasks, handlers that are coroutine functions."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

import pytest
from opentelemetry import trace

from pykafka import EmbeddedCluster, KafkaProducer, otel
from pykafka.aio import KafkaClient, bridged
from pykafka.exceptions import WouldBlockError
from tests.support import loops
from tests.support.spans import Broken, Telemetry, id_of, links_of, parent_of

Run = Callable[[Coroutine[Any, Any, Any]], Any]


@pytest.fixture(params=["asyncio", "uvloop"])
def run(request: pytest.FixtureRequest) -> Run:
    """Return what runs a coroutine on a new loop of each kind."""
    return partial(loops.run_coroutine, request.param, debug=False)


def current() -> int:
    return int(trace.get_current_span().get_span_context().span_id)


async def produce(client: KafkaClient, topic: str, count: int) -> None:
    async with client.producer() as producer:
        for number in range(count):
            await (await producer.produce(topic, b"%d" % number))


def test_loops(cluster: EmbeddedCluster, telemetry: Telemetry, topic: str, run: Run) -> None:
    inside: list[int] = []
    tasks: list[int] = []

    async def beside() -> None:
        await asyncio.sleep(0)
        tasks.append(current())

    async def main() -> None:
        async with KafkaClient(cluster.hosts) as client:
            made = telemetry.instrument(client)
            await produce(client, topic, 3)
            async with client.consumer(topic, group=topic, consumer_timeout_ms=5000) as consumer:
                async for record in consumer:
                    inside.append(current())
                    async with asyncio.TaskGroup() as group:
                        group.create_task(beside())
                    await consumer.commit(record)
                    assert current() == inside[-1]
                    if record.offset == 2:
                        break
                assert current() == 0
            await bridged(made.flush, 10)

    run(main())
    sent, processed = telemetry.spans("send " + topic), telemetry.spans("process " + topic)
    assert [id_of(span) for span in processed] == inside == tasks
    assert [parent_of(span) for span in processed] == [id_of(span) for span in sent]
    assert [parent_of(span) for span in telemetry.spans("commit " + topic)] == inside
    assert not telemetry.spans("poll " + topic)


def test_an_error_in_the_body(cluster: EmbeddedCluster, telemetry: Telemetry, topic: str, run: Run) -> None:
    async def main() -> None:
        async with KafkaClient(cluster.hosts) as client:
            telemetry.instrument(client)
            await produce(client, topic, 1)
            with pytest.raises(ZeroDivisionError):
                async with client.consumer(topic, consumer_timeout_ms=5000) as consumer:
                    async for _record in consumer:
                        raise ZeroDivisionError
            assert current() == 0

    run(main())
    (span,) = [span for span in telemetry.exported() if span.name == "process " + topic]
    assert span.attributes["error.type"] == "ZeroDivisionError"


def test_batches_and_single_records(cluster: EmbeddedCluster, telemetry: Telemetry, topic: str, run: Run) -> None:
    async def main() -> None:
        async with KafkaClient(cluster.hosts) as client:
            await produce(client, topic, 1)
            async with client.consumer(topic, group=topic) as consumer:
                telemetry.instrument(client)
                await produce(client, topic, 2)
                assert await consumer.one(5) is not None
                records = await consumer.poll(timeout=5)
                with otel.process(records[0], consumer) as span:
                    await asyncio.sleep(0)
                    assert trace.get_current_span() is span

    run(main())
    spans = telemetry.exported()
    first, *polls = [span for span in spans if span.name == "poll " + topic]
    assert first.attributes["messaging.kafka.offset"] == 0
    assert links_of(first) == set()
    sent = [id_of(span) for span in spans if span.name == "send " + topic]
    assert links_of(polls[0]) == set(sent[: len(polls[0].links)]) != set()
    (processed,) = [span for span in spans if span.name == "process " + topic]
    assert processed.attributes["messaging.consumer.group.name"] == topic


def test_a_handler_that_awaits(cluster: EmbeddedCluster, telemetry: Telemetry, topic: str, run: Run) -> None:
    inside: dict[int, int] = {}

    async def handle(record: Any) -> None:
        before = current()
        await asyncio.sleep(0.01)
        assert current() == before
        inside[record.offset] = before

    async def main() -> None:
        async with KafkaClient(cluster.hosts) as client:
            telemetry.instrument(client)
            await produce(client, topic, 10)
            async with (
                client.consumer(topic, group=topic) as consumer,
                consumer.parallel(handle, workers=5, order=None, idle_timeout=0.5) as running,
            ):
                await running.wait()

    run(main())
    processed = [span for span in telemetry.exported() if span.name == "process " + topic]
    assert {span.attributes["messaging.kafka.offset"]: id_of(span) for span in processed} == inside
    assert len(inside) == 10
    assert 0 not in inside.values()


@pytest.mark.parametrize("kind", ["simple", "managed"])
def test_old_classes(cluster: EmbeddedCluster, telemetry: Telemetry, topic: str, run: Run, kind: str) -> None:
    """Loops over the consumers of one topic, and their producer, as those for any topic."""
    inside: list[int] = []

    async def main() -> None:
        async with KafkaClient(cluster.hosts) as client:
            telemetry.instrument(client)
            old = await client.topics[topic]
            async with old.get_producer(linger_ms=1) as producer:
                for number in range(4):
                    await producer.produce(b"%d" % number)
            group: dict[str, Any] = {} if kind == "simple" else {"consumer_group": topic, "managed": True}
            make = old.get_simple_consumer if kind == "simple" else old.get_balanced_consumer
            async with make(consumer_timeout_ms=5000, **group) as consumer:
                async for message in consumer:
                    inside.append(current())
                    await asyncio.sleep(0)
                    assert current() == inside[-1]
                    if message.offset == 2:
                        break
                assert current() == 0
                last = await consumer.consume()
                assert last is not None
                assert current() == 0
                with otel.process(last, consumer):
                    inside.append(current())

    run(main())
    spans = telemetry.exported()
    sent = [id_of(span) for span in spans if span.name == "send " + topic]
    processed = [span for span in spans if span.name == "process " + topic]
    assert [id_of(span) for span in processed] == inside
    assert [parent_of(span) for span in processed] == sent
    (poll,) = [span for span in spans if span.name == "poll " + topic]
    assert links_of(poll) == {sent[3]}


@pytest.mark.parametrize("blocks", [False, True], ids=["raises", "would block"])
def test_a_trace_that_begins_on_the_loop_ends(
    cluster: EmbeddedCluster, telemetry: Telemetry, topic: str, run: Run, monkeypatch: pytest.MonkeyPatch, blocks: bool
) -> None:
    """A call that never waits begins it: if writing raises, it ends there; if writing would wait, it goes on in the bridge."""

    def block(_: Any, tracer: Any, topic: Any, value: Any, key: Any, __: Any, begun: Any) -> None:
        begun.append(tracer.sending(topic, value, key, [], None))
        raise WouldBlockError("the test's point")

    async def main() -> None:
        async with KafkaClient(cluster.hosts) as client, client.producer() as producer:
            await (await producer.produce(topic, b"1"))
            telemetry.instrument(client, propagator=None if blocks else Broken())
            if blocks:
                monkeypatch.setattr(KafkaProducer, "_send_traced", block)
                await (await producer.produce(topic, b"2"))
                return
            with pytest.raises(TypeError):
                await producer.produce(topic, b"2")

    run(main())
    (span,) = [span for span in telemetry.exported() if span.name == "send " + topic]
    assert span.attributes.get("error.type") == (None if blocks else "TypeError")
    assert span.attributes.get("messaging.kafka.offset") == (1 if blocks else None)
