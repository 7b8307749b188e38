# ruff: noqa: N802  (Event(), Lock() and the rest bear the documented names of what they make)
"""`ThreadingHandler`: PyKafka on the standard library's threads, or on the greenlets that gevent.monkey makes of them."""

from __future__ import annotations

import itertools
import queue
import socket
import sys
import threading
import time
from _thread import get_ident
from collections.abc import Callable
from contextlib import suppress
from functools import cache, partial
from importlib import import_module
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from pykafka.exceptions import PatchedTooLateError, WorkerNotStartedError
from pykafka.handlers.base import (
    Address,
    EventType,
    Handler,
    LockType,
    QueueType,
    RLockType,
    SemaphoreType,
    Worker,
    process_number,
)
from pykafka.handlers.deadline import Deadline
from pykafka.handlers.events import GateEvent, allocate_lock, allocate_rlock
from pykafka.handlers.lookups import Lookups
from pykafka.handlers.patching import PATCHERS, is_patched, is_patched_by_eventlet
from pykafka.handlers.sockets import SocketHandler
from pykafka.handlers.streams import PollWaiter, WaiterFactory

if TYPE_CHECKING:
    from pykafka.handlers import eventlet_hub
    from pykafka.handlers.greenlets import HubWatch

P = ParamSpec("P")
R = TypeVar("R")

_numbers = itertools.count(1)


def _raise_in_main(error: BaseException) -> None:
    """Raise a signal handler's exception in the main greenlet, or green thread."""
    if is_patched_by_eventlet():
        from pykafka.handlers import eventlet_hub

        eventlet_hub.raise_in_main(error)
        return
    from pykafka.handlers import greenlets

    greenlets.raise_in_main(error)


@cache
def _quiet(base: type[threading.Thread]) -> type[threading.Thread]:
    """Return a class of threads that end quietly in a forked child.

    In a patched process a thread is a greenlet, of which the child has a copy. `threading` has forgotten that thread there, and
    would raise KeyError, with a traceback, when the copy ends.

    :param base: `threading.Thread`, which patching replaces
    """

    class QuietThread(base):  # type: ignore[misc, valid-type]  # a class that is known by now
        def _delete(self) -> None:
            with suppress(KeyError):
                super()._delete()

    return QuietThread


class ThreadWorker(Worker):
    """A daemon thread."""

    def __init__(self, handler: Handler, run: Callable[[], object], name: str) -> None:
        super().__init__(name)
        self._handler = handler
        self._run = run
        self._pid = process_number()
        # Not `Thread.join` alone: before Python 3.13, a Ctrl-C during the join makes the standard library believe that the
        # thread has ended.
        self._ended = handler.Event()
        self._thread = _quiet(threading.Thread)(target=self._main, name=name, daemon=True)
        handled = sys.exc_info()[1]
        try:
            self._thread.start()
        except RuntimeError as error:
            # An interrupt inside of threading's own wait for the thread: its lock is free then, and its `with` block fails.
            if error.__context__ is not None and error.__context__ is not handled:
                raise error.__context__ from None
            raise WorkerNotStartedError(f"{name} was not started: {error}") from error

    def _main(self) -> None:
        run = self._run
        del self._run  # its arguments must not live as long as this object
        try:
            run()
        except BaseException as error:  # noqa: BLE001 - whatever a worker may raise
            self.error = error
            if self._handler.cooperative and isinstance(error, (KeyboardInterrupt, SystemExit)):
                _raise_in_main(error)
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
            self._thread.join(timeout)  # the thread has a few steps left
        return True

    def is_alive(self) -> bool:
        """Return whether the thread has not ended."""
        return not self._ended.is_set() and (self._pid == process_number() or self._handler.cooperative)

    @property
    def _is_here(self) -> bool:
        """Whether this process has the thread: a forked child has no threads of its parent, but copies of its greenlets."""
        return self._pid == process_number() or self._handler.cooperative


