"""`GateEvent`: a flag on the interpreter's own locks, whatever gevent.monkey has done to the process."""

from __future__ import annotations

import threading
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING

from pykafka.handlers.base import GAP_BEFORE_WITH, check_process
from pykafka.handlers.patching import original

if TYPE_CHECKING:
    from pykafka.handlers.base import LockType, RLockType


def allocate_lock() -> LockType:
    """Make a lock for OS threads that gevent.monkey cannot have replaced; no Ctrl-C keeps it (`GAP_BEFORE_WITH`)."""
    lock: LockType = _allocate_lock()
    if not GAP_BEFORE_WITH:
        return lock
    from pykafka.handlers.entering import GuardedLock

    return GuardedLock(lock)


def allocate_rlock() -> RLockType:
    """Make a re-entrant lock, as `allocate_lock` does."""
    lock: RLockType = _allocate_rlock()
    if not GAP_BEFORE_WITH:
        return lock
    from pykafka.handlers.entering import GuardedRLock

    return GuardedRLock(lock)


# Taken once: what stands there now is the interpreter's, or gevent.monkey has kept the interpreter's.
_allocate_lock = original("_thread", "allocate_lock")
_allocate_rlock = original("_thread", "RLock")


class GateEvent:
    """A flag for OS threads that stays usable whenever Ctrl-C comes. As `EventType`.

    The standard library's event holds a lock while it is set: if Ctrl-C comes just then, that lock stays taken.

    State: each waiter adds a gate of its own before it checks the flag again, and removes it afterwards; `set` opens all gates.
    """

    def __init__(self) -> None:
        self._flag = False
        self._gates: deque[LockType] = deque()

    def is_set(self) -> bool:
        """Return whether the flag is set."""
        return self._flag

    def set(self) -> None:
        """Set the flag and wake all workers that wait for it.

        :raises UnnoticedForkError: they exist in the parent process only
        """
        self._flag = True
        if self._gates:
            check_process()
        while self._gates:
            try:
                gates = tuple(self._gates)
            except RuntimeError:  # another worker has added or removed a gate meanwhile
                continue
            for gate in gates:
                with suppress(RuntimeError):  # another set() was there first
                    gate.release()
            return

    def clear(self) -> None:
        """Reset the flag."""
        self._flag = False

    def wait(self, timeout: float | None = None) -> bool:
        """Wait for the flag and return whether it was set in time (s).

        :raises UnnoticedForkError: the worker that would set it may exist in the parent process only
        """
        if self._flag:
            return True
        check_process()
        gate: LockType = _allocate_lock()
        gate.acquire()
        self._gates.append(gate)
        try:
            # Another worker may have set the flag before the gate was there. A worker that was woken returns True, even
            # if the flag has been reset since.
            limit = -1 if timeout is None else min(max(timeout, 0.0), threading.TIMEOUT_MAX)
            return self.is_set() or gate.acquire(timeout=limit) or self.is_set()
        finally:
            self._gates.remove(gate)
