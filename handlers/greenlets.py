# ruff: noqa: N802  (Event(), Lock() and the rest bear the documented names of what they make)
"""`GEventHandler`: PyKafka on gevent's greenlets, without monkey patching. Making a handler imports gevent."""

from __future__ import annotations

import itertools
import os
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from functools import cache, partial
from typing import Any, ParamSpec, TypeVar

from pykafka.handlers.base import (
    GAP_BEFORE_WITH,
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
from pykafka.handlers.lookups import Lookup, Reverse, await_lookup
from pykafka.handlers.native import NativeHandler
from pykafka.handlers.patching import original, refuse_eventlet
from pykafka.handlers.sockets import SocketHandler
from pykafka.handlers.thread_pool import POOL, Job

P = ParamSpec("P")
R = TypeVar("R")

#: How long one worker may keep the hub before `breathe` yields to it (s).
HELD_MAX_S = 0.00025

#: So short that a repeating timer of libev fires at each turn of its loop (s).
EVERY_TURN_S = 1e-9

_numbers = itertools.count(1)

#: The number of the present OS thread, also if greenlets stand for threads.
_thread_number = original("_thread", "get_ident")


class HubWaiter:
    """Waits on gevent's hub for a descriptor.

    :param fd: the descriptor
    :param writing: for which direction
    """

    def __init__(self, fd: int, writing: bool) -> None:
        self._fd = fd
        self._events = 2 if writing else 1  # libev's EV_WRITE and EV_READ
        self._hub: Any = None
        self._watcher: Any = None

    def wait(self, timeout: float) -> bool:
        """Return whether the descriptor became ready (or broke) in time (s)."""
        import gevent
        from gevent.socket import wait

        hub = gevent.get_hub()
        if hub is not self._hub:  # the first wait, or a worker of another thread's hub
            self.close()
            self._hub = hub
            self._watcher = hub.loop.io(self._fd, self._events)
        try:
            wait(self._watcher, max(timeout, 0.0), _TIMED_OUT)
        except _TimedOut:
            return False
        return True

    def close(self) -> None:
        """Free the watcher."""
        watcher, self._watcher, self._hub = self._watcher, None, None
        if watcher is not None:
            _close(watcher)


class _TimedOut(Exception):
    """The timeout of a wait of ours, as opposed to one that the application has set on the greenlet."""


_TIMED_OUT = _TimedOut()


def _close(*watchers: Any) -> None:
    """Free watchers, unless their loop is gone and has freed them already."""
    for watcher in watchers:
        try:  # not suppress(): at the end of the interpreter this module has no names any more
            watcher.close()
        except ValueError:
            pass


class _Clock:
    """The time at which a loop last checked its sockets and timers; the loop itself sets it."""

    __slots__ = ("turned",)

    def __init__(self) -> None:
        self.turned = time.monotonic()

    def note(self) -> None:
        self.turned = time.monotonic()


class _HubTurns:
    """The turns of one hub between workers that compute a lot; these workers run one after another.

    :param hub: this thread's hub
    """

    def __init__(self, hub: Any) -> None:
        from gevent.hub import Waiter

        self._thread = _thread_number()
        self._loop = hub.loop
        self.hub = hub
        self._make_waiter: Callable[[Any], Any] = Waiter
        # The loop holds the clock and not this object, so that this object can be freed, and its watchers with it.
        self.clock = _Clock()
        self._waiting: deque[Any] = deque()
        # It runs before all other callbacks of a turn, and does not keep the loop running.
        self._check = hub.loop.check(ref=False, priority=hub.loop.MAXPRI)
        self._check.start(self.clock.note)
        self._repeats = "libuv" not in type(hub.loop).__module__  # whose timers count milliseconds
        self._timer = hub.loop.timer(0.0, EVERY_TURN_S if self._repeats else 0.0)

    def __del__(self, thread_number: Callable[[], int] = _thread_number, close: Callable[..., None] = _close) -> None:
        # The last objects go when the module's names are gone already: defaults keep these two.
        made = (self.__dict__.get("_check"), self.__dict__.get("_timer"))  # the constructor may have been interrupted
        watchers = [watcher for watcher in made if watcher is not None]
        if self._thread == thread_number():
            close(*watchers)
            return
        # The garbage collector runs in any thread. Meanwhile the hub's thread may be in the middle of libev, about to call
        # these very watchers: only that thread may free them, or the process crashes.
        try:
            self._loop.run_callback_threadsafe(close, *watchers)
        except ValueError:  # the hub has ended
            pass

    def wait(self) -> None:
        """Wait until the hub has turned and the workers that waited before this one have run."""
        waiter = self._make_waiter(self.hub)
        self._waiting.append(waiter)
        # Not sleep(0): it runs other greenlets, but gevent then checks neither sockets nor timers for up to 5 ms.
        if not self._timer.active:
            self._timer.start(self._wake_one)
        try:
            waiter.get()
        except BaseException:
            if waiter in self._waiting:
                self._waiting.remove(waiter)
            raise

    def _wake_one(self) -> None:
        # One worker in each turn of the hub: several that each run for a while would block it together. Ctrl-C may come at
        # any step, so a worker leaves the queue after it was woken, and the timer goes on for as long as one waits.
        if not self._repeats:
            self._timer.stop()  # it has fired, but libuv's timer still counts as active
        if self._waiting:
            waiter = self._waiting[0]
            try:
                waiter.switch(None)
            finally:
                if self._waiting and self._waiting[0] is waiter:
                    self._waiting.popleft()
        if not self._waiting:
            self._timer.stop()
        elif not self._timer.active:
            self._timer.start(self._wake_one)


def _import_gevent() -> Any:
    """Import all parts of gevent that handlers need, also those that gevent imports late.

    :raises ImportError: gevent is not installed
    :raises RuntimeError: the interpreter ends
    """
    try:
        import gevent.event
        import gevent.local
        import gevent.lock
        import gevent.queue
        import gevent.socket
        import gevent.threadpool
    except ImportError as error:
        raise ImportError("greenlets need gevent: pip install gevent", name="gevent") from error
    except RuntimeError as error:
        raise RuntimeError(
            f"gevent cannot be imported any more ({error}): make the first client with use_greenlets=True earlier, before the "
            "interpreter ends"
        ) from error
    return gevent


class HubWatch:
    """Keeps hubs turning while their greenlets work."""

    def __init__(self) -> None:
        gevent = _import_gevent()
        self._get_hub = gevent.get_hub
        self._getcurrent = gevent.getcurrent
        # Each thread has a hub of its own.
        self._local = original("_thread", "_local")()

    def breathe(self) -> None:
        """Yield to the hub if it has not turned for HELD_MAX_S.

        The time since its last turn counts, not the time for which the present greenlet has run. A callback of the loop cannot
        yield: then this returns at once.
        """
        hub = self._get_hub()
        turns = getattr(self._local, "turns", None)
        if turns is None or turns.hub is not hub:
            turns = self._local.turns = _HubTurns(hub)
        if time.monotonic() - turns.clock.turned >= HELD_MAX_S and self._getcurrent() is not hub:
            turns.wait()

    def offload(self, fn: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Call `fn` in a thread of the client's own, not of the hub's pool, and wait for it on the hub; in place if in such."""
        if POOL.is_here:
            return fn(*args, **kwargs)
        result: R = _Offloaded(self._get_hub(), partial(fn, *args, **kwargs)).wait()
        return result


class _Offloaded:
    """A call in another thread, and the greenlet that waits for it.

    :param hub: the hub of this thread
    :param fn: what to call
    """

    def __init__(self, hub: Any, fn: Callable[[], Any]) -> None:
        from gevent.hub import Waiter

        self._waiter = Waiter(hub)
        # It keeps the loop running meanwhile, unlike a callback of `run_callback_threadsafe`.
        self._watcher = hub.loop.async_()
        self._job = Job(fn, self._callback)

    def _callback(self) -> None:
        with suppress(ValueError):  # the hub has ended
            self._watcher.send()

    def wait(self) -> Any:
        """Return what the call returns, or raise what it raises."""
        _offloaded.add(self)
        try:
            self._watcher.start(self._waiter.switch, None)
            POOL.begin(self._job)
            self._waiter.get()
        finally:
            self.leave()
        return self._job.outcome()

    def forsake(self) -> None:
        """Leave the call to the parent process."""
        self._job.forsake()
        _close(self._watcher)

    def leave(self) -> None:
        """Wait no longer."""
        self._job.leave()
        _offloaded.discard(self)
        _close(self._watcher)


#: Calls under way.
_offloaded: set[_Offloaded] = set()


def _forget_offloaded() -> None:
    """Leave the calls to the parent process, in a forked child: their watchers would keep its loop running for ever."""
    left = list(_offloaded)
    _offloaded.clear()
    for call in left:
        call.forsake()


os.register_at_fork(after_in_child=_forget_offloaded)


def raise_in_main(error: BaseException) -> None:
    """Raise a signal handler's exception in this thread's main greenlet; return when that greenlet waits again.

    Python runs signal handlers in the greenlet that happens to run. If one ends a greenlet, gevent raises the exception in
    the main greenlet, too, but prints the stack first; if threads are greenlets, `threading` swallows the exception.
    """
    import gevent

    gevent.get_hub().handle_system_error(type(error), error)


@cache
def _lock_class() -> type[Any]:
    from gevent.lock import BoundedSemaphore

    class HubLock(BoundedSemaphore):  # type: ignore[misc]  # a class of C
        _OVER_RELEASE_ERROR = RuntimeError

    if not GAP_BEFORE_WITH:
        return HubLock
    from pykafka.handlers.entering import enter

    class GuardedHubLock(HubLock):
        def __enter__(self) -> bool:
            return enter(self.acquire, self.release)

    return GuardedHubLock


def make_lock() -> LockType:
    """Make a lock for greenlets that is not re-entrant.

    The lock of `gevent.thread`, which a patched `threading` uses, executes Python code after it was taken: if Ctrl-C comes
    at that moment, no worker ever releases it.
    """
    lock: LockType = _lock_class()()
    return lock


def resolve_on_hub(
    native: Handler, getaddrinfo: Callable[..., list[Any]], host: str, port: int, deadline: Deadline
) -> list[Address]:
    """Look a name up without blocking the hub or one of its few threads, which are for offloaded calls.

    A name server that does not answer holds a thread for many seconds.

    :param native: the handler over OS threads beside this hub
    :param getaddrinfo: gevent's; called if its resolver needs no threads
    """
    import gevent
    from gevent.event import Event

    hub = gevent.get_hub()
    if type(hub.resolver).__module__ != "gevent.resolver.thread":
        asked = Lookup(0.0)
        greenlet = gevent.spawn(asked.ask, getaddrinfo, host, port)
        try:
            await_lookup(lambda seconds: greenlet.join(seconds) or greenlet.ready(), host, deadline)
        finally:
            greenlet.kill(block=False)
        return asked.result()
    loop, done = hub.loop, Event()

    def callback() -> None:
        with suppress(ValueError):  # the hub has ended
            loop.run_callback_threadsafe(done.set)

    assert isinstance(native, NativeHandler)
    lookup = native._look_up_aside(host, port, callback, isinstance(getaddrinfo, Reverse))
    await_lookup(done.wait, host, deadline)
    return lookup.result()


def native_beside_hub() -> Handler:
    """Make a native handler that logs the errors of its workers on the present hub, and sets events there."""
    import gevent

    loop = gevent.get_hub().loop

    def post(fn: Callable[[], object]) -> None:
        with suppress(ValueError):  # the hub has ended
            loop.run_callback_threadsafe(fn)

    return NativeHandler(lambda say: loop.run_callback_threadsafe(gevent.spawn, say), post)


class GreenletWorker(Worker):
    """A greenlet."""

    def __init__(self, handler: Handler, run: Callable[[], object], name: str) -> None:
        import gevent

        super().__init__(name)
        self._handler = handler
        self._run = run
        self._exit = gevent.GreenletExit
        self._getcurrent = gevent.getcurrent
        self._greenlet = gevent.Greenlet(self._main)
        self._greenlet.name = name
        self._greenlet.start()

    def _main(self) -> None:
        run = self._run
        del self._run  # its arguments must not live as long as this object
        try:
            run()
        except self._exit:
            pass  # killed, which is no error
        except Exception as error:  # noqa: BLE001 - whatever a worker may raise
            self.error = error
            self._handler.report(f"worker {self.name}", error)
        except (KeyboardInterrupt, SystemExit) as error:
            self.error = error
            raise_in_main(error)
        except BaseException as error:  # such as a timeout of gevent's
            self.error = error
            raise

    def join(self, timeout: float | None = None) -> bool:
        """Wait until the greenlet has ended and return whether it has. As `Worker.join`."""
        if self._greenlet is self._getcurrent():
            raise RuntimeError("a worker cannot wait for itself")
        self._greenlet.join(timeout)
        return bool(self._greenlet.dead)

    def is_alive(self) -> bool:
        """Return whether the greenlet has not ended."""
        return not self._greenlet.dead

    def interrupt(self) -> bool:
        """Kill the greenlet. As `Worker.interrupt`."""
        self._greenlet.kill(block=False)
        return True


class GEventHandler(SocketHandler):
    """The handler that runs workers in gevent's greenlets; it neither needs monkey patching nor does any.

    :raises ImportError: gevent is not installed
    :raises RuntimeError: eventlet has patched the process, or the interpreter ends and gevent is not yet imported
    """

    name = "gevent"
    cooperative = True

    def __init__(self) -> None:
        refuse_eventlet("use_greenlets=True (GEventHandler)")
        gevent = _import_gevent()
        super().__init__(HubWaiter)
        self._gevent = gevent
        self.at_fork(self._after_fork)
        self._hub = HubWatch()
        self._native: Handler | None = None

    def _after_fork(self) -> None:
        # As gevent.os.fork() does; multiprocessing calls the system's, and the hub would share the parent's epoll.
        self._gevent.reinit()

    @property
    def Socket(self) -> type[Any]:
        """The class `gevent.socket.socket`."""
        cls: type[Any] = self._gevent.socket.socket
        return cls

    def Event(self) -> EventType:
        """Make a flag that is not set."""
        event: EventType = self._gevent.event.Event()
        return event

    def Lock(self) -> LockType:
        """Make a lock that is not re-entrant."""
        return make_lock()

    def RLock(self) -> RLockType:
        """Make a re-entrant lock."""
        lock: RLockType = self._gevent.lock.RLock()
        return lock

    def Semaphore(self, value: int = 1) -> SemaphoreType:
        """Make a semaphore. As `Handler.Semaphore`."""
        semaphore: SemaphoreType = self._gevent.lock.Semaphore(value)
        return semaphore

    def Queue(self, maxsize: int = 0) -> QueueType[Any]:
        """Make a queue. As `Handler.Queue`."""
        made: QueueType[Any] = self._gevent.queue.JoinableQueue(maxsize if maxsize > 0 else None)
        return made

    def local(self) -> Any:
        """Make an object whose attributes are separate for each greenlet."""
        return self._gevent.local.local()

    def spawn(self, target: Callable[..., object], *args: Any, name: str | None = None, **kwargs: Any) -> Worker:
        """Start `target(*args, **kwargs)` in a greenlet. As `Handler.spawn`."""
        return GreenletWorker(self, lambda: target(*args, **kwargs), name or f"pykafka.worker-{next(_numbers)}")

    def sleep(self, seconds: float = 0.0) -> None:
        """Sleep for at least this long (s) while other greenlets run."""
        self._gevent.sleep(seconds)

    def breathe(self) -> None:
        """Yield to the hub if it has not turned for HELD_MAX_S. As `Handler.breathe`."""
        self._hub.breathe()

    def offload(self, fn: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Call `fn` in a thread of the client's own. As `Handler.offload`."""
        return self._hub.offload(fn, *args, **kwargs)

    def _resolver(self) -> Callable[..., list[Any]]:
        getaddrinfo: Callable[..., list[Any]] = self._gevent.socket.getaddrinfo
        return getaddrinfo

    def _name_resolver(self) -> Callable[..., Any]:
        getnameinfo: Callable[..., Any] = self._gevent.socket.getnameinfo
        return getnameinfo

    def _resolve_aside(
        self, host: str, port: int, deadline: Deadline, resolver: Callable[..., list[Any]] | None = None
    ) -> list[Address]:
        return resolve_on_hub(self.native, resolver or self._resolver(), host, port, deadline)

    @property
    def here(self) -> Callable[[], object]:
        """As `Handler.here`: a greenlet."""
        current: Callable[[], object] = self._gevent.getcurrent
        return current

    @property
    def native(self) -> Handler:
        """A handler over unpatched OS threads. As `Handler.native`."""
        if self._native is None:
            self._native = native_beside_hub()
        return self._native

    def kazoo(self) -> Any:
        """Make kazoo's handler for gevent."""
        from kazoo.handlers.gevent import SequentialGeventHandler

        return SequentialGeventHandler()
