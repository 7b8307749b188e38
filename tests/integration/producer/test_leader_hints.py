"""Leaders that move under a producer: brokers name the new one beside their error (KIP-951)."""

from __future__ import annotations

from typing import Any

import pytest

from pykafka import KafkaClient
from pykafka.handlers import Handler
from pykafka.protocol import wire
from pykafka.topic import Topic
from tests.brokers import KafkaCluster
from tests.support.topics import create_topic
from tests.support.waiting import until

pytestmark = [pytest.mark.kafka, pytest.mark.slow, pytest.mark.needs("leader hints"), pytest.mark.timeout(300)]


def move_leader(client: KafkaClient, name: str) -> None:
    """Elect the next broker to lead the only partition of a topic with a replica on each."""
    client.cluster.update([name])
    leader = client.topics[name].partitions[0].leader
    controller = client.cluster.controller_broker
    assert leader is not None
    assert controller is not None
    brokers = sorted(client.brokers)
    at = brokers.index(leader.id) + 1
    move, elect = wire.AlterPartitionReassignmentsRequest, wire.ElectLeadersRequest
    part = move.Topic.Partition(partition_index=0, replicas=brokers[at:] + brokers[:at])
    controller.call(move(timeout_ms=10_000, topics=[move.Topic(name=name, partitions=[part])]))
    wanted = elect(
        election_type=0, topic_partitions=[elect.TopicPartition(topic=name, partitions=[0])], timeout_ms=10_000
    )

    def moved() -> bool:
        controller.call(wanted)
        client.cluster.update([name])
        now = client.topics[name].partitions[0].leader
        return now is not None and now.id == brokers[at % len(brokers)]

    until(client.cluster.handler, moved)


def read(topic: Topic, count: int) -> list[int]:
    with topic.get_simple_consumer(consumer_timeout_ms=20_000) as consumer:
        found = [consumer.consume() for _ in range(count)]
        return [int(message.value) for message in found if message is not None and message.value is not None]


def test_messages_follow_the_leader_without_metadata(
    kafka3: KafkaCluster, handler: Handler, monkeypatch: pytest.MonkeyPatch
) -> None:
    with KafkaClient(kafka3.hosts, handler=handler) as client, KafkaClient(kafka3.hosts) as other:
        topic = create_topic(client, replicas=3, config={"min.insync.replicas": "2"})
        hints: list[bool] = []
        take = client.cluster.take_current_leader

        def taken(*args: Any, **kwargs: Any) -> bool:
            hints.append(take(*args, **kwargs))
            return hints[-1]

        monkeypatch.setattr(client.cluster, "take_current_leader", taken)
        count = 0
        with topic.get_producer(required_acks=-1, linger_ms=1) as producer:
            for _ in range(3):
                for _ in range(50):
                    producer.produce(b"%d" % count)
                    count += 1
                producer.flush()
                move_leader(other, topic.name)
                producer.produce(b"%d" % count)  # to a broker that does not lead any more
                count += 1
                producer.flush()
        assert any(hints)
        assert read(topic, count) == list(range(count))
