"""`failures`: calls that fail although all faults are over: whatever the client remembers of them must not matter any more."""

from __future__ import annotations

from collections.abc import Iterable

from pykafka.testing.checks.errors import what_of
from pykafka.testing.history import Commit, Fault, Operation, Outcome, Revoked
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
    gave_up: dict[str, int] = {}
    found: list[tuple[str, BaseException]] = []
    stops = False
    for operation in history:
        if isinstance(operation.action, Fault) and 0 <= calm_ms <= operation.time_ms:
            stops = stops or operation.action.words[:1] == ("stop",)
        if isinstance(operation.action, Revoked):
            gave_up[operation.process] = operation.number
        if operation.outcome is Outcome.INVOKE:
            begun[operation.number] = operation
        elif operation.outcome in (Outcome.FAIL, Outcome.UNKNOWN):
            before, what = begun[operation.call], what_of(operation)
            if stops and (what, operation.error) == _AWAY:
                continue
            if operation.error in _NEVER:
                found.append((operation.process, CalmError(f"{what} failed with {operation.error}")))
            elif _is_overtaken(operation, before, gave_up.get(operation.process, -1)):
                continue
            elif 0 <= calm_ms <= before.time_ms - grace_ms and not _is_own(operation, what):
                late_ms = before.time_ms - calm_ms
                text = f"{what} failed with {operation.error}, though all was well for {late_ms} ms"
                found.append((operation.process, CalmError(text)))
    return found


def _is_own(operation: Operation, what: str) -> bool:
    """Return whether programs are the cause."""
    if operation.process in _UNSPARED or what == _OF_A_LEADER:
        return True
    return any(one.concerns(operation.error, what, operation.process) for one in OWN)


def _is_overtaken(operation: Operation, before: Operation, gave_up: int) -> bool:
    """Return whether a rebalance may have overtaken a commit for which its program does not wait.

    Such a commit has no deadline, or the program has given partitions up while it was under way.

    :param gave_up: the number of the operation in which the program has last given partitions up; -1: in none
    """
    if not isinstance(operation.action, Commit) or operation.error != "ShareLostError":
        return False
    return before.deadline_ms is None or before.number < gave_up
