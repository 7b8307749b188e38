"""The classic protocol, as fake brokers coordinate it."""

from __future__ import annotations

from typing import Any

import pytest

from pykafka.exceptions import (
    FencedInstanceId,
    GroupIdNotFound,
    GroupMaxSizeReached,
    IllegalGeneration,
    InconsistentGroupProtocol,
    InvalidGroupId,
    InvalidSessionTimeout,
    MemberIdRequired,
    NonEmptyGroup,
    NotCoordinatorForGroup,
    RebalanceInProgress,
    UnknownMemberId,
)
from pykafka.protocol import wire
from pykafka.protocol.schema import Request
from pykafka.testing.groups.pending_answer import Client
from tests.testing.direct import ClassicPeer, DirectCluster


@pytest.fixture
def cluster() -> DirectCluster:
    return DirectCluster({"orders": 4})


def stable(cluster: DirectCluster, *members: ClassicPeer) -> None:
    """Join and sync; each gets its member id as its assignment."""
    held = [member.join() for member in members]
    cluster.advance(100)
    cluster.advance(100)
    for member, one in zip(members, held, strict=True):
        member.joined(one)
    syncs = [member.sync() for member in members[1:]]
    own = members[0].sync({member.member_id: member.member_id.encode() for member in members})
    for member, sync in zip(members, [own, *syncs], strict=True):
        assert sync.answer is not None
        assert sync.answer.error_code == 0
        assert sync.answer.assignment == member.member_id.encode()


def state_of(cluster: DirectCluster) -> str:
    return cluster.ask(wire.DescribeGroupsRequest(groups=["g"])).groups[0].group_state


def test_members_go_through_all_states(cluster: DirectCluster) -> None:
    first, second = ClassicPeer(cluster), ClassicPeer(cluster)
    joins = [first.join(), second.join()]
    assert state_of(cluster) == "PreparingRebalance"
    cluster.advance(100)
    assert joins[0].answer is None  # the second one has come meanwhile: the delay begins again
    cluster.advance(100)
    answers = [first.joined(joins[0]), second.joined(joins[1])]
    assert state_of(cluster) == "CompletingRebalance"
    assert [answer.leader for answer in answers] == [first.member_id] * 2
    assert [len(answer.members) for answer in answers] == [2, 0]
    assert answers[0].protocol_name == "range"
    waiting = second.sync()
    assert not waiting.is_answered
    assert first.sync({second.member_id: b"b"}).is_answered
    assert waiting.answer is not None
    assert waiting.answer.assignment == b"b"
    assert state_of(cluster) == "Stable"
    assert (first.leave(), second.leave()) == (0, 0)
    assert state_of(cluster) == "Empty"


def test_a_rebalance_reaches_members_by_heartbeats(cluster: DirectCluster) -> None:
    first, second = ClassicPeer(cluster), ClassicPeer(cluster)
    stable(cluster, first)
    joining = second.join()
    assert first.heartbeat() == RebalanceInProgress.ERROR_CODE
    assert joining.answer is None
    first.joined(first.join())
    second.joined(joining)
    assert first.generation == second.generation == 2


@pytest.mark.parametrize(
    ("version", "code"), [(0, 0), (3, 0), (4, MemberIdRequired.ERROR_CODE), (9, MemberIdRequired.ERROR_CODE)]
)
def test_a_member_id_is_given_first(cluster: DirectCluster, version: int, code: int) -> None:
    with cluster.state.lock:
        held = cluster.state.groups.join(ClassicPeer(cluster).join_request(), Client("peer", "", version))
    cluster.advance(100)
    cluster.advance(100)
    assert held.answer is not None
    assert held.answer.error_code == code
    assert held.answer.member_id.startswith("peer-")


def test_an_id_that_does_not_come_back_holds_the_rebalance_for_a_session(cluster: DirectCluster) -> None:
    member = ClassicPeer(cluster)
    stable(cluster, member)
    with cluster.state.lock:
        cluster.state.groups.join(ClassicPeer(cluster).join_request(), Client("peer", "", 9))
    other = ClassicPeer(cluster)
    waiting = other.join()
    assert member.join().answer is None
    assert waiting.answer is None
    cluster.advance(10_000)
    assert other.joined(waiting).generation_id == 2


def test_a_silent_member_is_put_out_after_its_session(cluster: DirectCluster) -> None:
    first, second = ClassicPeer(cluster), ClassicPeer(cluster)
    stable(cluster, first, second)
    cluster.advance(9_000)
    assert first.heartbeat() == 0
    cluster.advance(2_000)
    assert first.heartbeat() == RebalanceInProgress.ERROR_CODE
    assert second.heartbeat() == UnknownMemberId.ERROR_CODE
    assert first.joined(first.join()).members[0].member_id == first.member_id


