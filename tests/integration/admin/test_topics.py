"""Topics: creation, description, more partitions, deletion of records and topics."""

from __future__ import annotations

from uuid import UUID

import pytest

from pykafka import KafkaClient
from pykafka.admin import AclOperation, Admin, NewPartitions, NewTopic, OffsetSpec
from pykafka.common import TopicPartition
from pykafka.exceptions import (
    AdminError,
    InvalidPartitions,
    InvalidReplicationFactor,
    OffsetOutOfRangeError,
    TopicAlreadyExists,
    UnknownTopicOrPartition,
)
from pykafka.metadata import topic_pages
from tests.integration.admin.conftest import unique
from tests.support.features import kafka_since
from tests.support.waiting import until

pytestmark = [pytest.mark.kafka, pytest.mark.needs("admin")]


@pytest.mark.on_asyncio
def test_a_topic_is_created_described_listed_and_deleted(admin: Admin) -> None:
    name = unique("t")
    made = admin.create_topics(NewTopic(name, partitions=3, replication=2, configs={"retention.ms": 86_400_000}))[name]
    described = admin.describe_topics(name)[name]
    assert [part.partition for part in described.partitions] == [0, 1, 2]
    assert all(len(part.replicas) == 2 and part.leader in part.isr for part in described.partitions)
    listed = {one.name: one for one in admin.list_topics()}
    assert (listed[name].partitions, listed[name].internal) == (3, False)
    if kafka_since(2, 8):
        assert made.topic_id == described.topic_id == listed[name].topic_id
        assert isinstance(made.topic_id, UUID)
    if kafka_since(2, 4):
        assert (made.partitions, made.replication) == (3, 2)
        assert made.configs is not None
        assert made.configs["retention.ms"] == "86400000"
    admin.delete_topics(name)
    assert name not in {one.name for one in admin.list_topics()}
    with pytest.raises(UnknownTopicOrPartition) as caught:
        admin.describe_topics(name)
    assert caught.value.topic == name


@pytest.mark.on_asyncio
def test_pages_have_what_one_answer_has(admin: Admin, monkeypatch: pytest.MonkeyPatch) -> None:
    """A page ends within a topic, at its end, and before one that does not exist."""
    made = {unique("t"): count for count in (5, 4, 1, 2)}
    names = list(made)
    admin.create_topics([NewTopic(name, partitions=count, replication=3) for name, count in made.items()])
    whole, listed = admin.describe_topics(names), admin.list_topics()
    assert {part.elr for one in whole.values() for part in one.partitions} == {() if kafka_since(4) else None}
    for most in (1, 3, 4, 7):
        monkeypatch.setattr(topic_pages, "PAGE_PARTITIONS", most)
        paged = admin.describe_topics([*names, "no-such-topic"], raise_errors=False)
        assert {**paged} == {**whole}
        assert isinstance(paged.errors["no-such-topic"], UnknownTopicOrPartition)
        assert admin.list_topics() == listed
    counts = {one.name: (one.partitions, one.replicas, one.without_leader) for one in listed}
    assert {name: counts[name] for name in names} == {name: (count, 3, 0) for name, count in made.items()}
    admin.delete_topics(names)


def test_one_item_raises_its_own_error_and_several_all_outcomes(admin: Admin, topic: str) -> None:
    other, third = unique("t"), unique("t")
    with pytest.raises(TopicAlreadyExists) as one:
        admin.create_topics(NewTopic(topic, 1, 1))
    assert (one.value.topic, one.value.api) == (topic, "CreateTopics")
    with pytest.raises(AdminError, match="1 of 2 items failed") as several:
        admin.create_topics([NewTopic(topic, 1, 1), NewTopic(other, 1, 1)])
    assert list(several.value.results) == [other]
    assert isinstance(several.value.errors[topic], TopicAlreadyExists)
    results = admin.create_topics([NewTopic(topic, 1, 1), NewTopic(third, 1, 9)], raise_errors=False)
    assert isinstance(results.errors[third], InvalidReplicationFactor)
    with pytest.raises(InvalidReplicationFactor):
        results[third]
    assert [(one.item, one.value, type(one.error)) for one in results.outcomes] == [
        (topic, None, TopicAlreadyExists),
        (third, None, InvalidReplicationFactor),
    ]
    admin.delete_topics(other)


