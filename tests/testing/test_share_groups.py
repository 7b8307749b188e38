"""Share groups, as fake brokers have them, beside what conformance holds them to: time, leaders, connections, gaps."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from pykafka import KafkaClient
from pykafka.admin import ConfigResource, ConfigType
from pykafka.exceptions import (
    GroupMaxSizeReached,
    InvalidRecordState,
    NotLeaderForPartition,
    ShareSessionNotFound,
    UnknownMemberId,
    UnsupportedVersion,
)
from pykafka.protocol import wire
from pykafka.protocol.schema import Request
from pykafka.protocol.wire.share_groups import AcknowledgementBatch
from pykafka.sharegroups.acquired_records import Acknowledged
from pykafka.testing import FakeCluster
from pykafka.testing.groups.share_group import simple_assignment
from tests.testing.connection import connected, handler, produce
from tests.testing.direct import DirectCluster

ACCEPT, RELEASE, RENEW = 1, 2, 4


class Member:
    """A member of the group "g", which reads partition 0 of "orders".

    :param cluster: its brokers
    :param name: its id
    :param node: the broker that it reads from
    """

    def __init__(self, cluster: DirectCluster, name: str = "a", node: int = 1) -> None:
        self.cluster = cluster
        self.name = name
        self.node = node
        self.epoch = 0
        self.topic = cluster.state.topics["orders"].id

    def beat(self, epoch: int = 0) -> wire.ShareGroupHeartbeatResponse:
        request = wire.ShareGroupHeartbeatRequest(group_id="g", member_id=self.name, member_epoch=epoch)
        request.subscribed_topic_names = ["orders"]
        return self.cluster.ask(request)

    def fetch(self) -> Any:
        answer = self.cluster.ask(fetch_request(self.name, self.topic, self.epoch), node=self.node)
        assert not answer.error_code
        self.epoch += 1
        return answer.responses[0].partitions[0] if answer.responses else None

    def counts(self) -> dict[int, int]:
        """Fetch, and return the delivery counts of what was acquired."""
        return counts_of(self.fetch())

    def acknowledge(self, kind: int, first: int, last: int) -> int:
        request = wire.ShareAcknowledgeRequest(group_id="g", member_id=self.name, share_session_epoch=self.epoch)
        one = AcknowledgementBatch(first_offset=first, last_offset=last, acknowledge_types=[kind])
        part = request.Topic.Partition(partition_index=0, acknowledgement_batches=[one])
        request.topics = [request.Topic(topic_id=self.topic, partitions=[part])]
        request.is_renew_ack = kind == RENEW
        self.epoch += 1
        return self.cluster.ask(request, node=self.node).responses[0].partitions[0].error_code


def fetch_request(member: str, topic: UUID, epoch: int) -> wire.ShareFetchRequest:
    request = wire.ShareFetchRequest(group_id="g", member_id=member, share_session_epoch=epoch, max_records=500)
    part = request.Topic.Partition(partition_index=0)
    request.topics = [request.Topic(topic_id=topic, partitions=[part])]
    request.batch_size = 500
    return request


def counts_of(row: Any) -> dict[int, int]:
    if row is None:
        return {}
    return {
        at: one.delivery_count for one in row.acquired_records for at in range(one.first_offset, one.last_offset + 1)
    }


@pytest.fixture
def cluster() -> DirectCluster:
    made = DirectCluster({"orders": 1}, nodes=2)
    made.state.configs.groups["g"] = {"share.auto.offset.reset": "earliest"}
    made.state.topics["orders"].configs["message.timestamp.after.max.ms"] = str(
        2**62
    )  # the cluster's clock stands still
    for value in (b"a", b"b", b"c"):
        made.ask(produce("orders", value), 11)
    return made


@pytest.fixture
def member(cluster: DirectCluster) -> Member:
    made = Member(cluster)
    assert made.beat().assignment is not None
    return made


def test_a_lock_ends_by_the_clusters_clock(cluster: DirectCluster, member: Member) -> None:
    other = Member(cluster, "b")
    assert member.counts() == {0: 1, 1: 1, 2: 1}
    assert member.acknowledge(ACCEPT, 0, 0) == 0
    cluster.advance(20_000)
    assert member.acknowledge(RENEW, 2, 2) == 0
    cluster.advance(9_000)
    assert other.counts() == {}
    cluster.advance(2_000)
    assert other.counts() == {1: 2}
    assert member.acknowledge(ACCEPT, 1, 1) == InvalidRecordState.ERROR_CODE
    assert member.acknowledge(ACCEPT, 2, 2) == 0
    cluster.advance(29_000)
    assert cluster.state.groups.shares.of_group("g")[member.topic, 0].start == 1  # it has not been accepted
    cluster.advance(2_000)
    assert other.counts() == {1: 3}


def test_a_lock_lasts_as_long_as_its_group_says(cluster: DirectCluster, member: Member) -> None:
    cluster.state.configs.groups["g"]["share.record.lock.duration.ms"] = "15000"
    assert len(member.counts()) == 3
    cluster.advance(16_000)
    assert Member(cluster, "b").counts() == {0: 2, 1: 2, 2: 2}


def test_a_members_session_ends_but_not_its_locks(cluster: DirectCluster, member: Member) -> None:
    cluster.state.configs.groups["g"]["share.record.lock.duration.ms"] = "60000"
    assert len(member.counts()) == 3
    cluster.advance(46_000)
    assert member.beat(2).error_code == UnknownMemberId.ERROR_CODE
    assert cluster.ask(wire.ShareGroupDescribeRequest(group_ids=["g"])).groups[0].group_state == "Empty"
    assert Member(cluster, "b").counts() == {}


def test_a_new_leader_knows_no_locks_and_what_was_written(cluster: DirectCluster, member: Member) -> None:
    assert len(member.counts()) == 3
    assert member.acknowledge(RELEASE, 2, 2) == 0
    partition = cluster.state.topics["orders"].partitions[0]
    partition.replicas = partition.isr = [1, 2]
    partition.elect(2)
    assert member.fetch().error_code == NotLeaderForPartition.ERROR_CODE
    row = member.fetch()
    assert (row.current_leader.leader_id, row.current_leader.leader_epoch) == (2, 1)
    assert member.acknowledge(ACCEPT, 0, 0) == NotLeaderForPartition.ERROR_CODE
    assert Member(cluster, "b", node=2).counts() == {0: 1, 1: 1, 2: 2}


def test_compaction_leaves_gaps_that_are_archived(cluster: DirectCluster, member: Member) -> None:
    log = cluster.state.topics["orders"].partitions[0].log
    assert len(member.counts()) == 3
    assert member.acknowledge(RELEASE, 0, 2) == 0
    log.batches, log._ends = log.batches[2:], log._ends[2:]
    assert member.counts() == {2: 2}


@pytest.mark.parametrize(
    ("reset", "first"),
    [("earliest", 0), ("latest", 3), ("by_duration:PT1H", 0), ("by_duration:P1DT2H3M4.5S", 0), ("by_duration:PT0S", 3)],
)
def test_where_a_group_begins(cluster: DirectCluster, reset: str, first: int) -> None:
    for batch in cluster.state.topics["orders"].partitions[0].log.batches:
        batch.max_timestamp = cluster.state.now_ms() - (0 if reset.endswith("0S") else 1000)
    cluster.state.configs.groups["g"]["share.auto.offset.reset"] = reset
    if reset.endswith("0S"):
        cluster.advance(1)
    member = Member(cluster)
    member.beat()
    found = member.counts()
    cluster.ask(produce("orders", b"d"), 11)
    assert min(found or member.counts()) == first


@pytest.mark.parametrize(
    "request_",
    [
        wire.ShareGroupHeartbeatRequest(group_id="g", member_id="a", subscribed_topic_names=["orders"]),
        wire.ShareGroupDescribeRequest(group_ids=["g"]),
        wire.ShareFetchRequest(group_id="g", member_id="a"),
        wire.ShareAcknowledgeRequest(group_id="g", member_id="a"),
        wire.DescribeShareGroupOffsetsRequest(groups=[wire.DescribeShareGroupOffsetsRequest.Group(group_id="g")]),
        wire.AlterShareGroupOffsetsRequest(group_id="g"),
        wire.DeleteShareGroupOffsetsRequest(group_id="g"),
    ],
    ids=lambda request: type(request).__name__,
)
def test_without_the_feature_all_is_refused(cluster: DirectCluster, request_: Request[Any]) -> None:
    cluster.state.features.levels["share.version"] = 0
    answer: Any = cluster.ask(request_)
    places = getattr(answer, "groups", None) or [answer]
    assert [place.error_code for place in places] == [UnsupportedVersion.ERROR_CODE]


def test_a_group_has_no_more_members_than_brokers_allow(cluster: DirectCluster, member: Member) -> None:
    cluster.state.configs.brokers[""]["group.share.max.size"] = "1"
    assert Member(cluster, "b").beat().error_code == GroupMaxSizeReached.ERROR_CODE
    assert member.beat().error_code == 0


def test_a_session_ends_with_its_connection() -> None:
    with FakeCluster(1, topics={"orders": 1}) as cluster:
        state = cluster._state
        state.configs.groups["g"] = {"share.auto.offset.reset": "earliest"}
        topic = state.topics["orders"].id
        with connected(cluster) as other:
            with connected(cluster) as first:
                beat = wire.ShareGroupHeartbeatRequest(group_id="g", member_id="a", subscribed_topic_names=["orders"])
                assert first.ask(beat).error_code == 0
                first.ask(produce("orders", b"a"), 11)
                assert counts_of(first.ask(fetch_request("a", topic, 0)).responses[0].partitions[0]) == {0: 1}
            request = fetch_request("b", topic, 0)
            request.max_wait_ms, request.min_bytes = 10_000, 1  # it waits until the broker has noticed
            assert counts_of(other.ask(request).responses[0].partitions[0]) == {0: 2}
            answer = other.ask(fetch_request("a", topic, 1))
            assert answer.error_code == ShareSessionNotFound.ERROR_CODE


@pytest.mark.parametrize("trouble", ["leader", "coordinator", "hang_up", "stop", "ShareFetch", "ShareAcknowledge"])
def test_a_share_consumer_accepts_all_in_spite_of_trouble(trouble: str) -> None:
    accepted: set[int] = set()

    def note(done: Acknowledged) -> None:
        accepted.update(() if done.error else done.offsets)

    with FakeCluster(3) as cluster, KafkaClient(cluster.hosts) as client:
        cluster.create_topic("orders", 1, 3)
        client.admin.alter_configs({ConfigResource(ConfigType.GROUP, "g"): {"share.auto.offset.reset": "earliest"}})
        with client.producer() as producer:
            for value in (b"a", b"b"):
                producer.produce("orders", value).get(10)
        with client.share_consumer("orders", group="g", acknowledgement="explicit", on_acknowledge=note) as consumer:
            records = consumer.poll(timeout=10)
            assert len(records) == 2
            leader = cluster.leader("orders", 0)
            assert leader is not None
            if trouble == "leader":
                cluster.set_leader("orders", 0, leader % 3 + 1)
            elif trouble == "coordinator":
                for broker in (1, 2, 3):
                    cluster.set_coordinator("g", broker)
            elif trouble in ("hang_up", "stop"):
                getattr(cluster, trouble)(leader)
            else:
                cluster.fail(trouble, "SHARE_SESSION_NOT_FOUND")
            deadline = handler.now() + 20
            while accepted != {0, 1} and handler.now() < deadline:
                for record in records:
                    consumer.accept(record)
                consumer.commit(5)
                records = consumer.poll(timeout=0.2)
            assert accepted == {0, 1}


@pytest.mark.parametrize("partitions", [1, 2, 3, 8])
@pytest.mark.parametrize("members", [1, 2, 3, 5, 9])
def test_the_simple_assignor_is_even(members: int, partitions: int) -> None:
    """As members come one after another, each has a partition, each partition a reader, and kept ones stay."""
    keys = [(UUID(int=1), number) for number in range(partitions)]
    shares: dict[str, set[tuple[UUID, int]]] = {}
    for count in range(1, members + 1):
        shares = simple_assignment({f"m{number}": keys for number in range(count)}, shares)
        sizes = [len(share) for share in shares.values()]
        assert 1 <= min(sizes) <= max(sizes) <= min(sizes) + 1
        assert set().union(*shares.values()) == set(keys)


def test_the_simple_assignor_gives_members_what_they_read() -> None:
    a, b = (UUID(int=1), 0), (UUID(int=2), 0)
    shares = simple_assignment({"m": [a], "n": [b], "o": [a, b]}, {"m": {b}})
    assert shares["m"] == {a}
    assert shares["n"] == {b}
    assert shares["o"]
