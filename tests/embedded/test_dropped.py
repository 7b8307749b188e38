"""The garbage collector cleans up clients, producers and consumers that nobody closed."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import pytest

from pykafka import KafkaClient
from pykafka.compat import group_consumer
from pykafka.consumer import commits, recovery
from pykafka.embedded import EmbeddedCluster
from pykafka.handlers import Handler
from pykafka.producer import delivery_callbacks, sender
from tests.support.leftovers import Belongings, left_since
from tests.support.waiting import until

#: How often workers look whether somebody holds what they work for (s): not once in a second, which each test would wait.
OFTEN_S = 0.1


@pytest.fixture(autouse=True)
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shorten the intervals at which workers look around."""
    for module, name in (
        (sender, "IDLE_POLL_INTERVAL_S"),
        (delivery_callbacks, "IDLE_S"),
        (group_consumer, "OWNER_POLL_INTERVAL_S"),
        (commits, "OWNER_POLL_INTERVAL_S"),
        (recovery, "OWNER_POLL_INTERVAL_S"),
    ):
        monkeypatch.setattr(module, name, OFTEN_S)


def _values(hosts: str, handler: Handler, count: int) -> list[bytes | None]:
    with KafkaClient(hosts, handler=handler) as client:
        consumer = client.topics["t"].get_simple_consumer(consumer_timeout_ms=20_000)
        found = [message.value for message in (consumer.consume() for _ in range(count)) if message is not None]
        consumer.stop()
    return found


@pytest.mark.parametrize("options", [{}, {"sync": True}, {"required_acks": -1}, {"delivery_reports": True}], ids=str)
def test_a_client_with_running_producers_leaves_no_worker_and_no_descriptor(
    handler: Handler, options: dict[str, Any]
) -> None:
    """20 clients left 60 descriptors and 80 threads."""

    def use(hosts: str) -> None:
        client = KafkaClient(hosts, handler=handler)
        producer = client.topics["t"].get_producer(linger_ms=0, **options)
        producer.produce(b"x")
        producer.flush()

    with EmbeddedCluster(brokers=2, topics={"t": 4}) as cluster:
        before = Belongings()
        for _ in range(3):
            use(cluster.hosts)
        assert not left_since(before, patience_s=20)


@pytest.mark.parametrize("count", [1, 3000])
def test_what_was_queued_is_delivered_first(handler: Handler, count: int) -> None:
    def use(hosts: str) -> weakref.ref[Any]:
        client = KafkaClient(hosts, handler=handler)
        producer = client.topics["t"].get_producer(linger_ms=500)
        for number in range(count):
            producer.produce(b"%d" % number)
        return weakref.ref(producer)

    with EmbeddedCluster(brokers=1, topics={"t": 1}) as cluster:
        gone = use(cluster.hosts)
        gc.collect()
        assert _values(cluster.hosts, handler, count) == [b"%d" % number for number in range(count)]
        until(handler, lambda: gc.collect() is not None and gone() is None)


@pytest.mark.later("gevent")
def test_a_producer_that_is_dropped_at_once_has_delivered(handler: Handler) -> None:
    """The message that wakes the sender is queued, and nobody holds the producer when the sender looks."""
    with EmbeddedCluster(brokers=1, topics={"t": 1}) as cluster, KafkaClient(cluster.hosts, handler=handler) as client:
        for number in range(20):
            producer = client.topics["t"].get_producer(linger_ms=0)
            if number % 2:
                handler.sleep(0.01)
            producer.produce(b"%d" % number)
            producer = None  # type: ignore[assignment]
            gc.collect()
        assert sorted(_values(cluster.hosts, handler, 20), key=lambda value: int(value or b"")) == [
            b"%d" % number for number in range(20)
        ]


@pytest.mark.later("threads")
def test_a_producer_that_somebody_holds_goes_on_after_a_pause(handler: Handler) -> None:
    with EmbeddedCluster(brokers=1, topics={"t": 1}) as cluster, KafkaClient(cluster.hosts, handler=handler) as client:
        producer = client.topics["t"].get_producer(linger_ms=0)
        for number in range(3):
            producer.produce(b"%d" % number)
            handler.sleep(5 * OFTEN_S)
            gc.collect()
        producer.stop()
        assert _values(cluster.hosts, handler, 3) == [b"0", b"1", b"2"]


def test_a_managed_consumer_leaves_its_group(handler: Handler) -> None:
    """One that was dropped stayed a member: its share was nobody's for as long as its heartbeats went on."""
    with EmbeddedCluster(brokers=1, topics={"t": 2}) as cluster, KafkaClient(cluster.hosts, handler=handler) as client:

        def use() -> weakref.ref[Any]:
            consumer = client.topics["t"].get_balanced_consumer("g", managed=True, consumer_timeout_ms=200)
            consumer.consume()
            return weakref.ref(consumer)

        before = Belongings()
        cluster.track_requests()
        gone = use()
        until(handler, lambda: gc.collect() is not None and gone() is None)
        until(handler, lambda: cluster.requests("LeaveGroup"))
        until(
            handler, lambda: not any("Membership" in one or "Heartbeat" in one for one in Belongings().without(before))
        )


@pytest.mark.later("gevent")
def test_a_client_with_a_managed_consumer_leaves_nothing(handler: Handler) -> None:
    def use(hosts: str) -> None:
        client = KafkaClient(hosts, handler=handler)
        client.topics["t"].get_balanced_consumer("g", managed=True, consumer_timeout_ms=200).consume()

    with EmbeddedCluster(brokers=1, topics={"t": 2}) as cluster:
        before = Belongings()
        use(cluster.hosts)
        assert not left_since(before, patience_s=20)
