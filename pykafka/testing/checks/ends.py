"""Checks of ends: calls end in time, nothing is left, and no bound on memory is broken."""

from __future__ import annotations

from collections.abc import Iterator

from pykafka.testing.checks.anomaly import Anomaly, Kind, found
from pykafka.testing.checks.facts import Facts
from pykafka.testing.history import BufferedBytes, Call, Change, Crash, Left, Observe, Operation


def check_ends(facts: Facts, slack_ms: int) -> Iterator[Anomaly]:
    """Return calls that ended late or never, what was left, and bounds that were broken.

    :param slack_ms: how much later than its deadline a call may end (ms)
    """
    crashed = {one.process: one.number for one in facts.operations if isinstance(one.action, Crash)}
    for begun in facts.begun.values():
        if begun.deadline_ms is not None:
            yield from _end(facts, begun, begun.deadline_ms, crashed.get(begun.process, -1), slack_ms)
    for operation in facts.operations:
        action = operation.action
        if isinstance(action, Left) and (action.workers or action.connections):
            names = ", ".join((*action.workers, *action.connections))
            yield found(Kind.LEFTOVER, f"these were left when all programs had ended: {names}", operation)
        elif isinstance(action, BufferedBytes) and action.held > action.limit:
            sentence = f"{operation.process} holds {action.held} bytes in {action.what}, and may hold {action.limit}"
            yield found(Kind.TOO_MANY_BYTES, sentence, operation)


def _end(facts: Facts, begun: Operation, deadline_ms: int, crashed: int, slack_ms: int) -> Iterator[Anomaly]:
    what = begun.action.what if isinstance(begun.action, (Call, Change, Observe)) else begun.action.name
    ended = facts.ended.get(begun.number)
    if ended is None and crashed < begun.number:
        yield found(Kind.NO_END, f"{what} of {begun.process} has not ended", begun)
    elif ended is not None and ended.time_ms > deadline_ms + slack_ms:
        late = ended.time_ms - deadline_ms
        yield found(Kind.LATE_END, f"{what} of {begun.process} ended {late} ms after its deadline", begun, ended)
