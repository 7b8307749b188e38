"""Handler: the contract between PyKafka and the concurrency that it runs on, and the shapes of what a handler makes."""

from __future__ import annotations

import logging
import os
import queue
import random
import socket
import sys
import time
import weakref
from _thread import get_ident
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from contextvars import Context
from importlib import import_module
from types import CoroutineType, MethodType, TracebackType
from typing import Any, ClassVar, NamedTuple, ParamSpec, Protocol, TypeVar

from pykafka.exceptions import UnnoticedForkError

log = logging.getLogger(__name__)

R = TypeVar("R")
T = TypeVar("T")
_number = os.getpid()
P = ParamSpec("P")
#: What can be sent: anything whose bytes can be seen without a copy.
Buffer = bytes | bytearray | memoryview
# By the ids of the references, so that one that dies during a loop can be removed.
_fork_callbacks: dict[int, WeakCall] = {}
# References whose objects are gone. Appending is C: Python would discard the exception of a signal's handler that runs in
# Python code which frees an object.
_forgotten: deque[weakref.ref[Any]] = deque()
_fork_hooked = False


def process_number() -> int:
    """Return the number of this process, as of its start or of the last fork that Python's hook reported."""
    return _number


def check_process() -> None:
    """Raise an error in a child that was forked without Python's hook; this makes a system call.

    The workers of the client do not exist in such a child, and its connections are still those of the parent: without this
    check a call would wait for ever, or take the answers that the parent waits for.

    :raises UnnoticedForkError: `os.register_at_fork` did not work here
    """
    if os.getpid() != _number:
        raise UnnoticedForkError(
            f"process {os.getpid()} was forked from process {_number} without Python's hook for forks, so the Kafka client "
            "of the parent cannot be used in it: make the client in this process, or fork by os.fork() (uWSGI: set "
            "lazy-apps = true)"
        )


def notice_fork() -> bool:
    """Return whether this process is a child that was forked without Python's hook; it counts as reported from then on."""
    if os.getpid() == _number:
        return False
    _after_fork()
    return True


def _after_fork() -> None:
    global _number
    _number = os.getpid()


os.register_at_fork(after_in_child=_after_fork)


# ruff: noqa: N802  (Event(), Lock() and the rest bear the documented names of what they make)


#: Whether this Python lets Ctrl-C come between the end of a C function `__enter__` and the `with` block (handlers/entering.py).
GAP_BEFORE_WITH = sys.version_info[:2] == (3, 14)

#: The longest pause before a client of ZooKeeper connects again (s), or up to 40 % more: as of ZooKeeper's own client.
KAZOO_RETRY_MAX_S = 1.0


class RLockType(Protocol):
    """A lock that its owner may take again. Other workers wait until the owner has released it as often as it took it."""

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool: ...
    def release(self) -> None: ...
    def __enter__(self) -> Any: ...
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> Any: ...


class LockType(RLockType, Protocol):
    """A lock that is not re-entrant: a worker that holds it and takes it again waits for itself.

    `acquire(timeout=s)` returns False when the lock does not come free in time; without a timeout it waits for ever. Any
    worker may release the lock; `release()` of a free lock raises RuntimeError. Taking a free lock executes no Python code, so
    Ctrl-C cannot come between taking it and entering the `with` block that releases it; on 3.14 see `GAP_BEFORE_WITH`.
    """

    def locked(self) -> bool: ...


class EventType(Protocol):
    """A flag that workers wait for. `set()` wakes all of them; `wait(timeout)` returns whether the flag is set."""

    def is_set(self) -> bool: ...
    def set(self) -> None: ...
    def clear(self) -> None: ...
    def wait(self, timeout: float | None = None) -> bool: ...


class SemaphoreType(Protocol):
    """A counter that never falls below zero: `acquire` takes one from it, and waits while it is zero."""

    def acquire(self, blocking: bool = True, timeout: float | None = None) -> bool: ...
    def release(self) -> Any: ...
    def __enter__(self) -> Any: ...
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> Any: ...