@pytest.mark.needs("deletion")
def test_validation_creates_nothing(admin: Admin) -> None:
    name = unique("t")
    admin.create_topics(NewTopic(name, 2, 1), validate_only=True)
    with pytest.raises(UnknownTopicOrPartition):
        admin.describe_topics(name)


def test_replicas_are_assigned_by_hand(admin: Admin) -> None:
    name = unique("t")
    admin.create_topics(NewTopic(name, assignments={0: [2, 3], 1: [3, 1]}))
    parts = admin.describe_topics(name)[name].partitions
    assert [set(part.replicas) for part in parts] == [{2, 3}, {1, 3}]
    if kafka_since(0, 11):  # before, brokers tell them in another order
        assert [part.replicas for part in parts] == [(2, 3), (3, 1)]
    admin.delete_topics(name)
    with pytest.raises(ValueError, match="either assignments, or partitions"):
        NewTopic(name, 3, assignments={0: [1]})


@pytest.mark.needs("alterations")
def test_the_brokers_defaults_and_ids_and_operations(client3: KafkaClient, admin: Admin) -> None:
    name = unique("t")
    if not kafka_since(2, 8):
        return
    made = admin.create_topics(NewTopic(name))[name]
    assert (made.partitions, made.replication) == (1, 3)
    described = admin.describe_topics(name, authorized_operations=True)[name]
    assert described.authorized_operations is not None
    assert AclOperation.ALTER_CONFIGS in described.authorized_operations
    assert made.topic_id is not None
    admin.delete_topics(made.topic_id)
    until(client3.cluster.handler, lambda: name not in {one.name for one in admin.list_topics()}, 10)


@pytest.mark.needs("partitions")
def test_partitions_are_added(admin: Admin, topic: str) -> None:
    admin.create_partitions({topic: 5})
    assert len(admin.describe_topics(topic)[topic].partitions) == 5
    admin.create_partitions(NewPartitions(topic, 6, [[2, 1, 3]]))
    assert admin.describe_topics(topic)[topic].partitions[5].replicas == (2, 1, 3)
    with pytest.raises(InvalidPartitions):
        admin.create_partitions({topic: 4})


@pytest.mark.needs("deletion")
def test_records_are_deleted_at_all_leaders(client3: KafkaClient, topic: str) -> None:
    admin, parts = client3.admin, [TopicPartition(topic, id_) for id_ in range(3)]
    with client3.topics[topic].get_producer(
        required_acks=-1, partitioner=lambda parts, key: parts[int(key)]
    ) as producer:
        for number in range(30):
            producer.produce(b"x", partition_key=b"%d" % (number % 3))

    def ends() -> list[int | None]:
        return [one.offset for one in admin.list_offsets(dict.fromkeys(parts, OffsetSpec.latest())).values()]

    until(client3.cluster.handler, lambda: ends() == [10, 10, 10])
    kept = admin.delete_records({parts[0]: 4, parts[1]: -1, parts[2]: 11}, raise_errors=False)
    assert dict(kept) == {parts[0]: 4, parts[1]: 10}
    assert isinstance(kept.errors[parts[2]], OffsetOutOfRangeError)
    starts = admin.list_offsets(dict.fromkeys(parts, OffsetSpec.earliest()))
    assert [one.offset for one in starts.values()] == [4, 10, 0]


def test_an_unknown_partition_is_named(admin: Admin, topic: str) -> None:
    with pytest.raises(UnknownTopicOrPartition) as caught:
        admin.list_offsets({(topic, 77): OffsetSpec.latest()})
    assert (caught.value.topic, caught.value.partition) == (topic, 77)
