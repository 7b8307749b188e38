"""Events, locks, semaphores and queues in virtual time, each made of waits of a `Scheduler`."""

from __future__ import annotations

from collections import deque
from types import TracebackType
from typing import Any

from pykafka.handlers.base import Handler
from pykafka.testing.virtual.turns import Turns, Waiter


class Numbered:
    """An object whose hash is its number, so that sets have the same order in each run."""

    __slots__ = ("__weakref__", "_number", "_scheduler")

    def __init__(self, scheduler: Turns) -> None:
        self._scheduler = scheduler
        self._number = scheduler.next_number()

    def __hash__(self) -> int:
        return self._number

    def __eq__(self, other: object) -> bool:
        return self is other


class Line:
    """The workers that wait for one thing, in their order."""

    __slots__ = ("_scheduler", "_waiting")

    def __init__(self, scheduler: Turns) -> None:
        self._scheduler = scheduler
        self._waiting: list[Waiter] = []

    def wait(self, until_us: int | None) -> bool:
        """Wait for `wake`, until a time of the clock (µs); return whether it was `wake`."""
        scheduler = self._scheduler
        worker = scheduler.current
        if worker is None:
            scheduler.check_inside()  # raises
        assert worker is not None
        self._waiting.append(worker)
        try:
            woken = scheduler.park(until_us)
        except BaseException:
            self._leave(worker)
            raise
        if not woken:
            self._leave(worker)
        return woken

    def _leave(self, worker: Waiter) -> None:
        if worker in self._waiting:
            self._waiting.remove(worker)

    def wake(self) -> None:
        """End the wait of the first one, if there is one."""
        if self._waiting:
            self._scheduler.wake(self._waiting.pop(0))

    def wake_all(self) -> None:
        """End all waits."""
        if self._waiting:
            waiting, self._waiting = self._waiting, []
            for worker in waiting:
                self._scheduler.wake(worker)


class VirtualEvent(Numbered):
    """A flag. As `EventType`."""

    __slots__ = ("_flag", "_line")

    def __init__(self, scheduler: Turns) -> None:
        super().__init__(scheduler)
        self._flag = False
        self._line = Line(scheduler)

    def is_set(self) -> bool:
        """Return whether the flag is set."""
        return self._flag

    def set(self) -> None:
        """Set the flag and wake all workers that wait for it."""
        self._flag = True
        self._line.wake_all()

    def clear(self) -> None:
        """Reset the flag."""
        self._flag = False

    def wait(self, timeout: float | None = None) -> bool:
        """Wait for the flag and return whether it was set in time (s)."""
        return self._flag or self._line.wait(self._scheduler.until(timeout)) or self._flag


class VirtualSemaphore(Numbered):
    """A counter. As `SemaphoreType`; a lock is one that counts to one."""

    __slots__ = ("_line", "_value")

    def __init__(self, scheduler: Turns, value: int = 1) -> None:
        super().__init__(scheduler)
        if value < 0:
            raise ValueError("semaphore initial value must be >= 0")
        self._value = value
        self._line = Line(scheduler)

    def acquire(self, blocking: bool = True, timeout: float | None = None) -> bool:
        """Take one from the counter, and wait while it is zero; return whether that was possible in time (s)."""
        return self._take(blocking, timeout)

    def _take(self, blocking: bool, timeout: float | None) -> bool:
        scheduler = self._scheduler
        if blocking and scheduler.preemption and scheduler.draw() < scheduler.preemption:
            scheduler.give_way()
        if not self._value and not (blocking and self._await(scheduler.until(timeout))):
            return False
        self._value -= 1
        return True

    def _await(self, until_us: int | None) -> bool:
        """Wait until the counter is above zero, or until a time; return whether it is."""
        try:
            while not self._value:
                if not self._line.wait(until_us) and not self._value:
                    return False
        except BaseException:
            if self._value:  # the wake is for another one
                self._line.wake()
            raise
        return True

    def release(self) -> None:
        """Add one to the counter."""
        self._value += 1
        self._line.wake()

    def __enter__(self) -> bool:
        return self._take(True, None)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None:
        self.release()


class VirtualLock(VirtualSemaphore):
    """A lock that is not re-entrant. As `LockType`."""

    __slots__ = ()

    def acquire(self, blocking: bool = True, timeout: float | None = -1) -> bool:
        """Take the lock; return whether that was possible in time (s); a negative timeout is none."""
        if self._value and not self._scheduler.preemption:  # as most are
            self._value = 0
            return True
        return self._take(blocking, None if timeout is None or timeout < 0 else timeout)

    def release(self) -> None:
        """Free the lock.

        :raises RuntimeError: it is free
        """
        if self._value:
            raise RuntimeError("release unlocked lock")
        self._value = 1
        if self._line._waiting:
            self._line.wake()

    def __enter__(self) -> bool:
        if self._value and not self._scheduler.preemption:  # as in `acquire`, without a call
            self._value = 0
            return True
        return self._take(True, None)

    def locked(self) -> bool:
        """Return whether a worker holds the lock."""
        return not self._value