class QueueType(Protocol[T]):
    """A first-in first-out queue, as `queue.Queue` of the standard library behaves.

    `get` and `put` raise the handler's QueueEmptyError and QueueFullError. One `task_done()` too many raises ValueError.
    """

    def qsize(self) -> int: ...
    def empty(self) -> bool: ...
    def full(self) -> bool: ...
    def put(self, item: T, block: bool = True, timeout: float | None = None) -> None: ...
    def put_nowait(self, item: T) -> None: ...
    def get(self, block: bool = True, timeout: float | None = None) -> T: ...
    def get_nowait(self) -> T: ...
    def task_done(self) -> None: ...
    def join(self) -> Any: ...


class Address(NamedTuple):
    """One address of a host: `Handler.resolve` finds it, `Handler.connect` connects to it."""

    family: int
    sockaddr: tuple[Any, ...]

    @property
    def text(self) -> str:
        """Return the address as people write it: "127.0.0.1:9092", "[::1]:9092"."""
        host, port = self.sockaddr[:2]
        return f"[{host}]:{port}" if ":" in str(host) else f"{host}:{port}"


class Stream(Protocol):
    """A connected byte stream. One worker at a time may read, one may write, and any worker may close it."""

    def recv_into(self, buffer: bytearray | memoryview, timeout: float) -> int:
        """Read at least one byte and return how many were read; 0 when the peer has closed the connection.

        :param buffer: receives the bytes; not empty
        :param timeout: how long to wait (s)
        :raises TimeoutError: no byte came in time
        :raises OSError: the connection is broken or closed
        """

    def send(self, buffers: Sequence[Buffer], timeout: float) -> None:
        """Write all of the buffers in order, without copying them together if the system can gather.

        :param timeout: for all buffers together (s)
        :raises TimeoutError: the peer did not take the bytes in time; how many it took is unknown
        :raises OSError: the connection is broken or closed
        """

    def close(self) -> None:
        """End the connection and wake its reader and writer; may be repeated. A forked child only closes its own descriptor."""

    def fileno(self) -> int: ...
    def getsockname(self) -> Any: ...
    def getpeername(self) -> Any: ...


class Listener(Protocol):
    """A place where peers connect. One worker at a time may accept, and any worker may close it."""

    #: Where it listens.
    address: Address

    def accept(self, timeout: float) -> Stream:
        """Wait for a connection and return its stream, without Nagle's delay and with keep-alive.

        :param timeout: how long to wait (s)
        :raises TimeoutError: no peer connected in time
        :raises OSError: the listener is closed
        """

    def close(self) -> None:
        """Stop listening, and wake the worker that accepts; may be repeated. A forked child only closes its own descriptor."""


class Worker(ABC):
    """A thread or greenlet that `Handler.spawn` started. It never keeps the process alive."""

    def __init__(self, name: str) -> None:
        #: As given to `spawn`.
        self.name = name
        #: The exception that ended the worker, which has been logged as well; None if none did.
        self.error: BaseException | None = None

    @abstractmethod
    def join(self, timeout: float | None = None) -> bool:
        """Wait until the worker has ended and return whether it has.

        :param timeout: how long to wait (s); None waits for ever
        :raises RuntimeError: the worker called this itself
        """

    @abstractmethod
    def is_alive(self) -> bool:
        """Return whether the worker has not ended; one that has yet to begin is alive."""

    def interrupt(self) -> bool:
        """End the worker at its present or next wait, if the handler can; return whether it can. Never waits.

        An exception that is no `Exception` is raised there: gevent's GreenletExit, asyncio's CancelledError.
        """
        return False

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name} {'alive' if self.is_alive() else 'ended'}>"


