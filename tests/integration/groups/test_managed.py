"""Groups that the brokers keep: shares, handing over, heartbeats while the application is busy, and what ends them."""

from __future__ import annotations

import time
import uuid
from collections import Counter
from contextlib import nullcontext
from typing import Any

import pytest

from pykafka import BalancedConsumer, KafkaClient, ManagedBalancedConsumer
from pykafka.common import OffsetType
from pykafka.exceptions import (
    ConsumerStoppedException,
    InvalidSessionTimeout,
    OffsetsNotCommitted,
    ResponseTimeoutError,
)
from pykafka.groups.classic.coordinator import AbstractCoordinator
from pykafka.membershipprotocol import GroupMembershipProtocol, RangeProtocol, RoundRobinProtocol
from pykafka.protocol import ConsumerGroupProtocolMetadata, MemberAssignment
from tests.brokers import KafkaCluster
from tests.support.groups import Group
from tests.support.inside import membership_of
from tests.support.loops import Concurrency
from tests.support.topics import create_topic

pytestmark = [pytest.mark.kafka, pytest.mark.on_asyncio, pytest.mark.needs("groups")]

#: The shortest session that brokers allow by default (ms).
SESSION_MS = 6000


Managed = Group[ManagedBalancedConsumer]


def managed(client: KafkaClient, partitions: int = 3) -> Managed:
    return Group(ManagedBalancedConsumer, client, partitions, heartbeat_interval_ms=200)


@pytest.fixture
def group(client: KafkaClient) -> Managed:
    return managed(client)


def test_members_share_and_hand_over_where_they_were(group: Managed) -> None:
    first = group.produce(300)
    one = group.join()
    assert isinstance(one, BalancedConsumer)
    group.sizes(3)
    found = group.drain(100)
    two = group.join()
    group.sizes(1, 2)
    found += group.drain(200)
    assert found == first
    started = time.monotonic()
    two.stop()
    assert two.partitions == {}
    group.members.remove(two)
    group.sizes(3)
    assert time.monotonic() - started < 5  # and not the session timeout of 30 s
    second = group.produce(90, start=1000)
    assert group.drain(90) == second
    assert sum(one.held_offsets.values()) == 390 - 3
    one.stop()
    with pytest.raises(ConsumerStoppedException):
        one.consume()
    third = group.produce(30, start=2000)
    one.start()
    assert group.drain(30) == third


def test_an_unchanged_share_keeps_the_internal_consumer(group: Managed) -> None:
    values = group.produce(60)
    one = group.join()
    found = group.drain(20)
    kept, generation = one._consumer, one._generation_id
    membership_of(one).request_rejoin()
    group.until(lambda: one._generation_id > generation)
    assert one._consumer is kept
    assert found + group.drain(40) == values
    one.commit_offsets()


def test_members_without_a_partition_idle(client: KafkaClient) -> None:
    group = managed(client, partitions=1)
    group.join(consumer_timeout_ms=500)
    group.join(consumer_timeout_ms=500)
    group.sizes(0, 1)
    idle = next(member for member in group.members if not member.partitions)
    assert idle.consume() is None
    assert idle.held_offsets == {}


@pytest.mark.later("threads")
@pytest.mark.later("asyncio")
def test_a_member_that_is_not_heard_of_is_replaced_and_comes_back_as_another(group: Managed) -> None:
    values = group.produce(60)
    one, two = group.join(session_timeout_ms=SESSION_MS), group.join(session_timeout_ms=SESSION_MS)
    group.sizes(1, 2)
    assert group.drain(60) == values
    two.commit_offsets()
    former = two._consumer_id
    membership_of(two).sender.set_target(None)
    group.until(lambda: len(one.partitions) == 3)
    membership_of(two).send_heartbeats()
    group.sizes(1, 2)
    assert two._consumer_id != former
    more = group.produce(30, start=100)
    # What two's auto-commit could not commit any more is said, once.
    assert group.drain(30, OffsetsNotCommitted) == more


