"""Groups that the brokers keep: shares, handing over, heartbeats while the application is busy, and what ends them."""

from __future__ import annotations

import subprocess
import sys
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from pykafka import BalancedConsumer, KafkaClient, ManagedBalancedConsumer
from pykafka.exceptions import ConsumerStoppedException, InvalidSessionTimeout, OffsetsNotCommitted
from pykafka.handlers.patching import original
from pykafka.membershipprotocol import GroupMembershipProtocol, RangeProtocol, RoundRobinProtocol
from pykafka.protocol import ConsumerGroupProtocolMetadata, MemberAssignment
from pykafka.topic import Topic
from tests.brokers import KafkaCluster
from tests.topics import create_topic

pytestmark = pytest.mark.kafka

#: The shortest session that brokers allow by default (ms).
SESSION_MS = 6000


@pytest.fixture(params=[False, True], ids=["threads", "greenlets"])
def client(request: pytest.FixtureRequest, kafka: KafkaCluster) -> Iterator[KafkaClient]:
    with KafkaClient(hosts=kafka.hosts, use_greenlets=request.param) as client:
        yield client


class Group:
    """Members of one group, made as the test calls for them."""

    def __init__(self, client: KafkaClient, partitions: int = 3) -> None:
        self.client = client
        self.name = f"g-{uuid.uuid4().hex[:8]}"
        self.topic: Topic = create_topic(client, partitions)
        self.members: list[ManagedBalancedConsumer] = []

    def join(self, topic: Topic | None = None, **kwargs: Any) -> ManagedBalancedConsumer:
        settings = {
            "consumer_timeout_ms": 10_000,
            "auto_commit_enable": True,
            "heartbeat_interval_ms": 200,
            "rebalance_backoff_ms": 300,
            **kwargs,
        }
        member = (topic or self.topic).get_balanced_consumer(self.name, managed=True, **settings)
        assert isinstance(member, ManagedBalancedConsumer)
        self.members.append(member)
        return member

    def produce(self, count: int, start: int = 0) -> Counter[bytes | None]:
        values = [b"%d" % number for number in range(start, start + count)]
        with self.topic.get_producer(linger_ms=1) as producer:
            for value in values:
                producer.produce(value)
        return Counter(values)

    def until(self, happened: Callable[[], object], seconds: float = 20) -> None:
        deadline = time.monotonic() + seconds
        while not happened():
            assert time.monotonic() < deadline, f"shares: {self.shares()}"
            self.client.cluster.handler.sleep(0.02)

    def shares(self) -> list[list[int]]:
        return [sorted(member.partitions) for member in self.members]

    def sizes(self, *sizes: int) -> None:
        """Wait until the members' shares are this large, and divide the topic."""

        def divided() -> bool:
            found = [id_ for share in self.shares() for id_ in share]
            whole = sorted(found) == sorted(self.topic.partitions)
            return whole and sorted(map(len, self.shares())) == sorted(sizes)

        self.until(divided)

    def drain(self, count: int) -> Counter[bytes | None]:
        """Consume so many messages with all members in turn."""
        found: Counter[bytes | None] = Counter()

        def done() -> bool:
            for member in self.members:
                while found.total() < count and (message := member.consume(block=False)) is not None:
                    found[message.value] += 1
            return found.total() >= count

        self.until(done)
        return found


@pytest.fixture
def group(client: KafkaClient) -> Group:
    return Group(client)


def test_members_share_and_hand_over_where_they_were(group: Group) -> None:
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


def test_an_unchanged_share_keeps_the_internal_consumer(group: Group) -> None:
    values = group.produce(60)
    one = group.join()
    found = group.drain(20)
    kept, generation = one._consumer, one._generation_id
    one._member.request_rejoin()
    group.until(lambda: one._generation_id > generation)
    assert one._consumer is kept
    assert found + group.drain(40) == values
    one.commit_offsets()


def test_members_without_a_partition_idle(client: KafkaClient) -> None:
    group = Group(client, partitions=1)
    group.join(consumer_timeout_ms=500)
    group.join(consumer_timeout_ms=500)
    group.sizes(0, 1)
    idle = next(member for member in group.members if not member.partitions)
    assert idle.consume() is None
    assert idle.held_offsets == {}


def test_a_member_that_is_not_heard_of_is_replaced_and_comes_back_as_another(group: Group) -> None:
    values = group.produce(60)
    one, two = group.join(session_timeout_ms=SESSION_MS), group.join(session_timeout_ms=SESSION_MS)
    group.sizes(1, 2)
    assert group.drain(60) == values
    two.commit_offsets()
    former = two._consumer_id
    two._member.heartbeat_task.disable()
    group.until(lambda: len(one.partitions) == 3)
    two._member.heartbeat_task.reset()
    group.sizes(1, 2)
    assert two._consumer_id != former
    more = group.produce(30, start=100)

    def drained() -> Counter[bytes | None]:
        try:
            return group.drain(30)
        except OffsetsNotCommitted:  # what two's auto-commit could not commit any more, said once
            return group.drain(30)

    assert drained() == more


