# ruff: noqa: N802  (Event(), Lock() and the rest bear the documented names of what they make)
"""Handler: the contract between PyKafka and the concurrency that it runs on, and the shapes of what a handler makes."""

from __future__ import annotations

import logging
import os
import queue
import random
import socket
import time
import weakref
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from types import MethodType, TracebackType
from typing import Any, ClassVar, NamedTuple, ParamSpec, Protocol, TypeVar

log = logging.getLogger(__name__)

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")

#: What can be sent: anything whose bytes can be seen without a copy.
Buffer = bytes | bytearray | memoryview


class RLockType(Protocol):
    """A lock that its owner may take again; other workers wait until it was released as often as it was taken."""

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool: ...
    def release(self) -> None: ...
    def __enter__(self) -> Any: ...
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> Any: ...


class LockType(RLockType, Protocol):
    """A lock that nobody may take twice, not even the worker that holds it.

    `acquire(timeout=s)` returns False when the lock was not to be had in time; without, it waits for ever. `release()` of a
    lock that nobody holds raises RuntimeError. Any worker may release it. A lock that is free is taken without a step of
    Python, so that Ctrl-C never comes between taking it and the `with` that gives it back.
    """

    def locked(self) -> bool: ...


class EventType(Protocol):
    """A flag that workers wait for; `set()` wakes all of them. `wait(timeout)` returns whether it is set."""

    def is_set(self) -> bool: ...
    def set(self) -> None: ...
    def clear(self) -> None: ...
    def wait(self, timeout: float | None = None) -> bool: ...


class SemaphoreType(Protocol):
    """A counter that workers take from and that never falls below zero: `acquire` waits instead."""

    def acquire(self, blocking: bool = True, timeout: float | None = None) -> bool: ...
    def release(self) -> Any: ...
    def __enter__(self) -> Any: ...
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> Any: ...


