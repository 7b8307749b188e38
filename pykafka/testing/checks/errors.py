"""`Ordinary`, `check_errors`: calls fail only with errors that are ordinary at that time, under the faults of that time."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pykafka.testing.checks.anomaly import Anomaly, Kind, found
from pykafka.testing.checks.facts import Facts
from pykafka.testing.history import Call, Change, Observe, Operation

#: What stands between the names of several errors of one call.
AND = " and "


@dataclass(frozen=True, slots=True)
class Ordinary:
    """Errors that are ordinary outcomes of calls.

    :param errors: their names
    :param calls: names of actions, or of what `Call` has, or the first words of these; empty: of all
    :param faults: words of faults that explain them, with spaces between; empty: they need no fault. `{topic}` stands for the
        topic of the call, `{partition}` for its partition, or for nothing if it names none
    :param lasts_ms: for how long after its end a fault explains them (ms)
    :param processes: names of programs; empty: of all
    :param durable: of programs alone whose acknowledged records survive (`OpenProducer.durable`)
    """

    errors: tuple[str, ...]
    calls: tuple[str, ...] = ()
    faults: tuple[str, ...] = ()
    lasts_ms: int = 0
    processes: tuple[str, ...] = ()
    durable: bool = False

    def concerns(self, error: str, what: str, process: str) -> bool:
        """Return whether it is about this error of a call of a program.

        :param what: which call
        """
        is_of_call = not self.calls or what in self.calls or what.partition(" ")[0] in self.calls
        return error in self.errors and is_of_call and (not self.processes or process in self.processes)


def check_errors(facts: Facts, ordinary: Sequence[Ordinary]) -> Iterator[Anomaly]:
    """Return calls that failed with errors that nothing explains.

    :param ordinary: what explains errors
    """
    by_error: dict[str, list[Ordinary]] = defaultdict(list)
    for one in ordinary:
        for error in one.errors:
            by_error[error].append(one)
    for operation in facts.operations:
        if not operation.error:
            continue
        begun, what = facts.begun[operation.call], what_of(operation)
        for error in operation.error.split(AND):
            known = by_error.get(error, ())
            if not any(_explains(one, error, begun, operation, facts) for one in known):
                why = "at this time" if known else "at any time"
                sentence = f"{what} of {operation.process} failed with {error}, which nothing explains {why}"
                yield found(Kind.UNEXPLAINED_ERROR, sentence, begun, operation)


def what_of(operation: Operation) -> str:
    """Return which call an operation is about."""
    action = operation.action
    return action.what if isinstance(action, Call | Change | Observe) else action.name


def _explains(one: Ordinary, error: str, begun: Operation, ended: Operation, facts: Facts) -> bool:
    if not one.concerns(error, what_of(begun), ended.process):
        return False
    if one.durable and not facts.is_durable(begun):
        return False
    if not one.faults:
        return True
    topic, partition = getattr(begun.action, "topic", ""), getattr(begun.action, "partition", None)
    causes = [cause.format(topic=topic, partition="" if partition is None else partition) for cause in one.faults]
    return facts.disturbances.any_between(begun.time_ms, ended.time_ms, causes, one.lasts_ms)
