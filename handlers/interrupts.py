"""Steps that an interrupt (Ctrl-C, a greenlet's timeout) must not leave half done.

`FinalSteps` run to their end once they have begun, whatever interrupts the worker that waits for them; an `OwnedWorker` is
known to its owner before it begins; `SingleCaller` lets one call in at a time; `CloseOnce` has the steps of a `close()`, which
the next call finishes; a `finalizer` takes no step of Python.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import TYPE_CHECKING

from pykafka.exceptions import KafkaException
from pykafka.handlers.base import Worker, process_number

if TYPE_CHECKING:
    from pykafka.handlers.base import Handler, LockType

#: How often a call that waits for its turn looks (s).
TURN_POLL_INTERVAL_S = 0.002


class FinalSteps:
    """The final steps of something, such as signing off at a server.

    A greenlet's timeout or Ctrl-C may come at any wait, and half of these steps would be worse than none: the server would
    keep a client that is gone, or a connection would stay open for ever. So a worker of its own takes the steps, and the caller
    waits for that worker.

    :param handler: starts the worker
    :param name: the worker's name
    """

    def __init__(self, handler: Handler, name: str) -> None:
        self._handler = handler
        self._name = name
        self._worker: Worker | None = None

    def take(self, steps: Callable[[], object], timeout: float | None = None) -> None:
        """Take steps, after those that are under way, and wait for their end; raise the exception that they raise.

        :param steps: takes them
        :param timeout: how long to wait (s); None for as long as they take
        """
        once = _Once(self._handler.Lock(), self._worker, steps)
        try:
            worker = self._worker = self._handler.spawn(once, name=self._name)
        except RuntimeError:  # the system starts no thread, as at the end of the interpreter
            once()
            return
        except BaseException:  # an interrupt, before the worker had started or after that
            self._worker = self._handler.spawn(once, name=self._name)
            raise
        if self.wait(timeout) and worker.error is not None:
            raise worker.error

    def wait(self, timeout: float | None = None) -> bool:
        """Wait for the steps that are under way; return whether they have ended.

        :param timeout: how long (s); None for as long as they take
        """
        worker = self._worker
        return worker is None or worker.join(timeout)


class _Once:
    """Steps that one worker takes, behind those of another; a second worker waits for their end.

    :param lock: of these steps
    :param former: the other worker; None for none
    :param steps: takes them
    """

    def __init__(self, lock: LockType, former: Worker | None, steps: Callable[[], object]) -> None:
        self._lock = lock
        self._former = former
        self._steps: Callable[[], object] | None = steps

    def __call__(self) -> None:
        with self._lock:
            steps, self._steps = self._steps, None
            if steps is None:
                return
            if self._former is not None:
                self._former.join()
                self._former = None  # else each would keep all that were before it
            steps()


class OwnedWorker(Worker):
    """A worker that its owner knows before it begins.

    `self._worker = handler.spawn(...)` loses the worker if Ctrl-C comes between its start and the assignment, such as while
    `threading.Thread.start` waits for the thread: the worker runs, nobody stops it or waits for it, and the next call of the
    owner starts another one beside it. So the owner keeps it first:

        self._worker = worker = OwnedWorker(handler, self._run, name)
        worker.start()

    An interrupted start has begun the worker, or never will. In the second case it is not alive, as before its start.

    :param handler: starts the worker
    :param target: what it calls
    :param name: the worker's name
    """

    def __init__(self, handler: Handler, target: Callable[[], object], name: str) -> None:
        super().__init__(name)
        self._handler = handler
        self._pid = process_number()
        # Taken by who is first: the worker, or a start that has failed.
        self._targets = [target]
        #: Whether it was started, and has not failed to.
        self.is_started = False
        self._ended = handler.Event()
        self._mark: object = None
        self._worker: Worker | None = None

    def start(self) -> None:
        """Begin.

        :raises WorkerNotStartedError: the system starts no thread at present
        """
        try:
            self.is_started = True
            self._worker = self._handler.spawn(self._main, name=self.name)
        except BaseException:
            if self._take() is not None:
                self.is_started = False
                self._ended.set()
            raise

    def _take(self) -> Callable[[], object] | None:
        try:
            return self._targets.pop()
        except IndexError:
            return None

    def _main(self) -> None:
        target = self._take()
        if target is None:
            return
        self._mark = self._handler.here()
        try:
            target()
        except BaseException as error:
            self.error = error
            raise
        finally:
            self._ended.set()

    def join(self, timeout: float | None = None) -> bool:
        """Wait until the worker has ended and return whether it has. As `Worker.join`; one that was not started has ended."""
        if self._worker is not None:
            return self._worker.join(timeout)
        if not self.is_alive():
            return True
        if self._mark == self._handler.here():
            raise RuntimeError("cannot join current worker")
        return self._ended.wait(timeout)

    def is_alive(self) -> bool:
        """Return whether the worker was started, and has not ended."""
        if self._worker is not None:
            return self._worker.is_alive()
        here = self._pid == process_number() or self._handler.cooperative
        return self.is_started and not self._ended.is_set() and here

    def interrupt(self) -> bool:
        """As `Worker.interrupt`."""
        return self._worker is not None and self._worker.interrupt()


def is_at_work(worker: Worker | None) -> bool:
    """Return whether there is a worker that was started, and has not ended: who finds none starts another."""
    return worker is not None and worker.is_alive()


class SingleCaller:
    """Lets one call in at a time; a second one is refused, or waits.

    Each call brings a lock of its own, its pass, and holds it as long as it is inside:

        with (turn := handler.Lock()):
            if not callers.enter(turn):
                raise ...

    `lock.acquire(timeout=...)` before a `try` would be open to Ctrl-C between the two, and the lock would stay taken. A
    `with` block takes and releases a pass in C, however it ends, and so the call whose pass is free is not inside any more.

    State: `_inside` is the pass of the call that came in last. `_lock` is held for a few steps, in which nothing waits.

    :param handler: makes the passes
    """

    def __init__(self, handler: Handler) -> None:
        self._handler = handler
        self._lock = handler.Lock()
        self._inside = handler.Lock()

    def locked(self) -> bool:
        """Return whether a call is inside."""
        return self._inside.locked()

    def enter(self, turn: LockType) -> bool:
        """Return whether a call may go in, which it then does: no other is inside.

        :param turn: its pass, which it holds
        """
        with self._lock:
            if self._inside.locked():
                return False
            self._inside = turn
            return True

    def await_entry(self, turn: LockType, seconds: float, poll_interval_s: float = TURN_POLL_INTERVAL_S) -> bool:
        """Wait until a call may go in, which it then does; return whether that was in time.

        :param turn: see `enter`
        :param seconds: how long to wait; `math.inf` for no limit
        :param poll_interval_s: how often to look (s)
        """
        deadline = self._handler.now() + seconds
        while not self.enter(turn):
            left = deadline - self._handler.now()
            if left <= 0:
                return False
            self._handler.sleep(min(left, poll_interval_s))
        return True


def finalizer(release: Callable[[], object]) -> Generator[None]:
    """Return a generator that calls `release()` once: when it is closed, or when it is freed unclosed.

    Python would call a `__del__` whenever an object is freed, and discards every exception raised there. That includes the
    KeyboardInterrupt of a Ctrl-C: a signal that comes during a garbage collection is handled by the next Python code that
    runs, which would be the `__del__`. Freeing a generator that has ended executes no Python code.

    :param release: may run at any place, so it must take no lock and wait for nothing
    """
    waiting = _wait(release)
    next(waiting)
    return waiting


def _wait(release: Callable[[], object]) -> Generator[None]:
    try:
        yield
    finally:
        release()


class CloseOnce:
    """The steps that end an object: one call at a time takes them, until a call has taken all of them.

    A greenlet's timeout, a cancellation or Ctrl-C may come at any wait. If the first call set a flag that all later calls heed,
    an interrupt would leave the rest undone for good.

    :param handler: makes the locks
    :param complete: whether there is nothing to end yet
    """

    def __init__(self, handler: Handler, complete: bool = False) -> None:
        self._handler = handler
        self._turnstile = SingleCaller(handler)
        #: Whether the steps were taken to their end.
        self.complete = complete

    def run(self, steps: Callable[[], object]) -> None:
        """Take the steps, unless that was done or another call does it now; they begin again after an interrupt.

        :param steps: may run again after any of their waits; a KafkaException that they raise counts as their end
        """
        with (turn := self._handler.Lock()):
            if self.complete or not self._turnstile.enter(turn):
                return
            try:
                steps()
            except KafkaException:
                self.complete = True
                raise
            self.complete = True
