"""Checks of share groups: each record has one holder, has the value that was sent, and none is left over."""

from __future__ import annotations

from collections.abc import Iterator

from pykafka.testing.checks.anomaly import Anomaly, Kind, found, named
from pykafka.testing.checks.facts import Facts, Sent
from pykafka.testing.checks.holders import check_holders
from pykafka.testing.history import Acknowledge, Acquire, DeadLetter, Handled, Operation, Outcome, Place, Settled


def check_sharing(facts: Facts) -> Iterator[Anomaly]:
    """Return what is wrong with the records of share groups."""
    yield from check_holders(facts)
    yield from _values(facts)
    for operation in facts.operations:
        if isinstance(operation.action, Settled):
            yield from _unsettled(facts, operation, operation.action)


def _acquired(facts: Facts) -> Iterator[tuple[Operation, str, Place, int]]:
    """Return what members were given: the operation, the group, the place and the value of each record."""
    for operation in facts.operations:
        action = operation.action
        if isinstance(action, Acquire) and operation.outcome is Outcome.OK and action.values:
            for place, value in zip(action.places, action.values, strict=True):
                yield operation, action.group, place, value


def _values(facts: Facts) -> Iterator[Anomaly]:
    """Return records that a member was given, or has handled, and that no program has sent."""
    reported: set[tuple[Place, int]] = set()
    for place, value, operation in facts.given:
        if (place, value) in reported or facts.may_lose(place.topic):
            continue
        reported.add((place, value))
        what = f"{operation.process} was given value {value} of {named(place)}"
        sends = [sent for sent in facts.sends.get(value, ()) if sent.begun.number < operation.number]
        if not sends:
            yield found(Kind.NEVER_SENT, f"{what}, which no program had sent by then", operation)
        elif all(sent.failed for sent in sends):
            yield found(Kind.ABORTED_READ, f"{what}, whose send had failed", *(sent.shown for sent in sends), operation)


def _unsettled(facts: Facts, settled: Operation, action: Settled) -> Iterator[Anomaly]:
    """Return acknowledged records that the group has neither accepted nor rejected, though it had the time for it."""
    values = {place: value for _, group, place, value in _acquired(facts) if group == action.group}
    values |= {one.place: one.value for one in _handled(facts) if one.group == action.group}
    places = {*action.spent, *_dealt_with(facts, action.group)}
    done = {values.get(place) for place in places}
    for value, sends in facts.sends.items():
        for sent in sends:
            is_open = value not in done and sent.place not in places and sent.action.topic in action.topics
            if is_open and _is_expected(facts, sent) and sent.shown.number < settled.number:
                where = named(sent.place) if sent.place is not None else sent.action.topic
                sentence = f"value {value} was acknowledged ({where}), and group {action.group} has not dealt with it"
                yield found(Kind.UNSETTLED, sentence, sent.begun, sent.shown, settled)


def _handled(facts: Facts) -> Iterator[Handled]:
    return (operation.action for operation in facts.operations if isinstance(operation.action, Handled))


def _dealt_with(facts: Facts, group: str) -> Iterator[Place]:
    """Return the records that a group has handled or given up, accepted or rejected, or may have."""
    for operation in facts.operations:
        action = operation.action
        if isinstance(action, Handled | DeadLetter) and action.group == group and operation.outcome is Outcome.NOTE:
            yield action.place
    for begun in facts.begun.values():
        acknowledged, ended = begun.action, facts.ended.get(begun.number)
        if not isinstance(acknowledged, Acknowledge) or acknowledged.group != group or acknowledged.kind == "release":
            continue
        if ended is None or ended.outcome is not Outcome.FAIL:
            yield from acknowledged.places


def _is_expected(facts: Facts, sent: Sent) -> bool:
    """Return whether a record has to stay in the log, for all to read."""
    is_kept = sent.acknowledged and sent.is_committed() and sent.producer.durable
    is_gone = sent.place is not None and facts.is_gone(sent.place)
    return is_kept and not is_gone and not facts.may_lose(sent.action.topic)
