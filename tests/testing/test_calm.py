"""Calls that fail in the calm time, in histories written by hand: which are defects, and which a rebalance explains."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pykafka.testing.history import Commit, Crash, Fault, Operation, Place, Poll
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


def _of_a_member_that_misses_a_generation(story: Story, *words: str, lost: bool = True, times: int = 1) -> None:
    story.assigned(1, P0)
    for _ in range(times):
        story.note("faults", Fault("it begins", words or ("hang_up", "2")))
        story.note("faults", Fault("it ends", words or ("hang_up", "2"), ends=True))
    story.unknown(commit(story), "ShareLostError")
    story.revoked(3, P0, lost=lost)


def whose_join_had_no_answer(story: Story) -> None:
    _of_a_member_that_misses_a_generation(story)


def whose_join_was_not_cut_off(story: Story) -> None:
    _of_a_member_that_misses_a_generation(story, "move_leader", "2")


def whose_heartbeats_were_cut_off_for_a_session(story: Story) -> None:
    _of_a_member_that_misses_a_generation(story, "cut", "ConsumerGroupHeartbeat", "before", "2", times=4)


def whose_heartbeats_were_cut_off_for_less(story: Story) -> None:
    _of_a_member_that_misses_a_generation(story, "cut", "ConsumerGroupHeartbeat", "before", "2", times=3)


def whose_partition_was_not_lost(story: Story) -> None:
    _of_a_member_that_misses_a_generation(story, lost=False)


def _amid_a_rebalance(story: Story, generation: int = 2, polls: bool = False, is_over: bool = True) -> None:
    """Another member rests after a poll, or polls; both are in the next generation, or not yet."""
    story.assigned(1, P0)
    story.assigned(1, P1, who="d")
    story.poll(who="d")
    begun = commit(story)
    if polls:
        story.poll(who="d")
    story.unknown(begun, "OffsetsNotCommitted")
    story.poll(who="d")
    if is_over:
        story.assigned(generation, P1, who="d")
        story.assigned(2, P0)


def while_another_member_rests(story: Story) -> None:
    _amid_a_rebalance(story)


def while_another_member_polls(story: Story) -> None:
    _amid_a_rebalance(story, polls=True)


def while_another_member_waits_in_a_poll(story: Story) -> None:
    polling = story.invoke("d", Poll())
    begun = commit(story)
    story.unknown(begun, "OffsetsNotCommitted")
    story.ok(polling, Poll())
    story.assigned(2, P1, who="d")
    story.assigned(2, P0)


def while_a_member_of_another_generation_rests(story: Story) -> None:
    _amid_a_rebalance(story, generation=1)


def without_a_rebalance(story: Story) -> None:
    _amid_a_rebalance(story, is_over=False)


def _amid_the_session_of_the_killed(
    story: Story,
    group: str = GROUP,
    before_ms: int = 4_900,
    waits_ms: int = 2_000,
    generation: int = 3,
    left_out: bool = True,
    kills: bool = True,
) -> None:
    """Another member is killed while it joins; the generation that it leads has no assignments."""
    story.consumer("d", group)
    story.assigned(1, P0)
    if kills:
        story.note("d", Crash())
    story.clock_ms += before_ms
    polling = story.invoke("e", Poll())
    begun = commit(story)
    story.clock_ms += waits_ms
    story.unknown(begun, "OffsetsNotCommitted")
    if not left_out:
        story.assigned(2, P1, who="e")
    story.assigned(generation, P0)
    story.assigned(generation, P1, who="e")
    story.ok(polling, Poll())


def amid_the_session_of_a_killed_member(story: Story) -> None:
    _amid_the_session_of_the_killed(story)


def long_after_a_member_was_killed(story: Story) -> None:
    _amid_the_session_of_the_killed(story, before_ms=5_000)


def when_a_member_of_another_group_was_killed(story: Story) -> None:
    _amid_the_session_of_the_killed(story, group="another")


def though_nobody_was_killed(story: Story) -> None:
    _amid_the_session_of_the_killed(story, kills=False)


def that_gives_up_before_its_time(story: Story) -> None:
    _amid_the_session_of_the_killed(story, waits_ms=1_000)


def though_no_generation_was_left_out(story: Story) -> None:
    _amid_the_session_of_the_killed(story, generation=2)


def though_others_had_that_generation(story: Story) -> None:
    _amid_the_session_of_the_killed(story, left_out=False)


def that_begins_soon_after_a_fault(story: Story) -> None:
    story.unknown(story.invoke("c", Commit(GROUP, (Place(TOPIC, 0, 4),)), TIMEOUT_MS), "ShareLostError")


@pytest.mark.parametrize(
    "write",
    [
        that_its_program_awaits,
        that_another_member_overtakes,
        that_fails_by_something_else,
        whose_join_was_not_cut_off,
        whose_heartbeats_were_cut_off_for_less,
        whose_partition_was_not_lost,
        while_another_member_polls,
        while_another_member_waits_in_a_poll,
        while_a_member_of_another_generation_rests,
        without_a_rebalance,
        long_after_a_member_was_killed,
        when_a_member_of_another_group_was_killed,
        though_nobody_was_killed,
        that_gives_up_before_its_time,
        though_no_generation_was_left_out,
        though_others_had_that_generation,
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
    [
        that_a_rebalance_overtakes,
        that_has_no_deadline,
        that_begins_soon_after_a_fault,
        whose_join_had_no_answer,
        whose_heartbeats_were_cut_off_for_a_session,
        while_another_member_rests,
        amid_the_session_of_a_killed_member,
    ],
)
def test_a_failed_commit_is_explained(write: Callable[[Story], None]) -> None:
    story = Story()
    write(story)
    assert failures(story, CALM_MS, GRACE_MS) == []
