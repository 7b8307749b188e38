"""Committed offsets of groups, as fake brokers keep them."""

from __future__ import annotations

from uuid import uuid4

import pytest

from pykafka.exceptions import (
    GroupIdNotFound,
    GroupSubscribedToTopic,
    IllegalGeneration,
    InvalidGroupId,
    NonEmptyGroup,
    NotCoordinatorForGroup,
    OffsetMetadataTooLarge,
    RebalanceInProgress,
    StaleMemberEpoch,
    UnknownMemberId,
    UnknownTopicId,
    UnknownTopicOrPartition,
    UnstableOffsetCommit,
    UnsupportedVersion,
)
from pykafka.protocol import wire
from tests.testing.direct import ClassicPeer, ConsumerPeer, DirectCluster
from tests.testing.test_groups import stable

_DAY_MS = 24 * 3600 * 1000


@pytest.fixture
def cluster() -> DirectCluster:
    return DirectCluster({"orders": 4, "other": 1})


def commit(
    cluster: DirectCluster,
    offset: int = 5,
    version: int = 10,
    member: ClassicPeer | ConsumerPeer | None = None,
    epoch: int | None = None,
    partition: int = 0,
    metadata: str = "",
    topic: str = "orders",
    group: str = "g",
    keep_ms: int = -1,
) -> int:
    """Commit an offset, and return the error code."""
    listed, known = wire.OffsetCommitRequest.Topic, cluster.state.topics.get(topic)
    one = listed.Partition(partition_index=partition, committed_offset=offset, committed_metadata=metadata)
    of_member = member.generation if isinstance(member, ClassicPeer) else -1 if member is None else member.epoch
    request = wire.OffsetCommitRequest(
        group_id=group,
        generation_id_or_member_epoch=of_member if epoch is None else epoch,
        member_id="" if member is None else member.member_id,
        retention_time_ms=keep_ms,
        topics=[listed(name=topic, topic_id=uuid4() if known is None else known.id, partitions=[one])],
    )
    return cluster.ask(request, version).topics[0].partitions[0].error_code


def commit_in_transaction(
    cluster: DirectCluster, offset: int, member: ConsumerPeer | None = None, epoch: int = -1
) -> int:
    listed = wire.TxnOffsetCommitRequest.Topic
    one = listed.Partition(partition_index=0, committed_offset=offset, committed_metadata="")
    request = wire.TxnOffsetCommitRequest(
        transactional_id="t",
        group_id="g",
        producer_id=7,
        producer_epoch=0,
        generation_id_or_member_epoch=epoch,
        member_id="" if member is None else member.member_id,
        topics=[listed(name="orders", partitions=[one])],
    )
    return cluster.ask(request, 3).topics[0].partitions[0].error_code


def fetched(cluster: DirectCluster, version: int = 10, *, require_stable: bool = False) -> tuple[int, int]:
    """Return the committed offset of the first partition, and the error code."""
    topic = cluster.state.topics.get("orders")
    if version < 8:
        asked = wire.OffsetFetchRequest.Topic(name="orders", partition_indexes=[0])
        old = wire.OffsetFetchRequest(group_id="g", topics=[asked], require_stable=require_stable)
        partition = cluster.ask(old, version).topics[0].partitions[0]
        return partition.committed_offset, partition.error_code
    group = wire.OffsetFetchRequest.Group
    by_id = group.Topic(name="orders", topic_id=topic.id if topic else uuid4(), partition_indexes=[0])
    request = wire.OffsetFetchRequest(groups=[group(group_id="g", topics=[by_id])], require_stable=require_stable)
    one = cluster.ask(request, version).groups[0].topics[0].partitions[0]
    return one.committed_offset, one.error_code


@pytest.mark.parametrize("version", range(1, 11))
def test_an_offset_is_committed_and_fetched_in_all_versions(cluster: DirectCluster, version: int) -> None:
    assert fetched(cluster, version) == (-1, 0)
    assert commit(cluster, 7, version) == 0
    assert fetched(cluster, version) == (7, 0)


