"""`failures`: calls that fail although all faults are over: whatever the client remembers of them must not matter any more."""

from __future__ import annotations

from collections.abc import Iterable

from pykafka.testing.checks.errors import what_of
from pykafka.testing.history import Commit, Fault, Operation, Outcome
from pykafka.testing.simulation.ordinary import OWN


class CalmError(AssertionError):
    """Raised, as an error of a program, for a call that failed although no fault explains that."""


#: Errors of a producer that knows neither its own state nor the coordinator's, whatever has gone wrong.
_NEVER = frozenset({"InvalidTxnState", "TransactionFatalError", "TransactionStateError"})
#: A share group's locks are with a partition's leader: they end if it stops, and acknowledgements of them fail.
_OF_A_LEADER = "acknowledge"
#: Who writes to the topic that is deleted and made anew: if a client's question makes it, it has one replica.
_UNSPARED = frozenset({"p5"})
#: An election of the preferred leader, which cannot lead while its broker is stopped.
_AWAY = ("elect leaders", "PreferredLeaderNotAvailable")


def failures(history: Iterable[Operation], calm_ms: int, grace_ms: int) -> list[tuple[str, BaseException]]:
    """Return the programs whose calls failed in the time without faults, with errors that say so.

    :param calm_ms: when the last fault was over (ms); -1: it never was
    :param grace_ms: for how long calls may still fail then (ms)
    """
    begun: dict[int, Operation] = {}
    found: list[tuple[str, BaseException]] = []
    stops = False
    for operation in history:
        if isinstance(operation.action, Fault) and 0 <= calm_ms <= operation.time_ms:
            stops = stops or operation.action.words[:1] == ("stop",)
        if operation.outcome is Outcome.INVOKE:
            begun[operation.number] = operation
        elif operation.outcome in (Outcome.FAIL, Outcome.UNKNOWN):
            before, what = begun[operation.call], what_of(operation)
            if stops and (what, operation.error) == _AWAY:
                continue
            if operation.error in _NEVER:
                found.append((operation.process, CalmError(f"{what} failed with {operation.error}")))
            elif 0 <= calm_ms <= before.time_ms - grace_ms and not _is_own(operation, what, before):
                late_ms = before.time_ms - calm_ms
                text = f"{what} failed with {operation.error}, though all was well for {late_ms} ms"
                found.append((operation.process, CalmError(text)))
    return found


def _is_own(operation: Operation, what: str, before: Operation) -> bool:
    """Return whether programs are the cause; a rebalance may overtake a commit for which its program does not wait."""
    if operation.process in _UNSPARED or what == _OF_A_LEADER:
        return True
    if isinstance(operation.action, Commit) and before.deadline_ms is None and operation.error == "ShareLostError":
        return True
    return any(one.concerns(operation.error, what, operation.process) for one in OWN)
