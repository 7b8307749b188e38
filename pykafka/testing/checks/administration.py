"""Checks of administration: what was acknowledged as changed is so afterwards, and nothing else is."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from pykafka.testing.checks.anomaly import Anomaly, Kind, found
from pykafka.testing.checks.disturbances import late_ms
from pykafka.testing.checks.facts import Facts
from pykafka.testing.history import ANY, Change, Observe, Operation, Outcome

_CERTAIN = (Outcome.OK, Outcome.NOTE)
#: A list of the groups of all brokers shows no single moment: it lacks a group whose coordinator changes while brokers are
#: asked one after another, as one that comes back may not be asked.
_LISTS, _ABSENT, _MOVES = "list groups", "absent", ("stop", "move_coordinator")
#: Changes that the client asks for again if no answer comes, with the API of the requests.
_REPEATED = {
    "alter offsets": "OffsetCommit",
    "delete offsets": "OffsetDelete",
    "alter retention.ms": "IncrementalAlterConfigs",
}


class _Write:
    """A change of one subject: its value, the begin of its call, and its end, if it has ended.

    :param late_ms: for how long after the end a first request of the call may still come (ms)
    """

    def __init__(self, value: str, begun: Operation, ended: Operation | None, late_ms: int) -> None:
        self.value = value
        self.begun = begun
        self.ended = ended
        self.late_ms = late_ms

    @property
    def acknowledged(self) -> Operation | None:
        """The end of a call that has succeeded."""
        return self.ended if self.ended is not None and self.ended.outcome in _CERTAIN else None

    @property
    def failed(self) -> bool:
        """Whether it certainly had no effect."""
        return self.ended is not None and self.ended.outcome is Outcome.FAIL

    def is_over(self, writes: list[_Write], before: int) -> bool:
        """Return whether another one had certainly taken its place before an operation.

        One of unknown outcome may take effect at any later time, so it is never over.
        """
        if self.acknowledged is None:
            return False
        own, until_ms = self.acknowledged.number, self.acknowledged.time_ms + self.late_ms
        return any(
            other.acknowledged is not None
            and own < other.begun.number
            and until_ms <= other.begun.time_ms
            and other.acknowledged.number < before
            for other in writes
        )


def check_administration(facts: Facts) -> Iterator[Anomaly]:
    """Return answers that lack an acknowledged change, or show one that was not made."""
    writes: dict[str, list[_Write]] = defaultdict(list)
    for operation in facts.operations:
        if isinstance(operation.action, Change) and operation.call == operation.number:
            ended = operation if operation.outcome is Outcome.NOTE else facts.ended.get(operation.number)
            after_ms = _late_ms(facts, operation, ended)
            for subject, value in operation.action.states:
                writes[subject].append(_Write(value, operation, ended, after_ms))
    disturbances = facts.disturbances
    for operation in facts.operations:
        if isinstance(operation.action, Observe) and operation.outcome is Outcome.OK:
            begun_ms = facts.begun[operation.call].time_ms
            is_list = operation.action.what == _LISTS and disturbances.any_between(begun_ms, operation.time_ms, _MOVES)
            for subject, value in operation.action.states:
                if not (is_list and value == _ABSENT):
                    yield from _observed(facts, operation, subject, value, writes[subject])


def _late_ms(facts: Facts, begun: Operation, ended: Operation | None) -> int:
    """Return for how long after the end of a change its first request may still come (ms)."""
    assert isinstance(begun.action, Change)
    api = next((api for name, api in _REPEATED.items() if begun.action.what.startswith(name)), None)
    return 0 if api is None or ended is None else late_ms(facts.operations, facts.disturbances, api, begun, ended)


def _observed(facts: Facts, operation: Operation, subject: str, value: str, writes: list[_Write]) -> Iterator[Anomaly]:
    assert isinstance(operation.action, Observe)
    made = [one for one in writes if one.begun.number < operation.number and not one.failed]
    if not made:
        return  # nothing is known of it
    before = _oldest(facts, facts.begun[operation.call], operation.action.age_ms)
    possible = [one for one in made if not one.is_over(made, before)]
    if any(one.value in (value, ANY) for one in possible):
        return
    was_so = any(one.value == value for one in made)
    expected = " or ".join(sorted({one.value for one in possible}))
    shown = [one.acknowledged or one.begun for one in (possible if was_so else writes)]
    sentence = f"{operation.process} is shown {subject} as {value}, but it is {expected}"
    yield found(Kind.LOST_CHANGE if was_so else Kind.UNMADE_CHANGE, sentence, *shown, operation)


def _oldest(facts: Facts, begun: Operation, age_ms: int) -> int:
    """Return the number of the first operation that an answer has to know of, as it may be so old."""
    number = begun.number
    while number > 0 and facts.operations[number - 1].time_ms >= begun.time_ms - age_ms:
        number -= 1
    return number if age_ms else begun.number
