"""`failures`: calls that fail although all faults are over: whatever the client remembers of them must not matter any more."""

from __future__ import annotations

from collections.abc import Iterable

from pykafka.testing.history import Call, Operation, Outcome
from pykafka.testing.simulation.world import GRACE_MS


class CalmError(AssertionError):
    """Raised, as an error of a program, for a call that failed although no fault explains that."""


#: What a program does itself: it is killed, aborts a transaction, or closes a consumer that polls.
_OWN = frozenset({"Crash", "TransactionAbortedError", "ConsumerStoppedException"})


#: Errors of a producer that knows neither its own state nor the coordinator's, whatever has gone wrong.
_NEVER = frozenset({"InvalidTxnState", "TransactionFatalError", "TransactionStateError", "ProducerFencedError"})


def failures(history: Iterable[Operation], calm_ms: int) -> list[tuple[str, BaseException]]:
    """Return the programs whose calls failed in the time without faults, with errors that say so.

    :param calm_ms: when the last fault was over (ms); -1: it never was
    """
    begun: dict[int, Operation] = {}
    found: list[tuple[str, BaseException]] = []
    for operation in history:
        if operation.outcome is Outcome.INVOKE:
            begun[operation.number] = operation
        elif operation.outcome in (Outcome.FAIL, Outcome.UNKNOWN):
            before = begun[operation.call]
            if operation.error in _NEVER:
                found.append((operation.process, CalmError(f"{_what(operation)} failed with {operation.error}")))
            elif 0 <= calm_ms <= before.time_ms - GRACE_MS and operation.error not in _OWN:
                late_ms = before.time_ms - calm_ms
                text = f"{_what(operation)} failed with {operation.error}, though all was well for {late_ms} ms"
                found.append((operation.process, CalmError(text)))
    return found


def _what(operation: Operation) -> str:
    return operation.action.what if isinstance(operation.action, Call) else operation.action.name
