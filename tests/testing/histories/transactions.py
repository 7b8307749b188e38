"""Histories of reads of transactions that did not commit, or in part; and right ones."""

from __future__ import annotations

from pykafka.testing.history import CommitTransaction, Crash, Drained, Send
from tests.testing.stories import TOPIC, Story, Write

# Anomalies


def aborted_read(story: Story) -> None:
    story.consumer(committed=True)
    story.begin()
    story.send(1, 0)
    story.abort()
    story.poll((0, 1))


def read_after_failed_commit(story: Story) -> None:
    story.consumer(committed=True)
    story.begin()
    story.send(1, 0)
    story.commit_transaction("fail")
    story.abort()
    story.poll((0, 1))


def read_of_crashed(story: Story) -> None:
    """The producer crashes before it commits, and its successor aborts what it had begun."""
    story.consumer(committed=True)
    story.begin()
    story.send(1, 0)
    story.note("p", Crash())
    story.producer()
    story.poll((0, 1))


def precommitted_read(story: Story) -> None:
    story.consumer(committed=True)
    story.begin()
    story.send(1, 0)
    story.poll((0, 1))
    story.commit_transaction()


def read_of_own_transaction(story: Story) -> None:
    story.consumer("p", committed=True)
    story.begin()
    story.send(1, 0)
    story.poll((0, 1), who="p")
    story.commit_transaction()


def torn_transaction(story: Story) -> None:
    """The end of a transaction is unknown; one of its records was read, so the others have to be."""
    story.consumer(committed=True)
    story.begin()
    story.send(1, 0)
    story.send(2, 0, partition=1)
    story.commit_transaction("unknown")
    story.send(3, 2, who="q", partition=1)
    story.poll((0, 1))
    story.poll((2, 3), partition=1)


def incomplete_commit(story: Story) -> None:
    story.begin()
    story.send(1, 0)
    story.send(2, outcome="fail")
    story.commit_transaction()


# Right


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


PLANTED: list[tuple[str, Write]] = [
    ("G1a", aborted_read),
    ("G1a", read_after_failed_commit),
    ("G1a", read_of_crashed),
    ("precommitted-read", precommitted_read),
    ("precommitted-read", read_of_own_transaction),
    ("lost-write", torn_transaction),
    ("incomplete-commit", incomplete_commit),
]
LEGAL: list[tuple[str, Write]] = [
    ("", aborted),
    ("", commit_of_unknown_outcome),
    ("", commit_retried),
    ("", read_while_it_commits),
    ("", result_after_an_abort),
]
