"""Checks of order: what one program sends, and what it reads, of one partition."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from itertools import pairwise

from pykafka.common import TopicPartition
from pykafka.testing.checks.anomaly import Anomaly, Kind, found
from pykafka.testing.checks.facts import Facts, Sent
from pykafka.testing.history import (
    AbortTransaction,
    Assign,
    Assigned,
    Crash,
    OpenConsumer,
    Operation,
    Outcome,
    Place,
    Poll,
    Read,
    Revoked,
    Seek,
    Subscribe,
)

#: Why a consumer may begin again.
_SENT_BACK = "a leader that is cut off has less than was read, and there are no leader epochs"
#: How long after a cut-off leader has heard of the present one a consumer that it had sent back may read the first record (ms).
_SENT_BACK_MS = 5_000


def check_order(facts: Facts) -> Iterator[Anomaly]:
    """Return polls and sends that are out of order."""
    yield from _polls(facts)
    yield from _sends(facts)


class _Positions:
    """Where each process is in each partition: the last offset that it was given, and by which poll.

    A position is forgotten when the process may go on elsewhere: after a new choice of partitions, the loss of a partition, a
    crash, and an abort, which goes back to the committed offsets. After a seek it goes on at the offset that it has sought.
    """

    def __init__(self) -> None:
        self.of: dict[str, dict[TopicPartition, tuple[int, Operation]]] = defaultdict(dict)
        self._held: dict[str, frozenset[TopicPartition]] = {}

    def note(self, operation: Operation) -> None:
        """Take an operation that is no poll."""
        action, positions = operation.action, self.of[operation.process]
        match action:
            case OpenConsumer() | Crash() | Subscribe() | Assign() | AbortTransaction():
                positions.clear()
            case Seek() if operation.outcome in (Outcome.OK, Outcome.NOTE):
                positions[TopicPartition(*action.place[:2])] = action.place.offset - 1, operation
            case Seek():
                positions.pop(TopicPartition(*action.place[:2]), None)
            case Revoked():
                for key in action.partitions:
                    positions.pop(key, None)
            case Assigned():
                for key in set(action.partitions) - self._held.get(operation.process, frozenset()):
                    positions.pop(key, None)
        if isinstance(action, Assigned):
            self._held[operation.process] = frozenset(action.partitions)
        elif isinstance(action, Revoked):
            self._held[operation.process] = self._held.get(operation.process, frozenset()) - set(action.partitions)


def _polls(facts: Facts) -> Iterator[Anomaly]:
    positions = _Positions()
    for operation in facts.operations:
        if not isinstance(operation.action, Poll):
            positions.note(operation)
        elif operation.outcome is Outcome.OK:
            for read in operation.action.reads:
                if read.offsets and not facts.may_lose(read.topic):
                    yield from _one_read(facts, operation, read, positions)


def _one_read(facts: Facts, operation: Operation, read: Read, positions: _Positions) -> Iterator[Anomaly]:
    key = TopicPartition(read.topic, read.partition)
    committed = facts.reads_committed(operation)
    known = positions.of[operation.process]
    last, before = known.get(key, (None, operation))
    for offset in read.offsets:
        inside = before is operation
        if last is not None and offset <= last:
            kind = Kind.INT_NONMONOTONIC_POLL if inside else Kind.NONMONOTONIC_POLL
            what = f"{operation.process} read {key} at {offset}"
            if isinstance(before.action, Seek):
                sentence = f"{what}, though it had sought {before.action.place.offset}"
            else:
                sentence = f"{what} after {last}, without a seek or a rebalance"
            allowed = "" if inside or not may_begin_again(facts, before, operation, key, offset) else _SENT_BACK
            yield found(kind, sentence, before, operation, allowed=allowed)
        elif (
            last is not None and (skipped := facts.passed_over(key, last + 1, offset, committed, operation)) is not None
        ):
            kind = Kind.INT_POLL_SKIP if inside else Kind.POLL_SKIP
            value = facts.logs[key].values[skipped]
            since = f"has sought {last + 1} of {key}" if isinstance(before.action, Seek) else f"read {key} at {last}"
            sentence = f"{operation.process} {since}, then read at {offset}, and not value {value} at {skipped}"
            shown = [one.shown for one in facts.sends.get(value, ())]
            yield found(kind, sentence, before, operation, *shown)
        last, before = offset, operation
    known[key] = read.offsets[-1], operation


def may_begin_again(facts: Facts, before: Operation, poll: Operation, key: TopicPartition, offset: int) -> bool:
    """Return whether a consumer may be back at the start of a partition, as a leader that is cut off has less than it has read.

    Without leader epochs nothing tells it that the broker does not lead any more: `auto_offset_reset` counts.

    :param before: the poll of the last record
    :param poll: the one that has begun again
    :param offset: of its first record
    """
    if facts.logs[key].before(offset, facts.reads_committed(poll)) is not None:
        return False
    cause = f"outdated unnumbered {key.topic} {key.partition}"
    since_ms = max(before.time_ms, poll.time_ms - _SENT_BACK_MS)
    return facts.disturbances.any_between(since_ms, poll.time_ms, [cause])


def _sends(facts: Facts) -> Iterator[Anomaly]:
    by_process: dict[tuple[str, TopicPartition], list[tuple[Sent, int]]] = defaultdict(list)
    places = _read_places(facts)
    for value, sends in facts.sends.items():
        for sent in sends:
            place = sent.place or (places.get(value) if len(sends) == 1 else None)
            if sent.acknowledged and place is not None and not facts.may_lose(place.topic):
                by_process[sent.begun.process, TopicPartition(*place[:2])].append((sent, place.offset))
    for (process, key), stored in by_process.items():
        stored.sort(key=lambda one: one[0].begun.number)
        for earlier, later in pairwise(stored):
            yield from _two_sends(facts, process, key, earlier, later)


def _read_places(facts: Facts) -> dict[int, Place]:
    """Return where values were read, those at one place alone: an acknowledgement may name no offset."""
    places: dict[int, Place] = {}
    several: set[int] = set()
    for polled in facts.polled:
        if places.setdefault(polled.value, polled.place) != polled.place:
            several.add(polled.value)
    return {value: place for value, place in places.items() if value not in several}


def _two_sends(
    facts: Facts, process: str, key: TopicPartition, one: tuple[Sent, int], other: tuple[Sent, int]
) -> Iterator[Anomaly]:
    (earlier, first), (later, second) = one, other
    inside = earlier.transaction is not None and earlier.transaction is later.transaction
    shown = earlier.begun, earlier.shown, later.begun, later.shown
    if second < first:
        kind = Kind.INT_NONMONOTONIC_SEND if inside else Kind.NONMONOTONIC_SEND
        ordered = all(sent.producer.idempotent or sent.producer.ordered for sent in (earlier, later))
        sentence = f"{process} sent value {later.action.value} to {key} later, but it is at {second}, before {first}"
        yield found(kind, sentence, *shown, allowed="" if ordered else "the producer was not idempotent")
    elif inside and (between := facts.logs[key].between(first + 1, second, False)) is not None:
        value = facts.logs[key].values[between]
        sends = facts.sends.get(value, ())
        own = any(sent.begun.process == process and sent.transaction is not earlier.transaction for sent in sends)
        sentence = f"value {value} at {between} of {key} is between two sends of one transaction of {process}"
        allowed = "" if own else "another program writes to the partition"
        yield found(Kind.INT_SEND_SKIP, sentence, *shown, allowed=allowed)
