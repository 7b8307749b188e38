"""Checks of dead letters: a member writes one for a record, and a broker stores it once."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from pykafka.testing.checks.anomaly import Anomaly, Kind, found, named
from pykafka.testing.checks.facts import Facts
from pykafka.testing.history import (
    Assigned,
    Crash,
    DeadLetter,
    OpenConsumer,
    OpenProducer,
    Operation,
    Outcome,
    Place,
    Revoked,
)

#: A record that a group has given up.
Source = tuple[str, Place]
_RESENT = "the producer was not idempotent"


def check_letters(facts: Facts) -> Iterator[Anomaly]:
    """Return records with more dead letters than they may have.

    A member that loses its partitions before it has committed leaves the record to another one, which may give it up again.
    """
    yield from _written_twice(facts)
    yield from _stored_twice(facts)


def _written_twice(facts: Facts) -> Iterator[Anomaly]:
    """Return records that a member has given up again, though its first dead letter was acknowledged."""
    written: dict[tuple[Source, int], Operation] = {}
    tenures = _Tenures()
    begun_in: dict[int, int] = {}
    for operation in facts.operations:
        tenures.take(operation)
        action = operation.action
        if not isinstance(action, DeadLetter):
            continue
        source = action.group, action.place
        if operation.outcome is Outcome.INVOKE:
            tenure = begun_in[operation.number] = tenures.of(operation.process, action.place)
            before, ended = written.get((source, tenure)), facts.ended.get(operation.number)
            if before is not None and (ended is None or ended.outcome is not Outcome.FAIL):
                sentence = f"the record of {named(action.place)} is given up twice by group {action.group}"
                yield found(Kind.DEAD_LETTER_TWICE, sentence, before, operation)
        elif operation.outcome is Outcome.OK:
            written.setdefault((source, begun_in[operation.call]), operation)


class _Tenures:
    """The times for which members have had partitions: each has the number of the operation that began it."""

    def __init__(self) -> None:
        self._of_process: dict[str, int] = {}
        self._of_partition: dict[tuple[str, str, int], int] = {}

    def take(self, operation: Operation) -> None:
        """Take the next operation: a change of what a member has begins a tenure."""
        action, process = operation.action, operation.process
        if isinstance(action, Crash | OpenConsumer):
            self._of_process[process] = operation.number
        elif isinstance(action, Revoked):
            for topic, partition in action.partitions:
                self._of_partition[process, topic, partition] = operation.number
        elif isinstance(action, Assigned):
            self._of_process.setdefault(process, operation.number)

    def of(self, process: str, place: Place) -> int:
        """Return the present tenure of a member; -1 if the history does not say that it has one."""
        partition = self._of_partition.get((process, place.topic, place.partition), -1)
        return max(self._of_process.get(process, -1), partition)


def _stored_twice(facts: Facts) -> Iterator[Anomaly]:
    """Return records with more dead letters in their topic than were sent."""
    sent: dict[Source, list[Operation]] = defaultdict(list)
    stored: dict[Source, list[Operation]] = defaultdict(list)
    idempotent: dict[str, bool] = {}
    for operation in facts.operations:
        action = operation.action
        if isinstance(action, OpenProducer):
            idempotent[operation.process] = action.idempotent
        if isinstance(action, DeadLetter):
            source = action.group, action.place
            ended = facts.ended.get(operation.number)
            if operation.outcome is Outcome.NOTE:
                stored[source].append(operation)
            elif operation.outcome is Outcome.INVOKE and (ended is None or ended.outcome is not Outcome.FAIL):
                sent[source].append(operation)
    for (group, place), notes in stored.items():
        writes = sent[group, place]
        if len(notes) > len(writes):
            sentence = (
                f"the record of {named(place)} has {len(notes)} dead letters of group {group}, of {len(writes)} sent"
            )
            allowed = "" if all(idempotent.get(one.process, True) for one in writes) else _RESENT
            yield found(Kind.DEAD_LETTER_TWICE, sentence, *writes, *notes, allowed=allowed)
