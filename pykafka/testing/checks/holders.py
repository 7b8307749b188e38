"""`check_holders`: each record of a share group has one holder at a time, and only the holder may acknowledge it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import zip_longest
from typing import NamedTuple

from pykafka.testing.checks.anomaly import Anomaly, Kind, found, named
from pykafka.testing.checks.disturbances import Disturbances
from pykafka.testing.checks.facts import Facts
from pykafka.testing.history import Acknowledge, Acquire, Call, Crash, OpenConsumer, Operation, Outcome, Place

#: Kinds of acknowledgements after which no member gets the record again.
FINAL = {"accept": "accepted", "reject": "rejected"}
#: The error of an acknowledgement by a member that does not hold the record, and for how long a fault may be its cause (ms).
_NOT_HELD, _LASTS_MS = "InvalidRecordState", 5_000
#: Brokers and histories count whole milliseconds, each of its own clock, so a lock may seem to end this much earlier (ms).
_ROUNDED_MS = 1
#: Brokers take no notice of acknowledgements before the start of a group, behind which all is dealt with.
_IGNORED = "the lock of one of them had ended, and the broker took no notice of a record that was dealt with"


@dataclass(eq=False, slots=True)
class _Hold:
    """A record that a member was given.

    :param given: the operation with it
    :param begun: before this operation the member had not asked for it, unless it asks in advance
    :param asked_ms: when it has asked in advance (ms); None: it does not do that
    :param lock_ms: how long the group keeps it for the member (ms); None: not known
    :param is_settling: the member has begun to acknowledge it, or to close
    """

    given: Operation
    begun: Operation
    asked_ms: int | None
    lock_ms: int | None
    is_settling: bool = False

    def is_later(self, other: _Hold) -> bool:
        """Return whether the member was certainly given the record later than another one."""
        if self.asked_ms is not None:
            return self.asked_ms > other.given.time_ms
        return self.begun.number > other.given.number

    def lasts(self, until_ms: int, disturbances: Disturbances, effects_ms: int = 0) -> bool:
        """Return whether its lock certainly has not ended by a time; a fault may have ended it with its session.

        :param effects_ms: how long a fault may have effects after its end (ms)
        """
        since_ms = self.begun.time_ms if self.asked_ms is None else self.asked_ms
        if self.lock_ms is None or since_ms + self.lock_ms - _ROUNDED_MS <= until_ms:
            return False
        return not disturbances.any_between(since_ms, until_ms, lasts_ms=effects_ms)


class _Final(NamedTuple):
    """An acknowledgement that has succeeded, and after which no member gets the record.

    :param hold: by which the member had the record; None: it had not
    """

    ended: Operation
    hold: _Hold | None


class _Record:
    """The state of a record of a share group."""

    def __init__(self) -> None:
        #: By process, what it was given last and has not acknowledged; others may have been given it since.
        self.holds: dict[str, _Hold] = {}
        self.finals: list[_Final] = []


def check_holders(facts: Facts) -> Iterator[Anomaly]:
    """Return records of share groups that members without them have acknowledged, or that were given out after their end.

    And acknowledgements that were refused though the member held the record.

    The lock of a member has ended if another one was given the record later. While that one has it, no acknowledgement of the
    former holder may succeed. Afterwards it may: brokers take no notice of what is before the start of the group. Calls that
    overlap may have come in either order, and one of unknown outcome proves nothing.
    """
    holders = _Holders(facts)
    for operation in facts.operations:
        action = operation.action
        if isinstance(action, (Crash, OpenConsumer)):
            holders.forget(operation.process)
        elif isinstance(action, Call) and action.what.startswith("close"):
            holders.settle(operation.process)
        elif isinstance(action, Acquire) and operation.outcome is Outcome.OK:
            yield from holders.acquire(operation, action)
        elif isinstance(action, Acknowledge):
            if operation.outcome is Outcome.INVOKE:
                holders.begin(operation, action)
            elif operation.outcome is Outcome.OK:
                yield from holders.acknowledge(operation, action)
            elif operation.error == _NOT_HELD:
                yield from holders.refuse(operation, action)


class _Holders:
    """The state of each record of each share group, in one pass over a history."""

    def __init__(self, facts: Facts) -> None:
        self._facts = facts
        self._disturbances = facts.disturbances
        self._records: dict[tuple[str, Place], _Record] = defaultdict(_Record)
        #: The holds of members when they began to acknowledge a record.
        self._acknowledging: dict[tuple[int, Place], _Hold | None] = {}
        #: Those that are not the first of their hold: another one may have ended it.
        self._repeated: set[tuple[int, Place]] = set()

    def forget(self, process: str) -> None:
        """Note that a process begins anew: what it had is not its own any more."""
        for record in self._records.values():
            record.holds.pop(process, None)

    def settle(self, process: str) -> None:
        """Note that a member closes: it gives back what it has at some moment of that."""
        for record in self._records.values():
            if process in record.holds:
                record.holds[process].is_settling = True

    def acquire(self, operation: Operation, action: Acquire) -> Iterator[Anomaly]:
        """Give records to a member."""
        for place, asked_ms in zip_longest(action.places, action.asked_ms):
            record = self._records[action.group, place]
            for final in record.finals:
                before = final.ended
                if before.number < operation.call and (asked_ms is None or asked_ms > before.time_ms):
                    what = f"which {before.process} had {_done(before)}"
                    sentence = f"{operation.process} was given the record of {named(place)}, {what}"
                    yield found(Kind.ACQUIRED_AFTER_ACCEPT, sentence, before, operation)
                    break
            begun = self._facts.begun[operation.call]
            record.holds[operation.process] = _Hold(operation, begun, asked_ms, action.lock_ms)

    def begin(self, operation: Operation, action: Acknowledge) -> None:
        """Take the begin of an acknowledgement."""
        for place in action.places:
            hold = self._records[action.group, place].holds.get(operation.process)
            self._acknowledging[operation.number, place] = hold
            if hold is not None and hold.is_settling:
                self._repeated.add((operation.number, place))
            if hold is not None and action.kind != "renew":
                hold.is_settling = True

    def acknowledge(self, operation: Operation, action: Acknowledge) -> Iterator[Anomaly]:
        """Take an acknowledgement that has succeeded."""
        for place in action.places:
            record = self._records[action.group, place]
            hold = self._acknowledging.pop((operation.call, place), None)
            what = f"{operation.process} has acknowledged the record of {named(place)}"
            if hold is None:
                yield found(Kind.ACCEPTED_WITHOUT_ACQUIRING, f"{what} without being given it", operation)
            elif (taken := self._taken(record, hold, operation)) is not None:
                sentence = f"{what}, though {taken.process} was given it since, and still has it"
                yield found(Kind.ACCEPTED_AFTER_LOSS, sentence, hold.given, taken, operation)
            if action.kind == "renew":
                continue
            if record.holds.get(operation.process) is hold:
                record.holds.pop(operation.process, None)
            if action.kind in FINAL:
                final = _Final(operation, hold)
                yield from (self._twice(other, final, place) for other in record.finals)
                record.finals.append(final)

    def refuse(self, operation: Operation, action: Acknowledge) -> Iterator[Anomaly]:
        """Take an acknowledgement that was refused as the member does not hold the record."""
        for place in action.places:
            hold = self._acknowledging.pop((operation.call, place), None)
            if hold is None or (operation.call, place) in self._repeated:
                continue
            if hold.lasts(operation.time_ms, self._disturbances, _LASTS_MS):
                who = f"{operation.process} was refused its acknowledgement of the record of {named(place)}"
                yield found(Kind.UNEXPLAINED_ERROR, f"{who}, though it still held it", hold.given, operation)

    def _taken(self, record: _Record, hold: _Hold, operation: Operation) -> Operation | None:
        """Return the operation by which another member has got a record since, if it certainly has it at this time."""
        for process, other in record.holds.items():
            if process == operation.process or other.is_settling or other.given.number > operation.call:
                continue
            if other.is_later(hold) and other.lasts(operation.time_ms, self._disturbances):
                return other.given
        return None

    def _twice(self, first: _Final, second: _Final, place: Place) -> Anomaly:
        before, after = first.ended, second.ended
        if _done(before) == _done(after):
            sentence = f"{before.process} and {after.process} have both {_done(before)} the record of {named(place)}"
        else:
            what = f"{_done(before)} the record of {named(place)}, {after.process} {_done(after)} it"
            sentence = f"{before.process} has {what}"
        is_ignored = self._is_ignored(first, second) or self._is_ignored(second, first)
        return found(Kind.ACCEPTED_TWICE, sentence, before, after, allowed=_IGNORED if is_ignored else "")

    def _is_ignored(self, one: _Final, other: _Final) -> bool:
        """Return whether the broker may have ignored the one, as the member of the other had the record later, and is done."""
        if one.hold is None or other.hold is None or one.hold.is_later(other.hold):
            return False
        if one.hold.lasts(other.hold.given.time_ms, self._disturbances):
            return False
        return other.ended.call < one.ended.number


def _done(operation: Operation) -> str:
    assert isinstance(operation.action, Acknowledge)
    return FINAL[operation.action.kind]
