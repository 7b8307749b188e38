"""`client.consumer(...)` on real brokers: times; topics that are made anew, added and deleted; killed brokers."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from pykafka import KafkaClient, KafkaConsumer, StartRules
from pykafka.common import TopicPartition
from pykafka.exceptions import KafkaException, OffsetResetNeededError, TopicRecreatedError
from tests.brokers import KafkaCluster
from tests.integration.consumer.test_recreated_topics import recreate
from tests.support.topics import create_topic, delete_topic
from tests.support.waiting import until

pytestmark = pytest.mark.timeout(200)

HOUR = timedelta(hours=1)


def fill(client: KafkaClient, topic: str, count: int, first: int = 0, **options: Any) -> list[bytes]:
    values = [b"%d" % number for number in range(first, first + count)]
    with client.producer() as producer:
        for value in values:
            producer.produce(topic, value, **options)
    return values


def drain(consumer: KafkaConsumer[Any, Any], count: int, timeout: float = 30) -> list[Any]:
    found: list[Any] = []
    while len(found) < count and (record := consumer.one(timeout)) is not None:
        found.append(record.value)
    return found


@pytest.mark.needs("times")
@pytest.mark.on_asyncio
def test_times(client: KafkaClient) -> None:
    """It begins by duration, seeks to times, and says why."""
    topic = create_topic(client).name
    key = TopicPartition(topic, 0)
    now = datetime.now(UTC)
    for hours in (3, 2, 1):
        fill(client, topic, 1, hours, timestamp=now - hours * HOUR)
    with client.consumer(auto_offset_reset="by_duration:PT2H30M") as consumer:
        (start,) = consumer.explain_start(key)
        assert (start.offset, start.rule) == (1, "no_commit")
        assert "2:30:00 back" in start.reason
        consumer.assign([key])
        assert drain(consumer, 2) == [b"2", b"1"]
        assert consumer.lag() == {key: 0}
        consumer.seek_to_time(now - 4 * HOUR)
        assert (consumer.position(key), consumer.lag()) == (0, {key: 3})
        consumer.seek_to_time(now - 90 * timedelta(minutes=1), key)
        assert drain(consumer, 1) == [b"1"]
        consumer.seek_to_time(now)  # all are older: the end
        assert consumer.position(key) == 3
        record = consumer.poll(timeout=0.1)
        assert record == []
    with client.consumer(topic, start=StartRules(no_commit=90 * timedelta(minutes=1))) as consumer:
        assert drain(consumer, 1) == [b"1"]


@pytest.mark.needs("deletion")
def test_nearest_is_the_first_message_that_is_left(client: KafkaClient) -> None:
    """An offset before the log's start goes there, and not to the end, though everything else begins at the end."""
    topic = create_topic(client).name
    key = TopicPartition(topic, 0)
    fill(client, topic, 10)
    group = f"g-{uuid.uuid4().hex[:8]}"
    rules = StartRules(out_of_range="nearest")
    with client.consumer(group=group, auto_offset_reset="latest", start=rules) as consumer:
        consumer.commit({key: 2})
        client.admin.delete_records({(topic, 0): 6})
        (start,) = consumer.explain_start(key)
        assert (start.offset, start.rule) == (6, "out_of_range")
        assert "has committed offset 2, and the partition has 6 to 10" in start.reason
        consumer.assign([key])
        assert drain(consumer, 4) == [b"6", b"7", b"8", b"9"]


@pytest.mark.later("greenlets")
@pytest.mark.needs("topic ids")
def test_a_topic_made_anew_is_read_from_its_start(client: KafkaClient, kafka: KafkaCluster) -> None:
    one, other = create_topic(client).name, create_topic(client).name
    fill(client, one, 5)
    with client.consumer(one, other, metadata_max_age_ms=500, auto_offset_reset="latest") as consumer:
        consumer.seek_to_beginning()
        drain(consumer, 5)
        consumer.pause(TopicPartition(other, 0))
        values = recreate(kafka.hosts, one, 8)
        assert drain(consumer, 8) == values
        # pauses and the other topic are as they were
        assert consumer.paused() == [(other, 0)]
        fill(client, other, 1)
        assert consumer.poll(timeout=0.5) == []
        consumer.resume()
        assert drain(consumer, 1) == [b"0"]


