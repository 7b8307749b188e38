"""Each row of the catalog gets a value besides 0 from what clients do: no name is without a source.

Those of share groups do in tests/integration/sharegroups/test_share_metrics.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest

from pykafka import EmbeddedCluster, KafkaClient, Scram
from pykafka.deadletters import DeadLetters
from pykafka.exceptions import KafkaException, MessageSizeTooLarge, MessagesNotDelivered, NotEnoughReplicas
from pykafka.metrics.metric import Metrics
from pykafka.network import reauthentication
from pykafka.parallel.retry import Retry
from pykafka.protocol import wire
from tests.support import sasl, scripted
from tests.support.catalog_rows import Rows
from tests.support.waiting import until

pytestmark = [pytest.mark.timeout(120), pytest.mark.on_asyncio]

COUNT = 40
#: What only a stall or a hold brings about, in tests/embedded/health/test_watch.py.
OF_STALLS = ("stalled-partitions", "stalls-total", "still-seconds", "holds-total", "hold-time-total", "hold-time-max")


def sending(client: KafkaClient, cluster: EmbeddedCluster, topic: str) -> Iterator[Metrics]:
    """Yield metrics of producers whose messages fail, are sent again, wait, and are given up."""
    handler = client.cluster.handler
    with client.producer(retry_backoff_ms=1, buffer_memory=300_000, linger_ms=20) as producer:
        for number in range(COUNT):
            producer.produce(topic, b"%d" % number, partition=number % 2)
        producer.flush()
        cluster.inject_errors("Produce", NotEnoughReplicas, MessageSizeTooLarge)
        with pytest.raises(MessageSizeTooLarge):
            producer.produce(topic, b"refused", partition=0).get(timeout=30)
        for broker in (1, 2):
            cluster.set_latency(broker, 300)
        workers = [handler.spawn(producer.produce, f"{topic}-much", bytes(100_000)) for _ in range(5)]
        until(handler, lambda: producer.metrics().value("waiting-threads") > 0)
        until(handler, lambda: producer.metrics().value("requests-in-flight") > 0)
        yield client.metrics()
        assert all(worker.join(30) for worker in workers)
        for broker in (1, 2):
            cluster.set_latency(broker, 0)
        producer.flush()
        yield client.metrics()
    given_up = client.producer(linger_ms=0, delivery_timeout_ms=60_000)
    cluster.inject_errors("Produce", *[NotEnoughReplicas] * 100)
    given_up.produce(topic, b"late", partition=0)
    with pytest.raises(MessagesNotDelivered):
        given_up.close(timeout=0.1)
    yield client.metrics()
    cluster.clear_errors("Produce")


def in_transactions(client: KafkaClient, topic: str) -> Iterator[Metrics]:
    with (
        client.producer(transactional_id=f"id {topic}") as producer,
        client.consumer(topic, group=f"out {topic}", auto_commit=False, auto_offset_reset="earliest") as consumer,
    ):
        producer.init_transactions()
        assert consumer.poll(timeout=20)
        with producer.transaction():
            producer.send_offsets(consumer)
            producer.produce(f"{topic}-out", b"x")
        producer.begin_transaction()
        producer.abort_transaction()
        yield client.metrics()


class Slow:
    """A listener whose calls take a moment."""

    def __init__(self, client: KafkaClient) -> None:
        self._sleep = client.cluster.handler.sleep
        self.called: set[str] = set()

    def _call(self, name: str) -> None:
        self.called.add(name)
        self._sleep(0.001)

    def on_assigned(self, _: list[Any]) -> None:
        self._call("assigned")

    def on_revoked(self, _: list[Any]) -> None:
        self._call("revoked")

    def on_lost(self, _: list[Any]) -> None:
        self._call("lost")


def reading(client: KafkaClient, cluster: EmbeddedCluster, topic: str) -> Iterator[Metrics]:
    """Yield metrics of a consumer that is in a group, and lags behind; and of one that loses its partitions."""
    handler, listener = client.cluster.handler, Slow(client)
    cluster.inject_errors("JoinGroup", "COORDINATOR_NOT_AVAILABLE")
    options: dict[str, Any] = {"auto_commit": False, "auto_offset_reset": "earliest", "session_timeout_ms": 1500}
    options["heartbeat_interval_ms"] = 100
    with client.consumer(topic, group=f"in {topic}", listener=listener, **options) as consumer:
        assert len(consumer.poll(1, timeout=20)) == 1
        until(handler, lambda: consumer.metrics().value("heartbeat-total") > 0)
        assert len(consumer.poll(1, timeout=20)) == 1
        consumer.commit()
        assert consumer.committed()
        yield client.metrics()
    yield client.metrics()
    assert listener.called == {"assigned", "revoked"}
    with client.consumer(topic, group=f"lost {topic}", listener=listener, **options) as consumer:
        assert len(consumer.poll(1, timeout=20)) == 1
        cluster.inject_errors("Heartbeat", "UNKNOWN_MEMBER_ID")

        def lost() -> bool:
            consumer.poll(1, timeout=0.1)
            return "lost" in listener.called

        until(handler, lost)
        yield client.metrics()


def in_parallel(client: KafkaClient, topic: str) -> Iterator[Metrics]:
    handler = client.cluster.handler
    go = handler.Event()

    def handle(record: Any) -> None:
        if record.value == b"0":
            raise ValueError("of no use")
        if record.value == b"1":
            go.wait(60)

    with (
        client.consumer(topic, group=f"parallel {topic}", auto_offset_reset="earliest", auto_commit=False) as consumer,
        client.producer(linger_ms=0) as producer,
    ):
        letters = DeadLetters(producer, f"{topic}-dead")
        retry = Retry(times=1, backoff=0.001)
        with consumer.parallel(handle, workers=2, order="partition", retry=retry, dead_letters=letters) as run:
            until(handler, lambda: consumer.metrics().value("dead-letters-total") > 0)
            until(handler, lambda: consumer.metrics().value("oldest-task-seconds") > 0)
            yield client.metrics()
            go.set()
            until(handler, lambda: run.stats().acknowledged >= COUNT)
            yield client.metrics()


def throttled(concurrency: Callable[[], dict[str, Any]]) -> Iterator[Metrics]:
    """Yield metrics of a client whose broker announces throttling."""

    def damage(request: type[Any], frame: bytes) -> bytes:
        some_ms = (3).to_bytes(4, "big")
        if request is wire.FetchRequest:
            return frame[:4] + some_ms + frame[8:]
        return frame[:-4] + some_ms if request is wire.ProduceRequest else frame

    with (
        scripted.ScriptedBroker(scripted.batch([b"a"]), damage) as broker,
        KafkaClient(broker.hosts, **concurrency()) as client,
        client.producer(enable_idempotence=False, acks=1) as producer,
        client.consumer(scripted.TOPIC, auto_offset_reset="earliest") as consumer,
    ):
        producer.produce(scripted.TOPIC, b"x").get(timeout=20)
        assert consumer.poll(timeout=20)
        yield client.metrics()


def logging_in(concurrency: Callable[[], dict[str, Any]], monkeypatch: pytest.MonkeyPatch) -> Iterator[Metrics]:
    """Yield metrics of clients whose logins are renewed, and refused in the end."""
    monkeypatch.setattr(reauthentication, "RENEW_PAUSE_S", 0.0)
    users = {"alice": "right"}
    mechanisms = {"SCRAM-SHA-512": lambda: sasl.scram(users, "sha512")}
    with (
        sasl.SaslBroker(mechanisms, lifetime_ms=600) as broker,
        KafkaClient(broker.hosts, sasl=Scram("alice", "right"), **concurrency()) as client,
        client.producer(enable_idempotence=False) as producer,
        client.consumer(scripted.TOPIC) as consumer,
    ):
        handler = client.cluster.handler

        def count(name: str) -> float:
            with suppress(KafkaException):
                client.update_cluster()
            return client.metrics().value(name, "admin-client-metrics")

        until(handler, lambda: count("successful-reauthentication-total") > 0)
        users["alice"] = "wrong"
        until(handler, lambda: count("failed-reauthentication-total") > 0)
        until(handler, lambda: count("failed-authentication-total") > 0)
        assert producer.metrics().value("failed-authentication-total") > 0
        assert consumer.metrics().value("failed-authentication-total") > 0
        yield client.metrics()


def cut_off(concurrency: Callable[[], dict[str, Any]]) -> Iterator[Metrics]:
    """Yield metrics of a client one of whose brokers refuses connections."""
    with EmbeddedCluster(brokers=2) as cluster, KafkaClient(cluster.hosts, **concurrency()) as client:
        cluster.broker_down(2)

        def failures() -> float:
            client.health(probe=True, timeout=2)
            named = client.metrics().values()
            return sum(metric.value for metric in named if metric.name.name == "connection-failures-total")

        until(client.cluster.handler, lambda: failures() > 0)
        yield client.metrics()


def test_each_row_of_the_catalog_has_a_source(
    client: KafkaClient,
    cluster: EmbeddedCluster,
    topic: str,
    concurrency: Callable[[], dict[str, Any]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rows = Rows(of_shares=False)
    for made in (
        *sending(client, cluster, topic),
        *in_transactions(client, topic),
        *reading(client, cluster, topic),
        *in_parallel(client, topic),
        *throttled(concurrency),
        *logging_in(concurrency, monkeypatch),
        *cut_off(concurrency),
    ):
        rows.see(made)
    for broker in client.brokers.values():
        broker.drop_connections()
    until(client.cluster.handler, lambda: client.metrics().value("connection-close-total", "admin-client-metrics") > 0)
    rows.see(client.metrics())
    assert rows.left(OF_STALLS) == []
