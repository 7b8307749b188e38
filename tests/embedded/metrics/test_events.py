"""The rare steps that a client reports to its listener, on each kind of concurrency."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from pykafka import EmbeddedCluster, KafkaClient
from pykafka.metrics.listener import (
    ASSIGNED,
    BUFFER_WAIT,
    COMMITTED,
    CONNECTED,
    COORDINATOR,
    FAILED,
    FLUSH,
    JOINED,
    LEFT,
    METADATA,
    METADATA_WAIT,
    POLLED,
    POSITION,
    REBALANCED,
    REVOKED,
    SYNCED,
    TRANSACTION,
    WAITED,
    ClientListener,
)

pytestmark = pytest.mark.on_asyncio


@pytest.fixture(scope="module")
def cluster() -> Iterator[EmbeddedCluster]:
    """Yield the cluster of these tests."""
    with EmbeddedCluster() as cluster:
        yield cluster


class Seen(ClientListener):
    """A listener that keeps all events of the client and its parts."""

    def __init__(self) -> None:
        self.events: list[tuple[str, str, float, object]] = []

    def on_event(self, kind: str, subject: str, seconds: float = 0.0, detail: object = "") -> None:
        self.events.append((kind, subject, seconds, detail))

    def kinds(self) -> list[str]:
        return [kind for kind, *_ in self.events]

    def of(self, kind: str) -> tuple[str, float, object]:
        return next(event[1:] for event in self.events if event[0] == kind)


def watch(client: KafkaClient) -> Seen:
    """Give a client that has asked for metadata already a listener of the test's."""
    seen = Seen()
    client.cluster.listener = seen
    for broker in client.brokers.values():
        broker.listener = seen
    return seen


def test_the_steps_of_a_group(client: KafkaClient) -> None:
    seen = watch(client)
    with client.producer() as producer:
        for _ in range(3):
            producer.produce("steps", b"x")
        producer.flush()
    group = f"steps-{uuid.uuid4()}"
    consumer = client.consumer("steps", group=group, protocol="classic", consumer_timeout_ms=20_000)
    next(iter(consumer))
    consumer.commit()
    consumer.poll(timeout=0.01)
    consumer.close()
    kinds = seen.kinds()
    in_order = [FLUSH, COORDINATOR, JOINED, SYNCED, REBALANCED, ASSIGNED, POSITION, COMMITTED, REVOKED, LEFT]
    assert [kind for kind in kinds if kind in in_order] == in_order
    assert {METADATA, METADATA_WAIT, POLLED, WAITED, CONNECTED} <= set(kinds)
    subject, seconds, detail = seen.of(REBALANCED)
    assert subject == f"group {group}"
    assert seconds >= seen.of(SYNCED)[1]
    assert str(detail).startswith("generation ")
    assert str(seen.of(ASSIGNED)[2]).split()[:2] == ["4", "partitions"]
    assert str(seen.of(COMMITTED)[2]).endswith("partitions")


def test_a_listener_that_raises_is_reported_with_its_time(client: KafkaClient) -> None:
    class Bad:
        def on_assigned(self, partitions: list[Any]) -> None:
            client.cluster.handler.sleep(0.02)
            raise RuntimeError("bad listener")

    seen = watch(client)
    with client.producer() as producer:
        producer.produce("bad-listener", b"x").get(timeout=20)
    with client.consumer("bad-listener", group=f"bad-{uuid.uuid4()}", listener=Bad()) as consumer:
        with pytest.raises(RuntimeError, match="bad listener"):
            consumer.poll(timeout=20)
        assert seen.of(ASSIGNED)[1] >= 0.02


def test_the_steps_of_transactions(client: KafkaClient) -> None:
    seen = watch(client)
    with client.producer(transactional_id="t") as producer:
        with producer.transaction():
            producer.produce("steps-t", b"x")
        producer.begin_transaction()
        producer.abort_transaction()
    steps = [kind for kind in seen.kinds() if kind.startswith(TRANSACTION)]
    assert steps == [f"{TRANSACTION} {step}" for step in ("begin", "commit", "begin", "abort", "close")]


def test_waits_for_room(client: KafkaClient) -> None:
    seen = watch(client)
    with client.producer(buffer_memory=300_000, linger_ms=50) as producer:
        for _ in range(40):
            producer.produce("room", bytes(50_000))
    assert BUFFER_WAIT in seen.kinds()


def test_a_failed_partition_is_named(cluster: EmbeddedCluster, concurrency: Callable[[], dict[str, Any]]) -> None:
    with KafkaClient(cluster.hosts, **concurrency()) as client:
        seen = watch(client)
        with client.producer() as producer:
            producer.produce("lost", b"x").get(timeout=20)
        with client.consumer("lost", auto_offset_reset="none") as consumer:
            consumer.seek(consumer.assignment()[0], 99)
            with pytest.raises(Exception, match="offset"):
                consumer.poll(timeout=20)
        assert [subject for kind, subject, *_ in seen.events if kind == FAILED and subject == "lost/0"]