def test_all_offsets_of_several_groups(cluster: DirectCluster) -> None:
    for group, topic, partition in (("g", "orders", 1), ("g", "other", 0), ("h", "orders", 3)):
        assert commit(cluster, 3, topic=topic, partition=partition, group=group, metadata="m") == 0
    asked = [wire.OffsetFetchRequest.Group(group_id=name, topics=None) for name in ("g", "h", "none")]
    answer = cluster.ask(wire.OffsetFetchRequest(groups=asked), 9)
    found = {
        group.group_id: [
            (topic.name, one.partition_index, one.metadata) for topic in group.topics for one in topic.partitions
        ]
        for group in answer.groups
    }
    assert found == {"g": [("orders", 1, "m"), ("other", 0, "m")], "h": [("orders", 3, "m")], "none": []}


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"topic": "none"}, UnknownTopicId),
        ({"topic": "none", "version": 9}, UnknownTopicOrPartition),
        ({"partition": 4}, UnknownTopicOrPartition),
        ({"metadata": "x" * 4097}, OffsetMetadataTooLarge),
        ({"epoch": 3}, GroupIdNotFound),
        ({"epoch": 3, "version": 8}, IllegalGeneration),
    ],
)
def test_offsets_that_are_refused(
    cluster: DirectCluster, changes: dict[str, object], code: type[UnknownTopicId]
) -> None:
    assert commit(cluster, **changes) == code.ERROR_CODE  # type: ignore[arg-type]
    assert fetched(cluster) == (-1, 0)


def test_members_alone_commit_while_a_classic_group_has_some(cluster: DirectCluster) -> None:
    member = ClassicPeer(cluster)
    stable(cluster, member)
    assert commit(cluster) == UnknownMemberId.ERROR_CODE
    assert commit(cluster, member=member, epoch=9) == IllegalGeneration.ERROR_CODE
    assert commit(cluster, member=member) == 0
    other = ClassicPeer(cluster)
    joining = other.join()
    assert commit(cluster, member=member) == 0  # it has not joined again yet
    member.joined(member.join())
    other.joined(joining)
    assert commit(cluster, member=member) == RebalanceInProgress.ERROR_CODE


def test_a_commit_keeps_a_session(cluster: DirectCluster) -> None:
    member = ClassicPeer(cluster)
    stable(cluster, member)
    for _ in range(3):
        cluster.advance(9_000)
        assert commit(cluster, member=member) == 0
    assert member.heartbeat() == 0


def test_epochs_of_a_consumer_group(cluster: DirectCluster) -> None:
    first, second = ConsumerPeer(cluster, "a"), ConsumerPeer(cluster, "b")
    first.settle()
    assert commit(cluster) == UnknownMemberId.ERROR_CODE
    assert commit(cluster, member=first, version=8) == UnsupportedVersion.ERROR_CODE
    assert commit(cluster, member=first, epoch=first.epoch + 1) == StaleMemberEpoch.ERROR_CODE
    second.heartbeat()
    first.settle()
    second.settle()
    kept = min(index for _, index in first.owned)
    lost = min(index for _, index in second.owned)
    assert first.epoch == 3
    assert commit(cluster, member=first, epoch=2, partition=kept) == 0  # KIP-1251: its own since epoch 2
    assert commit(cluster, member=first, epoch=2, partition=lost) == StaleMemberEpoch.ERROR_CODE
    cluster.state.groups.settings.has_assignment_epochs = False
    assert commit(cluster, member=first, epoch=2, partition=kept) == StaleMemberEpoch.ERROR_CODE
    assert commit(cluster, member=first, partition=kept) == 0


@pytest.mark.parametrize(
    ("member_id", "epoch", "code"),
    [("a", 2, 0), (None, -1, 0), ("a", 7, StaleMemberEpoch.ERROR_CODE), ("x", 1, UnknownMemberId.ERROR_CODE)],
)
def test_who_may_fetch(cluster: DirectCluster, member_id: str | None, epoch: int, code: int) -> None:
    ConsumerPeer(cluster, "a").heartbeat()
    asked = wire.OffsetFetchRequest.Group(group_id="g", member_id=member_id, member_epoch=epoch, topics=None)
    assert cluster.ask(wire.OffsetFetchRequest(groups=[asked])).groups[0].error_code == code


@pytest.mark.parametrize(("is_commit", "offset"), [(True, 9), (False, 5)])
def test_offsets_of_transactions(cluster: DirectCluster, is_commit: bool, offset: int) -> None:
    commit(cluster, 5)
    cluster.state.offsets.commit_pending(7, "g", "orders", 0, 9)
    assert fetched(cluster) == (5, 0)
    assert fetched(cluster, require_stable=True) == (-1, UnstableOffsetCommit.ERROR_CODE)
    assert fetched(cluster, 7, require_stable=True) == (-1, UnstableOffsetCommit.ERROR_CODE)
    cluster.state.offsets.end_transaction(7, 0, ["g"], is_commit)
    assert fetched(cluster, require_stable=True) == (offset, 0)


