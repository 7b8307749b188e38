"""A message that comes alone, without linger: the worker that produces it sends it; one fetch worker reads for itself."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from pykafka import KafkaClient
from pykafka.embedded import EmbeddedCluster
from pykafka.handlers import ThreadingHandler
from pykafka.producer import accumulator
from pykafka.producer.sender import Sender
from tests.support.inside import batch_of, engine_of
from tests.support.waiting import until


@pytest.fixture(params=[False, True], ids=["threads", "greenlets"])
def client(request: pytest.FixtureRequest) -> Any:
    with (
        EmbeddedCluster(brokers=1, topics={"t": 1}) as cluster,
        KafkaClient(cluster.hosts, use_greenlets=request.param) as made,
    ):
        vars(made)["embedded"] = cluster
        yield made


def test_the_worker_that_produces_sends(client: Any) -> None:
    with client.topics["t"].get_producer(linger_ms=0, required_acks=1) as producer:
        producer.produce(b"first")  # the sender connects
        producer.flush()
        client.embedded.set_latency(1, 300)
        message = producer.produce(b"alone")
        batch = batch_of(message)
        if not str(accumulator.__file__).endswith(".py"):  # the pure source leaves it to the sender
            assert batch.in_flight.on_wire
        until(client.cluster.handler, lambda: batch.in_flight is not None and batch.in_flight.on_wire)
        behind = [producer.produce(b"behind") for _ in range(3)]
        assert batch_of(behind[0]) is batch_of(behind[2]) is not batch  # they wait for each other, as ever
        producer.flush()
        assert [one.offset for one in (message, *behind)] == [1, 2, 3, 4]


def test_a_connection_that_is_gone_keeps_no_producer_waiting(client: Any) -> None:
    with client.topics["t"].get_producer(linger_ms=0, required_acks=1, retry_backoff_ms=50) as producer:
        producer.produce(b"first")
        producer.flush()
        client.embedded.broker_down(1)
        handler = client.cluster.handler
        begun = handler.now()
        message = producer.produce(b"alone")
        assert handler.now() - begun < 1
        client.embedded.broker_up(1)
        producer.flush()
        assert message.offset == 1


def test_consumers_that_come_and_go_share_the_worker_that_reads(client: Any) -> None:
    handler = client.cluster.handler
    topic = client.topics["t"]
    with topic.get_sync_producer() as producer:
        first = topic.get_simple_consumer(consumer_timeout_ms=5_000)
        for number in range(3):
            producer.produce(b"%d" % number)
            assert first.consume().value == b"%d" % number
        fetcher = next(iter(engine_of(first).partitions.values())).fetcher
        assert fetcher._turn is not None
        first.stop()
        end = handler.now() + 5
        while fetcher._turn is not None and handler.now() < end:
            handler.sleep(0.01)
        assert fetcher._turn is None  # nothing is fetched: the reader watches the connection
        second = topic.get_simple_consumer(consumer_timeout_ms=5_000)
        assert [second.consume().value for _ in range(3)] == [b"0", b"1", b"2"]
        client.embedded.broker_down(1)
        client.embedded.broker_up(1)
        producer.produce(b"3")
        assert second.consume().value == b"3"
        second.stop()


def test_code_outside_of_the_bridge_sends_nothing_itself() -> None:
    """It cannot wait for the socket or a lock, and would fail the message."""
    pytest.importorskip("greenlet")
    from pykafka.handlers.aio import AsyncioHandler
    from pykafka.handlers.bridge import bridged

    async def ask() -> tuple[bool, bool]:
        handler = AsyncioHandler()
        return handler.may_wait, await bridged(lambda: handler.may_wait)

    assert asyncio.run(ask()) == (False, True)
    assert ThreadingHandler().may_wait


def test_a_caller_that_waits_for_each_message_wakes_no_sender(client: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    steps: list[int] = []

    class Counting(Sender):
        def _step(self) -> float | None:
            steps.append(1)
            return super()._step()

    monkeypatch.setattr("pykafka.producer.record_placement.Sender", Counting)
    with client.producer(linger_ms=250) as producer:
        for _ in range(5):
            producer.produce("t", b"one by one").get(10)
        client.cluster.handler.sleep(0.3)
        for _ in range(5):
            producer.produce("t", b"one by one").get(10)
        steps.clear()
        begun = client.cluster.handler.now()
        for _ in range(100):
            producer.produce("t", b"one by one").get(10)
        looks = (client.cluster.handler.now() - begun) / 0.25
        assert len(steps) <= 2 * looks + 3


@pytest.mark.parametrize("pause_s", [0.0, 0.01, 0.03, 0.05, 0.08, 0.12, 0.3])
def test_a_message_that_nobody_waits_for_goes_when_it_is_due(client: Any, pause_s: float) -> None:
    handler = client.cluster.handler
    with client.producer(linger_ms=50) as producer:
        for _ in range(3):
            for _ in range(5):
                producer.produce("t", b"waited for").get(10)
            handler.sleep(pause_s)
            begun = handler.now()
            last = producer.produce("t", b"left to the sender")
            until(handler, lambda last=last: last.done)  # type: ignore[misc]
            assert handler.now() - begun < 2  # not when the sender looks for other reasons, after five seconds