@pytest.mark.later("threads")
@pytest.mark.later("greenlets")
def test_who_takes_no_messages_for_too_long_is_out_until_the_next_call(
    group: Managed, caplog: pytest.LogCaptureFixture
) -> None:
    values = group.produce(30)
    one = group.join()
    lazy = group.join(max_poll_interval_ms=1500, consumer_timeout_ms=100, auto_commit_enable=False)
    group.sizes(1, 2)
    group.until(lambda: len(one.partitions) == 3)
    assert lazy.partitions == {}
    assert "max_poll_interval_ms" in caplog.text
    group.client.cluster.handler.sleep(1)
    assert len(one.partitions) == 3
    lazy.consume(block=False)
    group.sizes(1, 2)
    assert group.drain(30) == values


@pytest.mark.later("greenlets")
@pytest.mark.later("asyncio")
def test_waiting_for_messages_is_no_idleness(group: Managed) -> None:
    one = group.join(max_poll_interval_ms=1000, consumer_timeout_ms=3000)
    former = one._consumer_id
    assert one.consume() is None
    assert one._consumer_id == former
    assert len(one.partitions) == 3


def test_members_of_one_process_may_read_different_topics(group: Managed) -> None:
    other = create_topic(group.client, 2)
    one = group.join()
    two = group.join(topic=other)
    alone = other.get_balanced_consumer(f"{group.name}-2", managed=True)
    group.until(lambda: len(one.partitions) == 3 and len(two.partitions) == 2)
    assert {partition.topic for partition in two.partitions.values()} == {other}
    assert len(alone.partitions) == 2
    assert RangeProtocol.metadata.topic_names == [b"dummytopic"]


@pytest.mark.later("threads")
def test_members_that_come_and_go_lose_nothing(group: Managed) -> None:
    """A short churn: whatever is produced is consumed, once."""
    one = group.join(consumer_timeout_ms=200)
    wanted: Counter[bytes | None] = Counter()
    found: Counter[bytes | None] = Counter()
    for turn in range(8):
        guest = group.join(consumer_timeout_ms=200)
        wanted += group.produce(30, start=turn * 100)
        group.until(lambda: sum(map(len, group.shares())) == 3)
        found += group.drain(10)
        guest.stop()
        group.members.remove(guest)
    group.sizes(3)
    found += group.drain(len(wanted) - found.total())
    assert found == wanted
    assert one._generation_id > 8


@pytest.mark.parametrize("protocol", [RangeProtocol, RoundRobinProtocol], ids=["range", "roundrobin"])
def test_each_stock_protocol_divides_the_topic(group: Managed, protocol: GroupMembershipProtocol) -> None:
    group.join(membership_protocol=protocol)
    group.join(membership_protocol=protocol)
    group.sizes(1, 2)


def test_a_protocol_of_the_users_own_is_asked(group: Managed) -> None:
    def all_for_the_last(participants: Any, partitions: Any, consumer_id: Any) -> set[Any]:
        return set(partitions.values()) if consumer_id == max(participants) else set()

    own = GroupMembershipProtocol("consumer", "greedy", ConsumerGroupProtocolMetadata(), all_for_the_last)
    group.join(membership_protocol=own)
    group.join(membership_protocol=own)
    group.sizes(0, 3)


def test_start_raises_what_kept_it_from_its_share(group: Managed) -> None:
    with pytest.raises(InvalidSessionTimeout):
        group.join(session_timeout_ms=20, heartbeat_interval_ms=10)
    with pytest.raises(ValueError, match="heartbeat_interval_ms"):
        group.join(session_timeout_ms=3000, heartbeat_interval_ms=3000)
    member = group.join(auto_start=False)
    with pytest.raises(ConsumerStoppedException):
        member.consume()
    member.start()
    member.start()
    group.sizes(3)


@pytest.mark.parametrize(("unanswered", "retries", "joins"), [(1, 1, True), (2, 1, False), (1, 0, False)])
def test_a_join_that_is_never_answered_is_tried_once_more(
    group: Managed, monkeypatch: pytest.MonkeyPatch, unanswered: int, retries: int, joins: bool
) -> None:
    answered = AbstractCoordinator._send_join
    missing = [ResponseTimeoutError("no answer") for _ in range(unanswered)]

    def join(self: AbstractCoordinator, *args: Any) -> Any:
        if missing:
            group.client.cluster.handler.sleep(0.05)  # longer than all retries may take
            raise missing.pop()
        return answered(self, *args)

    monkeypatch.setattr(AbstractCoordinator, "_send_join", join)
    with nullcontext() if joins else pytest.raises(ResponseTimeoutError):
        group.join(rebalance_max_retries=retries, rebalance_backoff_ms=10)
        group.sizes(3)


