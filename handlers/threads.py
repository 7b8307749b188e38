# ruff: noqa: N802  (Event(), Lock() and the rest bear the documented names of what they make)
"""ThreadingHandler: PyKafka on the standard library's threads, or on what gevent.monkey has put in their place."""

from __future__ import annotations

import itertools
import os
import queue
import socket
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
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
    Stream,
    Worker,
)
from pykafka.handlers.lookups import Lookups, is_numeric, look_up, resolve_aside
from pykafka.handlers.patching import is_patched
from pykafka.handlers.streams import PollWaiter, connect_stream
from pykafka.handlers.tls import open_tls

P = ParamSpec("P")
R = TypeVar("R")

_numbers = itertools.count(1)


class ThreadWorker(Worker):
    """A daemon thread."""

    def __init__(self, handler: Handler, run: Callable[[], object], name: str) -> None:
        super().__init__(name)
        self._handler = handler
        self._run = run
        self._pid = os.getpid()
        # Not what the standard library has for it: before Python 3.13 a thread is said to have ended, and is never waited for
        # again, once Ctrl-C has come while it was waited for.
        self._ended = handler.Event()
        self._thread = threading.Thread(target=self._main, name=name, daemon=True)
        try:
            self._thread.start()
        except RuntimeError as error:
            raise WorkerNotStartedError(f"{name} was not started: {error}") from error

    def _main(self) -> None:
        run = self._run
        del self._run  # its arguments must not live as long as this object
        try:
            run()
        except BaseException as error:  # noqa: BLE001 - whatever a worker may raise
            self.error = error
            if self._handler.cooperative and isinstance(error, (KeyboardInterrupt, SystemExit)):
                from pykafka.handlers.greenlets import raise_in_main

                raise_in_main(error)
            else:
                self._handler.report(f"worker {self.name}", error)
        finally:
            self._ended.set()

    def join(self, timeout: float | None = None) -> bool:
        """Wait until the thread has ended and return whether it has. As `Worker.join`."""
        if self._thread is threading.current_thread():
            raise RuntimeError("cannot join current thread")
        if self._is_here:
            if not self._ended.wait(timeout):
                return False
            self._thread.join(timeout)  # which has a few steps left
        return True

    def is_alive(self) -> bool:
        """Return whether the thread has not ended."""
        return not self._ended.is_set() and self._is_here

    @property
    def _is_here(self) -> bool:
        """Whether it is a thread of this process; a forked child has not got it, but greenlets are copied."""
        return self._pid == os.getpid() or self._handler.cooperative


class ThreadEvent:
    """A flag that Ctrl-C finds in order whenever it comes; as `EventType`.

    The standard library's holds a lock while it is set, and keeps it for ever where Ctrl-C comes just then.

    State: each waiter enters a gate of its own before it looks at the flag again, and takes it out; setting opens them all.
    """

    __slots__ = ("__weakref__", "_flag", "_gates")

    def __init__(self) -> None:
        self._flag = False
        self._gates: deque[LockType] = deque()

    def is_set(self) -> bool:
        """Return whether the flag is set."""
        return self._flag

    def set(self) -> None:
        """Set the flag and wake everybody who waits for it."""
        self._flag = True
        while self._gates:
            try:
                gates = tuple(self._gates)
            except RuntimeError:  # somebody has come or gone meanwhile
                continue
            for gate in gates:
                with suppress(RuntimeError):  # another set() was there first
                    gate.release()
            return

    def clear(self) -> None:
        """Take the flag back."""
        self._flag = False

    def wait(self, timeout: float | None = None) -> bool:
        """Wait for the flag and return whether it was set in time (s)."""
        if self.is_set():
            return True
        gate = threading.Lock()
        gate.acquire()
        self._gates.append(gate)
        try:
            # It may have been set before the gate was there. Woken is woken, even if somebody has cleared it since.
            limit = -1 if timeout is None else min(max(timeout, 0.0), threading.TIMEOUT_MAX)
            return self.is_set() or gate.acquire(timeout=limit) or self.is_set()
        finally:
            self._gates.remove(gate)


