"""Checks of share groups: a record is accepted once, by the member that has it."""

from __future__ import annotations

from collections.abc import Iterator

from pykafka.testing.checks.anomaly import Anomaly, Kind, found, named
from pykafka.testing.checks.facts import Facts
from pykafka.testing.history import Acknowledge, Acquire, Operation, Outcome, Place


def check_sharing(facts: Facts) -> Iterator[Anomaly]:
    """Return records of share groups that were accepted twice, or by a member that did not have them."""
    accepted: dict[tuple[str, Place], Operation] = {}
    acquired: set[tuple[str, str, Place]] = set()
    for operation in facts.operations:
        action, process = operation.action, operation.process
        if operation.outcome is not Outcome.OK:
            continue
        if isinstance(action, Acquire):
            for place in action.places:
                acquired.add((process, action.group, place))
                before = accepted.get((action.group, place))
                if before is not None and before.number < operation.call:
                    sentence = f"{process} was given the record of {named(place)}, which {before.process} had accepted"
                    yield found(Kind.ACQUIRED_AFTER_ACCEPT, sentence, before, operation)
        elif isinstance(action, Acknowledge):
            for place in action.places:
                if (process, action.group, place) not in acquired:
                    sentence = f"{process} has acknowledged the record of {named(place)} without being given it"
                    yield found(Kind.ACCEPTED_WITHOUT_ACQUIRING, sentence, operation)
                if action.kind == "accept":
                    before = accepted.setdefault((action.group, place), operation)
                    if before is not operation:
                        sentence = f"{before.process} and {process} have both accepted the record of {named(place)}"
                        yield found(Kind.ACCEPTED_TWICE, sentence, before, operation)
