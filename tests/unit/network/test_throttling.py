"""A broker that throttles: nothing is sent while it does, its time counts against no timeout, and callers' deadlines hold."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest

from pykafka import KafkaClient
from pykafka.compat.simple_consumer import SimpleConsumer
from pykafka.consumer.engine import ConsumerEngine
from pykafka.exceptions import MessagesNotDelivered, ResponseTimeoutError, ThrottledError
from pykafka.handlers import Handler
from pykafka.protocol import wire
from tests.support.scripted import TOPIC, ScriptedBroker, batch
from tests.support.waiting import until

#: Where `throttle_time_ms` is in the answers of the scripted broker, from the correlation id on.
PLACES: dict[type[Any], slice] = {
    wire.ProduceRequest: slice(-4, None),
    wire.FetchRequest: slice(4, 8),
    wire.MetadataRequest: slice(4, 8),
}


class Throttling:
    """Throttling by a scripted broker, which says so in its answers.

    :param request_cls: upon which requests
    :param times_ms: for how long, one answer after another; not at all behind those
    :param late: whether it waits before it answers, as brokers did before 2.0; else it reads nothing for a while afterwards
    """

    def __init__(self, request_cls: type[Any], *times_ms: int, late: bool = False) -> None:
        self.request_cls = request_cls
        self.left = list(times_ms)
        self.late = late
        #: How much too early requests were sent (s).
        self.early: list[float] = []
        self._muted_until = 0.0
        self._ended = threading.Event()

    def __call__(self, request_cls: type[Any], frame: bytes) -> bytes:
        if request_cls is not self.request_cls:
            return frame
        muted_for = self._muted_until - time.monotonic()
        if muted_for > 0:
            self.early.append(muted_for)
            self._ended.wait(muted_for)
        if not self.left:
            return frame
        ms = self.left.pop(0)
        if self.late:
            self._ended.wait(ms / 1000)
        else:
            self._muted_until = time.monotonic() + ms / 1000
        changed = bytearray(frame)
        changed[PLACES[request_cls]] = ms.to_bytes(4, "big")
        return bytes(changed)


def _next(consumer: SimpleConsumer) -> bytes | None:
    message = consumer.consume()
    assert message is not None
    return message.value


def _fetch() -> wire.FetchRequest:
    partition = wire.FetchRequest.Topic.Partition(partition=0, fetch_offset=0, partition_max_bytes=1000)
    return wire.FetchRequest(max_wait_ms=0, topics=[wire.FetchRequest.Topic(topic=TOPIC, partitions=[partition])])


def test_nothing_is_sent_before_it_is_over(handler: Handler) -> None:
    throttling = Throttling(wire.ProduceRequest, 700, 300, 500)
    with ScriptedBroker(damage=throttling) as peer, KafkaClient(peer.hosts, handler=handler) as client:
        with client.topics[TOPIC].get_sync_producer() as producer:
            for _ in range(4):
                producer.produce(b"x")
        assert not throttling.left
        assert not throttling.early


@pytest.mark.later("gevent")
def test_what_is_on_its_way_does_not_time_out(handler: Handler) -> None:
    """The second request was sent before the answer to the first one said that the broker reads nothing more for a while."""
    with (
        ScriptedBroker(batch([b"x"]), damage=Throttling(wire.FetchRequest, 2000, 1000)) as peer,
        KafkaClient(peer.hosts, handler=handler, socket_timeout_ms=1000) as client,
    ):
        broker = client.brokers[1]
        broker.channel("test").open()
        pending = [broker.send(_fetch(), "test", timeout_ms=1000) for _ in range(3)]
        assert [one.get_when_due().throttle_time_ms for one in pending] == [2000, 1000, 0]


def test_what_waits_to_be_sent_does_not_time_out(handler: Handler) -> None:
    throttling = Throttling(wire.FetchRequest, 1500, 0)
    with (
        ScriptedBroker(batch([b"x"]), damage=throttling) as peer,
        KafkaClient(peer.hosts, handler=handler, socket_timeout_ms=1000) as client,
    ):
        broker = client.brokers[1]
        assert broker.call(_fetch(), "test").throttle_time_ms == 1500
        assert broker.call(_fetch(), "test").throttle_time_ms == 0
        assert not throttling.early


def test_a_time_that_no_quota_asks_for_is_not_believed(handler: Handler) -> None:
    """A damaged answer said 24 days, for which nothing was fetched, and nobody told."""
    with (
        ScriptedBroker(batch([b"x"]), damage=Throttling(wire.FetchRequest, 2**31 - 1)) as peer,
        KafkaClient(peer.hosts, handler=handler) as client,
    ):
        broker = client.brokers[1]
        broker.call(_fetch(), "test")
        assert broker.throttled_for("test") == 0


def test_a_throttle_of_hours_is_the_brokers_to_ask_for(handler: Handler) -> None:
    """More than an hour was ignored, and what was sent meanwhile timed out: the broker did not read it."""
    with (
        ScriptedBroker(batch([b"x"]), damage=Throttling(wire.FetchRequest, 3 * 3_600_000)) as peer,
        KafkaClient(peer.hosts, handler=handler) as client,
    ):
        broker = client.brokers[1]
        broker.call(_fetch(), "test")
        assert broker.throttled_for("test") > 2.9 * 3600


@pytest.mark.later("threads")
def test_brokers_before_2_0_answer_late_and_are_given_the_time(handler: Handler) -> None:
    """Metadata 5 is of those versions in which the answer comes when the throttling is over."""
    with (
        ScriptedBroker(damage=Throttling(wire.MetadataRequest, 0, 1500, 1500, late=True)) as peer,
        KafkaClient(peer.hosts, handler=handler) as client,
    ):
        broker = client.brokers[1]
        assert broker.call(wire.MetadataRequest()).throttle_time_ms == 1500
        assert broker.throttled_for() == 0
        assert broker.call(wire.MetadataRequest(), timeout_ms=700).throttle_time_ms == 1500
        assert broker.call(wire.MetadataRequest(), timeout_ms=700).throttle_time_ms == 0


def test_an_empty_answer_leaves_no_partition_out(handler: Handler, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a fetch is more than the quota allows, a broker answers with the time to wait, and no partition at all."""
    empty = [200, 200, 200]
    failed: list[BaseException] = []
    monkeypatch.setattr(ConsumerEngine, "fetch_failed", lambda _, owned, error: failed.append(error))

    def damage(request_cls: type[Any], frame: bytes) -> bytes:
        if request_cls is wire.FetchRequest and empty:
            return frame[:4] + wire.FetchResponse(throttle_time_ms=empty.pop()).encode(10)
        return frame

    with (
        ScriptedBroker(batch([b"one", b"two"]), damage=damage) as peer,
        KafkaClient(peer.hosts, handler=handler) as client,
    ):
        consumer = client.topics[TOPIC].get_simple_consumer(consumer_timeout_ms=20_000)
        assert [_next(consumer) for _ in range(2)] == [b"one", b"two"]
        assert not failed
        assert not empty
        consumer.stop()


