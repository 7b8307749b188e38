"""`Anomaly`: what a check has found."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from pykafka.testing.history import Operation, Place


class Kind(Enum):
    """Names of what can be wrong with a history. The first ones are those of Jepsen's workload for Kafka, by its names."""

    INCONSISTENT_OFFSETS = "inconsistent-offsets"
    DUPLICATE = "duplicate"
    ABORTED_READ = "G1a"
    PRECOMMITTED_READ = "precommitted-read"
    LOST_WRITE = "lost-write"
    UNSEEN = "unseen"
    POLL_SKIP = "poll-skip"
    NONMONOTONIC_POLL = "nonmonotonic-poll"
    INT_POLL_SKIP = "int-poll-skip"
    INT_NONMONOTONIC_POLL = "int-nonmonotonic-poll"
    NONMONOTONIC_SEND = "nonmonotonic-send"
    INT_NONMONOTONIC_SEND = "int-nonmonotonic-send"
    INT_SEND_SKIP = "int-send-skip"
    NEVER_SENT = "never-sent"
    MISPLACED = "misplaced"
    DUPLICATE_RESULT = "duplicate-result"
    MISSING_RESULT = "missing-result"
    INCOMPLETE_COMMIT = "incomplete-commit"
    TWO_OWNERS = "two-owners"
    READ_AFTER_LOSS = "read-after-loss"
    BEGAN_BEHIND = "began-behind"
    BEGAN_BEFORE = "began-before"
    COMMIT_BEYOND = "commit-beyond"
    COMMIT_AFTER_LOSS = "commit-after-loss"
    COMMIT_WENT_BACK = "commit-went-back"
    LOST_COMMIT = "lost-commit"
    DEAD_LETTER_TWICE = "dead-letter-twice"
    ACCEPTED_TWICE = "accepted-twice"
    ACCEPTED_WITHOUT_ACQUIRING = "accepted-without-acquiring"
    ACCEPTED_AFTER_LOSS = "accepted-after-loss"
    ACQUIRED_AFTER_ACCEPT = "acquired-after-accept"
    UNEXPLAINED_ERROR = "unexplained-error"
    UNSETTLED = "unsettled"
    READ_WITHOUT_OWNING = "read-without-owning"
    LOST_CHANGE = "lost-change"
    UNMADE_CHANGE = "unmade-change"
    LATE_END = "late-end"
    NO_END = "no-end"
    LEFTOVER = "leftover"
    TOO_MANY_BYTES = "too-many-bytes"


@dataclass(frozen=True, slots=True)
class Anomaly:
    """Something that a history shows.

    :param sentence: what it is, for a person
    :param operations: those that show it, in their order
    :param allowed: why it breaks no promise; "" if it does
    """

    kind: Kind
    sentence: str
    operations: tuple[Operation, ...]
    allowed: str = ""

    def __str__(self) -> str:
        why = f" (allowed: {self.allowed})" if self.allowed else ""
        return "\n".join([f"{self.kind.value}: {self.sentence}{why}", *(f"    {one}" for one in self.operations)])


def found(kind: Kind, sentence: str, *operations: Operation, allowed: str = "") -> Anomaly:
    """Return an anomaly, with its operations in order."""
    unique = {one.number: one for one in operations}
    return Anomaly(kind, sentence, tuple(unique[number] for number in sorted(unique)), allowed)


def named(place: Place) -> str:
    """Return the place of a record, for a sentence."""
    return f"{place.topic}-{place.partition} at {place.offset}"
