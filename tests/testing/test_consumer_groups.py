"""Groups by KIP-848, as fake brokers coordinate them."""

from __future__ import annotations

from itertools import pairwise

import pytest

from pykafka.exceptions import (
    FencedInstanceId,
    FencedMemberEpoch,
    GroupIdNotFound,
    GroupMaxSizeReached,
    InvalidGroupId,
    InvalidRegularExpression,
    InvalidRequest,
    NonEmptyGroup,
    UnknownMemberId,
    UnreleasedInstanceId,
    UnsupportedAssignor,
)
from pykafka.protocol import wire
from pykafka.testing.patterns import Pattern
from tests.testing.direct import ConsumerPeer, DirectCluster

ALL = {("orders", index) for index in range(4)}


@pytest.fixture
def cluster() -> DirectCluster:
    return DirectCluster({"orders": 4, "other": 2})


def described(cluster: DirectCluster) -> wire.ConsumerGroupDescribeResponse.Group:
    return cluster.ask(wire.ConsumerGroupDescribeRequest(group_ids=["g"])).groups[0]


def test_a_member_revokes_before_another_one_gets(cluster: DirectCluster) -> None:
    first, second = ConsumerPeer(cluster, "a"), ConsumerPeer(cluster, "b")
    first.heartbeat()
    assert (first.epoch, first.owned) == (2, ALL)  # as brokers of 4.3 do
    second.heartbeat()
    assert (second.epoch, second.owned) == (3, set())
    before = set(first.owned)
    answer = first.send()  # still owns all
    assert answer.assignment is not None
    assert answer.member_epoch == 2
    assert described(cluster).group_state == "Reconciling"
    second.heartbeat()
    assert second.owned == set()
    first.heartbeat()  # takes the shorter assignment, and its next heartbeat shows it
    first.owned = {("orders", index) for one in answer.assignment.topic_partitions for index in one.partitions}
    assert len(first.owned) == 2
    assert first.heartbeat() == 0
    assert first.epoch == 3
    second.heartbeat()
    assert first.owned | second.owned == before
    assert described(cluster).group_state == "Stable"


def test_no_partition_has_two_owners_while_members_come_and_go(cluster: DirectCluster) -> None:
    members = [ConsumerPeer(cluster, name) for name in "abcde"]
    for count in range(1, len(members) + 1):
        for one in members[:count]:
            one.heartbeat()
            owned = [key for other in members for key in other.owned]
            assert len(owned) == len(set(owned))
    for _ in range(4):
        for member in members:
            member.heartbeat()
    assert {key for member in members for key in member.owned} == ALL
    assert max(len(member.owned) for member in members) == 1


def test_an_answer_has_the_assignment_only_if_it_changed(cluster: DirectCluster) -> None:
    member = ConsumerPeer(cluster, "a")
    assert member.send().assignment is not None
    member.settle()
    assert member.send().assignment is None


@pytest.mark.parametrize(("epoch", "code"), [(0, 0), (2, 0), (9, FencedMemberEpoch.ERROR_CODE)])
def test_epochs_that_are_not_the_present_one(cluster: DirectCluster, epoch: int, code: int) -> None:
    first, second = ConsumerPeer(cluster, "a"), ConsumerPeer(cluster, "b")
    first.heartbeat()
    second.heartbeat()
    first.settle()
    assert first.epoch == 3
    first.epoch = epoch  # the answer with epoch 3 was lost, for instance
    answer = first.send()
    assert answer.error_code == code
    assert code or answer.member_epoch == 3


def test_an_epoch_before_the_last_one_is_fenced(cluster: DirectCluster) -> None:
    first = ConsumerPeer(cluster, "a")
    first.settle()
    for name in "bc":
        ConsumerPeer(cluster, name).heartbeat()
        first.settle()
    assert first.epoch == 4
    first.epoch = 1
    answer = first.send()
    assert answer.error_code == FencedMemberEpoch.ERROR_CODE
    assert "smaller member epoch (1)" in str(answer.error_message)


def test_a_member_that_does_not_revoke_is_put_out(cluster: DirectCluster) -> None:
    first, second = ConsumerPeer(cluster, "a"), ConsumerPeer(cluster, "b")
    first.heartbeat()
    second.heartbeat()
    stuck = first.request()
    for _ in range(3):
        assert first.send(stuck).error_code == 0
        second.heartbeat()
        cluster.advance(10_000)
    assert first.send(stuck).error_code == UnknownMemberId.ERROR_CODE
    second.settle()
    assert second.owned == ALL