class VirtualRLock(Numbered):
    """A lock that its owner may take again. As `RLockType`."""

    __slots__ = ("_count", "_lock", "_owner")

    def __init__(self, scheduler: Turns) -> None:
        super().__init__(scheduler)
        self._lock = VirtualLock(scheduler)
        self._owner: Waiter | None = None
        self._count = 0

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        """Take the lock, once more if this worker has it; return whether that was possible in time (s)."""
        current = self._scheduler.current
        if not (self._count and self._owner is current):
            if not self._lock.acquire(blocking, timeout):
                return False
            self._owner = current
        self._count += 1
        return True

    def release(self) -> None:
        """Free the lock as often as it was taken.

        :raises RuntimeError: another worker has it, or none
        """
        if not self._count or self._owner is not self._scheduler.current:
            raise RuntimeError("cannot release un-acquired lock")
        self._count -= 1
        if not self._count:
            self._owner = None
            self._lock.release()

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None:
        self.release()


class VirtualQueue(Numbered):
    """A first-in first-out queue. As `QueueType`."""

    __slots__ = ("_finished", "_items", "_maxsize", "_room", "_taken", "_unfinished")

    def __init__(self, scheduler: Turns, maxsize: int = 0) -> None:
        super().__init__(scheduler)
        self._maxsize = maxsize
        self._items: deque[Any] = deque()
        self._taken = VirtualSemaphore(scheduler, 0)  # counts the items
        self._room = VirtualSemaphore(scheduler, maxsize) if maxsize > 0 else None
        self._unfinished = 0
        self._finished = Line(scheduler)

    def qsize(self) -> int:
        """Return how many items it holds."""
        return len(self._items)

    def empty(self) -> bool:
        """Return whether it holds none."""
        return not self._items

    def full(self) -> bool:
        """Return whether `put` would wait."""
        return 0 < self._maxsize <= len(self._items)

    def put(self, item: Any, block: bool = True, timeout: float | None = None) -> None:
        """Add an item, and wait for room in it.

        :raises queue.Full: there was none in time (s)
        """
        if self._room is not None and not self._room._take(block, timeout):
            raise Handler.QueueFullError
        self._unfinished += 1
        self._items.append(item)
        self._taken.release()

    def put_nowait(self, item: Any) -> None:
        """Add an item without waiting."""
        self.put(item, False)

    def get(self, block: bool = True, timeout: float | None = None) -> Any:
        """Remove the oldest item and return it, and wait for one.

        :raises queue.Empty: there was none in time (s)
        """
        if not self._taken._take(block, timeout):
            raise Handler.QueueEmptyError
        item = self._items.popleft()
        if self._room is not None:
            self._room.release()
        return item

    def get_nowait(self) -> Any:
        """Remove the oldest item without waiting."""
        return self.get(False)

    def task_done(self) -> None:
        """Count an item as done.

        :raises ValueError: all are
        """
        if not self._unfinished:
            raise ValueError("task_done() called too many times")
        self._unfinished -= 1
        if not self._unfinished:
            self._finished.wake_all()

    def join(self) -> None:
        """Wait until all items are done."""
        while self._unfinished:
            self._finished.wait(None)


class VirtualLocal:
    """An object whose attributes are separate for each worker."""

    __slots__ = ("_outside", "_own_number", "_own_scheduler")

    def __init__(self, scheduler: Turns) -> None:
        object.__setattr__(self, "_own_scheduler", scheduler)
        object.__setattr__(self, "_own_number", scheduler.next_number())
        object.__setattr__(self, "_outside", {})

    def _values(self) -> dict[str, Any]:
        worker: Any = self._own_scheduler.current
        if worker is None:
            outside: dict[str, Any] = self._outside
            return outside
        values: dict[str, Any] = worker.locals.setdefault(self._own_number, {})
        return values

    def __getattr__(self, name: str) -> Any:
        try:
            return self._values()[name]
        except KeyError:
            raise AttributeError(name) from None

    def __setattr__(self, name: str, value: Any) -> None:
        self._values()[name] = value

    def __delattr__(self, name: str) -> None:
        try:
            del self._values()[name]
        except KeyError:
            raise AttributeError(name) from None
