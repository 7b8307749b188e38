"""`AsyncioHandler`: PyKafka on an event loop of asyncio, in greenlets of its tasks; `bridge` has the idea."""

from __future__ import annotations

import asyncio
import errno
import itertools
import os
import socket
import sys
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from contextvars import Context
from functools import partial
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
    process_number,
)
from pykafka.handlers.bridge import BridgeLocal, TaskLocal, await_call, await_in_bridge, bridged, in_bridge, running
from pykafka.handlers.deadline import Deadline
from pykafka.handlers.lookups import Reverse, await_lookup
from pykafka.handlers.looplocks import (
    Loop,
    LoopEvent,
    LoopLock,
    LoopQueue,
    LoopRLock,
    LoopSemaphore,
    Overdue,
    Waiters,
    was_given,
)
from pykafka.handlers.native import NativeHandler
from pykafka.handlers.patching import refuse_eventlet
from pykafka.handlers.sockets import SocketHandler
from pykafka.handlers.thread_pool import POOL, Job

R = TypeVar("R")

P = ParamSpec("P")
#: How long workers may keep the loop before `breathe` yields to it (s).
HELD_MAX_S = 0.00025
_numbers = itertools.count(1)


class LoopWaiter:
    """Waits on an event loop for a descriptor.

    The loop watches the descriptor during a wait only: so whoever closes it, in whatever thread, leaves nothing behind.

    :param loop: the loop
    :param fd: the descriptor
    :param writing: for which direction
    """

    __slots__ = ("_add", "_fd", "_loop", "_remove")

    def __init__(self, loop: Loop, fd: int, writing: bool) -> None:
        self._loop = loop
        self._fd = fd
        self._add: Callable[..., object] = loop.loop.add_writer if writing else loop.loop.add_reader
        self._remove: Callable[[int], object] = loop.loop.remove_writer if writing else loop.loop.remove_reader

    def wait(self, timeout: float) -> bool:
        """Return whether the descriptor became ready (or broke) in time (s)."""
        self._loop.require()
        future = self._loop.loop.create_future()
        self._add(self._fd, self._note, future)
        try:
            return self._loop.wait(future, max(timeout, 0.0))
        finally:
            if not was_given(future):
                self._remove(self._fd)

    def _note(self, future: asyncio.Future[bool]) -> None:
        if not future.done():
            self._remove(self._fd)
            future.set_result(True)

    def close(self) -> None:
        """Return at once: the loop has forgotten the descriptor."""


