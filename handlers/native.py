# ruff: noqa: N802  (Event(), Lock() and the rest bear the documented names of what they make)
"""`NativeHandler`: OS threads with their own semaphores and queues, whatever gevent.monkey has done to the process.

The standard library's Semaphore and Queue find their locks in modules that gevent.monkey patches, at the moment when a
worker waits. This module builds them on the one primitive that gevent cannot replace: the interpreter's lock.
"""

from __future__ import annotations

import itertools
import queue
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import Any, ParamSpec, TypeVar

from pykafka.exceptions import WorkerNotStartedError
from pykafka.handlers.base import (
    Address,
    EventType,
    Handler,
    LockType,
    QueueType,
    RLockType,
    SemaphoreType,
    Worker,
)
from pykafka.handlers.deadline import Deadline
from pykafka.handlers.events import GateEvent, allocate_lock, allocate_rlock
from pykafka.handlers.lookups import Lookup, Lookups, Reverse
from pykafka.handlers.patching import original
from pykafka.handlers.sockets import SocketHandler
from pykafka.handlers.streams import PollWaiter

P = ParamSpec("P")
R = TypeVar("R")

_numbers = itertools.count(1)


class _Condition:
    """A condition variable: waiting releases its lock meanwhile.

    :param lock: the caller of each method holds it
    """

    def __init__(self, lock: LockType) -> None:
        self._lock = lock
        self._waiting: deque[LockType] = deque()

    def wait(self, timeout: float | None = None) -> bool:
        """Return whether another worker called `notify` for this one in time (s)."""
        gate = allocate_lock()
        gate.acquire()
        self._waiting.append(gate)
        self._lock.release()
        woken = False
        try:
            woken = gate.acquire(timeout=-1 if timeout is None else max(timeout, 0.0))
        finally:
            self._lock.acquire()
            if not woken and gate in self._waiting:
                self._waiting.remove(gate)
        return woken

    def wait_until(self, ready: Callable[[], bool], timeout: float | None) -> bool:
        """Wait until `ready()` returns True and return whether it did in time (s); it is called under the lock."""
        deadline = None if timeout is None else time.monotonic() + timeout
        while not ready():
            left = None if deadline is None else deadline - time.monotonic()
            if left is not None and left <= 0:
                return False
            self.wait(left)
        return True

    def notify(self) -> None:
        """Wake the worker that has waited longest."""
        if self._waiting:
            self._waiting.popleft().release()

    def notify_all(self) -> None:
        """Wake all workers."""
        while self._waiting:
            self._waiting.popleft().release()


class NativeSemaphore:
    """A counter on native locks. As `SemaphoreType`."""

    def __init__(self, value: int) -> None:
        if value < 0:
            raise ValueError(f"a semaphore cannot begin below zero: {value}")
        self._lock = allocate_lock()
        self._freed = _Condition(self._lock)
        self._value = value

    def acquire(self, blocking: bool = True, timeout: float | None = None) -> bool:
        """Take one, waiting while there is none; return whether that succeeded in time (s)."""
        with self._lock:
            if not self._freed.wait_until(lambda: self._value > 0, timeout if blocking else 0.0):
                return False
            self._value -= 1
            return True

    def release(self) -> None:
        """Give one back."""
        with self._lock:
            self._value += 1
            self._freed.notify()

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()


class NativeQueue:
    """A queue on native locks. As `QueueType`."""

    def __init__(self, maxsize: int) -> None:
        self._maxsize = maxsize
        self._items: deque[Any] = deque()
        self._unfinished = 0
        self._lock = allocate_lock()
        self._filled = _Condition(self._lock)
        self._emptied = _Condition(self._lock)
        self._finished = _Condition(self._lock)

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
        with self._lock:
            if not self._emptied.wait_until(lambda: not self.full(), timeout if block else 0.0):
                raise queue.Full
            self._items.append(item)
            self._unfinished += 1
            self._filled.notify()

    def put_nowait(self, item: Any) -> None:
        """Append an item, or raise queue.Full."""
        self.put(item, block=False)

    def get(self, block: bool = True, timeout: float | None = None) -> Any:
        """Take the first item, waiting for one.

        :param timeout: how long (s)
        :raises queue.Empty: none came in time
        """
        with self._lock:
            if not self._filled.wait_until(lambda: bool(self._items), timeout if block else 0.0):
                raise queue.Empty
            item = self._items.popleft()
            self._emptied.notify()
            return item

    def get_nowait(self) -> Any:
        """Take the first item, or raise queue.Empty."""
        return self.get(block=False)

    def task_done(self) -> None:
        """Mark one item as processed.

        :raises ValueError: more calls than items
        """
        with self._lock:
            if self._unfinished <= 0:
                raise ValueError("task_done() was called more often than items were put")
            self._unfinished -= 1
            if not self._unfinished:
                self._finished.notify_all()

    def join(self) -> None:
        """Wait until each item has been marked as processed."""
        with self._lock:
            self._finished.wait_until(lambda: not self._unfinished, None)


