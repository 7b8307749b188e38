"""`ThreadPool`: calls in OS threads of the client's own: those of hubs and event loops belong to the application."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from pykafka.handlers.events import allocate_lock
from pykafka.handlers.patching import original

if TYPE_CHECKING:
    from pykafka.handlers.base import LockType

#: How long a thread waits for another call before it ends (s).
IDLE_S = 1.0
#: The most threads; further calls wait for one. Calls that wait for a schema registry or a login need many.
THREADS_MAX = 512


class Job:
    """A call, and its outcome.

    :param fn: what to call
    :param callback: called by the thread when the call has ended; it does not wait
    """

    __slots__ = ("_fn", "_lock", "_callback", "error", "result")

    def __init__(self, fn: Callable[[], Any], callback: Callable[[], object]) -> None:
        self._fn: Callable[[], Any] | None = fn
        self._callback: Callable[[], object] | None = callback
        self._lock = allocate_lock()
        self.result: Any = None
        self.error: BaseException | None = None

    def run(self) -> None:
        """Make the call, unless its caller has gone, and call `callback`."""
        fn, self._fn = self._fn, None
        if fn is None:
            return
        try:
            self.result = fn()
        except BaseException as error:  # noqa: BLE001 - the caller raises it
            self.error = error
        with self._lock:
            callback, self._callback = self._callback, None
            if callback is not None:
                callback()

    def leave(self) -> None:
        """Take note that the caller has gone: a call that has not begun never does, and `callback` is not called after this."""
        self._fn = None
        with self._lock:
            self._callback = None

    def forsake(self) -> None:
        """Leave the call to the parent process, in a forked child: its thread may have held the lock."""
        self._lock = allocate_lock()
        self._fn = self._callback = None

    def outcome(self) -> Any:
        """Return what the call has returned, or raise its exception."""
        error, self.error = self.error, None
        if error is not None:
            raise error
        return self.result


class _Idle:
    """A thread that waits for a call."""

    __slots__ = ("gate", "job")

    def __init__(self) -> None:
        self.gate = allocate_lock()
        self.gate.acquire()
        self.job: Job | None = None


class ThreadPool:
    """The threads of one process: one for each call that runs, and some that wait for the next for a moment.

    They are no daemons of `threading`, which may be patched, and end by themselves.

    State: changes under `_lock`, which is held for a few steps. A forked child has no threads, and begins afresh.
    """

    def __init__(self) -> None:
        self._begin()
        os.register_at_fork(after_in_child=self._begin)

    def _begin(self) -> None:
        self._lock: LockType = allocate_lock()
        self._idle: list[_Idle] = []
        self._waiting: deque[Job] = deque()
        #: How many threads there are.
        self.count = 0
        #: `inside` is True in the threads.
        self._local = original("_thread", "_local")()

    @property
    def is_here(self) -> bool:
        """Whether this thread is one of the pool's: another call makes its own, as those that wait for threads may hold all."""
        return getattr(self._local, "inside", False)

    def begin(self, job: Job) -> None:
        """Make a call in a thread; in this one if the system starts none, as at the end of the interpreter."""
        with self._lock:
            if self._idle:
                thread = self._idle.pop()
                thread.job = job
                thread.gate.release()
                return
            if self.count >= THREADS_MAX:
                self._waiting.append(job)
                return
            self.count += 1
        try:
            original("_thread", "start_new_thread")(self._work, (job,))
        except RuntimeError:
            with self._lock:
                self.count -= 1
            job.run()

    def _work(self, job: Job | None) -> None:
        self._local.inside = True
        while job is not None:
            job.run()
            del job  # its result must not live as long as this thread
            job = self._next()

    def _next(self) -> Job | None:
        with self._lock:
            if self._waiting:
                return self._waiting.popleft()
            thread = _Idle()
            self._idle.append(thread)
        if not thread.gate.acquire(timeout=IDLE_S):
            with self._lock:
                if thread in self._idle:
                    self._idle.remove(thread)
                    self.count -= 1
        return thread.job


#: The threads of this process.
POOL = ThreadPool()