def test_a_later_commit_outlasts_the_transaction(cluster: DirectCluster) -> None:
    cluster.state.offsets.commit_pending(7, "g", "orders", 0, 9)
    commit(cluster, 5)
    cluster.state.offsets.end_transaction(7, 0, ["g"], True)
    assert fetched(cluster) == (5, 0)


def test_offsets_end_with_their_topic(cluster: DirectCluster) -> None:
    commit(cluster, 5)
    cluster.delete_topic("orders")
    assert fetched(cluster) == (-1, UnknownTopicId.ERROR_CODE)
    assert fetched(cluster, 9) == (-1, 0)
    cluster.create_topic("orders", 4)
    assert fetched(cluster) == (-1, 0)
    assert cluster.state.offsets.of_group("g") == {}


def test_offsets_expire_with_an_empty_group(cluster: DirectCluster) -> None:
    member = ClassicPeer(cluster)
    member.session_timeout_ms = 1_800_000
    stable(cluster, member)
    commit(cluster, 5, member=member)
    for _ in range(8 * 96):
        assert member.heartbeat() == 0
        cluster.advance(_DAY_MS // 96)
    assert fetched(cluster) == (5, 0)
    member.leave()
    cluster.advance(7 * _DAY_MS - 3_600_000)
    assert fetched(cluster) == (5, 0)
    cluster.advance(3_600_000)
    cluster.advance(600_000)
    assert fetched(cluster) == (-1, 0)
    assert cluster.state.groups.get("g") is None


def test_old_commits_say_how_long_they_are_kept(cluster: DirectCluster) -> None:
    commit(cluster, 5, version=4, keep_ms=1_000)
    cluster.advance(600_000)
    assert fetched(cluster) == (-1, 0)


@pytest.mark.parametrize(
    ("topic", "partition", "code"),
    [("other", 0, 0), ("orders", 0, GroupSubscribedToTopic.ERROR_CODE),
     ("other", 3, UnknownTopicOrPartition.ERROR_CODE), ("none", 0, UnknownTopicOrPartition.ERROR_CODE)],
)  # fmt: skip
@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_offsets_are_deleted(cluster: DirectCluster, topic: str, partition: int, code: int, protocol: str) -> None:
    commit(cluster, 5, topic="other")
    if protocol == "classic":
        stable(cluster, ClassicPeer(cluster))
    else:
        ConsumerPeer(cluster, "a").heartbeat()
    listed = wire.OffsetDeleteRequest.Topic
    request = wire.OffsetDeleteRequest(
        group_id="g", topics=[listed(name=topic, partitions=[listed.Partition(partition_index=partition)])]
    )
    answer = cluster.ask(request)
    assert answer.error_code == 0
    assert answer.topics[0].partitions[0].error_code == code
    assert (cluster.state.offsets.get("g", "other", 0) is None) is (code == 0)


def test_offsets_of_groups_that_do_not_read_topics_stay(cluster: DirectCluster) -> None:
    assert cluster.ask(wire.OffsetDeleteRequest(group_id="g")).error_code == GroupIdNotFound.ERROR_CODE
    worker = ClassicPeer(cluster)
    worker.protocol_type = "connect"
    stable(cluster, worker)
    assert cluster.ask(wire.OffsetDeleteRequest(group_id="g")).error_code == NonEmptyGroup.ERROR_CODE


def test_only_the_coordinator_takes_offsets() -> None:
    cluster = DirectCluster({"orders": 1}, nodes=2)
    cluster.state.coordinators["group", "g"] = 2
    assert commit(cluster) == NotCoordinatorForGroup.ERROR_CODE
    asked = wire.OffsetFetchRequest.Group(group_id="g", topics=None)
    answer = cluster.ask(wire.OffsetFetchRequest(groups=[asked]))
    assert answer.groups[0].error_code == NotCoordinatorForGroup.ERROR_CODE


def test_a_transaction_needs_a_group(cluster: DirectCluster) -> None:
    request = wire.TxnOffsetCommitRequest(group_id="", transactional_id="t")
    listed = wire.TxnOffsetCommitRequest.Topic
    request.topics = [listed(name="orders", partitions=[listed.Partition(partition_index=0, committed_offset=1)])]
    assert cluster.ask(request, 3).topics[0].partitions[0].error_code == InvalidGroupId.ERROR_CODE
