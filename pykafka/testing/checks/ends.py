"""Checks of ends: calls end in time, nothing is left, and no bound on memory is broken."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from pykafka.testing.checks.anomaly import Anomaly, Kind, found
from pykafka.testing.checks.errors import what_of
from pykafka.testing.checks.facts import Facts
from pykafka.testing.history import BufferedBytes, Crash, Left, Operation


def check_ends(facts: Facts, slack_ms: int) -> Iterator[Anomaly]:
    """Return calls that ended late or never, what was left, and bounds that were broken.

    :param slack_ms: how much later than its deadline a call may end (ms)
    """
    crashes: dict[str, list[Operation]] = defaultdict(list)
    for operation in facts.operations:
        if isinstance(operation.action, Crash):
            crashes[operation.process].append(operation)
    for begun in facts.begun.values():
        if begun.deadline_ms is not None:
            killed = next((one for one in crashes[begun.process] if one.number > begun.number), None)
            yield from _end(facts, begun, begun.deadline_ms, slack_ms, killed)
    for operation in facts.operations:
        action = operation.action
        if isinstance(action, Left) and (action.workers or action.connections):
            names = ", ".join((*action.workers, *action.connections))
            yield found(Kind.LEFTOVER, f"these were left when all programs had ended: {names}", operation)
        elif isinstance(action, BufferedBytes) and action.held > action.limit:
            sentence = f"{operation.process} holds {action.held} bytes in {action.what}, and may hold {action.limit}"
            yield found(Kind.TOO_MANY_BYTES, sentence, operation)


def _end(
    facts: Facts, begun: Operation, deadline_ms: int, slack_ms: int, killed: Operation | None
) -> Iterator[Anomaly]:
    """Return what is wrong with the end of a call.

    :param killed: the end of its process, if it was killed since
    """
    what = f"{what_of(begun)} of {begun.process}"
    ended = facts.ended.get(begun.number)
    last = ended or killed
    if last is None:
        yield found(Kind.NO_END, f"{what} has not ended", begun)
    elif (late_ms := last.time_ms - deadline_ms) > slack_ms:
        if ended is None:
            sentence = f"{what} had not ended when its process was killed, {late_ms} ms after its deadline"
            yield found(Kind.NO_END, sentence, begun, last)
        else:
            yield found(Kind.LATE_END, f"{what} ended {late_ms} ms after its deadline", begun, last)
