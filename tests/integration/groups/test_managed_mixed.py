"""Managed consumers in one group with members of other clients, on brokers of many versions, and when coordinators move."""

from __future__ import annotations

import contextlib
import uuid
from collections import Counter
from typing import Any

import pytest

from pykafka import KafkaClient, ManagedBalancedConsumer
from pykafka.exceptions import UnsupportedVersion
from pykafka.topic import Topic
from tests.brokers import KafkaCluster
from tests.support.foreign import AioKafka, Confluent, Foreign, KafkaPython
from tests.support.topics import create_topic
from tests.support.waiting import until

pytestmark = [pytest.mark.kafka, pytest.mark.slow, pytest.mark.matrix]


def managed(topic: Topic, group: str, **kwargs: Any) -> ManagedBalancedConsumer:
    settings = {"consumer_timeout_ms": 500, "heartbeat_interval_ms": 200, "auto_commit_enable": True, **kwargs}
    consumer = topic.get_balanced_consumer(group, managed=True, **settings)
    assert isinstance(consumer, ManagedBalancedConsumer)
    return consumer


@pytest.mark.filterwarnings("ignore:(read|open)_text is deprecated:DeprecationWarning")  # kafka-python's
@pytest.mark.parametrize("kind", [Confluent, KafkaPython, AioKafka])
@pytest.mark.parametrize("first", ["ours", "theirs"])
def test_shares_a_group_with_members_of_other_clients(
    client: KafkaClient, kafka: KafkaCluster, kind: type[Foreign], first: str
) -> None:
    topic, group = create_topic(client, 4), f"g-{uuid.uuid4().hex[:8]}"
    with contextlib.ExitStack() as stack:
        if first == "ours":
            own = managed(topic, group)
        # whoever is first leads, and shares out for all
        other = kind(kafka.hosts, group, topic.name)
        stack.callback(other.stop)
        if first == "theirs":
            until(client.cluster.handler, lambda: other.share == {0, 1, 2, 3})
            own = managed(topic, group)
        until(client.cluster.handler, lambda: len(own.partitions) == 2 and len(other.share) == 2)
        assert set(own.partitions) | other.share == {0, 1, 2, 3}
        values = [b"%d" % number for number in range(100)]
        with topic.get_producer(linger_ms=1) as producer:
            for value in values:
                producer.produce(value)
        found: list[bytes | None] = []

        def all_read() -> bool:
            while (message := own.consume(block=False)) is not None:
                found.append(message.value)
            return len(found) + len(other.values) >= len(values)

        until(client.cluster.handler, all_read)
        assert Counter(found + other.values) == Counter(values)
        own.stop()
        until(client.cluster.handler, lambda: other.share == {0, 1, 2, 3})


# 0.9 is the first that keeps groups; from 0.10.1 on rebalances have a timeout of their own; 3.9 has both kinds of groups
@pytest.mark.slow
@pytest.mark.timeout(400)
@pytest.mark.parametrize("version", ["0.9.0.1", "0.10.2.2", "1.1.1", "2.8.2", "3.9.2"])
def test_brokers_of_every_version_keep_groups(version: str) -> None:
    with KafkaCluster(version, config={"num.partitions": 4}) as kafka, KafkaClient(hosts=kafka.hosts) as client:
        topic = client.topics[f"t-{uuid.uuid4().hex[:8]}"]  # made by the brokers
        count = 4
        with topic.get_producer(linger_ms=1) as producer:
            for number in range(60):
                producer.produce(b"%d" % number)
        group = f"g-{uuid.uuid4().hex[:8]}"
        one, two = managed(topic, group), managed(topic, group)
        until(
            client.cluster.handler,
            lambda: len(one.partitions) + len(two.partitions) == count and one.partitions != two.partitions,
        )
        assert abs(len(one.partitions) - len(two.partitions)) <= 1
        found = Counter(message.value for member in (one, two) for message in member)
        assert found == Counter(b"%d" % number for number in range(60))
        two.stop()
        until(client.cluster.handler, lambda: len(one.partitions) == count)
        one.stop()


@pytest.mark.slow
def test_brokers_that_keep_no_groups_are_refused_by_name() -> None:
    with KafkaCluster("0.8.2.2") as kafka, KafkaClient(hosts=kafka.hosts) as client:
        topic = client.topics["t"]
        with pytest.raises(UnsupportedVersion, match="JoinGroup"):
            managed(topic, "g")


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_a_coordinator_that_dies_is_replaced(kafka3: KafkaCluster) -> None:
    with KafkaClient(hosts=kafka3.hosts) as client:
        topic, group = create_topic(client, 3, replicas=3), f"g-{uuid.uuid4().hex[:8]}"
        one, two = managed(topic, group), managed(topic, group)
        until(client.cluster.handler, lambda: len(one.partitions) + len(two.partitions) == 3)
        coordinator = client.cluster.get_group_coordinator(group).id
        kafka3.kill(coordinator)
        try:
            with topic.get_producer(linger_ms=1, max_retries=20, pending_timeout_ms=60_000) as producer:
                for number in range(30):
                    producer.produce(b"%d" % number)
            found: Counter[bytes | None] = Counter()

            def all_read() -> bool:
                for member in (one, two):
                    while (message := member.consume(block=False)) is not None:
                        found[message.value] += 1
                return len(found) == 30

            until(client.cluster.handler, all_read, 60)
            until(client.cluster.handler, lambda: len(one.partitions) + len(two.partitions) == 3)
            assert client.cluster.get_group_coordinator(group).id != coordinator
            one.commit_offsets()
            two.commit_offsets()
        finally:
            kafka3.start(coordinator)
