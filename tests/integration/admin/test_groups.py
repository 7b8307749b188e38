"""Groups of every type: lists, descriptions, offsets, removal of members, deletion."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

import pytest

from pykafka import KafkaClient
from pykafka.admin import Admin, GroupState, GroupType, OffsetChange, OffsetSpec
from pykafka.common import OffsetAndMetadata, TopicPartition
from pykafka.exceptions import (
    AdminError,
    GroupIdNotFound,
    GroupSubscribedToTopic,
    NonEmptyGroup,
    OffsetOutOfRangeError,
    OffsetRequestFailedError,
    UnknownMemberId,
)
from tests.integration.admin.conftest import unique
from tests.support.features import kafka_since
from tests.support.waiting import until

pytestmark = [pytest.mark.kafka, pytest.mark.needs("admin")]


@contextmanager
def member(client: KafkaClient, group: str, topic: str) -> Iterator[str]:
    """Read a topic as the only member of a group."""
    consumer = client.topics[topic].get_balanced_consumer(group, managed=True, consumer_timeout_ms=500)
    until(client.cluster.handler, lambda: len(consumer.partitions) == 3)
    try:
        yield client.admin.describe_groups(group)[group].members[0].member_id
    finally:
        consumer.stop()


def fill(client: KafkaClient, topic: str, count: int = 30) -> list[TopicPartition]:
    """Write messages to three partitions in turn, and return the partitions."""
    with client.topics[topic].get_producer(
        required_acks=-1, partitioner=lambda parts, key: parts[int(key)]
    ) as producer:
        for number in range(count):
            producer.produce(b"x", partition_key=b"%d" % (number % 3))
    parts = [TopicPartition(topic, id_) for id_ in range(3)]

    def is_there() -> bool:
        ends = client.admin.list_offsets(dict.fromkeys(parts, OffsetSpec.latest()))
        return [one.offset for one in ends.values()] == [count // 3] * 3

    until(client.cluster.handler, is_there)
    return parts


def test_a_classic_group(client3: KafkaClient, topic: str) -> None:
    admin, group, idle = client3.admin, unique("g"), unique("g")
    # the coordinator hears of a new topic some milliseconds after the controller has answered
    until(
        client3.cluster.handler,
        lambda: not admin.alter_group_offsets(idle, {(topic, 0): 0}, raise_errors=False).errors,
    )
    with member(client3, group, topic):
        listed = {one.group: one for one in admin.list_groups()}
        assert listed[group].type == GroupType.CLASSIC
        assert (listed[group].protocol_type, listed[group].is_simple) == ("consumer", False)
        assert listed[idle].is_simple
        described = admin.describe_groups([group, idle])
        assert described[group].state == GroupState.STABLE
        assert described[group].coordinator == listed[group].coordinator
        one = described[group].members[0]
        assert (one.client_id, one.host, one.subscription) == ("pykafka", "127.0.0.1", (topic,))
        assert one.assignment == tuple(TopicPartition(topic, id_) for id_ in range(3))
        assert (described[idle].state, described[idle].members) == (GroupState.EMPTY, ())
        if kafka_since(2, 6):
            stable = {one.group for one in admin.list_groups(states=GroupState.STABLE)}
            assert group in stable
            assert idle not in stable
        assert group not in {one.group for one in admin.list_groups(types=GroupType.SHARE)}
        assert group not in {one.group for one in admin.list_groups(protocol_types="connect")}
    with pytest.raises(GroupIdNotFound, match="no-such-group"):
        admin.describe_groups("no-such-group")


def test_members_are_removed_and_groups_deleted(client3: KafkaClient, topic: str) -> None:
    admin, group = client3.admin, unique("g")
    with member(client3, group, topic) as name:
        if kafka_since(1, 1):
            with pytest.raises(NonEmptyGroup, match=group):
                admin.delete_groups(group)
        assert list(admin.remove_members(group)) == [name]
        with pytest.raises(UnknownMemberId, match="nobody"):
            admin.remove_members(group, "nobody")
    if kafka_since(1, 1):
        until(client3.cluster.handler, lambda: not admin.describe_groups(group)[group].members)
        results = admin.delete_groups([group, "no-such-group"], raise_errors=False)
        assert list(results) == [group]
        assert isinstance(results.errors["no-such-group"], GroupIdNotFound)


def test_offsets_of_groups(client3: KafkaClient, topic: str) -> None:
    admin, group = client3.admin, unique("g")
    parts = fill(client3, topic)
    admin.alter_group_offsets(group, {parts[0]: 3, parts[1]: OffsetAndMetadata(4, "by hand")})
    mine = admin.list_group_offsets({group: parts})[group]
    assert mine == {parts[0]: OffsetAndMetadata(3), parts[1]: OffsetAndMetadata(4, "by hand")}
    if kafka_since(0, 10, 2):
        both = admin.list_group_offsets([group, unique("g")])
        assert list(both.values()) == [mine, {}]
    with member(client3, group, topic):
        with pytest.raises(AdminError) as caught:
            admin.alter_group_offsets(group, dict.fromkeys(parts, 1))
        assert {type(error) for error in caught.value.errors.values()} == {NonEmptyGroup}
        if kafka_since(2, 4):
            with pytest.raises(GroupSubscribedToTopic):
                admin.delete_group_offsets(group, parts[:1])
    if kafka_since(2, 4):
        admin.delete_group_offsets(group, parts[:1])
        assert parts[0] not in admin.list_group_offsets(group)[group]


def test_offsets_are_reset(client3: KafkaClient, topic: str) -> None:
    admin, group = client3.admin, unique("g")
    parts = fill(client3, topic)
    admin.alter_group_offsets(group, {parts[0]: 3, parts[1]: 4})
    shifted = admin.reset_group_offsets(group, OffsetSpec.shift(-2), partitions=parts[:2])
    assert dict(shifted) == {parts[0]: OffsetChange(3, 1), parts[1]: OffsetChange(4, 2)}
    assert admin.reset_group_offsets(group, OffsetSpec.shift(-9), partitions=parts[:1])[parts[0]].after == 0
    with pytest.raises(OffsetRequestFailedError, match="could be shifted"):
        admin.reset_group_offsets(group, OffsetSpec.shift(1), partitions=parts[2:])
    planned = admin.reset_group_offsets(group, OffsetSpec.latest(), topics=topic, dry_run=True)
    assert dict(planned) == {
        parts[0]: OffsetChange(0, 10),
        parts[1]: OffsetChange(2, 10),
        parts[2]: OffsetChange(None, 10),
    }
    assert admin.list_group_offsets({group: parts})[group][parts[1]].offset == 2
    assert admin.reset_group_offsets(group, OffsetSpec.offset(7), partitions=parts[:1])[parts[0]].after == 7
    with pytest.raises(OffsetOutOfRangeError, match="from 0 to 10"):
        admin.reset_group_offsets(group, OffsetSpec.offset(11), partitions=parts[:1])
    hour = admin.reset_group_offsets(group, OffsetSpec.ago(timedelta(hours=1)), topics=topic)
    assert [one.after for one in hour.values()] == [0, 0, 0]
    assert admin.reset_group_offsets(group, OffsetSpec.ago(-0.0), partitions=parts[:1])[parts[0]].after == 10
    by_hand = {parts[0]: OffsetSpec.offset(5), parts[1]: OffsetSpec.latest(), parts[2]: OffsetSpec.offset(99)}
    several = admin.reset_group_offsets(group, by_hand, raise_errors=False)
    assert {item: one.after for item, one in several.items()} == {parts[0]: 5, parts[1]: 10}
    assert list(several.errors) == [parts[2]]
    assert admin.list_group_offsets(group)[group][parts[1]].offset == 10
    assert admin.reset_group_offsets(group, {}).outcomes == []
    with pytest.raises(ValueError, match="leave `topics`"):
        admin.reset_group_offsets(group, by_hand, topics=topic)
    with member(client3, group, topic), pytest.raises(NonEmptyGroup, match="stop them first"):
        admin.reset_group_offsets(group, OffsetSpec.earliest(), topics=topic, dry_run=True)


def test_offsets_by_place(client3: KafkaClient, topic: str) -> None:
    admin = client3.admin
    parts = fill(client3, topic)
    first = admin.list_offsets({parts[0]: OffsetSpec.earliest(), parts[1]: OffsetSpec.latest()})
    assert [one.offset for one in first.values()] == [0, 10]
    times = admin.list_offsets({parts[0]: OffsetSpec.at(0), parts[1]: OffsetSpec.at(2**50)})
    assert times[parts[0]].offset == 0
    assert times[parts[0]].timestamp is not None
    assert times[parts[1]].offset is None
    if kafka_since(3, 0):
        assert admin.list_offsets({parts[0]: OffsetSpec.max_timestamp()})[parts[0]].offset in range(10)
    if kafka_since(0, 11):
        end = admin.list_offsets({parts[0]: OffsetSpec.latest()}, read_committed=True)
        assert end[parts[0]].offset == 10
    with pytest.raises(ValueError, match="reset_group_offsets"):
        admin.list_offsets({parts[0]: OffsetSpec.shift(1)})


@pytest.mark.needs("latest")
def test_a_share_group(client3: KafkaClient, topic: str) -> None:
    admin, group = client3.admin, unique("s")
    parts = fill(client3, topic)
    admin.alter_share_group_offsets(group, {parts[0]: 4})
    listed = {one.group: one.type for one in admin.list_groups(types=GroupType.SHARE)}
    assert listed[group] == GroupType.SHARE
    described = admin.describe_groups(group)[group]
    assert (described.type, described.state, described.members) == (GroupType.SHARE, GroupState.EMPTY, ())
    until(client3.cluster.handler, lambda: admin.list_share_group_offsets(group)[group][parts[0]].start_offset == 4)
    assert admin.list_share_group_offsets(group)[group][parts[0]].lag == 6
    changed = admin.reset_group_offsets(group, OffsetSpec.shift(2))
    assert dict(changed) == {parts[0]: OffsetChange(4, 6)}
    until(client3.cluster.handler, lambda: admin.list_share_group_offsets(group)[group][parts[0]].start_offset == 6)
    planned = admin.reset_group_offsets(group, OffsetSpec.latest(), topics=topic, dry_run=True)
    assert [one.after for one in planned.values()] == [10, 10, 10]
    assert admin.list_share_group_offsets(group)[group][parts[0]].start_offset == 6
    admin.delete_share_group_offsets(group, topic)
    admin.delete_groups(group)


@pytest.mark.needs("assigning")
def test_a_group_whose_shares_the_broker_works_out(client3: KafkaClient, topic: str) -> None:
    from confluent_kafka import Consumer

    admin, group = client3.admin, unique("g")
    hosts = ",".join(broker.address for broker in client3.brokers.values())
    consumer = Consumer({"bootstrap.servers": hosts, "group.id": group, "group.protocol": "consumer"})
    consumer.subscribe([topic])
    try:

        def has_all() -> bool:
            consumer.poll(0.05)
            return len(consumer.assignment()) == 3

        until(client3.cluster.handler, has_all)
        described = admin.describe_groups(group, authorized_operations=True)[group]
        assert (described.type, described.protocol_type) == (GroupType.CONSUMER, "consumer")
        assert described.assignor == "uniform"
        assert described.epoch is not None
        one = described.members[0]
        assert one.subscription == (topic,)
        assert one.assignment == one.target == tuple(TopicPartition(topic, id_) for id_ in range(3))
        assert group in {one.group for one in admin.list_groups(types=GroupType.CONSUMER)}
    finally:
        consumer.close()


def test_a_broker_that_is_gone_is_told_apart(client3: KafkaClient, admin: Admin) -> None:
    admin.list_groups()
    cluster = client3.cluster
    cluster.brokers[3].drop_channel("admin")
    listing = admin.list_groups(raise_errors=False)  # a lost connection is made anew
    assert listing.errors == {}