class Handler(ABC):
    """The interface to one kind of concurrency: workers, locks, queues, clocks, sockets.

    One handler serves any number of clients. Callers may rely on the documentation of its members and of the shapes above
    only. In particular a handler does not promise that workers run in parallel, nor that they switch at certain places only.
    Only workers of the same handler (with gevent: of the same hub) may share the objects that it makes; `native` documents
    the exception.
    """

    #: "threads", "gevent", ...: for messages, metrics and test ids.
    name: str
    #: Whether all workers share one hub, so that a worker that computes blocks all others.
    cooperative: bool
    #: Whether `time_ms` is the system's clock, so that compiled code may read that clock directly.
    system_clock: bool = True
    #: The only source of random numbers (jitter, choices); a forked child seeds it again.
    random: random.Random

    #: Return a monotonic time (s) for deadlines; it is not the date.
    now: Callable[[], float] = staticmethod(time.monotonic)

    #: A queue's `get` raises this when no item came in time.
    QueueEmptyError: ClassVar[type[Exception]] = queue.Empty
    #: A queue's `put` raises this when the queue stayed full.
    QueueFullError: ClassVar[type[Exception]] = queue.Full
    #: Sockets raise this: the standard library's error, whatever the handler.
    SockErr: ClassVar[type[OSError]] = OSError
    #: `resolve` raises this for a name that has no address.
    GaiError: ClassVar[type[OSError]] = socket.gaierror

    def __init__(self) -> None:
        if notice_fork():
            _call_in_child()
        self.random = random.Random()
        self.at_fork(self._reseed)

    def _reseed(self) -> None:
        self.random.seed()

    def __repr__(self) -> str:
        return f"<{type(self).__module__}.{type(self).__name__} {self.name}>"

    # -- what workers share ---------------------------------------------------------------------------------------

    @abstractmethod
    def Event(self) -> EventType:
        """Make a flag that is not set."""

    @abstractmethod
    def Lock(self) -> LockType:
        """Make a lock that is not re-entrant: taking it twice waits for ever, or until the timeout."""

    @abstractmethod
    def RLock(self) -> RLockType:
        """Make a re-entrant lock."""

    @abstractmethod
    def Semaphore(self, value: int = 1) -> SemaphoreType:
        """Make a semaphore.

        :param value: how often workers can acquire it before one has to wait
        """

    @abstractmethod
    def Queue(self, maxsize: int = 0) -> QueueType[Any]:
        """Make a first-in first-out queue.

        :param maxsize: how many items it holds before `put` waits; 0 for any number
        """

    @abstractmethod
    def local(self) -> Any:
        """Make an object whose attributes are separate for each worker; on an event loop, for each call in the bridge."""

    def worker_local(self) -> Any:
        """Make an object whose attributes are separate for each thread, greenlet or task, and stay from call to call."""
        return self.local()

    # -- workers and time --------------------------------------------------------------------------------------------

    @abstractmethod
    def spawn(self, target: Callable[..., object], *args: Any, name: str | None = None, **kwargs: Any) -> Worker:
        """Start `target(*args, **kwargs)` in a worker of its own.

        The handler discards the return value. It keeps an exception that ends the target as `Worker.error`, and reports it.
        Workers are daemons: they do not keep the process alive, so the caller must stop each worker that it starts.

        :param name: the worker's name for debuggers and logs; None for a generated one
        :raises WorkerNotStartedError: the system starts no thread at present
        """

    def spawn_in(self, context: Context, target: Callable[..., object], *args: Any, name: str | None = None) -> Worker:
        """Start `target(*args)` in a worker whose context variables are a copy of a context; the rest as of `spawn`."""
        return self.spawn(context.copy().run, target, *args, name=name)

    @abstractmethod
    def sleep(self, seconds: float = 0.0) -> None:
        """Sleep for at least this long (s) while other workers run; 0 gives way to the workers that are ready."""

    @property
    def has_ended(self) -> bool:
        """Whether nothing can wait and no worker can run any more: on a closed event loop, or one of the parent process."""
        return False

    @property
    def may_wait(self) -> bool:
        """Whether the code that runs now may wait: everywhere, except on an event loop outside of its bridge."""
        return True

    def require_wait(self) -> None:
        """Raise an error if the caller may not wait, before it begins what it may have to wait for.

        :raises WouldBlockError: it would block an event loop
        :raises RuntimeError: it runs on another event loop than this handler
        """
        return

    def time_ms(self) -> int:
        """Return the wall clock (ms since 1970, UTC), for create times; it may jump."""
        return time.time_ns() // 1_000_000

    @abstractmethod
    def breathe(self) -> None:
        """Yield to the hub if it has not run for a quarter of a millisecond; call this every few hundred cheap steps.

        It costs one clock reading if there is a hub, and nothing if there is none.
        """

    @abstractmethod
    def offload(self, fn: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Call `fn` without blocking the hub; return its result, or raise its exception.

        This is for single calls that release the GIL (a codec, a checksum): a Python function in another thread would block
        the hub all the same. `fn` may run in any OS thread, so it must not use anything that this handler made. With
        threads, which have no hub, the caller's worker runs it.
        """

    def awaited(self, awaitable: Awaitable[T]) -> T:
        """Await what a function of the application has returned, if workers are tasks; return its result.

        :raises TypeError: no worker of this handler can await anything
        """
        if isinstance(awaitable, CoroutineType):
            awaitable.close()  # which would warn that it was never awaited
        raise TypeError(f"an async function cannot be called on {self.name}: give a plain one, or use pykafka.aio")

    # -- the network -------------------------------------------------------------------------------------------------

    @property
    @abstractmethod
    def Socket(self) -> type[Any]:
        """The class of sockets that block the calling worker and not the hub; PyKafka itself uses `connect`."""

    @abstractmethod
    def resolve(
        self, host: str, port: int, timeout: float | None = None, wanted: Callable[[], bool] | None = None
    ) -> list[Address]:
        """Return the addresses of a host name, in the order in which the system prefers them.

        :param host: DNS name or IP address, IPv6 without brackets
        :param timeout: how long to wait (s); None for as long as the system waits
        :param wanted: called every tenth of a second while no name server answers; if it returns False, `resolve` stops
            waiting, and the lookup itself continues
        :raises socket.gaierror: the name has no address
        :raises TimeoutError: no name server answered in time
        :raises ConnectionAbortedError: `wanted` returned False
        """

    def name_of(self, address: Address, timeout: float, wanted: Callable[[], bool] | None = None) -> str:
        """Return the canonical name of an address, by a reverse look-up; the address itself if it has no name.

        :param timeout: how long to wait (s)
        :param wanted: see `resolve`
        :raises TimeoutError: no name server answered in time
        :raises ConnectionAbortedError: `wanted` returned False
        """
        raise NotImplementedError(f"{type(self).__name__} has no reverse look-up; implement name_of()")

    @abstractmethod
    def connect(
        self,
        address: Address,
        timeout: float,
        source_address: tuple[str, int] | None = None,
        wanted: Callable[[], bool] | None = None,
    ) -> Stream:
        """Connect to an address over TCP, without Nagle's delay and with keep-alive.

        :param timeout: how long to wait (s)
        :param source_address: local host and port to connect from; port 0 for any
        :param wanted: called every tenth of a second while the peer does not answer; False ends the attempt
        :raises TimeoutError: the peer did not answer in time
        :raises ConnectionAbortedError: `wanted` returned False
        :raises OSError: the peer refused, it cannot be reached, or the source address cannot be used
        """

    @abstractmethod
    def listen(self, address: Address) -> Listener:
        """Listen for connections over TCP.

        :param address: where to listen, as `resolve` returns it; port 0 for any free one
        :raises OSError: the address is in use, or not of this machine
        """

    @abstractmethod
    def wrap_tls(self, stream: Stream, context: Any, server_hostname: str | None, timeout: float) -> Stream:
        """Speak TLS over a connected stream and return the stream that carries it.

        Any SSLContext works with any handler, since it sees memory buffers only (`wrap_bio`).

        :param context: an ssl.SSLContext; in OS threads also any other object with `wrap_socket(sock)`
        :param server_hostname: the host name that the certificate must contain
        :param timeout: for the handshake (s)
        :raises TypeError: the context has only `wrap_socket()`, which would block a hub
        :raises ssl.SSLError: the handshake failed
        :raises TimeoutError: the handshake did not end in time
        :raises OSError: the connection broke; ConnectionResetError if the peer closed it
        """

    # -- beyond this handler -----------------------------------------------------------------------------------------

    @property
    @abstractmethod
    def native(self) -> Handler:
        """A handler over OS threads, whose locks, sockets and clock are unpatched.

        It runs the workers that must run while a hub is blocked (heartbeats). These share with the workers of this handler
        only plain data, the native handler's events, and the `*_nowait` calls of its queues. They log nothing, since a
        greenlet may hold a log's locks. With plain threads it is the handler itself.
        """

    def post(self, fn: Callable[[], object]) -> None:
        """Run `fn()` where the events of the workers may be set; any thread may call this, and it does not wait.

        On the handler that `native` returns: how its workers wake those that they run beside, on a hub or an event loop.

        :param fn: sets events, and does not wait; it is not called if the hub or loop has ended
        """
        fn()

    def say(self, fn: Callable[[], object]) -> None:
        """Run `fn()`, which may log and call the application, where that can neither block nor deadlock.

        On the handler that `native` returns: in a worker of the hub or loop beside it, as soon as that runs.
        """
        fn()

    @property
    def here(self) -> Callable[[], object]:
        """A function of C that returns what stands for the worker that calls it: see `pykafka.handlers.whereabouts`."""
        return get_ident

    def at_fork(self, fn: Callable[[], object]) -> None:
        """Register `fn()` to run in every child that this process forks from now on.

        The handler holds `fn` weakly: a bound method goes with its object, and the caller must keep a plain function. `fn`
        runs before the fork returns, while no other worker is alive, so it must not wait for anything.
        """
        _at_fork(fn)

    @abstractmethod
    def kazoo(self) -> Any:
        """Make kazoo's handler for the same kind of concurrency; this imports kazoo."""

    def kazoo_client(self, hosts: str, timeout: float, read_only: bool = False) -> Any:
        """Make a client of ZooKeeper that is not connected yet, a KazooClient.

        It connects again after at most `KAZOO_RETRY_MAX_S`; kazoo's own pauses double up to an hour.

        :param hosts: "host:port,host:port/chroot"
        :param timeout: the session timeout to ask for (s)
        :param read_only: whether a server without a quorum will do
        """
        from kazoo.client import KazooClient

        kazoo = self.kazoo()
        retry = {"max_tries": -1, "max_delay": KAZOO_RETRY_MAX_S, "sleep_func": kazoo.sleep_func}
        return KazooClient(hosts, timeout=timeout, handler=kazoo, read_only=read_only, connection_retry=retry)

    def report(self, what: str, error: BaseException) -> None:
        """Log an exception that no caller can receive any more.

        :param what: the name of what failed
        """
        log.error("%s failed: %s", what, error, exc_info=error)


class WeakCall:
    """A weak reference to a function or bound method; calling it returns that, or None when its object is gone.

    `weakref.WeakMethod` does the same, but prints an error if it is freed together with the object.

    :param fn: the function or method
    :param gone: called with `reference` when the object is gone
    """

    __slots__ = ("_function", "reference")

    def __init__(self, fn: Callable[..., Any], gone: Callable[[weakref.ref[Any]], object] | None = None) -> None:
        self._function = fn.__func__ if isinstance(fn, MethodType) else None
        self.reference: weakref.ref[Any] = weakref.ref(fn.__self__ if isinstance(fn, MethodType) else fn, gone)

    def __call__(self) -> Any:
        """Return the function or method; None when its object is gone."""
        target = self.reference()
        return target if target is None or self._function is None else MethodType(self._function, target)


def _at_fork(fn: Callable[[], object]) -> None:
    global _fork_hooked
    if not _fork_hooked:
        os.register_at_fork(after_in_child=_call_in_child)
        _fork_hooked = True
        if "uwsgi" in sys.modules:  # the process is uWSGI's: it makes this module itself
            import_module("pykafka.handlers.uwsgi").attend()
    with suppress(IndexError):
        while True:
            _fork_callbacks.pop(id(_forgotten.popleft()), None)
    call = WeakCall(fn, _forgotten.append)
    _fork_callbacks[id(call.reference)] = call


def _call_in_child() -> None:
    for call in list(_fork_callbacks.values()):
        fn = call()
        if fn is None:
            continue
        try:
            fn()
        except Exception as error:  # the child must come up, and the other callbacks be called
            log.error("after fork: %r failed", fn, exc_info=error)
