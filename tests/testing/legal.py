"""Histories that look wrong, and break no promise."""

from __future__ import annotations

from pykafka.testing.history import (
    BufferedBytes,
    CommitTransaction,
    Crash,
    DeadLetter,
    Deleted,
    Drained,
    Left,
    OpenTopic,
    Place,
    Poll,
    Send,
)
from tests.testing import administered, kept
from tests.testing.planted import Write, committed
from tests.testing.stories import GROUP, P0, P1, TOPIC, Story


def plain(story: Story) -> None:
    story.sends(1, 2, 3)
    story.poll((0, 1), (1, 2))
    story.poll((2, 3))
    story.note("c", Drained((TOPIC,)))


def unknown_outcome_took_effect(story: Story) -> None:
    story.send(1, outcome="unknown")
    story.send(2, 1)
    story.poll((0, 1), (1, 2))


def unknown_outcome_took_none(story: Story) -> None:
    story.send(1, outcome="unknown")
    story.send(2, 0)
    story.poll((0, 2))
    story.note("c", Drained((TOPIC,)))


def send_under_way(story: Story) -> None:
    """Its acknowledgement has not come yet, and it was read."""
    story.invoke("p", Send(TOPIC, 1, 0))
    story.poll((0, 1))


def resent_by_the_program(story: Story) -> None:
    """A send of unknown outcome is sent again, and both took effect."""
    story.send(1, outcome="unknown")
    story.send(1, 1)
    story.poll((0, 1), (1, 1))


def acknowledged_without_offset(story: Story) -> None:
    story.send(1)
    story.send(2, 1)
    story.poll((0, 1), (1, 2))
    story.note("c", Drained((TOPIC,)))


def failed_send(story: Story) -> None:
    story.send(1, outcome="fail")
    story.send(2, 0)
    story.poll((0, 2))
    story.note("c", Drained((TOPIC,)))


def aborted(story: Story) -> None:
    """Those who read committed records pass over an aborted one and its marker; others see it."""
    story.consumer(committed=True)
    story.begin()
    story.send(1, 0)
    story.abort()
    story.begin()
    story.send(2, 2)
    story.commit_transaction()
    story.send(3, 4, who="q")
    story.poll((2, 2))
    story.poll((4, 3))
    story.poll((0, 1), (2, 2), (4, 3), who="d")
    story.note("c", Drained((TOPIC,)))


def commit_of_unknown_outcome(story: Story) -> None:
    """Its commit got no answer; nobody has seen its records, or all of them are there."""
    story.consumer(committed=True)
    for value in (1, 3):
        story.begin()
        story.send(value, value)
        story.send(value + 1, value, partition=1)
        story.commit_transaction("unknown")
        story.producer()
    story.send(5, 5, who="q")
    story.poll((3, 3), (5, 5))
    story.poll((3, 4), partition=1)
    story.note("c", Drained((TOPIC,)))


def commit_retried(story: Story) -> None:
    story.consumer(committed=True)
    story.begin()
    story.send(1, 0)
    story.commit_transaction("unknown")
    story.poll((0, 1))
    story.commit_transaction()


def read_while_it_commits(story: Story) -> None:
    """Markers are written before the answer to the commit comes."""
    story.consumer(committed=True)
    story.begin()
    story.send(1, 0)
    begun = story.invoke("p", CommitTransaction())
    story.poll((0, 1))
    story.ok(begun)


def interleaved(story: Story) -> None:
    """Others write between the records of a transaction."""
    story.begin()
    story.send(1, 0)
    story.send(2, 1, who="q")
    story.send(3, 2)
    story.commit_transaction()
    story.poll((0, 1), (1, 2), (2, 3))


def compacted(story: Story) -> None:
    story.note("main", OpenTopic(TOPIC, compacted=True))
    for offset, (value, key) in enumerate([(1, "a"), (2, "b"), (3, "a"), (4, "b"), (5, "c")]):
        story.send(value, offset, key=key)
    story.poll((2, 3))
    story.poll((3, 4), (4, 5))
    story.poll((0, 1), (2, 3), (3, 4), (4, 5), who="d")
    story.note("c", Drained((TOPIC,)))


def deleted(story: Story) -> None:
    story.sends(1, 2, 3)
    story.note("main", Deleted(Place(TOPIC, 0, 2)))
    story.poll((2, 3))
    story.note("c", Drained((TOPIC,)))


def lost_on_purpose(story: Story) -> None:
    """An unclean election: an offset is used again, and readers go back."""
    story.note("main", OpenTopic(TOPIC, may_lose=True))
    story.sends(1, 2)
    story.poll((0, 1), (1, 2))
    story.send(3, 1)
    story.poll((1, 3))
    story.poll((0, 1), (1, 3), who="d")
    story.note("d", Drained((TOPIC,)))


