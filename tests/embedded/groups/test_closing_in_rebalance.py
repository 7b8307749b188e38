"""A member that is closed while its group rebalances, as if two services stop together, commits what it has read."""

from __future__ import annotations

from typing import Any

import pytest

from pykafka import KafkaClient
from pykafka.common import TopicPartition
from pykafka.kafkaconsumer import KafkaConsumer
from pykafka.testing import FakeCluster
from tests.support.waiting import until

TOPIC = "orders"
LIMIT = 20.0
CLASSIC = {"protocol": "classic", "assignor": "cooperative-sticky", "heartbeat_interval_ms": 50}


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