class ThreadingHandler(Handler):
    """Runs workers in threads.

    In a process where gevent.monkey has patched `threading`, those threads are greenlets: the handler then knows that
    there is a hub, waits on it, and offloads to its thread pool. Whether it is so is found out when the handler is
    made.
    """

    name = "threads"

    def __init__(self) -> None:
        super().__init__()
        self.cooperative = is_patched("threading")
        self._native: Handler | None = None
        if self.cooperative:
            from pykafka.handlers import greenlets

            self._make_waiter: Any = greenlets.HubWaiter
            self._make_lock: Callable[[], LockType] = greenlets.make_lock
            self._hub = greenlets.HubWatch()
        else:
            self._make_waiter = PollWaiter
            self._make_lock = threading.Lock
        self._lookups = Lookups(self)

    @property
    def Socket(self) -> type[Any]:
        """The class `socket.socket`."""
        return socket.socket

    def Event(self) -> EventType:
        """Make a flag that is not set."""
        return threading.Event() if self.cooperative else ThreadEvent()

    def Lock(self) -> LockType:
        """Make a lock that is not re-entrant."""
        return self._make_lock()

    def RLock(self) -> RLockType:
        """Make a re-entrant lock."""
        return threading.RLock()

    def Semaphore(self, value: int = 1) -> SemaphoreType:
        """Make a semaphore. As `Handler.Semaphore`."""
        return threading.Semaphore(value)

    def Queue(self, maxsize: int = 0) -> QueueType[Any]:
        """Make a queue. As `Handler.Queue`."""
        # gevent's, which may stand here, warns about an explicit 0.
        return queue.Queue(maxsize) if maxsize > 0 else queue.Queue()

    def local(self) -> Any:
        """Make an object whose attributes each thread has for itself."""
        return threading.local()

    def spawn(self, target: Callable[..., object], *args: Any, name: str | None = None, **kwargs: Any) -> Worker:
        """Start `target(*args, **kwargs)` in a daemon thread. As `Handler.spawn`."""
        return ThreadWorker(self, lambda: target(*args, **kwargs), name or f"pykafka.worker-{next(_numbers)}")

    def sleep(self, seconds: float = 0.0) -> None:
        """Let other threads run for at least this long (s)."""
        time.sleep(seconds)

    def breathe(self) -> None:
        """Do nothing where there is no hub. As `Handler.breathe`."""
        if self.cooperative:
            self._hub.breathe()

    def offload(self, fn: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Call `fn` in place where there is no hub. As `Handler.offload`."""
        if self.cooperative:
            return self._hub.offload(fn, *args, **kwargs)
        return fn(*args, **kwargs)

    def resolve(
        self, host: str, port: int, timeout: float | None = None, wanted: Callable[[], bool] | None = None
    ) -> list[Address]:
        """Look a name up. As `Handler.resolve`."""
        if timeout is None or is_numeric(host):
            return look_up(socket.getaddrinfo, host, port)
        if self.cooperative:
            from pykafka.handlers.greenlets import resolve_on_hub

            return resolve_on_hub(self.native, socket.getaddrinfo, host, port, timeout, wanted)
        return resolve_aside(self, self._lookups, socket.getaddrinfo, host, port, timeout, wanted)

    def connect(
        self,
        address: Address,
        timeout: float,
        source_address: tuple[str, int] | None = None,
        wanted: Callable[[], bool] | None = None,
    ) -> Stream:
        """Connect to an address over TCP. As `Handler.connect`."""
        return connect_stream(self, address, timeout, source_address, self._make_waiter, wanted)

    def wrap_tls(self, stream: Stream, context: Any, server_hostname: str | None, timeout: float) -> Stream:
        """Speak TLS over a connected stream. As `Handler.wrap_tls`."""
        return open_tls(self, stream, context, server_hostname, timeout)

    @property
    def native(self) -> Handler:
        """This handler itself, or one over the unpatched originals where it runs on a hub."""
        if not self.cooperative:
            return self
        if self._native is None:
            from pykafka.handlers.greenlets import native_beside_hub

            self._native = native_beside_hub()
        return self._native

    def kazoo(self) -> Any:
        """Make kazoo's handler for threads."""
        from kazoo.handlers.threading import SequentialThreadingHandler

        return SequentialThreadingHandler()
