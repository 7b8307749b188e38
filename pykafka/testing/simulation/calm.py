"""`failures`: calls that fail although all faults are over: whatever the client remembers of them must not matter any more."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import takewhile

from pykafka.common import TopicPartition
from pykafka.testing.checks.errors import what_of
from pykafka.testing.history import Assigned, Commit, Crash, Fault, OpenConsumer, Operation, Outcome, Poll, Revoked
from pykafka.testing.simulation.consumers import POLL_INTERVAL_MS, SESSION_MS
from pykafka.testing.simulation.ordinary import OWN


class CalmError(AssertionError):
    """Raised, as an error of a program, for a call that failed although no fault explains that."""


#: Errors of a producer that knows neither its own state nor the coordinator's, whatever has gone wrong.
_NEVER = frozenset({"InvalidTxnState", "TransactionFatalError", "TransactionStateError"})
#: A share group's locks are with a partition's leader: they end if it stops, and acknowledgements of them fail.
_OF_A_LEADER = "acknowledge"
#: Who writes to the topic that is deleted and made anew: if a client's question makes it, it has one replica.
_UNSPARED = frozenset({"p5"})
#: A fault that lasts, and how often it has begun in the session of a member.
_CUT, _CUTS = ("cut", "ConsumerGroupHeartbeat"), 4
#: How long a commit waits at least for the end of a rebalance: two of the shortest socket time-outs (ms). How long a rebalance
#: lasts at most after a member was killed: others may still have to poll, and then the coordinator waits for its session (ms).
_COMMIT_MS, _KILLED_MS = 2_000, POLL_INTERVAL_MS + SESSION_MS
#: An election of the preferred leader, which cannot lead while its broker is stopped.
_AWAY = ("elect leaders", "PreferredLeaderNotAvailable")
#: The members of the group that handles records in transactions, the calls by which they come and go, and what `send_offsets`
#: raises in a transaction whose records are of a partition that another member has got since.
_HANDLERS, _MOVES, _TAKEN = frozenset({"x1", "x2"}), ("subscribe", "close consumer"), "TransactionAbortableError"


def failures(history: Iterable[Operation], calm_ms: int, grace_ms: int) -> list[tuple[str, BaseException]]:
    """Return the programs whose calls failed in the time without faults, with errors that say so.

    :param calm_ms: when the last fault was over (ms); -1: it never was
    :param grace_ms: for how long calls may still fail then (ms)
    """
    begun: dict[int, Operation] = {}
    gave_up: dict[str, int] = {}
    found: list[tuple[str, BaseException]] = []
    stops, handlers = False, _Handlers()
    operations = list(history)
    for operation in operations:
        handlers.take(operation)
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
            if handlers.may_have_lost(operation, what) or _has_missed_a_generation(operations, operation):
                continue
            if _waits_for_the_killed(operations, operation, before):
                continue
            if operation.error in _NEVER:
                found.append((operation.process, CalmError(f"{what} failed with {operation.error}")))
            elif _is_overtaken(operation, before, gave_up.get(operation.process, -1)) or _waits_for_another(
                operations, operation, before
            ):
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


def _has_missed_a_generation(operations: Sequence[Operation], operation: Operation) -> bool:
    """Return whether a commit has failed as its member does not know a generation, in which others may have had its partitions.

    A broker has hung up since its last assignment: the answer to its JoinGroup went with the connection, and the coordinator
    counts it as a member of that generation all the same. Or heartbeats were cut off again and again for as long as a session
    lasts, so that the coordinator put it out. When it knows that, it gives the partitions up as lost.
    """
    action, process = operation.action, operation.process
    if not isinstance(action, Commit) or operation.error != "ShareLostError":
        return False
    since = takewhile(
        lambda one: one.process != process or not isinstance(one.action, Assigned),
        reversed(operations[: operation.number]),
    )
    faults = [one.action.words for one in since if isinstance(one.action, Fault) and not one.action.ends]
    is_cut = any(words[:1] == ("hang_up",) for words in faults) or sum(words[:2] == _CUT for words in faults) >= _CUTS
    actions = (one.action for one in operations[operation.number :] if one.process == process)
    revoked = next((one for one in actions if isinstance(one, Revoked)), None)
    committed = {TopicPartition(*place[:2]) for place in action.offsets}
    return is_cut and revoked is not None and revoked.lost and committed <= set(revoked.partitions)


def _waits_for_another(operations: Sequence[Operation], operation: Operation, before: Operation) -> bool:
    """Return whether a commit has failed as a rebalance took longer than it could: another member did not poll meanwhile.

    A group of the classic protocol waits for the next poll of each member. The coordinator takes no commit until it has the
    assignments of the new generation, in which both members have to be.
    """
    action, process = operation.action, operation.process
    if not isinstance(action, Commit) or operation.error != "OffsetsNotCommitted":
        return False
    following = ((one.process, one.action) for one in operations[operation.number :])
    generations = [
        (who, assigned.generation)
        for who, assigned in following
        if isinstance(assigned, Assigned) and assigned.group == action.group
    ]
    new = next((generation for who, generation in generations if who == process), None)
    others = dict.fromkeys(who for who, generation in generations if generation == new and who != process)
    return any(_rests(operations, other, before, operation) for other in others)


def _waits_for_the_killed(operations: Sequence[Operation], operation: Operation, before: Operation) -> bool:
    """Return whether a commit has failed as a rebalance took longer than it could: another member was killed while it joined.

    The coordinator counts it as a member of the new generation all the same. If it leads that, nobody gets an assignment until
    its session has ended, and the others get one in a later generation.
    """
    action, process = operation.action, operation.process
    if not isinstance(action, Commit) or operation.error != "OffsetsNotCommitted":
        return False
    assigned = [
        (one.number < operation.number, one.process, one.action.generation)
        for one in operations
        if isinstance(one.action, Assigned) and one.action.group == action.group
    ]
    former = max((generation for is_former, who, generation in assigned if is_former and who == process), default=None)
    new = next((generation for is_former, who, generation in assigned if not is_former and who == process), None)
    if former is None or new is None or operation.time_ms - before.time_ms < _COMMIT_MS:
        return False
    left_out = set(range(former + 1, new)) - {generation for _, _, generation in assigned}
    return bool(left_out) and any(
        isinstance(one.action, Crash)
        and before.time_ms - one.time_ms <= _KILLED_MS
        and _group_of(operations, one) == action.group
        for one in operations[: operation.number]
    )


def _group_of(operations: Sequence[Operation], operation: Operation) -> str | None:
    """Return the group of the process of an operation at that time; None: it has opened no consumer."""
    opened = (one.action for one in reversed(operations[: operation.number]) if one.process == operation.process)
    return next((action.group for action in opened if isinstance(action, OpenConsumer)), None)


def _rests(operations: Sequence[Operation], process: str, since: Operation, until: Operation) -> bool:
    """Return whether a program has no poll under way from one operation to another."""
    polls = [one for one in operations[: until.number] if one.process == process and isinstance(one.action, Poll)]
    return bool(polls) and polls[-1].number < since.number and polls[-1].outcome is not Outcome.INVOKE


class _Handlers:
    """The members of the group that handles records in transactions, which come and go at any time.

    A transaction with several polls fails if a rebalance takes a partition between two of them. Another member must have come
    or gone before: since the transaction has begun, or less than `POLL_INTERVAL_MS` before that, for which a rebalance waits.
    """

    def __init__(self) -> None:
        #: By process: when it has come or gone last (ms), when its transaction has begun (ms), how often it has polled since.
        self._moved_ms: dict[str, int] = {}
        self._begun_ms: dict[str, int] = {}
        self._polls: dict[str, int] = {}

    def take(self, operation: Operation) -> None:
        """Take the next operation."""
        process = operation.process
        if process not in _HANDLERS:
            return
        what = what_of(operation)
        if what in _MOVES:
            self._moved_ms[process] = operation.time_ms
        elif operation.outcome is Outcome.OK and what == "begin":
            self._begun_ms[process], self._polls[process] = operation.time_ms, 0
        elif operation.outcome is Outcome.OK and what == "poll":
            self._polls[process] = self._polls.get(process, 0) + 1

    def may_have_lost(self, operation: Operation, what: str) -> bool:
        """Return whether a call has failed as a rebalance may have taken a partition from its transaction."""
        process = operation.process
        if (what, operation.error) != ("send_offsets", _TAKEN) or self._polls.get(process, 0) < 2:
            return False
        since_ms = self._begun_ms[process] - POLL_INTERVAL_MS
        return any(moved_ms >= since_ms for other, moved_ms in self._moved_ms.items() if other != process)