class ThreadingHandler(SocketHandler):
    """The handler that runs workers in threads.

    In a process in which gevent.monkey has patched `threading`, those threads are greenlets: the handler then waits on the hub,
    and offloads to threads of its own. If eventlet has patched the process, they are green threads, which wait on eventlet's
    hub. The constructor checks which of these applies.
    """

    name = "threads"

    def __init__(self) -> None:
        self._is_green = is_patched_by_eventlet()
        self.cooperative = self._is_green or is_patched("threading")
        self._native: Handler | None = None
        make_waiter: WaiterFactory = PollWaiter
        if self._is_green:
            from pykafka.handlers import eventlet_hub

            make_waiter = eventlet_hub.GreenWaiter
            self._make_lock: Callable[[], LockType] = threading.Lock
            self._hub: HubWatch | eventlet_hub.GreenWatch = eventlet_hub.GreenWatch()
        elif self.cooperative:
            from pykafka.handlers import greenlets

            make_waiter = greenlets.HubWaiter
            self._make_lock = greenlets.make_lock
            self._hub = greenlets.HubWatch()
        else:
            self._make_lock = allocate_lock
        super().__init__(make_waiter)
        self._lookups = Lookups(self)

    @property
    def Socket(self) -> type[Any]:
        """The class `socket.socket`."""
        return socket.socket

    def _check_patching(self) -> None:
        """Raise an error if threads became greenlets after this handler was made: they would wait for each other for ever."""
        if self.cooperative or sys.modules.keys().isdisjoint(PATCHERS):
            return
        if is_patched("threading") or is_patched_by_eventlet():
            raise PatchedTooLateError(
                "this process was patched (gevent.monkey or eventlet) after its Kafka client was made: make the client behind "
                "the patching, or patch earlier (gunicorn --preload: in gunicorn.conf.py; uWSGI: gevent-early-monkey-patch = "
                "true)"
            )

    def Event(self) -> EventType:
        """Make a flag that is not set.

        :raises PatchedTooLateError: the process was patched after this handler was made
        """
        self._check_patching()
        return threading.Event() if self.cooperative else GateEvent()

    def Lock(self) -> LockType:
        """Make a lock that is not re-entrant."""
        return self._make_lock()

    def RLock(self) -> RLockType:
        """Make a re-entrant lock."""
        return threading.RLock() if self.cooperative else allocate_rlock()

    def Semaphore(self, value: int = 1) -> SemaphoreType:
        """Make a semaphore. As `Handler.Semaphore`."""
        return threading.Semaphore(value)

    def Queue(self, maxsize: int = 0) -> QueueType[Any]:
        """Make a queue. As `Handler.Queue`."""
        # In a patched process this is gevent's queue, which warns about an explicit 0.
        return queue.Queue(maxsize) if maxsize > 0 else queue.Queue()

    def local(self) -> Any:
        """Make an object whose attributes are separate for each thread."""
        return threading.local()

    def spawn(self, target: Callable[..., object], *args: Any, name: str | None = None, **kwargs: Any) -> Worker:
        """Start `target(*args, **kwargs)` in a daemon thread. As `Handler.spawn`.

        :raises PatchedTooLateError: the process was patched after this handler was made
        """
        self._check_patching()
        return ThreadWorker(self, partial(target, *args, **kwargs), name or f"pykafka.worker-{next(_numbers)}")

    def sleep(self, seconds: float = 0.0) -> None:
        """Sleep for at least this long (s) while other threads run."""
        time.sleep(seconds)

    def breathe(self) -> None:
        """Yield to the hub, if there is one. As `Handler.breathe`."""
        if self.cooperative:
            self._hub.breathe()

    def offload(self, fn: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Call `fn` in place if there is no hub. As `Handler.offload`."""
        if self.cooperative:
            return self._hub.offload(fn, *args, **kwargs)
        return fn(*args, **kwargs)

    def _name_resolver(self) -> Callable[..., Any]:
        return socket.getnameinfo

    def _resolve_aside(
        self, host: str, port: int, deadline: Deadline, resolver: Callable[..., list[Any]] | None = None
    ) -> list[Address]:
        if self.cooperative and not self._is_green:
            from pykafka.handlers.greenlets import resolve_on_hub

            return resolve_on_hub(self.native, resolver or socket.getaddrinfo, host, port, deadline)
        return self._lookups.resolve(resolver or socket.getaddrinfo, host, port, deadline)

    @property
    def here(self) -> Callable[[], object]:
        """As `Handler.here`: the number of a thread, or in a patched process a greenlet."""
        if not self.cooperative:
            return get_ident
        current: Callable[[], object] = import_module("greenlet").getcurrent
        return current

    @property
    def native(self) -> Handler:
        """This handler itself, or one over the unpatched originals if it runs on gevent's hub."""
        if not self.cooperative or self._is_green:
            return self
        if self._native is None:
            from pykafka.handlers.greenlets import native_beside_hub

            self._native = native_beside_hub()
        return self._native

    def kazoo(self) -> Any:
        """Make kazoo's handler for threads, or for green threads."""
        if self._is_green:
            from kazoo.handlers.eventlet import SequentialEventletHandler

            return SequentialEventletHandler()
        from kazoo.handlers.threading import SequentialThreadingHandler

        return SequentialThreadingHandler()
