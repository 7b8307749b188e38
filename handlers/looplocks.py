"""Locks, events, semaphores and queues whose waiters are futures of an event loop. Compiled if there is a compiler.

A wait that is cancelled leaves its queue. A lock, or one of a semaphore, is handed to the worker that has waited longest;
if that one was cancelled at the same moment, it goes to the next. What a queue holds is taken by the worker itself, once
it runs, so that no cancellation can lose an item.

All belongs to the workers of the loop's thread, except `set()` of an event: finalizers may call that, which the garbage
collector runs in any thread.
"""

from __future__ import annotations

import math
import queue
from asyncio import _get_running_loop
from collections import deque
from collections.abc import Callable
from time import monotonic
from types import TracebackType
from typing import TYPE_CHECKING, Any

from pykafka.handlers.bridge import _getcurrent, await_in_bridge, elsewhere, require_bridge
from pykafka.handlers.patching import original

if TYPE_CHECKING:
    import asyncio

_thread_number = original("_thread", "get_ident")

#: The longest wait that all loops can count (s): ten years.
WAIT_MAX_S = 10 * 365 * 86400.0


def _expire(future: asyncio.Future[bool]) -> None:
    if not future.done():
        future.set_result(False)


def was_given(future: asyncio.Future[bool]) -> bool:
    """Return whether a waiter was woken, though it may have been cancelled since."""
    return future.done() and not future.cancelled() and future.result()


