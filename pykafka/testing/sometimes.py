"""`Sometimes`: counts what has to happen in some seed, or else the seeds prove nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial

from pykafka.testing.history import (
    AbortTransaction,
    Acknowledge,
    Acquire,
    Assigned,
    BeginTransaction,
    Change,
    Commit,
    CommitTransaction,
    Crash,
    DeadLetter,
    Deleted,
    OpenConsumer,
    Operation,
    Outcome,
    Place,
    Poll,
    Revoked,
    Seek,
    Seen,
    Send,
)
from pykafka.testing.witness import SIGHTS

#: What only seeds with static members can show: small ones.
STATIC = "a static member comes back to its share without a rebalance"


def _shows(sight: str, operation: Operation) -> bool:
    return isinstance(operation.action, Seen) and operation.action.what == sight


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
    "a process is killed": lambda one: isinstance(one.action, Crash),
    "a record is written to a topic for dead letters": lambda one: (
        isinstance(one.action, DeadLetter) and one.outcome in (Outcome.OK, Outcome.NOTE)
    ),
    **{sight: partial(_shows, sight) for sight in SIGHTS},
}


def _unknown_and_stored(operations: Sequence[Operation]) -> bool:
    """Return whether a record was stored whose sender got no answer in time."""
    doubtful = {
        one.action.value for one in operations if isinstance(one.action, Send) and one.outcome is Outcome.UNKNOWN
    }
    reads = (read for one in operations if isinstance(one.action, Poll) for read in one.action.reads)
    return any(value in doubtful for read in reads for value in read.values)


def _refused_after_failure(operations: Sequence[Operation]) -> bool:
    """Return whether a transaction was refused its commit because one of its sends had failed."""
    failed: set[str] = set()
    for one in operations:
        if isinstance(one.action, BeginTransaction):
            failed.discard(one.process)
        elif isinstance(one.action, Send) and one.outcome in (Outcome.FAIL, Outcome.UNKNOWN):
            failed.add(one.process)
        elif isinstance(one.action, CommitTransaction) and one.outcome is Outcome.FAIL and one.process in failed:
            return True
    return False


def _rebalance_in_commit(operations: Sequence[Operation]) -> bool:
    """Return whether a member got partitions while another one committed, or a commit was refused after a rebalance."""
    committing: dict[int, str] = {}
    for one in operations:
        if isinstance(one.action, Commit):
            if one.error == "ShareLostError":
                return True
            if one.outcome is Outcome.INVOKE:
                committing[one.number] = one.action.group
            else:
                committing.pop(one.call, None)
        elif isinstance(one.action, Assigned) and one.action.group in committing.values():
            return True
    return False


def _lock_ended(operations: Sequence[Operation]) -> bool:
    """Return whether a record of a share group was given to another member, though the first had acknowledged nothing."""
    holders: dict[tuple[str, Place], str] = {}
    for one in operations:
        if isinstance(one.action, Acknowledge):
            for place in one.action.places:
                holders.pop((one.action.group, place), None)
        elif isinstance(one.action, Acquire) and one.outcome is Outcome.OK:
            for place in one.action.places:
                if holders.setdefault((one.action.group, place), one.process) != one.process:
                    return True
    return False


def _truncated(operations: Sequence[Operation]) -> bool:
    """Return whether an offset has had two values, as the log was truncated in between."""
    values: dict[Place, int] = {}
    for one in operations:
        if isinstance(one.action, Poll):
            for topic, partition, offsets, found in one.action.reads:
                places = [Place(topic, partition, offset) for offset in offsets]
                if any(values.setdefault(place, value) != value for place, value in zip(places, found, strict=True)):
                    return True
        elif isinstance(one.action, Send) and one.action.partition is not None and one.action.offset is not None:
            place = Place(one.action.topic, one.action.partition, one.action.offset)
            if values.setdefault(place, one.action.value) != one.action.value:
                return True
    return False


def _static_came_back(operations: Sequence[Operation]) -> bool:
    """Return whether a static member started again, and got partitions that it had, in the same generation."""
    former: dict[str, Assigned] = {}
    latest: dict[str, Assigned] = {}
    for one in operations:
        if isinstance(one.action, OpenConsumer):
            before = latest.pop(one.process, None)
            if one.action.instance_id and before is not None:
                former[one.process] = before
        elif isinstance(one.action, Assigned):
            before, latest[one.process] = former.pop(one.process, None), one.action
            if before is None or (before.group, before.generation) != (one.action.group, one.action.generation):
                continue
            if set(before.partitions) & set(one.action.partitions):
                return True
    return False


#: Each thing that several operations show together.
TOGETHER: dict[str, Callable[[Sequence[Operation]], bool]] = {
    "a send whose answer came too late is stored": _unknown_and_stored,
    "a transaction is not committed, as one of its sends has failed": _refused_after_failure,
    "a rebalance comes in a commit": _rebalance_in_commit,
    "a share record goes to another member, as its lock has ended": _lock_ended,
    "a log is truncated": _truncated,
    STATIC: _static_came_back,
}


def missing(counts: Mapping[str, int]) -> list[str]:
    """Return what has to happen in some seed, and has happened in none.

    :param counts: in how many histories each thing has happened
    """
    return [thing for thing in (*THINGS, *TOGETHER) if not counts.get(thing)]


class Sometimes:
    """Counts in how many histories each of `THINGS` and of `TOGETHER` has happened."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        #: How many histories were looked at.
        self.histories = 0

    def look(self, history: Iterable[Operation]) -> None:
        """Count what a history shows."""
        self.histories += 1
        operations, missing = list(history), dict(THINGS)
        for operation in operations:
            for thing in [thing for thing, shows in missing.items() if shows(operation)]:
                self.counts[thing] += 1
                del missing[thing]
        self.counts.update(thing for thing, shows in TOGETHER.items() if shows(operations))

    def missing(self) -> list[str]:
        """Return what has happened in no history."""
        return missing(self.counts)