def test_the_callback_hears_of_both_shares_and_may_move_them(group: Managed) -> None:
    group.produce(30)
    seen: list[tuple[dict[int, int], dict[int, int]]] = []

    def tell(consumer: Any, old: dict[int, int], new: dict[int, int]) -> dict[int, int]:
        seen.append((old, new))
        return dict.fromkeys(new, 4) if len(seen) == 1 else {}

    one = group.join(post_rebalance_callback=tell)
    assert group.drain(15).total() == 15  # 5 of 10 in each partition were skipped
    group.join()
    group.sizes(1, 2)
    assert set(seen[0][1]) == {0, 1, 2}
    assert seen[1][0] == {0: 9, 1: 9, 2: 9}
    assert set(seen[1][1]) == set(one.partitions)


def test_nothing_is_consumed_until_the_callback_has_gone_through(group: Managed) -> None:
    """It says where to begin: consuming went on without its offsets, after its error had been raised once."""
    failing = True
    told: list[tuple[set[int], set[int]]] = []

    def begin(consumer: Any, old: dict[int, int], new: dict[int, int]) -> dict[int, int] | None:
        told.append((set(old), set(new)))
        if failing:
            raise LookupError("the callback's")
        return dict.fromkeys(new, 4) if len(new) == 3 else None

    group.produce(30)
    with pytest.raises(LookupError, match="the callback's"):
        group.join(post_rebalance_callback=begin)
    one = group.join()  # who failed to start has left: nobody is waited for
    group.sizes(3)
    one.stop()
    failing, group.members = False, []
    two = group.join(post_rebalance_callback=begin)
    found = group.drain(15)  # 5 of 10 in each partition were skipped
    failing = True
    three = group.join()
    for _ in range(2):
        with pytest.raises(LookupError, match="the callback's"):
            for _ in range(1000):
                assert two.consume(block=False) is None
                group.client.cluster.handler.sleep(0.02)
    assert not two.partitions
    attempts = told[-2:]
    assert attempts[0] == attempts[1]
    failing = False
    group.sizes(1, 2)
    assert set(two.partitions) == attempts[0][1]
    assert three.partitions
    assert found.total() == 15
    more = group.produce(30, start=100)
    assert group.drain(30) == more


def test_members_by_the_broker_s_own_calls(client: KafkaClient) -> None:
    topic = create_topic(client, 2)
    group = f"g-{uuid.uuid4().hex[:8]}"
    broker = client.cluster.get_group_coordinator(group)
    joined = broker.join_group("a", group, "", topic.name, RangeProtocol)
    assert joined.error_code == 0
    assert joined.leader_id == joined.member_id
    assert joined.members[joined.member_id].topic_names == [topic.name]
    identity = (group, joined.generation_id, joined.member_id)
    share = MemberAssignment([(topic.name, [0, 1])])
    synced = broker.sync_group("a", *identity, [(joined.member_id, share)])
    assert synced.member_assignment.partition_assignment == [(topic.name, [0, 1])]
    assert broker.heartbeat("b", *identity).error_code == 0
    assert broker._get_unique_req_handler("a") is not broker._get_unique_req_handler("b")
    assert broker.heartbeat("b", group, joined.generation_id, "nobody").error_code == 25
    assert broker.leave_group("b", group, joined.member_id).error_code == 0
    assert broker.heartbeat("b", *identity).error_code == 25


def test_closing_the_client_stops_members_before_what_they_read_with(
    kafka: KafkaCluster, concurrency: Concurrency
) -> None:
    with KafkaClient(hosts=kafka.hosts, **concurrency()) as client:
        group = managed(client)
        group.produce(30)
        for _ in range(4):
            group.join()
        group.sizes(0, 1, 1, 1)
        consumed = [member.consume() for member in group.members if member.partitions]
    with KafkaClient(hosts=kafka.hosts, **concurrency()) as client:
        topic = client.topics[group.topic.name]
        with topic.get_simple_consumer(consumer_group=group.name, auto_offset_reset=OffsetType.EARLIEST) as reader:
            committed = {id_: held + 1 for id_, held in reader.held_offsets.items()}
    assert committed == {message.partition_id: message.offset + 1 for message in consumed if message is not None}
