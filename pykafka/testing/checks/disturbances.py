"""`Disturbances`: when which faults were active, as the notes of a history say it, and when what was changed on purpose."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from pykafka.testing.history import Change, Fault, Operation, Outcome

#: A call that has ended before has made one request (ms), unless its connection broke: by one of these, or a cut of its API.
_GIVEN_UP_MS = 500
_BREAKS = ("cut_all", "network", "hang_up", "stop")
#: How long after the end of a "hold" brokers read what came behind the held requests (ms).
_READ_MS = 100


@dataclass(slots=True)
class Disturbance:
    """One fault.

    :param words: its name and what it concerns
    :param begins_ms: when it begins (ms)
    :param ends_ms: when it is over (ms); None: never
    """

    words: frozenset[str]
    begins_ms: int
    ends_ms: int | None


class Disturbances:
    """The faults of a history, and its changes, which explain only what names them as a "change"."""

    def __init__(self, operations: Iterable[Operation]) -> None:
        self._all: list[Disturbance] = []
        self._changes: dict[int, Disturbance] = {}
        active: dict[int, Disturbance] = {}
        for operation in operations:
            action = operation.action
            if isinstance(action, Change):
                self._note_change(operation, action)
            if not isinstance(action, Fault):
                continue
            if not action.ends:
                # One without a number has no end of its own: it happens now.
                ends_ms = operation.time_ms if action.number is None else None
                begun = Disturbance(frozenset(action.words), operation.time_ms, ends_ms)
                self._all.append(begun)
                if action.number is not None:
                    active[action.number] = begun
                continue
            ended = [action.number] if action.number is not None else list(active)
            for number in ended:
                if number in active:
                    active.pop(number).ends_ms = operation.time_ms

    def _note_change(self, operation: Operation, change: Change) -> None:
        if operation.outcome is Outcome.INVOKE:
            words = frozenset(("change", *change.what.split()))
            self._changes[operation.number] = Disturbance(words, operation.time_ms, None)
        elif operation.call in self._changes:
            self._changes[operation.call].ends_ms = operation.time_ms

    def named(self, name: str) -> list[Disturbance]:
        """Return the faults of a name."""
        return [one for one in self._all if name in one.words]

    def any_between(self, low_ms: int, high_ms: int, causes: Collection[str] = (), lasts_ms: int = 0) -> bool:
        """Return whether a fault was active at some moment of a span.

        :param causes: words of faults, with spaces between; a fault counts if it has all words of one; empty: each fault does
        :param lasts_ms: how long a fault has effects after its end (ms)
        """
        wanted = [frozenset(cause.split()) for cause in causes]
        for one in (*self._all, *self._changes.values()) if wanted else self._all:
            is_there = one.begins_ms <= high_ms and (one.ends_ms is None or one.ends_ms + lasts_ms >= low_ms)
            if is_there and (not wanted or any(words <= one.words for words in wanted)):
                return True
        return False


def late_ms(
    operations: Sequence[Operation], disturbances: Disturbances, api: str, begun: Operation, ended: Operation
) -> int:
    """Return for how long after the end of a call its first request may still come, as a fault has held it up (ms).

    The client asks again if no answer comes, and brokers cannot know that it has given the first request up. A broker reads a
    request that comes on one connection behind a held one, of whatever API, when that one is released.

    :param operations: of the history
    :param disturbances: in them
    :param api: of the request
    """
    span = begun.time_ms, ended.time_ms
    if span[1] - span[0] < _GIVEN_UP_MS and not disturbances.any_between(*span, (*_BREAKS, f"cut {api}")):
        return 0
    faults = [one.action for one in operations[: ended.number] if isinstance(one.action, Fault)]
    late = max((int(fault.words[2]) for fault in faults if fault.words[:2] == ("late", api)), default=0)
    holds = [one for one in disturbances.named("hold") if one.begins_ms <= ended.time_ms]
    ends_ms = [one.ends_ms for one in holds if one.ends_ms is not None and one.ends_ms >= begun.time_ms]
    return max(late, *(until_ms + _READ_MS - ended.time_ms for until_ms in ends_ms), 0)
