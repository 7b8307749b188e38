"""Histories of consumers that begin behind their committed offset, or before it; and right ones."""

from __future__ import annotations

from pykafka.testing.history import Assign, Commit, Crash, Deleted, OpenTopic, Place, Poll, Read
from tests.testing.stories import GROUP, P0, TOPIC, Story, Write

# Anomalies


def began_behind(story: Story) -> None:
    """Another reader has seen what the group has passed over."""
    story.member()
    story.member("d")
    story.sends(1, 2, 3)
    story.poll((0, 1), (1, 2), (2, 3), who="r")
    story.assigned(1, P0)
    story.poll((0, 1))
    story.commit(1)
    story.revoked(2, P0)
    story.assigned(2, P0, who="d")
    story.poll((2, 3), who="d")


def began_behind_at_once(story: Story) -> None:
    """The group has committed nothing."""
    story.member()
    story.sends(1, 2)
    story.assigned(1, P0)
    story.poll((1, 2))
    story.poll((0, 1), who="r")


def began_behind_as_another_did(story: Story) -> None:
    """A commit that the group has replaced does not count any more, even if its outcome was unknown."""
    for who in "cde":
        story.member(who)
    story.sends(1, 2, 3)
    story.poll((0, 1), (1, 2), (2, 3), who="r")
    story.assigned(1, P0)
    story.poll((0, 1), (1, 2))
    story.commit(2, outcome="unknown")
    story.assigned(2, P0, who="d")
    story.poll((0, 1), who="d")
    story.commit(1, who="d")
    story.revoked(3, P0, who="d")
    story.assigned(3, P0, who="e")
    story.poll((2, 3), who="e")


def began_behind_own_commit(story: Story) -> None:
    """Members commit by themselves: at most behind what they were given."""
    story.member(auto_commit=True)
    story.member("d", auto_commit=True)
    story.sends(1, 2, 3)
    story.poll((0, 1), (1, 2), (2, 3), who="r")
    story.assigned(1, P0)
    story.poll((0, 1))
    story.assigned(2, P0, who="d")
    story.poll((2, 3), who="d")


def began_behind_without_assignment(story: Story) -> None:
    """A program has chosen the partition."""
    story.consumer()
    story.sends(1, 2)
    story.ok(story.invoke("c", Assign((P0,))))
    story.poll((1, 2))
    story.poll((0, 1), who="r")


def began_behind_after_an_abort(story: Story) -> None:
    """The position is not put back to the committed offset."""
    story.consumer("x", group=GROUP)
    story.sends(1, 2)
    story.poll((0, 1), (1, 2), who="r")
    story.assigned(1, P0, who="x")
    story.begin("x")
    story.poll((0, 1), who="x")
    story.commit(1, who="x")
    story.abort(who="x")
    story.poll((1, 2), who="x")


def began_before(story: Story) -> None:
    story.member()
    story.member("d")
    story.sends(1, 2)
    story.assigned(1, P0)
    story.poll((0, 1), (1, 2))
    story.commit(2)
    story.revoked(2, P0)
    story.assigned(2, P0, who="d")
    story.poll((1, 2), who="d")


def began_at_a_former_position(story: Story) -> None:
    """Another member had the partition in between, so its own former position does not count."""
    story.member()
    story.member("d")
    story.sends(1, 2, 3)
    story.assigned(1, P0)
    story.poll((0, 1))
    story.commit(1)
    story.revoked(2, P0)
    story.assigned(2, P0, who="d")
    story.poll((1, 2), who="d")
    story.commit(2, who="d")
    story.revoked(3, P0, who="d")
    story.assigned(3, P0)
    story.poll((1, 2))


# Right


def began_at_the_end(story: Story) -> None:
    story.consumer(latest=True)
    story.sends(1, 2)
    story.poll((1, 2))


def began_behind_a_marker(story: Story) -> None:
    """The committed offset is that of a marker, or of an aborted record."""
    story.consumer(committed=True, group=GROUP)
    story.begin()
    story.send(1, 0)
    story.commit_transaction()
    story.begin()
    story.send(2, 2)
    story.abort()
    story.send(3, 4)
    story.assigned(1, P0)
    story.poll((0, 1))
    story.commit(1)
    story.revoked(2, P0)
    story.consumer(committed=True, group=GROUP)
    story.assigned(2, P0)
    story.poll((4, 3))


def began_at_a_commit_of_unknown_outcome(story: Story) -> None:
    """It may have taken effect, or not: members begin at either of its offsets, until there is a later one."""
    for who in "cde":
        story.member(who)
    story.sends(1, 2, 3)
    story.assigned(1, P0)
    story.poll((0, 1))
    story.commit(1)
    story.poll((1, 2))
    story.commit(2, outcome="unknown")
    story.assigned(2, P0, who="d")
    story.poll((2, 3), who="d")
    story.assigned(3, P0, who="e")
    story.poll((1, 2), who="e")


