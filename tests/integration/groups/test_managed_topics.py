"""Members of a group when the topic goes and comes, when partitions cannot be read yet, and what they commit after a loss."""

from __future__ import annotations

import time
from typing import Any

import pytest

from pykafka import ManagedBalancedConsumer
from pykafka.common import OffsetType, TopicPartition
from pykafka.consumer.committed_offsets import GroupOffsets, Membership
from pykafka.exceptions import KafkaException, OffsetsNotCommitted, RebalanceInProgress, UnknownTopicOrPartition
from pykafka.groups import subscription
from tests.support.groups import Group
from tests.support.inside import membership_of
from tests.support.topics import create_topic, delete_topic

pytestmark = [pytest.mark.kafka, pytest.mark.needs("groups")]

Managed = Group[ManagedBalancedConsumer]


@pytest.mark.needs("admin")
@pytest.mark.later("threads")
def test_a_topic_that_is_deleted_and_made_anew(group: Managed, monkeypatch: pytest.MonkeyPatch) -> None:
    """The group found new shares every few seconds, for ever."""
    monkeypatch.setattr(subscription, "DELETED_AFTER_S", 1.0)
    monkeypatch.setattr(subscription, "MISSING_POLL_INTERVAL_S", 0.2)
    values = group.produce(30)
    one, two = group.join(consumer_timeout_ms=500), group.join(consumer_timeout_ms=500)
    group.sizes(1, 2)
    assert group.drain(30) == values
    delete_topic(group.client, group.topic.name)
    group.client.cluster.update([group.topic.name])
    told: list[KafkaException] = []

    def consume() -> None:
        for member in (one, two):
            try:
                assert member.consume(block=False) is None
            except KafkaException as error:
                told.append(error)

    def deleted() -> list[KafkaException]:
        return [error for error in told if "was deleted" in str(error)]

    def settled() -> bool:
        consume()
        stable = {membership_of(member).membership.state.name for member in (one, two)} == {"STABLE"}
        divided = not one.partitions and not two.partitions and one._generation_id == two._generation_id
        return len(deleted()) == 2 and stable and divided and all(member._consumer for member in (one, two))

    group.until(settled)
    generation = one._generation_id
    until = time.monotonic() + 4
    while time.monotonic() < until:
        consume()
        group.client.cluster.handler.sleep(0.1)
    assert one._generation_id == two._generation_id == generation
    assert {membership_of(member).membership.state.name for member in (one, two)} == {"STABLE"}
    assert len(deleted()) == 2
    assert all(isinstance(error, UnknownTopicOrPartition) for error in deleted())
    create_topic(group.client, 3, name=group.topic.name)
    group.sizes(1, 2)
    assert one._generation_id <= generation + 2
    more = group.produce(30, start=100)
    assert group.drain(30) == more


@pytest.mark.later("threads")
def test_one_answer_without_the_topic_changes_nothing(group: Managed) -> None:
    """A broker that has just started may know no topics yet: the group found new shares after each such answer."""
    values = group.produce(30)
    one, two = group.join(), group.join()
    group.sizes(1, 2)
    generation = one._generation_id
    cluster = group.client.cluster
    for _ in range(3):
        cache = cluster._cache
        cache.topics = {name: found for name, found in cache.topics.items() if name != group.topic.name}
        membership_of(one).changed.set()
        membership_of(two).changed.set()
        cluster.handler.sleep(1.2)
        assert sorted(map(len, group.shares())) == [1, 2]
    assert one._generation_id == two._generation_id == generation
    assert group.drain(30) == values


def test_partitions_that_metadata_does_not_know_yet_are_looked_for_on(
    group: Managed, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A share named partitions that this member's broker had not heard of: they were left out for good."""
    values = group.produce(30)
    known = dict(group.topic.partitions)
    hidden = {2: known[2]}
    update = type(group.client.cluster).update
    answers = 0

    def stale(self: Any, names: Any = None) -> None:
        nonlocal answers
        update(self, names)
        answers += 1
        if hidden:
            group.topic.partitions.pop(2, None)

    one = group.join(auto_start=False)
    monkeypatch.setattr(type(group.client.cluster), "update", stale)
    monkeypatch.setattr(
        type(membership_of(one)), "divide", lambda self, members: {members[0][0]: share_of(group.topic.name, [0, 1, 2])}
    )
    group.topic.partitions.pop(2)
    one.start()
    assert sorted(one.partitions) == [0, 1]
    asked = answers
    group.until(lambda: answers > asked + 1)
    hidden.clear()
    group.sizes(3)
    assert group.drain(30) == values
    assert one._generation_id == 1


def share_of(topic: str, ids: list[int]) -> Any:
    from pykafka.protocol import MemberAssignment

    return MemberAssignment([(topic, ids)])


def test_what_others_may_have_consumed_meanwhile_is_read_from_where_they_committed(
    group: Managed, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A member joined a generation, was not told its share of it, and got its old partitions in the next one.

    In between they were another's, who had committed more: its old positions were committed over that.
    """
    group.produce(30)
    one = group.join(auto_commit_enable=True)
    found = group.drain(9)
    assert max(one.held_offsets.values()) < 9
    member = membership_of(one)
    synced = type(member).sync
    turns = 0

    def sync(self: Any, shares: Any, deadline: float | None = None) -> bytes:
        nonlocal turns
        share: bytes = synced(self, shares, deadline)
        turns += 1
        if turns > 1:
            return share
        # It is another member that is told this: it consumes and commits all there is, and the group changes again.
        other = GroupOffsets(group.client.cluster, group.name, 100, 3, Membership(self.generation, self.member_id))
        other.commit({TopicPartition(group.topic.name, id_): 10 for id_ in range(3)})
        self.handle_error(RebalanceInProgress.ERROR_CODE)
        raise RebalanceInProgress("the group changes again")

    monkeypatch.setattr(type(member), "sync", sync)
    generation = one._generation_id
    member.request_rejoin()
    group.until(lambda: one._generation_id == generation + 2)
    group.sizes(3)
    assert found.total() == 9
    # nor does who says by hand where it was put the group back
    with pytest.raises(OffsetsNotCommitted, match="other members have continued"):
        one.commit_offsets([(partition, 2) for partition in one.partitions.values()])
    zero = one.partitions[0]
    one.commit_offsets([(zero, 10)])
    one.reset_offsets([(zero, 1)])  # on purpose
    one.commit_offsets([(zero, 2)])
    one.reset_offsets([(zero, 9)])
    more = group.produce(6, start=100)
    assert group.drain(6) == more
    one.stop()
    with group.topic.get_simple_consumer(consumer_group=group.name, auto_offset_reset=OffsetType.EARLIEST) as reader:
        assert sum(held + 1 for held in reader.held_offsets.values()) == 36
