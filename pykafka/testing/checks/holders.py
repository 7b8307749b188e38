"""`check_holders`: each record of a share group has one holder at a time, and nobody else may acknowledge it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

from pykafka.testing.checks.anomaly import Anomaly, Kind, found, named
from pykafka.testing.checks.facts import Facts
from pykafka.testing.history import Acknowledge, Acquire, Crash, OpenConsumer, Operation, Outcome, Place

#: Kinds of acknowledgements after which nobody gets the record again.
FINAL = {"accept": "accepted", "reject": "rejected"}


@dataclass(slots=True)
class _Hold:
    """A record that a member was given.

    :param given: the operation with it
    :param taken: the first operation by which another member was certainly given the record later
    """

    given: Operation
    taken: Operation | None = None


@dataclass(slots=True)
class _State:
    """What a share group has done with a record."""

    #: By process, what it was given last and has not acknowledged; others may have been given it since.
    holds: dict[str, _Hold] = field(default_factory=dict)
    final: Operation | None = None


def check_holders(facts: Facts) -> Iterator[Anomaly]:
    """Return records of share groups that members without them have acknowledged, or that were given out after their end.

    A record belongs to the member that was given it last, until that member has acknowledged it, or its lock ends. The checker does
    not know when a lock ends, but if another member was given the record, the lock of the former holder had ended by then. A
    call that began before that may have come in time; one of unknown outcome says nothing.
    """
    holders = _Holders()
    for operation in facts.operations:
        action = operation.action
        if isinstance(action, (Crash, OpenConsumer)):
            holders.forget(operation.process)
        elif operation.outcome is not Outcome.OK:
            continue
        elif isinstance(action, Acquire):
            for place in action.places:
                yield from holders.acquire(operation, action, place)
        elif isinstance(action, Acknowledge):
            for place in action.places:
                yield from holders.acknowledge(operation, action, place)


class _Holders:
    """The state of each record of each share group, in one pass over a history."""

    def __init__(self) -> None:
        self._states: dict[tuple[str, Place], _State] = defaultdict(_State)

    def forget(self, process: str) -> None:
        """A process begins anew: what it had is not its own any more."""
        for state in self._states.values():
            state.holds.pop(process, None)

    def acquire(self, operation: Operation, action: Acquire, place: Place) -> Iterator[Anomaly]:
        """Give a record to a member."""
        state = self._states[action.group, place]
        before = state.final
        if before is not None and before.number < operation.call:
            assert isinstance(before.action, Acknowledge)
            what = f"which {before.process} had {FINAL[before.action.kind]}"
            sentence = f"{operation.process} was given the record of {named(place)}, {what}"
            yield found(Kind.ACQUIRED_AFTER_ACCEPT, sentence, before, operation)
        for process, hold in state.holds.items():
            if process != operation.process and hold.taken is None and _is_later(operation, action, hold.given):
                hold.taken = operation
        state.holds[operation.process] = _Hold(operation)

    def acknowledge(self, operation: Operation, action: Acknowledge, place: Place) -> Iterator[Anomaly]:
        """Take an acknowledgement that the group has taken."""
        state, process = self._states[action.group, place], operation.process
        what = f"{process} has acknowledged the record of {named(place)}"
        hold = state.holds.get(process)
        if hold is None or hold.given.number > operation.call:
            yield found(Kind.ACCEPTED_WITHOUT_ACQUIRING, f"{what} without being given it", operation)
        elif hold.taken is not None and hold.taken.number < operation.call:
            sentence = f"{what}, though {hold.taken.process} was given it since"
            yield found(Kind.ACCEPTED_AFTER_LOSS, sentence, hold.given, hold.taken, operation)
        if action.kind == "renew":
            if hold is not None:
                state.holds[process] = _Hold(operation)
            return
        state.holds.pop(process, None)
        if action.kind in FINAL:
            if state.final is None:
                state.final = operation
            else:
                yield self._twice(state.final, operation, place)

    @staticmethod
    def _twice(before: Operation, operation: Operation, place: Place) -> Anomaly:
        assert isinstance(before.action, Acknowledge)
        assert isinstance(operation.action, Acknowledge)
        first, second = FINAL[before.action.kind], FINAL[operation.action.kind]
        if first == second:
            sentence = f"{before.process} and {operation.process} have both {first} the record of {named(place)}"
        else:
            sentence = (
                f"{before.process} has {first} the record of {named(place)}, and {operation.process} has {second} it"
            )
        return found(Kind.ACCEPTED_TWICE, sentence, before, operation)


def _is_later(operation: Operation, action: Acquire, before: Operation) -> bool:
    """Return whether a member was certainly given a record after another one had it.

    A client that fetches in advance has got it before the call, but by no more than the time of its lock: it drops others.
    """
    if action.lock_ms is None:
        return operation.call > before.number
    return operation.time_ms - action.lock_ms > before.time_ms