@pytest.mark.parametrize("idempotent", [False, True])
def test_a_message_too_old_says_that_the_broker_throttles(handler: Handler, idempotent: bool) -> None:
    with (
        ScriptedBroker(damage=Throttling(wire.ProduceRequest, 60_000)) as peer,
        KafkaClient(peer.hosts, handler=handler) as client,
    ):
        options: dict[str, Any] = {"required_acks": -1} if idempotent else {}
        producer = client.topics[TOPIC].get_producer(delivery_timeout_ms=1000, linger_ms=0, **options)
        producer.produce(b"one")
        producer.flush()
        started = time.monotonic()
        producer.produce(b"two")
        with pytest.raises(MessagesNotDelivered, match="throttles this client by a quota") as info:
            producer.flush(20_000)
        assert time.monotonic() - started < 15
        producer.stop()
        [(message, error)] = info.value.failures
        assert message.value == b"two"
        assert isinstance(error, ThrottledError)
        assert error.broker == peer.hosts


def test_a_stopped_producer_says_that_the_broker_throttles(handler: Handler) -> None:
    with (
        ScriptedBroker(damage=Throttling(wire.ProduceRequest, 60_000)) as peer,
        KafkaClient(peer.hosts, handler=handler) as client,
    ):
        producer = client.topics[TOPIC].get_producer(linger_ms=0, pending_timeout_ms=500)
        producer.produce(b"one")
        producer.flush(20_000)
        producer.produce(b"two")
        with pytest.raises(ResponseTimeoutError, match="throttles this client by a quota"):
            producer.flush(300)
        started = time.monotonic()
        with pytest.raises(MessagesNotDelivered, match="throttles this client by a quota"):
            producer.stop()
        assert time.monotonic() - started < 10


def test_a_deadline_of_the_callers_own_holds(handler: Handler) -> None:
    with (
        ScriptedBroker(batch([b"x"]), damage=Throttling(wire.FetchRequest, 60_000)) as peer,
        KafkaClient(peer.hosts, handler=handler) as client,
    ):
        broker = client.brokers[1]
        broker.call(_fetch(), "test")
        started = time.monotonic()
        with pytest.raises(ResponseTimeoutError, match="throttles this client by a quota"):
            broker.send(_fetch(), "test", latest=handler.now() + 1).get_when_due()
        with pytest.raises(ThrottledError, match="throttles this client by a quota"):
            broker.send(_fetch(), "test", patient=False)
        assert time.monotonic() - started < 15


def test_closing_ends_the_wait(handler: Handler) -> None:
    with (
        ScriptedBroker(batch([b"x"]), damage=Throttling(wire.FetchRequest, 60_000)) as peer,
        KafkaClient(peer.hosts, handler=handler) as client,
    ):
        broker = client.brokers[1]
        broker.call(_fetch(), "test")
        worker = handler.spawn(broker.call, _fetch(), "test")
        until(handler, lambda: handler.sleep(0.2) is None)
        assert worker.is_alive()
        client.close()
        assert worker.join(15)


def test_a_consumer_waits_no_longer_than_it_was_told(handler: Handler) -> None:
    with (
        ScriptedBroker(batch([b"one"]), damage=Throttling(wire.FetchRequest, 60_000)) as peer,
        KafkaClient(peer.hosts, handler=handler) as client,
    ):
        consumer = client.topics[TOPIC].get_simple_consumer(consumer_timeout_ms=500)
        started = time.monotonic()
        assert _next(consumer) == b"one"  # throttled answers have their messages all the same
        assert consumer.consume() is None
        consumer.stop()
        assert time.monotonic() - started < 20


def test_it_is_logged_once(handler: Handler, caplog: pytest.LogCaptureFixture) -> None:
    with (
        ScriptedBroker(damage=Throttling(wire.ProduceRequest, *[20] * 10)) as peer,
        KafkaClient(peer.hosts, handler=handler) as client,
        client.topics[TOPIC].get_sync_producer() as producer,
    ):
        for _ in range(10):
            producer.produce(b"x")
    told = [record.getMessage() for record in caplog.records if "throttles this client" in record.getMessage()]
    assert len(told) == 1
    assert peer.hosts in told[0]
    assert "Produce" in told[0]