def test_a_member_that_does_not_rejoin_is_put_out_after_the_rebalance_timeout(cluster: DirectCluster) -> None:
    first, second = ClassicPeer(cluster), ClassicPeer(cluster)
    stable(cluster, first, second)
    joining = first.join()
    for _ in range(6):
        assert second.heartbeat() == RebalanceInProgress.ERROR_CODE
        cluster.advance(9_000)
    assert joining.answer is None
    cluster.advance(6_000)
    assert first.joined(joining).generation_id == 2
    assert second.heartbeat() == UnknownMemberId.ERROR_CODE


def test_members_that_do_not_sync_are_put_out(cluster: DirectCluster) -> None:
    first, second = ClassicPeer(cluster), ClassicPeer(cluster)
    first.session_timeout_ms = second.session_timeout_ms = 100_000
    held = first.join(), second.join()
    cluster.advance(100)
    cluster.advance(100)
    first.joined(held[0])
    second.joined(held[1])
    assert first.sync({}).answer is not None
    cluster.advance(60_000)
    assert second.heartbeat() == UnknownMemberId.ERROR_CODE
    assert first.heartbeat() == RebalanceInProgress.ERROR_CODE


@pytest.mark.parametrize(("change", "code"), [("generation", IllegalGeneration), ("member_id", UnknownMemberId)])
def test_strangers_and_former_generations_are_refused(
    cluster: DirectCluster, change: str, code: type[IllegalGeneration]
) -> None:
    member = ClassicPeer(cluster)
    stable(cluster, member)
    setattr(member, change, 7 if change == "generation" else "nobody")
    assert member.heartbeat() == code.ERROR_CODE
    with pytest.raises(code):
        member.sync()


def test_protocols_are_chosen_by_votes_among_those_of_all(cluster: DirectCluster) -> None:
    offers = [("sticky", "range", "own"), ("range", "roundrobin"), ("roundrobin", "range")]
    members = [ClassicPeer(cluster, assignors=names) for names in offers]
    held = [member.join() for member in members]
    for _ in range(3):
        cluster.advance(100)
    assert {member.joined(one).protocol_name for member, one in zip(members, held, strict=True)} == {"range"}
    with pytest.raises(InconsistentGroupProtocol):
        ClassicPeer(cluster, assignors=("sticky",)).join()


def test_only_the_leader_or_new_metadata_begin_a_rebalance(cluster: DirectCluster) -> None:
    first, second = ClassicPeer(cluster), ClassicPeer(cluster)
    stable(cluster, first, second)
    assert second.joined(second.join()).generation_id == 1
    second.topics = ("others",)
    assert second.join().answer is None
    assert first.heartbeat() == RebalanceInProgress.ERROR_CODE


def test_a_leader_that_leaves_is_followed_by_another_one(cluster: DirectCluster) -> None:
    first, second = ClassicPeer(cluster), ClassicPeer(cluster)
    stable(cluster, first, second)
    assert first.leave() == 0
    answer = second.joined(second.join())
    assert answer.leader == second.member_id
    assert len(answer.members) == 1


@pytest.mark.parametrize("version", [5, 9])
def test_a_static_member_comes_back_without_a_rebalance(cluster: DirectCluster, version: int) -> None:
    first, second = ClassicPeer(cluster, instance_id="a"), ClassicPeer(cluster, instance_id="b")
    stable(cluster, first, second)
    again = ClassicPeer(cluster, instance_id="a")
    answer = again.joined(again.join(version))
    assert answer.generation_id == 1
    assert again.member_id != first.member_id
    assert answer.skip_assignment is (version >= 9)
    assert (answer.leader == again.member_id) is (version >= 9)
    sync = again.sync().answer
    assert sync is not None
    assert sync.assignment == first.member_id.encode()
    assert first.heartbeat() == FencedInstanceId.ERROR_CODE
    assert second.heartbeat() == 0


def test_a_static_member_that_waits_is_fenced_by_its_successor(cluster: DirectCluster) -> None:
    first = ClassicPeer(cluster, instance_id="a")
    waiting = first.join()
    ClassicPeer(cluster, instance_id="a").join()
    assert waiting.answer is not None
    assert waiting.answer.error_code == FencedInstanceId.ERROR_CODE


def test_a_static_member_stays_through_a_rebalance_without_it(cluster: DirectCluster) -> None:
    first, second = ClassicPeer(cluster, instance_id="a"), ClassicPeer(cluster)
    first.session_timeout_ms = 300_000
    stable(cluster, first, second)
    third = ClassicPeer(cluster).join()
    joining = second.join()
    assert joining.answer is None
    cluster.advance(60_000)
    answer = second.joined(joining)
    assert third.answer is not None
    assert answer.leader == second.member_id
    assert len(answer.members) == 3


