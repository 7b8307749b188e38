"""A member that is closed commits what it has read, also while its group rebalances; no record follows its revocation."""

from __future__ import annotations

import contextlib
from types import SimpleNamespace
from typing import Any

import pytest

from pykafka import KafkaClient
from pykafka.common import TopicPartition
from pykafka.exceptions import ConsumerStoppedException
from pykafka.kafkaconsumer import KafkaConsumer
from pykafka.testing import FakeCluster
from tests.support.waiting import until

TOPIC = "orders"
LIMIT = 20.0
CLASSIC: dict[str, Any] = {"protocol": "classic", "assignor": "cooperative-sticky", "heartbeat_interval_ms": 50}


@pytest.mark.parametrize(
    ("options", "api"),
    [(CLASSIC, "JoinGroup"), (CLASSIC, "SyncGroup"), ({"protocol": "consumer"}, "ConsumerGroupHeartbeat")],
)
def test_the_last_commit_comes_in_the_new_generation(options: dict[str, Any], api: str) -> None:
    with FakeCluster(brokers=1, topics={TOPIC: 4}) as cluster, KafkaClient(cluster.hosts) as client:
        cluster.set_group_settings(consumer_heartbeat_interval_ms=50, has_assignment_epochs=False)
        options = {"group": "billing", "auto_offset_reset": "earliest", "auto_commit": True, **options}
        first, second = (client.consumer(TOPIC, auto_commit_interval_ms=600_000, **options) for _ in range(2))

        def share() -> bool:
            for consumer in (first, second):
                consumer.poll(timeout=0.02)
            return len(first.assignment()) == len(second.assignment()) == 2

        until(client.cluster.handler, share)
        mine = sorted(key.partition for key in second.assignment())
        with client.producer() as producer:
            for index in mine:
                producer.produce(TOPIC, b"an order", partition=index).get(timeout=LIMIT)
        read: list[Any] = []

        def all_read() -> bool:
            read.extend(second.poll(timeout=0.1))
            return len(read) == 2

        until(client.cluster.handler, all_read)
        _close_while_held(cluster, first, second, api)
        offsets = client.admin.list_group_offsets("billing")["billing"]
        assert [offsets[TopicPartition(TOPIC, index)].offset for index in mine] == [1, 1]


def _close_while_held(cluster: FakeCluster, first: KafkaConsumer, second: KafkaConsumer, api: str) -> None:
    with cluster.hold(api) as held:
        first.close()
        handler = second._cluster.handler
        until(handler, lambda: bool(second.poll(timeout=0.02)) or held.met > 0)
        closing = handler.spawn(second.close)
        handler.sleep(0.2)
    closing.join(LIMIT)
    assert not closing.is_alive()


@pytest.mark.parametrize("method", ["close", "unsubscribe"])
@pytest.mark.parametrize("options", [{"protocol": "classic", "assignor": "range"}, CLASSIC, {"protocol": "consumer"}])
def test_no_record_follows_the_revocation(options: dict[str, Any], method: str) -> None:
    """Also if another worker reads when one leaves the group, and records come before the last commit is made."""
    with FakeCluster(brokers=1, topics={TOPIC: 1}) as cluster, KafkaClient(cluster.hosts) as client:
        revoked, goes_on = client.cluster.handler.Event(), client.cluster.handler.Event()
        read: list[bytes] = []

        def on_revoked(partitions: list[TopicPartition]) -> None:
            revoked.set()
            goes_on.wait(LIMIT)

        listener = SimpleNamespace(on_revoked=on_revoked)
        consumer = client.consumer(
            TOPIC, group="billing", auto_offset_reset="earliest", auto_commit=True, listener=listener, **options
        )

        def read_on() -> None:
            with contextlib.suppress(ConsumerStoppedException):
                while True:
                    read.extend(record.value or b"" for record in consumer.poll(timeout=0.05))

        with client.producer() as producer:
            producer.produce(TOPIC, b"before").get(timeout=LIMIT)
            reading = client.cluster.handler.spawn(read_on)
            until(client.cluster.handler, lambda: read == [b"before"])
            leaving = client.cluster.handler.spawn(getattr(consumer, method))
            assert revoked.wait(LIMIT)
            producer.produce(TOPIC, b"after").get(timeout=LIMIT)
            client.cluster.handler.sleep(0.2)
            goes_on.set()
            leaving.join(LIMIT)
        consumer.close()
        reading.join(LIMIT)
        assert not reading.is_alive()
        assert read == [b"before"]


def test_a_listener_may_read_what_is_left() -> None:
    with FakeCluster(brokers=1, topics={TOPIC: 1}) as cluster, KafkaClient(cluster.hosts) as client:
        left: list[Any] = []
        listener = SimpleNamespace(on_revoked=lambda partitions: left.append(consumer.poll(1, timeout=LIMIT)))
        options: dict[str, Any] = {"group": "billing", "auto_offset_reset": "earliest", "listener": listener}
        consumer: KafkaConsumer[Any, Any] = client.consumer(TOPIC, **CLASSIC, **options)
        with client.producer() as producer:
            for value in (b"first", b"second"):
                producer.produce(TOPIC, value).get(timeout=LIMIT)
        (first,) = consumer.poll(1, timeout=LIMIT)
        consumer.close()
        assert [first.value, *(record.value for records in left for record in records)] == [b"first", b"second"]