@pytest.mark.later("threads")
@pytest.mark.needs("topic ids")
def test_a_topic_made_anew_is_told_where_rules_say_so(client: KafkaClient, kafka: KafkaCluster) -> None:
    name = create_topic(client).name
    fill(client, name, 5)
    with client.consumer(
        name, metadata_max_age_ms=500, start=StartRules(no_commit="earliest", out_of_range="raise")
    ) as consumer:
        drain(consumer, 5)
        values = recreate(kafka.hosts, name, 8)
        with pytest.raises((TopicRecreatedError, OffsetResetNeededError)):
            consumer.one(30)
        consumer.seek_to_beginning()
        assert drain(consumer, 8) == values


@pytest.mark.needs("partitions")
def test_what_comes_and_goes(client: KafkaClient, kafka: KafkaCluster) -> None:
    """Partitions are added, topics of a pattern appear and are deleted; nothing is lost, and no error comes of it."""
    prefix = f"p-{uuid.uuid4().hex[:8]}-"
    first = create_topic(client, name=f"{prefix}1").name
    with (
        KafkaClient(hosts=kafka.hosts) as admin,
        client.consumer(f"^{prefix}.*", metadata_max_age_ms=300, auto_offset_reset="latest") as consumer,
    ):
        admin.admin.create_partitions({first: 3})
        until(admin.cluster.handler, lambda: leaders(admin, first) == 3)
        found = fill(admin, first, 5, partition=2)
        assert drain(consumer, 5) == found
        second = create_topic(admin, 2, name=f"{prefix}2").name
        found = fill(admin, second, 5, partition=1)
        assert drain(consumer, 5) == found
        assert consumer.subscription() == [first, second]
        delete_topic(admin, first)
        handler = client.cluster.handler
        until(handler, lambda: consumer.poll(timeout=0.1) == [] and consumer.subscription() == [second])
        assert {key.topic for key in consumer.assignment()} == {second}
        found = fill(admin, second, 5, partition=0)
        assert drain(consumer, 5) == found


def leaders(client: KafkaClient, name: str) -> int:
    client.update_cluster()
    return sum(partition.leader is not None for partition in client.topics[name].partitions.values())


@pytest.mark.later("greenlets")
def test_a_killed_broker(kafka3: KafkaCluster, concurrency: Callable[[], dict[str, Any]]) -> None:
    """Partitions with other leaders go on; those of the killed broker go on at its successor."""
    with KafkaClient(hosts=kafka3.hosts, **concurrency()) as client:
        topic = create_topic(client, 3, 3, {"min.insync.replicas": "1"})
        with client.consumer(topic.name) as consumer:
            for id_ in range(3):
                fill(client, topic.name, 5, partition=id_)
            drain(consumer, 15)
            leader = topic.partitions[0].leader
            assert leader is not None
            consumer.pause(TopicPartition(topic.name, 1))
            kafka3.kill(leader.id)
            try:
                consumer.seek_to_beginning(TopicPartition(topic.name, 0))
                until(client.cluster.handler, lambda: consumer.position(TopicPartition(topic.name, 0)) == 0)
                assert len(drain(consumer, 5)) == 5
                for id_ in range(3):
                    fill(client, topic.name, 5, 5, partition=id_)
                assert len(drain(consumer, 10)) == 10
                consumer.resume()
                assert len(drain(consumer, 5)) == 5
            finally:
                kafka3.start(leader.id)


def test_a_name_that_no_topic_can_have_is_refused(client: KafkaClient) -> None:
    with pytest.raises(KafkaException):
        client.consumer("no topic has such a name")