class QueueType(Protocol[T]):
    """A first-in first-out queue, as `queue.Queue` of the standard library behaves.

    `get` and `put` raise the handler's QueueEmptyError and QueueFullError; one `task_done()` too many raises
    ValueError.
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
    """One place that a host name leads to: what `Handler.resolve` finds and `Handler.connect` goes to."""

    family: int
    sockaddr: tuple[Any, ...]

    @property
    def text(self) -> str:
        """Return the address as people write it: "127.0.0.1:9092", "[::1]:9092"."""
        host, port = self.sockaddr[:2]
        return f"[{host}]:{port}" if ":" in str(host) else f"{host}:{port}"


class Stream(Protocol):
    """A connected byte stream that at most one worker reads and one writes at the same time; any may close it."""

    def recv_into(self, buffer: bytearray | memoryview, timeout: float) -> int:
        """Read what is there, at least one byte, and return how many bytes; 0 when the peer has closed.

        :param buffer: where to; not empty
        :param timeout: how long to wait (s)
        :raises TimeoutError: nothing came in time
        :raises OSError: the connection is broken or closed
        """

    def send(self, buffers: Sequence[Buffer], timeout: float) -> None:
        """Write all of the buffers, in order and without joining them where the system can gather.

        :param timeout: for all of it (s)
        :raises TimeoutError: the peer did not take it in time; how much it took is unknown
        :raises OSError: the connection is broken or closed
        """

    def close(self) -> None:
        """End the connection and wake whoever reads or writes; may be repeated. A forked child only lets go of it."""

    def fileno(self) -> int: ...
    def getsockname(self) -> Any: ...
    def getpeername(self) -> Any: ...


class Worker(ABC):
    """A thread or greenlet that `Handler.spawn` started. It never keeps the process alive."""

    def __init__(self, name: str) -> None:
        #: As given to `spawn`.
        self.name = name
        #: What ended the worker, where that was an exception; it has been logged as well.
        self.error: BaseException | None = None

    @abstractmethod
    def join(self, timeout: float | None = None) -> bool:
        """Wait until the worker has ended and return whether it has.

        :param timeout: how long to wait (s); None waits for ever
        :raises RuntimeError: a worker waits for itself
        """

    @abstractmethod
    def is_alive(self) -> bool:
        """Return whether the worker is still to run or running."""

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name} {'alive' if self.is_alive() else 'ended'}>"


class Handler(ABC):
    """What PyKafka asks for everything that depends on the kind of concurrency.

    One handler serves any number of clients. It promises what stands at its members and in the shapes above, and no
    more; in particular neither that workers run in parallel nor that they are switched at certain places only. What it
    makes is for workers of the same handler (and, with gevent, of the same hub); `native` makes the exception, see
    there.
    """

    #: "threads", "gevent", ...: for messages, metrics and test ids.
    name: str
    #: Whether all workers share one hub, so that a worker that computes holds all others up.
    cooperative: bool
    #: Whether `time_ms` is the system's clock, so that compiled code may read that by itself.
    system_clock: bool = True
    #: The one source of chance (jitter, partitions); it is seeded anew in a forked child.
    random: random.Random

    #: What a queue's `get` raises when nothing came in time.
    QueueEmptyError: ClassVar[type[Exception]] = queue.Empty
    #: What a queue's `put` raises when no room was made in time.
    QueueFullError: ClassVar[type[Exception]] = queue.Full
    #: What sockets raise; the standard library's, whatever the handler.
    SockErr: ClassVar[type[OSError]] = OSError
    #: What `resolve` raises for a name that leads nowhere.
    GaiError: ClassVar[type[OSError]] = socket.gaierror

    def __init__(self) -> None:
        self.random = random.Random()
        self.at_fork(self._reseed)

    def _reseed(self) -> None:
        self.random.seed()

    def __repr__(self) -> str:
        return f"<{type(self).__module__}.{type(self).__name__} {self.name}>"

    # -- what workers meet at ----------------------------------------------------------------------------------------

    @abstractmethod
    def Event(self) -> EventType:
        """Make a flag that is not set."""

    @abstractmethod
    def Lock(self) -> LockType:
        """Make a lock that is not re-entrant; taking it twice waits for ever, or until the timeout."""

    @abstractmethod
    def RLock(self) -> RLockType:
        """Make a re-entrant lock."""

    @abstractmethod
    def Semaphore(self, value: int = 1) -> SemaphoreType:
        """Make a semaphore.

        :param value: how often it can be acquired before somebody has to wait
        """

    @abstractmethod
    def Queue(self, maxsize: int = 0) -> QueueType[Any]:
        """Make a first-in first-out queue.

        :param maxsize: how many items it holds before `put` waits; 0 for any number
        """

    @abstractmethod
    def local(self) -> Any:
        """Make an object whose attributes each worker has for itself."""

    # -- workers and time --------------------------------------------------------------------------------------------

    @abstractmethod
    def spawn(self, target: Callable[..., object], *args: Any, name: str | None = None, **kwargs: Any) -> Worker:
        """Start `target(*args, **kwargs)` in a worker of its own.

        What it returns is lost. An exception that ends it is kept as `Worker.error` and handed to `report`. Workers are
        daemons: they do not keep the process alive, so whoever starts one sees to it that it is stopped.

        :param name: how debuggers and logs call it; made up where it is None
        :raises WorkerNotStartedError: the system starts no thread at present
        """

    @abstractmethod
    def sleep(self, seconds: float = 0.0) -> None:
        """Let others run for at least this long (s); 0 lets those run that are ready."""

    def now(self) -> float:
        """Return a time that only grows (s), for deadlines; it says nothing about the date."""
        return time.monotonic()

    def time_ms(self) -> int:
        """Return the wall clock (ms since 1970, UTC), for create times; it may jump."""
        return time.time_ns() // 1_000_000

    @abstractmethod
    def breathe(self) -> None:
        """Let the hub turn if it has not for a quarter of a millisecond; call it every few hundred cheap steps.

        Costs a clock reading where there is a hub and nothing where there is none.
        """

    @abstractmethod
    def offload(self, fn: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Call `fn` so that a hub goes on turning, and return or raise what it does.

        For single calls that release the GIL (a codec, a checksum): a Python function moved to another thread would
        hold the hub up all the same. `fn` may run in any OS thread: it must not use anything of this handler. With
        threads, where there is no hub, it is called in place.
        """

    # -- the network -------------------------------------------------------------------------------------------------

    @property
    @abstractmethod
    def Socket(self) -> type[Any]:
        """The class of sockets that block the worker and not the hub; PyKafka itself uses `connect`."""

    @abstractmethod
    def resolve(
        self, host: str, port: int, timeout: float | None = None, wanted: Callable[[], bool] | None = None
    ) -> list[Address]:
        """Look a name up and return its addresses, in the order in which the system prefers them.

        :param host: DNS name or IP address, IPv6 without brackets
        :param timeout: how long to wait (s); None for as long as the system does
        :param wanted: asked every tenth of a second while no name server answers; False ends the waiting, not the lookup
        :raises socket.gaierror: the name leads nowhere
        :raises TimeoutError: no answer in time
        :raises ConnectionAbortedError: it is not `wanted` any more
        """

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
        :param wanted: asked every tenth of a second while nobody answers; False ends the attempt
        :raises TimeoutError: nobody answered in time
        :raises ConnectionAbortedError: it is not `wanted` any more
        :raises OSError: refused, unreachable, or the source address cannot be used
        """

    @abstractmethod
    def wrap_tls(self, stream: Stream, context: Any, server_hostname: str | None, timeout: float) -> Stream:
        """Speak TLS over a connected stream and return the stream that carries it.

        An SSLContext only ever sees memory buffers (`wrap_bio`), so any one will do with any handler.

        :param context: an ssl.SSLContext; in OS threads also any other object with `wrap_socket(sock)`
        :param server_hostname: whom the certificate must name
        :param timeout: for the handshake (s)
        :raises TypeError: the context has only `wrap_socket()`, which would block a hub
        :raises ssl.SSLError: the handshake failed
        :raises TimeoutError: it did not end in time
        :raises OSError: the connection broke; ConnectionResetError where the peer hung up
        """

    # -- beyond this handler -----------------------------------------------------------------------------------------

    @property
    @abstractmethod
    def native(self) -> Handler:
        """A handler over OS threads, with locks, sockets and a clock that nobody has patched.

        What must go on while a hub is held (heartbeats) runs on it. Its workers share nothing with those of this
        handler but plain data and its own events and queues' `*_nowait` calls; they log nothing, since a log's locks
        may be held by somebody on the hub. With plain threads it is the handler itself.
        """

    def at_fork(self, fn: Callable[[], object]) -> None:
        """Have `fn()` called in every child that this process forks from now on.

        Held weakly: a bound method goes with its object, a plain function must be kept by somebody else. It runs before
        the fork returns, with no other worker alive: it must not wait for anything.
        """
        _at_fork(fn)

    @abstractmethod
    def kazoo(self) -> Any:
        """Make kazoo's handler for the same kind of concurrency; imports kazoo when first called."""

    def report(self, what: str, error: BaseException) -> None:
        """Log an exception that nobody is left to get.

        :param what: what was being done, for the log's line
        """
        log.error("%s failed: %s", what, error, exc_info=error)