class LoopSocket(socket.socket):
    """A socket whose calls wait in the bridge, within its timeout; it belongs to the loop that runs when it waits."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        super().setblocking(False)
        self._patience: float | None = socket.getdefaulttimeout()

    def settimeout(self, value: float | None) -> None:
        """Set how long each call waits (s); None for as long as it takes, 0 not at all."""
        self._patience = value

    def gettimeout(self) -> float | None:
        """Return how long each call waits (s)."""
        return self._patience

    def setblocking(self, flag: bool) -> None:
        """Set whether calls wait."""
        self._patience = None if flag else 0.0

    def _wait(self, writing: bool) -> None:
        waiter = LoopWaiter(Loop(asyncio.get_running_loop()), self.fileno(), writing)
        if not waiter.wait(1e9 if self._patience is None else self._patience):
            raise TimeoutError("timed out")

    def _try(self, writing: bool, call: Callable[..., R], *args: Any) -> R:
        while True:
            try:
                return call(*args)
            except BlockingIOError:
                if self._patience == 0:
                    raise
                self._wait(writing)

    def connect(self, address: Any) -> None:
        """Connect to an address."""
        code = self.connect_ex(address)
        if code in {errno.EINPROGRESS, errno.EWOULDBLOCK, errno.EINTR} and self._patience != 0:
            self._wait(True)
            code = self.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if code:
            raise OSError(code, os.strerror(code))

    def accept(self) -> tuple[LoopSocket, Any]:
        """Return the next connection and its address."""
        fd, address = self._try(False, super()._accept)  # type: ignore[misc]
        return type(self)(self.family, self.type, self.proto, fileno=fd), address

    def recv(self, size: int, flags: int = 0, /) -> bytes:
        """Return at most this many bytes; none if the peer has closed."""
        return self._try(False, super().recv, size, flags)

    def recv_into(self, buffer: Any, nbytes: int = 0, flags: int = 0) -> int:
        """Read into a buffer, and return how many bytes."""
        return self._try(False, super().recv_into, buffer, nbytes, flags)

    def send(self, data: Any, flags: int = 0, /) -> int:
        """Send some of the bytes, and return how many."""
        return self._try(True, super().send, data, flags)

    def sendall(self, data: Any, flags: int = 0, /) -> None:
        """Send all of the bytes."""
        left = memoryview(data).cast("B")
        while left:
            left = left[self.send(left, flags) :]


# ruff: noqa: N802  (Event(), Lock() and the rest bear the documented names of what they make)


def running_loop() -> asyncio.AbstractEventLoop:
    """Return the event loop that runs in this thread.

    :raises RuntimeError: none runs, or one that is not asyncio's
    """
    trio = sys.modules.get("trio")
    if trio is not None and trio.lowlevel.in_trio_run():
        raise RuntimeError(
            "pykafka.aio runs on asyncio's event loops (uvloop's too), not on trio: run it by asyncio.run()"
        )
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        raise RuntimeError(
            "an AsyncioHandler needs a running event loop: make it, or the client of pykafka.aio, in a coroutine"
        ) from None


class LoopTurns(Overdue):
    """Keeps a loop turning while its workers compute.

    State: changes in the loop's thread. `_since` is when a worker first called after the loop's last turn; None: none has.

    :param loop: the loop
    """

    def __init__(self, loop: Loop) -> None:
        super().__init__()
        self._loop = loop
        self._since: float | None = None
        self._waiting = Waiters(loop)

    def held(self) -> bool:
        """Return whether workers have kept the loop for HELD_MAX_S."""
        now = time.monotonic()
        if self._since is None:
            self._since = now
            self._loop.loop.call_soon(self._note)
        return now - self._since >= HELD_MAX_S

    async def turn(self) -> None:
        """Wait, in a coroutine, until the loop has turned."""
        self.overdue = False
        await bridged(self.wait)

    def wait(self) -> None:
        """Wait until the loop has turned and the workers that waited before this one have run."""
        self._waiting.wait(self._waiting.enter(), -1.0)

    def _note(self) -> None:
        # One worker in each turn: several that each run for a while would hold the loop together.
        self._since = None
        self.overdue = False
        if self._waiting.wake() and self._waiting.futures:
            self._since = time.monotonic()
            self._loop.loop.call_soon(self._note)


class TaskWorker(Worker):
    """A task of the event loop."""

    def __init__(
        self, handler: AsyncioHandler, run: Callable[[], object], name: str, context: Context | None = None
    ) -> None:
        super().__init__(name)
        self._handler = handler
        self._ended = handler.Event()
        loop = handler._loop.loop
        own = Context() if context is None else context
        # Not by the loop's own factory, whose tasks may begin at once, in the caller's greenlet; and not in the context of the
        # caller: what a request has set there would live as long as this worker.
        self._task = asyncio.Task(bridged(self._main, run), loop=loop, name=name, context=own)
        handler._keep(self._task)
        self._task.add_done_callback(self._note_end)

    def _main(self, run: Callable[[], object]) -> None:
        try:
            run()
        except Exception as error:  # noqa: BLE001 - whatever a worker may raise
            self.error = error
            self._handler.report(f"worker {self.name}", error)
        except (KeyboardInterrupt, SystemExit) as error:
            self.error = error
            raise  # out of the loop, as from every task

    def _note_end(self, task: asyncio.Task[None]) -> None:
        self._ended.set()
        if not task.cancelled() and (error := task.exception()) is not None:
            self.error = error

    def join(self, timeout: float | None = None) -> bool:
        """Wait until the task has ended and return whether it has. As `Worker.join`."""
        if self.is_alive():
            if in_bridge() and asyncio.current_task() is self._task:
                raise RuntimeError("a worker cannot wait for itself")
            self._ended.wait(timeout)
        return not self.is_alive()

    def is_alive(self) -> bool:
        """Return whether the task has not ended; the end of its loop ends it."""
        return not self._task.done() and not self._handler._loop.loop.is_closed()

    def interrupt(self) -> bool:
        """Cancel the task. As `Worker.interrupt`."""
        self._task.cancel()
        return True


class AsyncioHandler(SocketHandler):
    """The handler that runs workers as tasks of an event loop (asyncio's or uvloop's); it belongs to the loop that runs now.

    Calls that wait must be made inside of `pykafka.handlers.bridge.bridged`; elsewhere they raise WouldBlockError.

    :raises ImportError: greenlet is not installed
    :raises RuntimeError: no event loop runs in this thread
    """

    name = "asyncio"
    cooperative = True

    def __init__(self) -> None:
        refuse_eventlet("pykafka.aio (AsyncioHandler)")
        self._loop = Loop(running_loop())
        self._pid = process_number()
        super().__init__(partial(LoopWaiter, self._loop))
        self._turns = LoopTurns(self._loop)
        self._native: Handler | None = None

    def _keep(self, task: asyncio.Task[None]) -> None:
        """Keep a worker's task as long as it runs: loops refer to tasks weakly."""
        tasks: set[asyncio.Task[None]] = vars(self._loop.loop).setdefault("_pykafka_workers", set())
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    @property
    def Socket(self) -> type[Any]:
        """The class of sockets that wait on the running loop."""
        return LoopSocket

    def Event(self) -> EventType:
        """Make a flag that is not set."""
        return LoopEvent(self._loop)

    def Lock(self) -> LockType:
        """Make a lock that is not re-entrant."""
        return LoopLock(self._loop)

    def RLock(self) -> RLockType:
        """Make a re-entrant lock."""
        return LoopRLock(self._loop)

    def Semaphore(self, value: int = 1) -> SemaphoreType:
        """Make a semaphore. As `Handler.Semaphore`."""
        return LoopSemaphore(self._loop, value)

    def Queue(self, maxsize: int = 0) -> QueueType[Any]:
        """Make a queue. As `Handler.Queue`."""
        return LoopQueue(self._loop, maxsize)

    def local(self) -> Any:
        """Make an object whose attributes are separate for each bridged call."""
        return BridgeLocal()

    def worker_local(self) -> Any:
        """Make an object whose attributes are separate for each task. As `Handler.worker_local`."""
        return TaskLocal()

    def spawn(self, target: Callable[..., object], *args: Any, name: str | None = None, **kwargs: Any) -> Worker:
        """Start `target(*args, **kwargs)` in a task. As `Handler.spawn`."""
        return self._spawn(partial(target, *args, **kwargs), name)

    def spawn_in(self, context: Context, target: Callable[..., object], *args: Any, name: str | None = None) -> Worker:
        """Start `target(*args)` in a task with a copy of a context. As `Handler.spawn_in`."""
        return self._spawn(partial(target, *args), name, context.copy())

    def _spawn(self, run: Callable[[], object], name: str | None, context: Context | None = None) -> Worker:
        if self.has_ended:
            raise WorkerNotStartedError(f"{name or 'a worker'} was not started: its event loop is closed")
        return TaskWorker(self, run, name or f"pykafka.worker-{next(_numbers)}", context)

    def sleep(self, seconds: float = 0.0) -> None:
        """Sleep for at least this long (s) while other tasks run."""
        if seconds <= 0:
            await_in_bridge(None)
        else:
            self._loop.wait(self._loop.loop.create_future(), seconds)

    @property
    def has_ended(self) -> bool:
        """Whether the loop is closed, or belongs to the process that was forked. As `Handler.has_ended`."""
        return self._pid != process_number() or bool(self._loop.loop.is_closed())

    @property
    def may_wait(self) -> bool:
        """Whether the code that runs now is inside of the bridge, on this loop. As `Handler.may_wait`."""
        return in_bridge() and running() is self._loop.loop

    def require_wait(self) -> None:
        """Raise an error outside of the bridge, and on another loop. As `Handler.require_wait`."""
        self._loop.require()

    def breathe(self) -> None:
        """Yield to the loop if it has not turned for HELD_MAX_S; outside of the bridge leave a note. As `Handler.breathe`."""
        if self._turns.held():
            if in_bridge():
                self._turns.wait()
            else:
                self._turns.overdue = True

    def awaited(self, awaitable: Awaitable[R]) -> R:
        """Await something in the worker's task. As `Handler.awaited`."""
        return await_call(awaitable)

    def offload(self, fn: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Call `fn` in a thread of the client's own, not of the loop's executor. As `Handler.offload`."""
        self._loop.require()
        loop = self._loop.loop
        done = loop.create_future()

        def callback() -> None:
            with suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(_settle, done)

        job = Job(partial(fn, *args, **kwargs), callback)
        try:
            POOL.begin(job)
            await_in_bridge(done)
        finally:
            job.leave()
        result: R = job.outcome()
        return result

    def _name_resolver(self) -> Callable[..., Any]:
        return socket.getnameinfo

    def _resolve_aside(
        self, host: str, port: int, deadline: Deadline, resolver: Callable[..., list[Any]] | None = None
    ) -> list[Address]:
        loop, done = self._loop.loop, self.Event()

        def callback() -> None:
            with suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(done.set)

        native = self.native
        assert isinstance(native, NativeHandler)
        lookup = native._look_up_aside(host, port, callback, isinstance(resolver, Reverse))
        await_lookup(done.wait, host, deadline)
        return lookup.result()

    @property
    def here(self) -> Callable[[], object]:
        """As `Handler.here`: a task."""
        return asyncio.current_task

    @property
    def native(self) -> Handler:
        """A handler over OS threads, which logs on the loop. As `Handler.native`."""
        if self._native is None:
            self._native = NativeHandler(self._say, self._post)
        return self._native

    def _post(self, fn: Callable[[], object]) -> None:
        with suppress(RuntimeError):  # the loop is closed
            self._loop.loop.call_soon_threadsafe(fn)

    def _say(self, say: Callable[[], None]) -> None:
        try:
            self._loop.loop.call_soon_threadsafe(say)
        except RuntimeError:  # the loop is closed: none of its tasks holds a log's locks
            say()

    def kazoo(self) -> Any:
        """Raise an error: kazoo has no handler for event loops.

        :raises NotImplementedError: always
        """
        raise NotImplementedError(
            "kazoo does not run on an event loop: for ZooKeeper use threads or greenlets, or name brokers (`hosts`) and let "
            "them coordinate groups (`managed=True`)"
        )


def _settle(done: asyncio.Future[None]) -> None:
    if not done.done():
        done.set_result(None)