def not_durable(story: Story) -> None:
    story.producer(durable=False)
    story.sends(1, 2)
    story.send(3, 2, who="q")
    story.consumer("d")
    story.poll((2, 3), who="d")
    story.note("d", Drained((TOPIC,)))


def seeks(story: Story) -> None:
    story.sends(1, 2, 3)
    story.poll((0, 1))
    story.seek(2)
    story.poll((2, 3))
    story.seek(0)
    story.poll((0, 1))


def began_at_the_end(story: Story) -> None:
    story.consumer(latest=True)
    story.sends(1, 2)
    story.poll((1, 2))


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


def refused_commits(story: Story) -> None:
    """A member that lost a partition, or commits too much, is refused, or gets no answer."""
    story.sends(1, 2)
    story.assigned(1, P0)
    story.poll((0, 1))
    story.assigned(2, P0, who="d")
    story.commit(1, outcome="fail")
    story.commit(2, outcome="unknown")


def commit_behind_a_marker(story: Story) -> None:
    story.consumer(committed=True, group=GROUP)
    story.begin()
    story.send(1, 0)
    story.commit_transaction()
    story.begin()
    story.send(2, 2)
    story.abort()
    story.assigned(1, P0)
    story.poll((0, 1))
    story.commit(4)
    committed(story, 4)


def commit_while_others_ask(story: Story) -> None:
    story.sends(1, 2)
    story.poll((0, 1))
    story.commit(1)
    story.poll((1, 2))
    story.commit(2, outcome="unknown")
    committed(story, 1)
    committed(story, 2)


def stale_owner_of_an_older_generation(story: Story) -> None:
    """A member that was out of the group learns later that it has lost its partition."""
    story.assigned(1, P0)
    story.assigned(3, P0, who="d")
    story.revoked(1, P0)


def result_after_an_abort(story: Story) -> None:
    """A record is handled twice, and one result is committed; the other one, only those see who read all."""
    story.consumer(committed=True)
    story.send(1, 0)
    for value in (11, 12):
        story.begin("x")
        sent = Send(TOPIC, value, 1, cause=1)
        story.ok(story.invoke("x", sent), Send(TOPIC, value, 1, 2 * value, cause=1))
        if value == 11:
            story.abort(who="x")
        else:
            story.commit_transaction(who="x")
    story.poll((22, 11), (24, 12), who="d", partition=1)
    story.poll((0, 1))
    story.poll((24, 12), partition=1)
    story.note("c", Drained((TOPIC,)))


def abort_puts_back(story: Story) -> None:
    story.consumer("x", committed=True, group=GROUP)
    story.sends(1, 2)
    story.assigned(1, P0, who="x")
    story.begin("x")
    story.poll((0, 1), (1, 2), who="x")
    story.commit(2, who="x")
    story.abort(who="x")
    story.poll((0, 1), who="x")
    story.begin("x")
    story.commit(1, who="x")
    story.commit_transaction(who="x")
    committed(story, 1)


def dead_letters(story: Story) -> None:
    story.dead_letter(4)
    begun = story.invoke("d", DeadLetter(GROUP, Place(TOPIC, 0, 4)))
    story.fail(begun)


def shared(story: Story) -> None:
    """A record is released, or its lock ends, and another member accepts it; an answer that was lost is no accept."""
    story.acquire(1, 2, 3)
    story.acknowledge(1, kind="release")
    story.acknowledge(2, outcome="unknown")
    story.acquire(1, 2, 3, who="u")
    story.acknowledge(1, 2, 3, who="u")
    story.acknowledge(3, outcome="fail")


def in_time(story: Story) -> None:
    story.call("close", timeout_ms=10, lasts_ms=10)
    story.invoke("d", Poll(), 5)
    story.note("d", Crash())
    story.note("main", Left())
    story.note("p", BufferedBytes("buffer", 100, 100))


LEGAL: list[tuple[str, Write]] = [
    ("", plain),
    ("", unknown_outcome_took_effect),
    ("", unknown_outcome_took_none),
    ("", send_under_way),
    ("", resent_by_the_program),
    ("", acknowledged_without_offset),
    ("", failed_send),
    ("", aborted),
    ("", commit_of_unknown_outcome),
    ("", commit_retried),
    ("", read_while_it_commits),
    ("int-send-skip", interleaved),
    ("", compacted),
    ("", deleted),
    ("", lost_on_purpose),
    ("", not_durable),
    ("", seeks),
    ("", began_at_the_end),
    ("", rebalance),
    ("", refused_commits),
    ("", commit_behind_a_marker),
    ("", commit_while_others_ask),
    ("", stale_owner_of_an_older_generation),
    ("", result_after_an_abort),
    ("", abort_puts_back),
    ("", dead_letters),
    ("", shared),
    ("", in_time),
    *administered.LEGAL,
    *kept.LEGAL,
]