def test_a_silent_member_is_put_out_after_its_session(cluster: DirectCluster) -> None:
    first, second = ConsumerPeer(cluster, "a"), ConsumerPeer(cluster, "b")
    first.heartbeat()
    second.heartbeat()
    for _ in range(5):
        cluster.advance(10_000)
        second.heartbeat()
    second.settle()
    assert second.owned == ALL
    assert first.heartbeat() == UnknownMemberId.ERROR_CODE


def test_members_leave(cluster: DirectCluster) -> None:
    first, second = ConsumerPeer(cluster, "a"), ConsumerPeer(cluster, "b")
    for _ in range(3):
        first.heartbeat()
        second.heartbeat()
    second.epoch = -1
    assert second.send().member_epoch == -1
    assert described(cluster).group_state == "Assigning"
    first.settle()
    assert first.owned == ALL
    deleting = wire.DeleteGroupsRequest(groups_names=["g"])
    assert cluster.ask(deleting).results[0].error_code == NonEmptyGroup.ERROR_CODE
    first.epoch = -1
    first.send()
    assert described(cluster).group_state == "Empty"
    assert cluster.ask(deleting).results[0].error_code == 0
    assert described(cluster).error_code == GroupIdNotFound.ERROR_CODE


def test_a_static_member_comes_back_by_another_id(cluster: DirectCluster) -> None:
    first, other = ConsumerPeer(cluster, "a", instance_id="i"), ConsumerPeer(cluster, "b")
    for _ in range(3):
        first.heartbeat()
        other.heartbeat()
    owned, epoch = set(first.owned), first.epoch
    again = ConsumerPeer(cluster, "c", instance_id="i")
    assert again.heartbeat() == UnreleasedInstanceId.ERROR_CODE
    first.epoch = -2
    assert first.send().member_epoch == -2
    other.settle()
    assert other.owned.isdisjoint(owned)
    assert again.heartbeat() == 0
    assert (again.owned, again.epoch) == (owned, epoch)
    first.epoch = epoch
    assert first.heartbeat() == FencedInstanceId.ERROR_CODE


def test_a_static_member_that_stays_away_loses_its_place(cluster: DirectCluster) -> None:
    first, other = ConsumerPeer(cluster, "a", instance_id="i"), ConsumerPeer(cluster, "b")
    first.settle()
    first.epoch = -2
    first.send()
    for _ in range(5):
        other.heartbeat()
        cluster.advance(10_000)
    other.settle()
    assert other.owned == ALL


@pytest.mark.parametrize("assignor", ["uniform", "range"])
def test_assignors_of_the_broker(cluster: DirectCluster, assignor: str) -> None:
    members = [ConsumerPeer(cluster, name, topics=["orders", "other"], assignor=assignor) for name in "abc"]
    for _ in range(4):
        for member in members:
            member.heartbeat()
    assert described(cluster).assignor_name == assignor
    sizes = [sorted(index for topic, index in member.owned if topic == "orders") for member in members]
    assert [len(member.owned) for member in members] == ([2, 2, 2] if assignor == "uniform" else [3, 2, 1])
    assert assignor == "uniform" or all(one[-1] + 1 == other[0] for one, other in pairwise(sizes))


def test_patterns_follow_the_topics(cluster: DirectCluster) -> None:
    member = ConsumerPeer(cluster, "a", regex="o.*s")
    member.settle()
    assert member.owned == ALL
    cluster.create_topic("offers", 1)
    cluster.create_topic("other-things", 1)
    cluster.create_topic("xoffers", 1)
    member.settle()
    assert member.owned == {*ALL, ("offers", 0), ("other-things", 0)}
    cluster.delete_topic("offers")
    member.owned.discard(("offers", 0))
    member.settle()
    assert member.owned == {*ALL, ("other-things", 0)}
    assert described(cluster).members[0].subscribed_topic_regex == "o.*s"