class WeakCall:
    """Refer to a function or bound method without keeping its object; called, gives it, or None when that is gone.

    `weakref.WeakMethod` does the same, but complains on the standard error stream where it ends together with the object.

    :param fn: what to refer to
    :param gone: called with `reference` when the object is gone
    """

    __slots__ = ("_function", "reference")

    def __init__(self, fn: Callable[..., Any], gone: Callable[[weakref.ref[Any]], object] | None = None) -> None:
        self._function = fn.__func__ if isinstance(fn, MethodType) else None
        self.reference: weakref.ref[Any] = weakref.ref(fn.__self__ if isinstance(fn, MethodType) else fn, gone)

    def __call__(self) -> Any:
        """Return the function or method, as long as its object is there."""
        target = self.reference()
        return target if target is None or self._function is None else MethodType(self._function, target)


# By the references' own ids, since one that dies in the middle of a loop must be able to leave.
_fork_callbacks: dict[int, WeakCall] = {}
# Of objects that are gone. Appending is C: in a step of Python that runs when an object goes, the error of a signal's handler
# would be lost.
_forgotten: deque[weakref.ref[Any]] = deque()
_fork_hooked = False


def _at_fork(fn: Callable[[], object]) -> None:
    global _fork_hooked
    if not _fork_hooked:
        os.register_at_fork(after_in_child=_call_in_child)
        _fork_hooked = True
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
