"""Members keep nothing over a rebalance that others may have had meanwhile."""

from __future__ import annotations

from typing import Any
from unittest import mock

import pytest

from pykafka.common import TopicPartition
from pykafka.groups.assignment_change import CooperativeAssignmentChange, EagerAssignmentChange, Generation
from pykafka.groups.heartbeat_sender import Activity

FIRST, SECOND = TopicPartition("orders", 0), TopicPartition("orders", 1)


@pytest.mark.parametrize(
    ("member_id", "generation", "keeps"), [("m", 4, True), ("m", 5, True), ("m", 6, False), ("other", 5, False)]
)
def test_an_eager_member_keeps_its_position_if_it_has_missed_nothing(
    member_id: str, generation: int, keeps: bool
) -> None:
    hooks: Any = mock.Mock()
    membership = Generation("m", 4)
    change = EagerAssignmentChange(hooks, membership, lambda topic: False, Activity())
    change.assignment = frozenset({FIRST})
    change.revoke_all()
    membership.member_id, membership.generation_id = member_id, generation
    change.pending = frozenset({FIRST, SECOND})
    change.assign_pending()
    hooks.on_assigned.assert_called_once_with([FIRST, SECOND], [FIRST] if keeps else [])


def test_a_commit_is_repeated_for_what_the_member_has_had_without_a_break() -> None:
    membership = Generation("m", 4)
    change = CooperativeAssignmentChange(mock.Mock(), membership, lambda topic: False, Activity())
    for generation, keys in ((4, {FIRST, SECOND}), (5, {FIRST}), (6, {FIRST, SECOND})):
        membership.generation_id = generation
        change.pending = frozenset(keys)
        change.assign_pending()
    assert change.owned_since([FIRST, SECOND], 4) == {FIRST}
    assert change.owned_since([FIRST, SECOND], 6) == {FIRST, SECOND}
    membership.breaks += 1
    assert change.owned_since([FIRST, SECOND], 6) == set()


# -- what the hooks hear -------------------------------------------------------------------------------------------------

KINDS = pytest.mark.parametrize("kind", [EagerAssignmentChange, CooperativeAssignmentChange])
THIRD, OTHER, GONE = TopicPartition("orders", 2), TopicPartition("other", 0), TopicPartition("gone", 0)
call = mock.call


def member(
    kind: type[EagerAssignmentChange] | type[CooperativeAssignmentChange], *keys: TopicPartition
) -> tuple[Any, Generation, mock.Mock]:
    """Return a change whose member has some partitions in generation 4, its membership, and its hooks; "gone" is deleted."""
    hooks, membership = mock.Mock(), Generation("m", 4)
    change = kind(hooks, membership, lambda topic: topic == "gone", Activity())
    change.pending = frozenset(keys)
    change.assign_pending()
    assert [change.pending] == [None]
    hooks.reset_mock()
    return change, membership, hooks


@KINDS
@pytest.mark.parametrize(("generation", "breaks"), [(4, 0), (0, 0), (-1, 0), (4, 1)])
def test_all_is_revoked_or_lost(kind: Any, generation: int, breaks: int) -> None:
    change, membership, hooks = member(kind, SECOND, FIRST, GONE)
    membership.generation_id, membership.breaks = generation, breaks
    change.pending, change.needs_rejoin = frozenset({FIRST}), True
    if change.cooperative and generation >= 0:  # for the rest see test_a_cooperative_member_prepares
        change.revoke_all()
    else:
        change.prepare({"orders", "gone"})
    if generation < 0 or (breaks and change.cooperative):
        assert hooks.mock_calls == [call.on_lost([GONE, FIRST, SECOND])]
        assert change.needs_rejoin is not change.cooperative
    else:
        assert hooks.mock_calls == [call.on_lost([GONE]), call.on_revoked_all([FIRST, SECOND])]
    assert (change.assignment, change.since, change.pending) == (frozenset(), {}, None)
    change.revoke_all()
    assert len(hooks.mock_calls) <= 2  # nothing is left to say


def test_a_cooperative_member_prepares() -> None:
    """Topics that it reads no more are revoked, those that were deleted are lost, and the rest stays."""
    change, _, hooks = member(CooperativeAssignmentChange, FIRST, SECOND, OTHER, GONE)
    change.prepare({"orders", "gone"})
    assert hooks.mock_calls == [call.on_revoked([OTHER]), call.on_lost([GONE])]
    assert (change.assignment, change.since) == ({FIRST, SECOND}, {FIRST: 4, SECOND: 4})
    hooks.reset_mock()
    change.prepare({"orders"})
    assert hooks.mock_calls == []


@pytest.mark.parametrize(("generation", "lost"), [(-1, True), (0, False)])
def test_a_cooperative_member_outside_of_the_group_loses_all(generation: int, lost: bool) -> None:
    change, membership, hooks = member(CooperativeAssignmentChange, FIRST)
    membership.generation_id = generation
    change.prepare({"orders"})
    assert hooks.mock_calls == ([call.on_lost([FIRST])] if lost else [])


