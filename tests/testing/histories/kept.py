"""Histories of a group that ZooKeeper keeps: reads by members that ZooKeeper did not have as the owners, and right ones."""

from __future__ import annotations

from pykafka.testing.history import Committed, Owner, Place
from tests.testing.stories import GROUP, P0, Story, Write


def owner(story: Story, who: str, is_owner: bool = True, forced: bool = False) -> None:
    """ZooKeeper has a member as the owner of the partition, or no more."""
    story.note("zookeeper", Owner(GROUP, P0, who, is_owner, forced))


def begin(story: Story, *members: str) -> None:
    """Store two records, and start members."""
    story.sends(1, 2)
    for who in members:
        story.consumer(who, GROUP)


# Anomalies


def read_after_loss(story: Story) -> None:
    begin(story, "c")
    owner(story, "c")
    story.poll((0, 1))
    owner(story, "c", is_owner=False)
    story.clock_ms += 100
    story.poll((1, 2))


def read_what_another_has(story: Story) -> None:
    begin(story, "c", "d")
    owner(story, "d")
    story.poll((0, 1), (1, 2), who="c")


def read_again_after_it_knew(story: Story) -> None:
    """Its session was ended for no reason, and it has noticed that."""
    begin(story, "c")
    owner(story, "c")
    owner(story, "c", is_owner=False, forced=True)
    story.revoked(1, P0)
    story.clock_ms += 100
    story.poll((0, 1), (1, 2))


def _commit_that_comes_late(story: Story) -> None:
    """A former owner's commit got no answer; it counts behind that of the next owner."""
    begin(story, "c", "d")
    owner(story, "c")
    story.assigned(1, P0)
    story.poll((0, 1))
    story.commit(1, outcome="unknown")
    owner(story, "c", is_owner=False)
    story.revoked(1, P0)
    owner(story, "d")
    story.assigned(2, P0, who="d")
    story.poll((0, 1), (1, 2), who="d")
    story.commit(2, who="d")


def _session_that_ends(story: Story, forced: bool) -> None:
    """Another member owns the partition of one whose session has ended."""
    begin(story, "c", "d")
    owner(story, "c")
    story.assigned(1, P0)
    story.poll((0, 1))
    owner(story, "c", is_owner=False, forced=forced)
    owner(story, "d")
    story.assigned(2, P0, who="d")


def commit_of_a_former_owner(story: Story) -> None:
    _session_that_ends(story, forced=False)
    story.commit(1)


def commit_after_it_knew(story: Story) -> None:
    _session_that_ends(story, forced=True)
    story.revoked(1, P0)
    story.commit(1)


def commit_that_nobody_made(story: Story) -> None:
    _commit_that_comes_late(story)
    story.ok(story.invoke("d", Committed(GROUP)), Committed(GROUP, (Place(*P0, 0),)))


# Right ones


def one_after_the_other(story: Story) -> None:
    begin(story, "c", "d")
    owner(story, "c")
    story.poll((0, 1), who="c")
    owner(story, "c", is_owner=False)
    owner(story, "d")
    story.poll((1, 2), who="d")


def had_it_just_before(story: Story) -> None:
    begin(story, "c")
    owner(story, "c")
    owner(story, "c", is_owner=False)
    story.poll((0, 1), (1, 2))


def cannot_know_yet(story: Story) -> None:
    begin(story, "c")
    owner(story, "c")
    owner(story, "c", is_owner=False, forced=True)
    story.clock_ms += 100
    story.poll((0, 1), (1, 2))


def commit_that_comes_late(story: Story) -> None:
    """Brokers do not know the owners: they take it."""
    _commit_that_comes_late(story)
    story.ok(story.invoke("d", Committed(GROUP)), Committed(GROUP, (Place(*P0, 1),)))


def commit_that_cannot_know_yet(story: Story) -> None:
    _session_that_ends(story, forced=True)
    story.commit(1)


def commit_of_the_owner_beside_another_assignment(story: Story) -> None:
    """A member is told of its assignment after its session was ended, as it looked offsets up for so long."""
    begin(story, "c", "d")
    owner(story, "d")
    owner(story, "d", is_owner=False, forced=True)
    owner(story, "c")
    story.assigned(1, P0)
    story.poll((0, 1))
    story.revoked(0, P0, who="d")
    story.assigned(2, P0, who="d")
    story.commit(1)


def in_no_group(story: Story) -> None:
    begin(story)
    story.consumer("c")
    owner(story, "d")
    story.poll((0, 1), (1, 2))


PLANTED: list[tuple[str, Write]] = [
    ("read-without-owning", read_after_loss),
    ("read-without-owning", read_what_another_has),
    ("read-without-owning", read_again_after_it_knew),
    ("commit-after-loss", commit_of_a_former_owner),
    ("commit-after-loss", commit_after_it_knew),
    ("lost-commit", commit_that_nobody_made),
]
LEGAL: list[tuple[str, Write]] = [
    ("", one_after_the_other),
    ("", had_it_just_before),
    ("", cannot_know_yet),
    ("", commit_that_comes_late),
    ("", commit_that_cannot_know_yet),
    ("", commit_of_the_owner_beside_another_assignment),
    ("", in_no_group),
]
