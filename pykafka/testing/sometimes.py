"""`Sometimes`: counts what has to happen in some seed, or else the seeds prove nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable

from pykafka.testing.history import (
    AbortTransaction,
    Assigned,
    Change,
    Commit,
    CommitTransaction,
    Deleted,
    Operation,
    Outcome,
    Poll,
    Revoked,
    Seek,
    Send,
)

#: Each thing that has to happen, and whether an operation shows it.
THINGS: dict[str, Callable[[Operation], bool]] = {
    "a send succeeds": lambda one: isinstance(one.action, Send) and one.outcome is Outcome.OK,
    "a send fails": lambda one: isinstance(one.action, Send) and one.outcome is Outcome.FAIL,
    "a send has an unknown outcome": lambda one: isinstance(one.action, Send) and one.outcome is Outcome.UNKNOWN,
    "a transaction is committed": lambda one: isinstance(one.action, CommitTransaction) and one.outcome is Outcome.OK,
    "a commit of a transaction is refused": lambda one: (
        isinstance(one.action, CommitTransaction) and one.outcome is Outcome.FAIL
    ),
    "a commit of a transaction has an unknown outcome": lambda one: (
        isinstance(one.action, CommitTransaction) and one.outcome is Outcome.UNKNOWN
    ),
    "a transaction is aborted": lambda one: isinstance(one.action, AbortTransaction) and one.outcome is Outcome.OK,
    "a poll returns records of several partitions": lambda one: (
        isinstance(one.action, Poll) and len(one.action.reads) > 1
    ),
    "a consumer seeks": lambda one: isinstance(one.action, Seek),
    "a member gets no partition": lambda one: isinstance(one.action, Assigned) and not one.action.partitions,
    "partitions are revoked": lambda one: isinstance(one.action, Revoked) and not one.action.lost,
    "partitions are lost": lambda one: isinstance(one.action, Revoked) and one.action.lost,
    "offsets are committed": lambda one: isinstance(one.action, Commit) and one.outcome is Outcome.OK,
    "a change by administration succeeds": lambda one: isinstance(one.action, Change) and one.outcome is Outcome.OK,
    "a change by administration is refused": lambda one: isinstance(one.action, Change) and one.outcome is Outcome.FAIL,
    "a change by administration has an unknown outcome": lambda one: (
        isinstance(one.action, Change) and one.outcome is Outcome.UNKNOWN
    ),
    "records are deleted": lambda one: isinstance(one.action, Deleted),
    "a commit of offsets fails": lambda one: isinstance(one.action, Commit) and one.outcome is Outcome.UNKNOWN,
}


class Sometimes:
    """Counts in how many histories each of `THINGS` has happened."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()

    def look(self, history: Iterable[Operation]) -> None:
        """Count what a history shows."""
        missing = dict(THINGS)
        for operation in history:
            for thing in [thing for thing, shows in missing.items() if shows(operation)]:
                self.counts[thing] += 1
                del missing[thing]

    def missing(self) -> list[str]:
        """Return what has happened in no history."""
        return [thing for thing in THINGS if not self.counts[thing]]