def test_a_cooperative_member_that_missed_a_generation_has_no_break_any_more_once_it_said_so() -> None:
    change, membership, hooks = member(CooperativeAssignmentChange, FIRST)
    membership.breaks += 1
    assert change.is_lost
    change.revoke_all()
    assert not change.is_lost
    change.pending = frozenset({FIRST})
    change.assign_pending()
    change.revoke_all()
    assert hooks.mock_calls == [call.on_lost([FIRST]), call.on_added([FIRST]), call.on_revoked_all([FIRST])]


@pytest.mark.parametrize(
    ("breaks", "keys", "calls", "rejoins"),
    [
        (0, {FIRST, SECOND}, [call.on_added([])], False),
        (0, {FIRST, SECOND, THIRD, OTHER}, [call.on_added([THIRD, OTHER])], False),
        (0, {SECOND, THIRD}, [call.on_revoked([FIRST]), call.on_added([THIRD])], True),
        (0, set(), [call.on_revoked([FIRST, SECOND]), call.on_added([])], True),
        (1, {SECOND, THIRD}, [call.on_lost([FIRST, SECOND]), call.on_added([SECOND, THIRD])], False),
    ],
)
def test_a_cooperative_member_takes_the_differences(breaks: int, keys: Any, calls: Any, rejoins: bool) -> None:
    change, membership, hooks = member(CooperativeAssignmentChange, FIRST, SECOND)
    membership.generation_id, membership.breaks = 5, breaks
    change.pending = frozenset(keys)
    change.assign_pending()
    assert hooks.mock_calls == calls
    assert (change.assignment, change.needs_rejoin) == (keys, rejoins)
    assert change.since == {key: 4 if not breaks and key in {FIRST, SECOND} else 5 for key in keys}
    change.assign_pending()
    assert hooks.mock_calls == calls
    assert change.owned_since([TopicPartition("never", 0)], 9) == set()


def test_partitions_of_a_deleted_topic_that_go_are_lost() -> None:
    change, _, hooks = member(CooperativeAssignmentChange, FIRST, GONE)
    change.pending = frozenset()
    change.assign_pending()
    assert hooks.mock_calls == [call.on_lost([GONE]), call.on_revoked([FIRST]), call.on_added([])]
    assert change.assignment == frozenset()


def test_an_interrupted_hook_gets_its_partitions_again() -> None:
    change, _, hooks = member(CooperativeAssignmentChange, FIRST)
    change.pending = frozenset({FIRST, SECOND})
    hooks.on_added.side_effect = [KeyboardInterrupt, None]
    with pytest.raises(KeyboardInterrupt):
        change.assign_pending()
    change.assign_pending()
    assert hooks.mock_calls == [call.on_added([SECOND]), call.on_added([SECOND])]
    assert change.pending is None


@pytest.mark.parametrize(
    ("then", "calls"),
    [
        ({FIRST, SECOND, THIRD}, [call.on_added([SECOND, THIRD])]),
        ({FIRST, THIRD}, [call.on_revoked([SECOND]), call.on_added([THIRD])]),
        ({FIRST}, [call.on_revoked([SECOND]), call.on_added([])]),
    ],
)
def test_an_interrupted_hook_gets_the_partitions_of_the_next_assignment(then: Any, calls: Any) -> None:
    """It got those of the one before alone: the others were not read, and one that had gone was."""
    change, _, hooks = member(CooperativeAssignmentChange, FIRST)
    hooks.on_added.side_effect = [KeyboardInterrupt, None]
    change.pending = frozenset({FIRST, SECOND})
    with pytest.raises(KeyboardInterrupt):
        change.assign_pending()
    hooks.reset_mock()
    change.pending = frozenset(then)
    change.assign_pending()
    assert hooks.mock_calls == calls
    assert change.assignment == then
    assert not change.is_adding


@KINDS
def test_errors_of_hooks_wait_for_poll_and_those_of_a_former_member_go_to_the_next(kind: Any) -> None:
    change, _, hooks = member(kind, FIRST)
    successor, _, _ = member(kind, FIRST)
    error = ValueError("listener")
    hooks.on_revoked_all.side_effect = error
    change.revoke_all()
    assert (list(change.errors), change.assignment) == ([error], frozenset())
    change.end(successor)
    assert change.errors is successor.errors
    change.pending = frozenset({FIRST})
    hooks.reset_mock()
    change.assign_pending()
    assert hooks.mock_calls == []


def test_partitions_of_recreated_topics_are_lost() -> None:
    change, _, hooks = member(CooperativeAssignmentChange, FIRST, OTHER)
    change.lose_recreated([])
    change.lose_recreated(["unread"])
    assert hooks.mock_calls == []
    change.lose_recreated(["other"])
    assert (hooks.mock_calls, change.assignment) == ([call.on_lost([OTHER])], {FIRST})


@pytest.mark.parametrize("forgets", ["fork", "assigned"])
def test_an_eager_member_keeps_positions_once_and_in_its_own_process(forgets: str) -> None:
    change, _, hooks = member(EagerAssignmentChange, FIRST)
    change.assign_pending()
    change.revoke_all()
    if forgets == "fork":
        change.after_fork()
    else:
        change.pending = frozenset({FIRST})
        change.assign_pending()
    hooks.reset_mock()
    change.pending = frozenset({FIRST})
    change.assign_pending()
    assert hooks.mock_calls == [call.on_assigned([FIRST], [])]