class NativeWorker(Worker):
    """An OS thread that bypasses `threading`, which may be patched."""

    def __init__(self, handler: Handler, run: Callable[[], object], name: str) -> None:
        super().__init__(name)
        self._handler = handler
        self._run = run
        self._ended = GateEvent()
        self._ident = 0
        handler.at_fork(self._after_fork)
        try:
            original("_thread", "start_new_thread")(self._main, ())
        except RuntimeError as error:
            self._ended.set()
            raise WorkerNotStartedError(f"{name} was not started: {error}") from error

    def _after_fork(self) -> None:
        self._ended.set()  # threads stay with the parent

    def _main(self) -> None:
        self._ident = original("_thread", "get_ident")()
        run = self._run
        del self._run  # its arguments must not live as long as this object
        try:
            run()
        except BaseException as error:  # noqa: BLE001 - whatever a worker may raise
            self.error = error
            self._handler.report(f"worker {self.name}", error)
        finally:
            self._ended.set()

    def join(self, timeout: float | None = None) -> bool:
        """Wait until the thread has ended and return whether it has. As `Worker.join`.

        It blocks the calling OS thread, and with it a hub: greenlets call it through `offload`.
        """
        if not self._ended.is_set() and self._ident == original("_thread", "get_ident")():  # ids are used again
            raise RuntimeError("a worker cannot wait for itself")
        return self._ended.wait(timeout)

    def is_alive(self) -> bool:
        """Return whether the thread has not ended."""
        return not self._ended.is_set()


class NativeHandler(SocketHandler):
    """The handler that runs workers in unpatched OS threads; `Handler.native` returns it.

    :param say: called with a function that logs something; it runs that function when logging cannot deadlock
    :param post: called with a function that sets events of the workers beside these; it runs that function in their thread
    """

    name = "native"
    cooperative = False

    def __init__(
        self, say: Callable[[Callable[[], None]], object], post: Callable[[Callable[[], object]], object]
    ) -> None:
        super().__init__(PollWaiter)
        self._say = say
        self._post = post
        self._getaddrinfo: Callable[..., list[Any]] = original("socket", "getaddrinfo")
        self._getnameinfo: Callable[..., Any] = original("socket", "getnameinfo")
        self._lookups = Lookups(self)
        self._sleep: Callable[[float], None] = original("time", "sleep")

    @property
    def Socket(self) -> type[Any]:
        """The unpatched class `socket.socket`."""
        cls: type[Any] = original("socket", "socket")
        return cls

    def Event(self) -> EventType:
        """Make a flag that is not set."""
        return GateEvent()

    def Lock(self) -> LockType:
        """Make a lock that is not re-entrant."""
        return allocate_lock()

    def RLock(self) -> RLockType:
        """Make a re-entrant lock."""
        return allocate_rlock()

    def Semaphore(self, value: int = 1) -> SemaphoreType:
        """Make a semaphore. As `Handler.Semaphore`."""
        return NativeSemaphore(value)

    def Queue(self, maxsize: int = 0) -> QueueType[Any]:
        """Make a queue. As `Handler.Queue`."""
        return NativeQueue(maxsize)

    def local(self) -> Any:
        """Make an object whose attributes are separate for each thread."""
        return original("_thread", "_local")()

    def spawn(self, target: Callable[..., object], *args: Any, name: str | None = None, **kwargs: Any) -> Worker:
        """Start `target(*args, **kwargs)` in an OS thread. As `Handler.spawn`."""
        return NativeWorker(self, lambda: target(*args, **kwargs), name or f"pykafka.native-{next(_numbers)}")

    def sleep(self, seconds: float = 0.0) -> None:
        """Sleep for at least this long (s) while other threads run."""
        self._sleep(seconds)

    def breathe(self) -> None:
        """Return at once: an OS thread has no hub."""

    def offload(self, fn: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Call `fn` in place."""
        return fn(*args, **kwargs)

    def _name_resolver(self) -> Callable[..., Any]:
        return self._getnameinfo

    def _resolve_aside(
        self, host: str, port: int, deadline: Deadline, resolver: Callable[..., list[Any]] | None = None
    ) -> list[Address]:
        return self._lookups.resolve(resolver or self._getaddrinfo, host, port, deadline)

    def _look_up_aside(self, host: str, port: int, done: Callable[[], object], reverse: bool = False) -> Lookup:
        """Begin to look a name up, or join a lookup under way; its thread calls `done` when it has ended.

        :param reverse: look the name of an address up instead
        """
        resolver = Reverse(self._getnameinfo) if reverse else self._getaddrinfo
        return self._lookups.join(resolver, host, port, done)

    @property
    def native(self) -> Handler:
        """This handler itself."""
        return self

    def kazoo(self) -> Any:
        """Raise an error: kazoo logs, and uses `threading`, which may be patched.

        :raises NotImplementedError: always
        """
        raise NotImplementedError(
            "kazoo does not run on a native handler: use the application's own handler for ZooKeeper"
        )

    def report(self, what: str, error: BaseException) -> None:
        """Log an exception when a worker may wait for a log's locks. As `Handler.report`."""
        report = super().report
        self._say(lambda: report(what, error))

    def say(self, fn: Callable[[], object]) -> None:
        """Run `fn()` in a worker of the hub or loop. As `Handler.say`."""

        def run() -> None:
            fn()

        with suppress(ValueError):  # the hub has ended
            self._say(run)

    def post(self, fn: Callable[[], object]) -> None:
        """Run `fn()` in the thread of the hub or loop. As `Handler.post`."""
        self._post(fn)
