"""Members keep nothing over a rebalance that others may have had meanwhile."""

from __future__ import annotations

from typing import Any
from unittest import mock

import pytest

from pykafka.common import TopicPartition
from pykafka.groups.assignment_change import CooperativeAssignmentChange, EagerAssignmentChange, Generation

FIRST, SECOND = TopicPartition("orders", 0), TopicPartition("orders", 1)


@pytest.mark.parametrize(
    ("member_id", "generation", "keeps"), [("m", 4, True), ("m", 5, True), ("m", 6, False), ("other", 5, False)]
)
def test_an_eager_member_keeps_its_position_if_it_has_missed_nothing(
    member_id: str, generation: int, keeps: bool
) -> None:
    hooks: Any = mock.Mock()
    membership = Generation("m", 4)
    change = EagerAssignmentChange(hooks, membership, lambda topic: False)
    change.assignment = frozenset({FIRST})
    change.revoke_all()
    membership.member_id, membership.generation_id = member_id, generation
    change.pending = frozenset({FIRST, SECOND})
    change.assign_pending()
    hooks.on_assigned.assert_called_once_with([FIRST, SECOND], [FIRST] if keeps else [])


def test_a_commit_is_repeated_for_what_the_member_has_had_without_a_break() -> None:
    membership = Generation("m", 4)
    change = CooperativeAssignmentChange(mock.Mock(), membership, lambda topic: False)
    for generation, keys in ((4, {FIRST, SECOND}), (5, {FIRST}), (6, {FIRST, SECOND})):
        membership.generation_id = generation
        change.pending = frozenset(keys)
        change.assign_pending()
    assert change.owned_since([FIRST, SECOND], 4) == {FIRST}
    assert change.owned_since([FIRST, SECOND], 6) == {FIRST, SECOND}
    membership.breaks += 1
    assert change.owned_since([FIRST, SECOND], 6) == set()
