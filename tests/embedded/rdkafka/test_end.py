"""Settings of a librdkafka client, and its shutdown: bounded in time, without blocking the hub."""

from __future__ import annotations

import pytest

from pykafka import KafkaClient
from pykafka.embedded import EmbeddedCluster
from pykafka.exceptions import NoBrokersAvailableError
from pykafka.handlers import GEventHandler, Handler, ThreadingHandler
from pykafka.rdkafka import helpers
from pykafka.security import SslConfig


@pytest.fixture(params=[ThreadingHandler, GEventHandler], ids=["threads", "greenlets"])
def handler(request: pytest.FixtureRequest) -> Handler:
    found: Handler = request.param()
    return found


def test_versions_of_tls_are_not_dropped() -> None:
    with pytest.raises(ValueError, match="librdkafka has no setting for versions of TLS"):
        helpers._tls_settings(SslConfig(None, versions=("TLSv1.2", "TLSv1.2")))


def test_a_broker_that_is_down_keeps_nobody_from_the_others() -> None:
    """Nor does it matter which one of those that were told is down."""
    with EmbeddedCluster(brokers=2, topics={"t": 1}) as cluster:
        cluster.set_leader("t", 0, 2)
        with KafkaClient(hosts=cluster.hosts.split(",")[1]) as client:
            topic = client.topics["t"]
            cluster.broker_down(next(iter(client.brokers)))
            cluster.set_leader("t", 0, list(client.brokers)[1])
            with topic.get_sync_producer(use_rdkafka=True, linger_ms=0) as producer:
                assert producer.produce(b"v").offset == 0
            with topic.get_simple_consumer(use_rdkafka=True, consumer_timeout_ms=10_000) as consumer:
                message = consumer.consume()
            assert message is not None
            assert message.value == b"v"


def test_none_of_the_brokers_is_up() -> None:
    with EmbeddedCluster(brokers=2) as cluster, KafkaClient(hosts=cluster.hosts, socket_timeout_ms=1000) as client:
        for broker in client.brokers.values():
            cluster.broker_down(broker.id)
            broker.close()
        with pytest.raises(NoBrokersAvailableError, match="that the brokers are up"):
            helpers.common_settings(client.cluster)


def test_it_is_waited_for(handler: Handler) -> None:
    """By the time that `end` returns it has been called, and what it kept alive is gone."""
    client = [object()]
    helpers.end(handler, client.clear, "a client")
    assert client == []


def test_one_that_does_not_end_is_left_behind(
    handler: Handler, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The log names it; the hub turns meanwhile."""
    monkeypatch.setattr(helpers, "END_S", 0.3)
    release, ticks = handler.native.Event(), [0]

    def tick() -> None:
        while not release.is_set():
            ticks[0] += 1
            handler.sleep(0.01)

    ticker = handler.spawn(tick)
    helpers.end(handler, release.wait, "its producer for t")
    release.set()
    assert ticker.join(10)
    assert "librdkafka did not end its producer for t within 0.3 s" in caplog.text
    assert ticks[0] > 3


def test_where_no_thread_begins_any_more(handler: Handler, monkeypatch: pytest.MonkeyPatch) -> None:
    """As at the end of the interpreter: it is called in place."""

    def refuse(*_args: object, **_named: object) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(type(handler.native), "spawn", refuse)
    client = [object()]
    helpers.end(handler, client.clear, "a client")
    assert client == []