@pytest.mark.parametrize(
    ("member_id", "instance_id", "code"),
    [("", "a", 0), ("x", None, UnknownMemberId.ERROR_CODE), ("", "z", UnknownMemberId.ERROR_CODE),
     ("x", "a", FencedInstanceId.ERROR_CODE)],
)  # fmt: skip
def test_who_may_be_removed(cluster: DirectCluster, member_id: str, instance_id: str | None, code: int) -> None:
    stable(cluster, ClassicPeer(cluster, instance_id="a"))
    member = wire.LeaveGroupRequest.Member(member_id=member_id, group_instance_id=instance_id)
    answer = cluster.ask(wire.LeaveGroupRequest(group_id="g", members=[member]))
    assert (answer.error_code, answer.members[0].error_code) == (0, code)


def test_a_group_has_a_greatest_size(cluster: DirectCluster) -> None:
    cluster.state.groups.settings.max_size = 1
    stable(cluster, ClassicPeer(cluster))
    with pytest.raises(GroupMaxSizeReached):
        ClassicPeer(cluster).join()


@pytest.mark.parametrize("version", [0, 6, 7, 9])
@pytest.mark.parametrize(
    ("group", "timeout_ms", "error"),
    [("", 10_000, InvalidGroupId), ("g", 1, InvalidSessionTimeout), ("g", 10**7, InvalidSessionTimeout)],
)
def test_requests_that_make_no_sense_are_refused(
    cluster: DirectCluster, version: int, group: str, timeout_ms: int, error: type[InvalidGroupId]
) -> None:
    member = ClassicPeer(cluster, group=group)
    member.session_timeout_ms = timeout_ms
    assert cluster.ask(member.join_request(), version).error_code == error.ERROR_CODE


def test_only_the_coordinator_answers() -> None:
    cluster = DirectCluster(nodes=2)
    cluster.state.coordinators["group", "g"] = 2
    requests: list[Request[Any]] = [
        wire.HeartbeatRequest(group_id="g"),
        wire.SyncGroupRequest(group_id="g", protocol_type="consumer", protocol_name="range"),
    ]
    for request in requests:
        assert cluster.ask(request).error_code == NotCoordinatorForGroup.ERROR_CODE
        assert cluster.ask(request, node=2).error_code == UnknownMemberId.ERROR_CODE
    left = cluster.ask(wire.LeaveGroupRequest(group_id="g"))
    assert left.error_code == NotCoordinatorForGroup.ERROR_CODE
    deleted = cluster.ask(wire.DeleteGroupsRequest(groups_names=["g"]))
    assert deleted.results[0].error_code == NotCoordinatorForGroup.ERROR_CODE


@pytest.mark.parametrize(("version", "code"), [(0, 0), (5, 0), (6, GroupIdNotFound.ERROR_CODE)])
def test_a_group_that_is_not_there_is_dead(cluster: DirectCluster, version: int, code: int) -> None:
    group = cluster.ask(wire.DescribeGroupsRequest(groups=["none"]), version).groups[0]
    assert (group.error_code, group.group_state) == (code, "Dead")


def test_groups_are_described_and_listed(cluster: DirectCluster) -> None:
    member = ClassicPeer(cluster, instance_id="a")
    stable(cluster, member)
    group = cluster.ask(wire.DescribeGroupsRequest(groups=["g"], include_authorized_operations=True)).groups[0]
    assert (group.group_state, group.protocol_type, group.protocol_data) == ("Stable", "consumer", "range")
    assert group.members[0].member_assignment == member.member_id.encode()
    assert (group.members[0].client_id, group.members[0].group_instance_id) == ("peer", "a")
    assert group.authorized_operations > 0
    for states, types, names in (
        ([], [], ["g"]), (["stable"], [], ["g"]), (["Empty"], [], []), ([], ["Classic"], ["g"]), ([], ["consumer"], []),
    ):  # fmt: skip
        listed = cluster.ask(wire.ListGroupsRequest(states_filter=states, types_filter=types)).groups
        assert [one.group_id for one in listed] == names


def test_a_group_is_deleted_when_it_has_no_members(cluster: DirectCluster) -> None:
    member = ClassicPeer(cluster)
    stable(cluster, member)

    def delete() -> int:
        return cluster.ask(wire.DeleteGroupsRequest(groups_names=["g"])).results[0].error_code

    assert delete() == NonEmptyGroup.ERROR_CODE
    member.leave()
    assert (delete(), delete()) == (0, GroupIdNotFound.ERROR_CODE)
