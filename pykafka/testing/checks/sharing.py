"""Checks of share groups: a record is accepted once, by the member that has it, and none is left over."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from itertools import zip_longest
from typing import NamedTuple

from pykafka.testing.checks.anomaly import Anomaly, Kind, found, named
from pykafka.testing.checks.facts import Facts, Sent
from pykafka.testing.history import Acknowledge, Acquire, DeadLetter, Handled, Operation, Outcome, Place, Settled


def check_sharing(facts: Facts) -> Iterator[Anomaly]:
    """Return what is wrong with the records of share groups."""
    yield from _acknowledgements(facts)
    yield from _values(facts)
    for operation in facts.operations:
        if isinstance(operation.action, Settled):
            yield from _unsettled(facts, operation, operation.action)


class _Accept(NamedTuple):
    """An accept that has succeeded.

    :param acquired: the number of the operation by which the member was given the record
    """

    begun: int
    acquired: int
    ended: Operation


class _Held:
    """One record of a group: who was given it when, and who has accepted it."""

    def __init__(self) -> None:
        self.given: dict[str, int] = {}
        self.accepts: list[_Accept] = []


#: Brokers take no notice of acknowledgements before the start of a group, behind which all is dealt with.
_IGNORED = "the lock of one of them had ended, and the broker took no notice of a record that was dealt with"


def _acknowledgements(facts: Facts) -> Iterator[Anomaly]:
    """Return records that were accepted twice, or by a member that did not have them."""
    held: dict[tuple[str, Place], _Held] = defaultdict(_Held)
    since: dict[tuple[int, Place], int | None] = {}
    for operation in facts.operations:
        action = operation.action
        if isinstance(action, Acknowledge) and operation.outcome is Outcome.INVOKE:
            given = [held[action.group, place].given.get(operation.process) for place in action.places]
            since.update(zip(((operation.number, place) for place in action.places), given, strict=True))
        if operation.outcome is not Outcome.OK:
            continue
        if isinstance(action, Acquire):
            for place, asked_ms in zip_longest(action.places, action.asked_ms):
                record = held[action.group, place]
                yield from _given_again(operation, place, asked_ms, record)
                record.given[operation.process] = operation.number
        elif isinstance(action, Acknowledge):
            for place in action.places:
                acquired = since.get((operation.call, place))
                yield from _acknowledged(operation, place, held[action.group, place], acquired)


def _given_again(operation: Operation, place: Place, asked_ms: int | None, record: _Held) -> Iterator[Anomaly]:
    """Return that a member was given a record which was accepted before it asked for it."""
    for accept in record.accepts:
        before = accept.ended
        if before.number < operation.call and (asked_ms is None or asked_ms > before.time_ms):
            sentence = (
                f"{operation.process} was given the record of {named(place)}, which {before.process} had accepted"
            )
            yield found(Kind.ACQUIRED_AFTER_ACCEPT, sentence, before, operation)
            return


def _acknowledged(operation: Operation, place: Place, record: _Held, acquired: int | None) -> Iterator[Anomaly]:
    """Return what is wrong with an acknowledgement.

    :param acquired: the operation by which its member had been given the record when it began; None: there is none
    """
    action = operation.action
    if acquired is None:
        sentence = f"{operation.process} has acknowledged the record of {named(place)} without being given it"
        yield found(Kind.ACCEPTED_WITHOUT_ACQUIRING, sentence, operation)
    if isinstance(action, Acknowledge) and action.kind == "accept":
        accept = _Accept(operation.call, -1 if acquired is None else acquired, operation)
        for other in record.accepts:
            before = other.ended
            sentence = f"{before.process} and {operation.process} have both accepted the record of {named(place)}"
            allowed = _IGNORED if _is_ignored(accept, other) or _is_ignored(other, accept) else ""
            yield found(Kind.ACCEPTED_TWICE, sentence, before, operation, allowed=allowed)
        record.accepts.append(accept)


def _is_ignored(accept: _Accept, other: _Accept) -> bool:
    """Return whether the broker may have ignored an accept: another member was given the record since, and dealt with it."""
    return accept.acquired < other.acquired and other.begun < accept.ended.number


def _acquired(facts: Facts) -> Iterator[tuple[Operation, str, Place, int]]:
    """Return what members were given: the operation, the group, the place and the value of each record."""
    for operation in facts.operations:
        action = operation.action
        if isinstance(action, Acquire) and operation.outcome is Outcome.OK and action.values:
            for place, value in zip(action.places, action.values, strict=True):
                yield operation, action.group, place, value


def _values(facts: Facts) -> Iterator[Anomaly]:
    """Return records that no program has sent to the place where a member got them."""
    reported: set[tuple[Place, int]] = set()
    for operation, _, place, value in _acquired(facts):
        if (place, value) in reported or facts.may_lose(place.topic):
            continue
        reported.add((place, value))
        what = f"{operation.process} was given value {value} of {named(place)}"
        sends = [sent for sent in facts.sends.get(value, ()) if sent.begun.number < operation.number]
        if not sends:
            yield found(Kind.NEVER_SENT, f"{what}, which no program had sent by then", operation)
        elif all(sent.failed for sent in sends):
            yield found(Kind.ABORTED_READ, f"{what}, whose send had failed", *(sent.shown for sent in sends), operation)
        elif all(sent.place not in (None, place) for sent in sends):
            elsewhere = [sent.shown for sent in sends]
            yield found(Kind.INCONSISTENT_OFFSETS, f"{what}, which was stored elsewhere", *elsewhere, operation)


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
