"""Histories of groups whose partitions have two owners, or are read after their loss; and right ones."""

from __future__ import annotations

from pykafka.testing.history import Assign, Crash, Drained, Fault
from tests.testing.stories import GROUP, P0, P1, TOPIC, Story, Write

# Anomalies


def two_owners(story: Story) -> None:
    story.assigned(3, P0, who="c")
    story.assigned(3, P0, P1, who="d")


def two_owners_by_a_kept_partition(story: Story) -> None:
    story.assigned(3, P0)
    story.assigned(4, P0, P1, who="d")
    story.assigned(4, P0)


def read_after_loss(story: Story) -> None:
    story.member()
    story.sends(1, 2)
    story.assigned(1, P0)
    story.poll((0, 1))
    story.revoked(1, P0, lost=True)
    story.poll((1, 2))


def read_of_a_revoked_partition(story: Story) -> None:
    """The member has another assignment in the next generation."""
    story.member()
    story.member("d")
    story.sends(1, 2)
    story.assigned(1, P0, P1)
    story.assigned(2, P1)
    story.assigned(2, P0, who="d")
    story.poll((0, 1))


def two_owners_for_too_long(story: Story) -> None:
    """Without any fault, a former owner goes on longer than it takes to notice."""
    story.member(notices_ms=100)
    story.member("d")
    story.sends(1, 2)
    story.fault("pause", number=1, lasts_ms=50)
    story.assigned(1, P0)
    story.assigned(2, P0, who="d")
    story.poll((0, 1))
    story.clock_ms += 110
    story.poll((1, 2))


def read_by_a_restarted_member(story: Story) -> None:
    """It has not got its partition again yet."""
    story.member()
    story.sends(1, 2)
    story.assigned(1, P0)
    story.poll((0, 1))
    story.note("c", Crash())
    story.member()
    story.poll((0, 1), (1, 2))


# Right


def rebalance(story: Story) -> None:
    """Uncommitted records are read again by the next owner, and by the same one when it has the partition again."""
    for who in "cd":
        story.consumer(who, group=GROUP)
    story.sends(1, 2, 3)
    story.assigned(1, P0, P1)
    story.poll((0, 1), (1, 2))
    story.commit(1)
    story.revoked(2, P0, P1)
    story.assigned(2, P1)
    story.assigned(2, P0, who="d")
    story.poll((1, 2), (2, 3), who="d")
    story.commit(2, who="d")
    story.revoked(3, P0, who="d")
    story.assigned(3, P0, P1)
    story.commit(2)
    story.poll((2, 3))
    story.commit(3)
    story.note("c", Drained((TOPIC,), GROUP))


def stale_owner_of_an_older_generation(story: Story) -> None:
    """A member that was out of the group learns later that it has lost its partition."""
    story.assigned(1, P0)
    story.assigned(3, P0, who="d")
    story.revoked(1, P0)


def members_that_commit_by_themselves(story: Story) -> None:
    """How much they have committed is not known; they go back, and pass over what the group was given, or a seek skipped."""
    for who in "cde":
        story.member(who, auto_commit=True)
    story.sends(1, 2, 3, 4)
    story.poll((0, 1), (1, 2), (2, 3), (3, 4), who="r")
    story.assigned(1, P0)
    story.poll((0, 1), (1, 2))
    story.assigned(2, P0, who="d")
    story.poll((1, 2), who="d")
    story.seek(3, who="d")
    story.poll((3, 4), who="d")
    story.assigned(3, P0, who="e")
    story.poll((3, 4), who="e")


def former_owner_that_does_not_know(story: Story) -> None:
    """It reads on while a fault keeps the answers from it, and for the time that it takes to notice afterwards."""
    story.member(notices_ms=100)
    story.member("d")
    story.sends(1, 2, 3)
    story.assigned(1, P0)
    story.fault("pause", "1", number=1)
    story.assigned(2, P0, who="d")
    story.poll((0, 1))
    story.clock_ms += 200
    story.poll((1, 2))
    story.note("faults", Fault("all is well", ends=True))
    story.clock_ms += 90
    story.poll((2, 3))
    story.revoked(1, P0, lost=True)


def members_that_are_none_any_more(story: Story) -> None:
    """A program starts again, and chooses its partitions, or has no group."""
    story.sends(1, 2)
    for who in "cd":
        story.member(who)
        story.assigned(1 if who == "c" else 2, P0, who=who)
        story.poll((0, 1), who=who)
        story.note(who, Crash())
    story.member()
    story.ok(story.invoke("c", Assign((P0,))))
    story.poll((0, 1), (1, 2))
    story.commit(2)
    story.consumer("d")
    story.poll((0, 1), (1, 2), who="d")


PLANTED: list[tuple[str, Write]] = [
    ("two-owners", two_owners),
    ("two-owners", two_owners_by_a_kept_partition),
    ("two-owners", two_owners_for_too_long),
    ("read-after-loss", read_after_loss),
    ("read-after-loss", read_of_a_revoked_partition),
    ("read-after-loss", read_by_a_restarted_member),
]
LEGAL: list[tuple[str, Write]] = [
    ("", rebalance),
    ("", stale_owner_of_an_older_generation),
    ("", members_that_commit_by_themselves),
    ("", former_owner_that_does_not_know),
    ("", members_that_are_none_any_more),
]