@pytest.mark.parametrize("regex", ["(", "a(?=b)", r"(a)\1", "(?<!x)y", "*"])
def test_what_is_no_pattern_of_re2_is_refused(cluster: DirectCluster, regex: str) -> None:
    assert ConsumerPeer(cluster, "a", regex=regex).heartbeat() == InvalidRegularExpression.ERROR_CODE


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"group_id": ""}, InvalidGroupId),
        ({"member_id": ""}, InvalidRequest),
        ({"instance_id": ""}, InvalidRequest),
        ({"rack_id": ""}, InvalidRequest),
        ({"member_epoch": -3}, InvalidRequest),
        ({"member_epoch": -2}, InvalidRequest),
        ({"rebalance_timeout_ms": -1}, InvalidRequest),
        ({"topic_partitions": None}, InvalidRequest),
        ({"subscribed_topic_names": None}, InvalidRequest),
        ({"server_assignor": "none"}, UnsupportedAssignor),
        ({"member_epoch": 3}, GroupIdNotFound),
    ],
)
def test_heartbeats_that_make_no_sense(
    cluster: DirectCluster, changes: dict[str, object], error: type[InvalidRequest]
) -> None:
    request = ConsumerPeer(cluster, "a").request()
    for name, value in changes.items():
        setattr(request, name, value)
    assert cluster.ask(request).error_code == error.ERROR_CODE


def test_version_0_lets_the_broker_choose_the_member_id(cluster: DirectCluster) -> None:
    answer = cluster.ask(ConsumerPeer(cluster, "").request(), 0)
    assert answer.error_code == 0
    assert answer.member_id


def test_a_group_has_a_greatest_size(cluster: DirectCluster) -> None:
    cluster.state.groups.settings.max_size = 1
    ConsumerPeer(cluster, "a").heartbeat()
    assert ConsumerPeer(cluster, "b").heartbeat() == GroupMaxSizeReached.ERROR_CODE


def test_more_partitions_reach_the_members(cluster: DirectCluster) -> None:
    member = ConsumerPeer(cluster, "a", topics=["new"])
    member.settle()
    assert member.owned == set()
    cluster.create_topic("new", 2)
    member.settle(1)
    assert member.owned == {("new", 0), ("new", 1)}
    assert member.epoch == 3


def test_members_are_described(cluster: DirectCluster) -> None:
    member = ConsumerPeer(cluster, "a", instance_id="i")
    member.settle()
    group = described(cluster)
    one = group.members[0]
    assert (group.group_epoch, group.assignment_epoch, group.assignor_name) == (2, 2, "uniform")
    assert (one.member_id, one.instance_id, one.client_id, one.member_type) == ("a", "i", "test", 1)
    assert one.assignment == one.target_assignment
    assert one.assignment.topic_partitions[0].topic_name == "orders"
    assert cluster.ask(wire.ListGroupsRequest(types_filter=["consumer"])).groups[0].group_id == "g"


@pytest.mark.parametrize(
    ("text", "matched"),
    [
        ("o.*s", {"orders", "offers"}),
        (r"(orders|off\w+)(-x)?", {"orders", "offers"}),
        ("[*+]+|o[^f]+", {"orders"}),
        (r"orders\++|[a-z]{6,7}", {"orders", "offers"}),
        ("(?i)ORDERS", {"orders"}),
        (".*a.*|.*d.*r.*s", {"orders"}),
    ],
)
def test_patterns(text: str, matched: set[str]) -> None:
    assert Pattern(text).matches(["orders", "offers"]) == matched


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("(?=a)", "RE2 lacks it"),
        (r"(a)\1", "RE2 lacks it"),
        ("a++", r"RE2 lacks \+\+"),
        ("a{2}+", "RE2 lacks"),
        ("a{1001}", "no more than 1000"),
        ("[[:alpha:]]+", r"lacks \[\[:alpha:\]"),
        (r"\Qa.b\E", "bad escape"),
        (r"\pL", "bad escape"),
        ("(a+)+", "too long to match"),
        ("(a|a)*b", "too long to match"),
        (".*a.*b.*c.*d", "too long to match"),
        ("a?" * 30, "too long to match"),
        ("a{99999999999}", "too large"),
        ("(" * 2_000 + ")" * 2_000, "recursion"),
        ("(((){1000}){1000}){1000}", "too long to match"),
        ("(((a*){249}){249}){249}", "too long to match"),
    ],
)
def test_patterns_that_are_refused(text: str, why: str) -> None:
    """Python's re would hold the lock of the cluster while it matches, for seconds or for ever."""
    with pytest.raises(InvalidRegularExpression, match=why):
        Pattern(text)
