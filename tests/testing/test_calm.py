"""Calls that fail in the calm time, in histories written by hand: which are defects, and which a rebalance explains."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pykafka.testing.history import Commit, Fault, Operation, Place
from pykafka.testing.simulation.calm import CalmError, failures
from tests.testing.stories import GROUP, P0, P1, TOPIC, Story

#: When the last fault was over, and for how long calls may still fail then (ms).
CALM_MS, GRACE_MS = 5, 20
#: A commit for which its program waits has a deadline; so has one by the worker of a member that commits in every way (ms).
TIMEOUT_MS = 1_000


def commit(story: Story, timeout_ms: int | None = TIMEOUT_MS, who: str = "c") -> Operation:
    """Begin a commit when all has been well for long enough."""
    story.clock_ms += CALM_MS + GRACE_MS
    return story.invoke(who, Commit(GROUP, (Place(TOPIC, 0, 4),)), timeout_ms)


def that_its_program_awaits(story: Story) -> None:
    story.revoked(1, P0)
    story.unknown(commit(story), "ShareLostError")


def that_another_member_overtakes(story: Story) -> None:
    """Another member gives its partitions up meanwhile; this one waits for its commit."""
    begun = commit(story)
    story.revoked(1, P1, who="d")
    story.unknown(begun, "ShareLostError")


def that_fails_by_something_else(story: Story) -> None:
    begun = commit(story)
    story.revoked(1, P0)
    story.unknown(begun, "NotCoordinatorForGroup")


def that_a_rebalance_overtakes(story: Story) -> None:
    """The listener begins it, and the member gives its partitions up and joins while it is under way."""
    begun = commit(story)
    story.revoked(1, P0)
    story.assigned(2, P0)
    story.unknown(begun, "ShareLostError")


def that_has_no_deadline(story: Story) -> None:
    story.unknown(commit(story, None), "ShareLostError")


def _of_a_member_that_misses_a_generation(story: Story, fault: str = "hang_up", lost: bool = True) -> None:
    story.assigned(1, P0)
    story.note("faults", Fault(fault, (fault, "2")))
    story.unknown(commit(story), "ShareLostError")
    story.revoked(3, P0, lost=lost)


def whose_join_had_no_answer(story: Story) -> None:
    _of_a_member_that_misses_a_generation(story)


def whose_join_was_not_cut_off(story: Story) -> None:
    _of_a_member_that_misses_a_generation(story, "move_leader")


def whose_partition_was_not_lost(story: Story) -> None:
    _of_a_member_that_misses_a_generation(story, lost=False)


def that_begins_soon_after_a_fault(story: Story) -> None:
    story.unknown(story.invoke("c", Commit(GROUP, (Place(TOPIC, 0, 4),)), TIMEOUT_MS), "ShareLostError")


@pytest.mark.parametrize(
    "write",
    [
        that_its_program_awaits,
        that_another_member_overtakes,
        that_fails_by_something_else,
        whose_join_was_not_cut_off,
        whose_partition_was_not_lost,
    ],
)
def test_a_failed_commit_is_found(write: Callable[[Story], None]) -> None:
    story = Story()
    write(story)
    ((process, error),) = failures(story, CALM_MS, GRACE_MS)
    assert process == "c"
    assert isinstance(error, CalmError)


@pytest.mark.parametrize(
    "write",
    [that_a_rebalance_overtakes, that_has_no_deadline, that_begins_soon_after_a_fault, whose_join_had_no_answer],
)
def test_a_failed_commit_is_explained(write: Callable[[Story], None]) -> None:
    story = Story()
    write(story)
    assert failures(story, CALM_MS, GRACE_MS) == []