def test_a_busy_application_stays_a_member(group: Group) -> None:
    one = group.join(session_timeout_ms=SESSION_MS, heartbeat_interval_ms=1000)
    other = group.join(session_timeout_ms=SESSION_MS, heartbeat_interval_ms=1000)
    group.sizes(1, 2)
    before = [(member._consumer_id, member._generation_id) for member in (one, other)]
    original("time", "sleep")(SESSION_MS / 1000 + 2)  # holds a hub, if there is one
    group.client.cluster.handler.sleep(0.5)
    assert [(member._consumer_id, member._generation_id) for member in (one, other)] == before
    one.commit_offsets()


BUSY = """
import sys
hosts, topic, greenlets, patched = sys.argv[1], sys.argv[2], sys.argv[3] == "1", sys.argv[4] == "1"
if patched:
    from gevent import monkey
    monkey.patch_all()
import time
from pykafka import KafkaClient
with KafkaClient(hosts=hosts, use_greenlets=greenlets) as client:
    consumer = client.topics[topic].get_balanced_consumer(
        "busy", managed=True, session_timeout_ms=6000, heartbeat_interval_ms=1000, consumer_timeout_ms=100)
    before = consumer._consumer_id, consumer._generation_id
    until = time.monotonic() + 8
    while time.monotonic() < until:
        sum(range(1000))
    client.cluster.handler.sleep(1.5)
    assert (consumer._consumer_id, consumer._generation_id) == before
    assert not consumer._member.need_rejoin()
    consumer.commit_offsets()
print("still a member")
"""


@pytest.mark.slow
@pytest.mark.parametrize(("greenlets", "patched"), [("0", "0"), ("1", "0"), ("0", "1"), ("1", "1")])
def test_who_computes_for_longer_than_a_session_stays_a_member(
    kafka: KafkaCluster, greenlets: str, patched: str
) -> None:
    with KafkaClient(hosts=kafka.hosts) as client:
        topic = create_topic(client, 1)
    done = subprocess.run(
        [sys.executable, "-c", BUSY, kafka.hosts, topic.name, greenlets, patched],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.stdout == "still a member\n", done.stderr


def test_who_takes_no_messages_for_too_long_is_out_until_the_next_call(
    group: Group, caplog: pytest.LogCaptureFixture
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


def test_waiting_for_messages_is_no_idleness(group: Group) -> None:
    one = group.join(max_poll_interval_ms=1000, consumer_timeout_ms=3000)
    former = one._consumer_id
    assert one.consume() is None
    assert one._consumer_id == former
    assert len(one.partitions) == 3


def test_members_of_one_process_may_read_different_topics(group: Group) -> None:
    other = create_topic(group.client, 2)
    one = group.join()
    two = group.join(topic=other)
    alone = other.get_balanced_consumer(f"{group.name}-2", managed=True)
    group.until(lambda: len(one.partitions) == 3 and len(two.partitions) == 2)
    assert {partition.topic for partition in two.partitions.values()} == {other}
    assert len(alone.partitions) == 2
    assert RangeProtocol.metadata.topic_names == [b"dummytopic"]


def test_members_that_come_and_go_lose_nothing(group: Group) -> None:
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
def test_each_stock_protocol_divides_the_topic(group: Group, protocol: GroupMembershipProtocol) -> None:
    group.join(membership_protocol=protocol)
    group.join(membership_protocol=protocol)
    group.sizes(1, 2)


def test_a_protocol_of_the_users_own_is_asked(group: Group) -> None:
    def all_for_the_last(participants: Any, partitions: Any, consumer_id: Any) -> set[Any]:
        return set(partitions.values()) if consumer_id == max(participants) else set()

    own = GroupMembershipProtocol("consumer", "greedy", ConsumerGroupProtocolMetadata(), all_for_the_last)
    group.join(membership_protocol=own)
    group.join(membership_protocol=own)
    group.sizes(0, 3)


def test_start_raises_what_kept_it_from_its_share(group: Group) -> None:
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


def test_the_callback_hears_of_both_shares_and_may_move_them(group: Group) -> None:
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


def test_an_error_of_the_callback_surfaces_once(group: Group) -> None:
    def fail(*_: Any) -> None:
        raise LookupError("the callback's")

    values = group.produce(10)
    one = group.join(post_rebalance_callback=fail)
    with pytest.raises(LookupError, match="the callback's"):
        one.consume()
    assert group.drain(10) == values


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