def began_while_others_commit(story: Story) -> None:
    """The commit of the former owner has its effect before the lookup of the next one, or behind it; its answer comes late."""
    for who in "cde":
        story.member(who)
    story.sends(1, 2, 3)
    story.assigned(1, P0)
    story.poll((0, 1))
    story.commit(1)
    story.poll((1, 2))
    begun = story.invoke("c", Commit(GROUP, (Place(TOPIC, 0, 2),)))
    story.assigned(2, P0, who="d")
    story.poll((1, 2), who="d")
    story.assigned(3, P0, who="e")
    story.poll((2, 3), who="e")
    story.ok(begun)


def began_after_the_call_began(story: Story) -> None:
    """The member looked its position up within the call in which it was assigned the partition, before a commit ended there."""
    story.member()
    story.member("d")
    story.sends(1, 2)
    story.assigned(1, P0, who="d")
    story.poll((0, 1), who="d")
    begun = story.invoke("c", Poll())
    story.commit(1, who="d")
    story.revoked(2, P0, who="d")
    story.assigned(2, P0)
    story.ok(begun, Poll((Read(TOPIC, 0, (0, 1), (1, 2)),)))


def began_where_a_transaction_has_committed(story: Story) -> None:
    """The offsets of an aborted transaction do not count; those of one without a clear outcome may."""
    story.consumer("x", group=GROUP)
    story.sends(1, 2, 3)
    story.assigned(1, P0, who="x")
    story.begin("x")
    story.poll((0, 1), who="x")
    story.commit(1, who="x")
    story.commit_transaction(who="x")
    story.begin("x")
    story.poll((1, 2), who="x")
    story.commit(2, who="x")
    story.abort(who="x")
    story.poll((1, 2), who="x")
    story.begin("x")
    story.commit(2, who="x")
    story.commit_transaction("unknown", who="x")
    for generation, (offset, value) in enumerate([(1, 2), (2, 3)], 2):
        who = f"y{generation}"
        story.consumer(who, group=GROUP)
        story.assigned(generation, P0, who=who)
        story.poll((offset, value), who=who)


def began_behind_what_was_deleted(story: Story) -> None:
    story.member()
    story.sends(1, 2, 3)
    story.note("main", Deleted(Place(TOPIC, 0, 2)))
    story.assigned(1, P0)
    story.poll((2, 3))


def began_behind_what_was_compacted(story: Story) -> None:
    story.note("main", OpenTopic(TOPIC, compacted=True))
    story.member()
    for offset, value in enumerate([1, 2, 3]):
        story.send(value, offset, key="a")
    story.assigned(1, P0)
    story.poll((2, 3))


def began_in_a_topic_that_loses(story: Story) -> None:
    story.note("main", OpenTopic(TOPIC, may_lose=True))
    story.member()
    story.sends(1, 2, 3)
    story.assigned(1, P0)
    story.poll((2, 3))


def began_behind_what_was_not_durable(story: Story) -> None:
    """Nobody has seen a record that one broker alone had acknowledged, and its offset is free."""
    story.producer(durable=False)
    story.member()
    story.sends(1)
    story.send(2, 1, who="q")
    story.assigned(1, P0)
    story.poll((1, 2))


def began_where_it_has_sought(story: Story) -> None:
    story.member()
    story.sends(1, 2, 3)
    story.assigned(1, P0)
    story.seek(2)
    story.poll((2, 3))


def kept_its_position(story: Story) -> None:
    """An eager member gives all up and gets it again at once, twice; it goes on where it was, though it has committed less."""
    story.member()
    story.sends(1, 2, 3)
    story.assigned(1, P0)
    story.poll((0, 1))
    story.commit(1)
    story.poll((1, 2))
    for generation in (2, 3):
        story.revoked(generation - 1, P0)
        story.assigned(generation, P0)
    story.poll((2, 3))


def began_again(story: Story) -> None:
    """A member that was killed begins at the committed offset, and reads what it has not committed once more."""
    story.member()
    story.sends(1, 2)
    story.assigned(1, P0)
    story.poll((0, 1))
    story.commit(1)
    story.poll((1, 2))
    story.note("c", Crash())
    story.member()
    story.assigned(2, P0)
    story.poll((1, 2))


PLANTED: list[tuple[str, Write]] = [
    ("began-behind", began_behind),
    ("began-behind", began_behind_at_once),
    ("began-behind", began_behind_as_another_did),
    ("began-behind", began_behind_own_commit),
    ("began-behind", began_behind_without_assignment),
    ("began-behind", began_behind_after_an_abort),
    ("began-before", began_before),
    ("began-before", began_at_a_former_position),
]
LEGAL: list[tuple[str, Write]] = [
    ("", began_at_the_end),
    ("", began_behind_a_marker),
    ("", began_at_a_commit_of_unknown_outcome),
    ("", began_while_others_commit),
    ("", began_after_the_call_began),
    ("", began_where_a_transaction_has_committed),
    ("", began_behind_what_was_deleted),
    ("", began_behind_what_was_compacted),
    ("", began_in_a_topic_that_loses),
    ("", began_behind_what_was_not_durable),
    ("", began_where_it_has_sought),
    ("", kept_its_position),
    ("", began_again),
]