class Loop:
    """An event loop as its primitives see it.

    :param loop: runs in this thread
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop: Any = loop
        self.thread: int = _thread_number()
        # Its timers count milliseconds, and round to the nearest one.
        self._coarse = type(loop).__module__.startswith("uvloop")

    def later(self, seconds: float, call: Callable[..., object], *args: Any) -> Any:
        """Call a function after this time (s), not before; return the timer."""
        if seconds > WAIT_MAX_S:
            seconds = WAIT_MAX_S
        if self._coarse:
            seconds = math.ceil(seconds * 1000) / 1000
        return self.loop.call_later(seconds, call, *args)

    def require(self) -> None:
        """Raise an error if the caller may not wait on this loop.

        :raises WouldBlockError: it does not run inside of `bridged`
        :raises RuntimeError: it runs on another loop
        """
        require_bridge()
        if _get_running_loop() is not self.loop:
            if _getcurrent().closing:
                await_in_bridge(None)  # which says that the task is closed
            raise elsewhere(self.loop)

    def wait(self, future: asyncio.Future[bool], timeout: float) -> bool:
        """Wait for a future in the bridge; return its result, False after the timeout (s; below 0: never)."""
        self.require()
        if timeout < 0:
            return await_in_bridge(future)
        timer = self.later(timeout, _expire, future)
        try:
            return await_in_bridge(future)
        finally:
            timer.cancel()


class Overdue:
    """Whether code outside of the bridge, which cannot wait in `breathe`, is to let the loop turn before it goes on."""

    def __init__(self) -> None:
        self.overdue = False


class Waiters:
    """The workers that wait for one thing, in the order in which they came.

    :param loop: theirs
    """

    def __init__(self, loop: Loop) -> None:
        self.loop = loop
        self.futures: deque[Any] = deque()

    def enter(self) -> Any:
        """Add a waiter and return its future."""
        future = self.loop.loop.create_future()
        self.futures.append(future)
        return future

    def wait(self, future: Any, timeout: float) -> bool:
        """Return whether this waiter was woken in time (s; below 0: however long it takes)."""
        try:
            return self.loop.wait(future, timeout)
        finally:
            if not was_given(future) and future in self.futures:
                self.futures.remove(future)

    def wake(self) -> bool:
        """Wake the waiter that came first; return whether there was one."""
        while self.futures:
            future = self.futures.popleft()
            if not future.done() and self._give(future):
                return True
        return False

    def wake_all(self) -> None:
        """Wake all waiters."""
        while self.wake():
            pass

    def _give(self, future: Any) -> bool:
        if _thread_number() == self.loop.thread:
            if self.loop.loop.is_closed():
                return False
            future.set_result(True)
            return True
        try:
            self.loop.loop.call_soon_threadsafe(_give_late, self, future)
        except RuntimeError:  # the loop is closed, and its workers are gone
            return False
        return True


def _give_late(waiters: Waiters, future: Any) -> None:
    if not future.done():
        future.set_result(True)
    else:
        waiters.wake()


class LoopEvent:
    """A flag. As `EventType`."""

    def __init__(self, loop: Loop) -> None:
        self._waiters = Waiters(loop)
        self._flag = False

    def is_set(self) -> bool:
        """Return whether the flag is set."""
        return self._flag

    def set(self) -> None:
        """Set the flag and wake all workers that wait for it."""
        self._flag = True
        if self._waiters.futures:
            self._waiters.wake_all()

    def clear(self) -> None:
        """Reset the flag."""
        self._flag = False

    def wait(self, timeout: float | None = None) -> bool:
        """Wait for the flag and return whether it was set in time (s)."""
        if self._flag:
            return True
        if timeout is not None and timeout <= 0:
            return False
        return self._waiters.wait(self._waiters.enter(), -1.0 if timeout is None else timeout) or self._flag


class LoopLock:
    """A lock that is not re-entrant. As `LockType`."""

    def __init__(self, loop: Loop) -> None:
        self._waiters = Waiters(loop)
        self._locked = False

    def locked(self) -> bool:
        """Return whether a worker holds the lock."""
        return self._locked

    def acquire(self, blocking: bool = True, timeout: float = -1.0) -> bool:
        """Take the lock and return whether it came free in time (s; below 0: however long it takes)."""
        if not self._locked:
            self._locked = True
            return True
        if not blocking or timeout == 0:
            return False
        future = self._waiters.enter()
        try:
            return self._waiters.wait(future, timeout)
        except BaseException:
            if was_given(future):
                self.release()
            raise

    def release(self) -> None:
        """Return the lock, to the worker that has waited longest.

        :raises RuntimeError: the lock is free
        """
        if not self._locked:
            raise RuntimeError("release of a lock that is free")
        if not self._waiters.futures or not self._waiters.wake():
            self._locked = False

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()


class LoopRLock:
    """A re-entrant lock. As `RLockType`; all code outside of the bridge is one owner."""

    def __init__(self, loop: Loop) -> None:
        self._lock = LoopLock(loop)
        self._owner: Any = None
        self._count = 0

    def acquire(self, blocking: bool = True, timeout: float = -1.0) -> bool:
        """Take the lock, perhaps once more, and return whether it came free in time (s; below 0: however long it takes)."""
        current = _getcurrent()
        if self._owner is current:
            self._count += 1
            return True
        if not self._lock.acquire(blocking, timeout):
            return False
        self._owner = current
        self._count = 1
        return True

    def release(self) -> None:
        """Return the lock, once.

        :raises RuntimeError: another worker holds it, or none
        """
        if self._owner is not _getcurrent():
            raise RuntimeError("release of a lock that another worker holds, or none")
        self._count -= 1
        if not self._count:
            self._owner = None
            self._lock.release()

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()


class LoopSemaphore:
    """A counter. As `SemaphoreType`."""

    def __init__(self, loop: Loop, value: int) -> None:
        if value < 0:
            raise ValueError(f"a semaphore cannot begin below zero: {value}")
        self._waiters = Waiters(loop)
        self._value = value

    def acquire(self, blocking: bool = True, timeout: float | None = None) -> bool:
        """Take one, waiting while there is none; return whether that succeeded in time (s)."""
        if self._value > 0:
            self._value -= 1
            return True
        if not blocking or (timeout is not None and timeout <= 0):
            return False
        future = self._waiters.enter()
        try:
            return self._waiters.wait(future, -1.0 if timeout is None else timeout)
        except BaseException:
            if was_given(future):
                self.release()
            raise

    def release(self) -> None:
        """Give one back."""
        if not self._waiters.wake():
            self._value += 1

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()


class LoopQueue:
    """A queue. As `QueueType`."""

    def __init__(self, loop: Loop, maxsize: int) -> None:
        self._maxsize = maxsize
        self._items: deque[Any] = deque()
        self._unfinished = 0
        self._filled = Waiters(loop)
        self._emptied = Waiters(loop)
        self._finished = LoopEvent(loop)

    def qsize(self) -> int:
        """Return the number of items."""
        return len(self._items)

    def empty(self) -> bool:
        """Return whether the queue has no items."""
        return not self._items

    def full(self) -> bool:
        """Return whether a `put` would have to wait."""
        return 0 < self._maxsize <= len(self._items)

    def put(self, item: Any, block: bool = True, timeout: float | None = None) -> None:
        """Append an item, waiting for room.

        :param timeout: how long (s)
        :raises queue.Full: no room in time
        """
        if self.full() and not self._await(self._emptied, self.full, block, timeout):
            raise queue.Full
        self._items.append(item)
        self._unfinished += 1
        self._filled.wake()

    def put_nowait(self, item: Any) -> None:
        """Append an item, or raise queue.Full."""
        self.put(item, False)

    def get(self, block: bool = True, timeout: float | None = None) -> Any:
        """Take the first item, waiting for one.

        :param timeout: how long (s)
        :raises queue.Empty: none came in time
        """
        if not self._items and not self._await(self._filled, self.empty, block, timeout):
            raise queue.Empty
        item = self._items.popleft()
        self._emptied.wake()
        return item

    def get_nowait(self) -> Any:
        """Take the first item, or raise queue.Empty."""
        return self.get(False)

    def _await(self, waiters: Waiters, has_to: Callable[[], bool], block: bool, timeout: float | None) -> bool:
        """Wait while `has_to()`; return whether that ended in time."""
        deadline = None if timeout is None else monotonic() + timeout
        while has_to():
            left = -1.0 if deadline is None else deadline - monotonic()
            if not block or (deadline is not None and left <= 0):
                return False
            future = waiters.enter()
            try:
                waiters.wait(future, left)
            except BaseException:
                if was_given(future):
                    waiters.wake()  # this one takes nothing
                raise
        return True

    def task_done(self) -> None:
        """Mark one item as processed.

        :raises ValueError: more calls than items
        """
        if self._unfinished <= 0:
            raise ValueError("task_done() was called more often than items were put")
        self._unfinished -= 1
        if not self._unfinished:
            self._finished.set()
            self._finished.clear()

    def join(self) -> None:
        """Wait until each item has been marked as processed."""
        while self._unfinished:
            self._finished.wait()
