"""`Scheduler`: workers as greenlets of one thread, in virtual time; a seed decides which of them runs next."""

from __future__ import annotations

import gc
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from types import FrameType
from typing import Any

from greenlet import GreenletExit, getcurrent

from pykafka.handlers.base import Worker
from pykafka.testing.virtual.turns import LOOK_EVERY, START_US, SchedulerError, Turns, Waiter

#: So many turns without a step of the clock are a circle that never ends.
STILL_MAX = 200_000
#: How many turns a run may take: a seed of a simulation takes some thousands.
TURNS_MAX = 2_000_000
#: How often garbage is collected (turns, a multiple of those): at the same turns with each run of a seed.
COLLECT_EVERY = 50 * LOOK_EVERY
#: How many calls of a worker an error shows, the innermost ones.
_FRAMES = 4
#: Workers that could not be ended. Freeing them would run them on, outside of their scheduler.
_abandoned: list[Waiter] = []
_OWN = os.path.dirname(__file__) + os.sep


class DeadlockError(SchedulerError):
    """Raised by `Scheduler.run` when all workers wait, and none of them has a deadline."""


class RunawayError(SchedulerError):
    """Raised by `Scheduler.run` when a seed takes too many turns, its clock stands still, or a worker never waits."""


class VirtualWorker(Waiter, Worker):
    """A greenlet of a scheduler.

    :param scheduler: runs it
    :param run: what to call
    :param name: for errors and logs
    :param report: called with the name and the exception that ended it
    """

    def __init__(
        self, scheduler: Scheduler, run: Callable[[], object], name: str, report: Callable[[str, BaseException], object]
    ) -> None:
        Waiter.__init__(self, scheduler.next_number(), name)
        Worker.__init__(self, name)
        #: What `Handler.local` keeps for this worker, by the number of the object.
        self.locals: dict[int, dict[str, Any]] = {}
        self.result: object = None
        self._scheduler = scheduler
        self._run = run
        self._report = report
        self._joining: list[Waiter] = []

    def main(self) -> None:
        """Run it: the greenlet's function."""
        run = self._run
        del self._run  # its arguments must not live as long as this object
        try:
            self.result = run()
        except GreenletExit:
            pass
        except Exception as error:  # noqa: BLE001 - whatever a worker may raise
            self.error = error
            self._scheduler.on_error(self, partial(self._report, f"worker {self.name}", error))
        except BaseException as error:  # noqa: BLE001 - Ctrl-C and the like belong to the first worker
            self.error = error
            self._scheduler.raise_in_first(self, error)
        finally:
            self.end()

    def end(self) -> None:
        """Wake the workers that wait for its end."""
        self.has_ended = True
        self._scheduler.forget(self)
        for worker in self._joining:
            self._scheduler.wake(worker)

    def join(self, timeout: float | None = None) -> bool:
        """Wait until the worker has ended and return whether it has. As `Worker.join`."""
        scheduler = self._scheduler
        current = scheduler.current
        if current is self:
            raise RuntimeError("a worker cannot wait for itself")
        if not self.has_ended:
            until = scheduler.until(timeout)
            scheduler.check_inside()
            assert current is not None
            self._joining.append(current)
            try:
                scheduler.park(until)
            finally:
                self._joining.remove(current)
        return self.has_ended

    def is_alive(self) -> bool:
        """Return whether the worker has not ended."""
        return not self.has_ended

    def interrupt(self) -> bool:
        """Raise GreenletExit at its present or next wait; one that has not begun never does."""
        if not self.has_ended:
            self._scheduler.throw(self, GreenletExit())
        return True


class Scheduler(Turns):
    """The workers of one simulation, its clock, and the order in which the workers run.

    A worker stops only when it waits. The next one is drawn from those that can run. If there are none, the clock jumps to the
    next deadline. While `run` lasts, Python collects garbage at fixed turns only.

    :param seed: decides the order
    :param turns_max: how many turns a run may take: a slow machine ends no seed that passes on another one
    :param busy_limit: how much of the processor's time a worker may take between two waits (s), and up to twice as much
    :param preemption: how likely it is that a worker gives way before it takes a free lock (0 to 1): a higher chance tries
        more orders, and takes longer. Compiled modules take fewer locks than their sources: above 0, the history of a seed is
        one with them, and another without
    """

    def __init__(
        self, seed: int, *, turns_max: int = TURNS_MAX, busy_limit: float = 60.0, preemption: float = 0.0
    ) -> None:
        super().__init__(seed, preemption)
        self.seed = seed
        self.turns_max = turns_max
        self.busy_limit = busy_limit
        #: The names of the workers that had not ended when the function of the last `run` returned.
        self.leftovers: list[str] = []
        #: Names and errors of what has failed without a caller to raise it to.
        self.errors: list[tuple[str, BaseException]] = []
        #: Whether `run` has ended, so that nothing can wait any more.
        self.has_ended = False
        self._frozen: list[Waiter] = []
        self._nameless = 0
        self._first: VirtualWorker | None = None
        # What came while the other workers were being ended; raised behind that.
        self._late: BaseException | None = None
        self._begun = 0
        # The turns at the last signal of the processor's time.
        self._turns_then = -1

    def __repr__(self) -> str:
        return f"<Scheduler of seed {self.seed} at {self.now_ms()} ms, {len(self._workers)} workers>"

    def now_ms(self) -> int:
        """Return the time since the scheduler was made (ms)."""
        return (self.clock_us - START_US) // 1000

    # -- workers -------------------------------------------------------------------------------------------------------

    def spawn(
        self, run: Callable[[], object], name: str | None, report: Callable[[str, BaseException], object]
    ) -> VirtualWorker:
        """Make a worker, which begins at its first turn.

        :param run: what to call
        :param name: None for a generated one
        :param report: called with the worker's name and the exception that ended it
        """
        if name is None:
            self._nameless += 1
            name = f"pykafka.worker-{self._nameless}"
        worker = VirtualWorker(self, run, name, report)
        self._workers[worker.number] = worker
        self._ready.append(worker)
        return worker

    def throw(self, worker: Waiter, error: BaseException) -> None:
        """Raise an exception at the present or next wait of a worker; one that has not begun ends without it."""
        if worker.greenlet is None:
            self._ready.remove(worker)
            worker.end()
            return
        worker.thrown = error
        if worker.is_parked:
            self._unpark(worker, False)

    def forget(self, worker: Waiter) -> None:
        """Remove a worker that has ended."""
        self._workers.pop(worker.number, None)

    def freeze(self, worker: VirtualWorker) -> None:
        """Give a worker no further turn, as if its process had been killed; it is ended behind all others, when `run` ends."""
        if worker.has_ended:
            return
        if worker in self._ready:
            self._ready.remove(worker)
        worker.is_parked = False
        worker.turn += 1
        self.forget(worker)
        self._frozen.append(worker)

    def on_error(self, worker: VirtualWorker, report: Callable[[], object]) -> None:
        """Report what has ended a worker: but `run` raises the first one's, and one that is being ended has its own."""
        if worker is not self._first and not self.is_closing:
            report()

    def raise_in_first(self, worker: VirtualWorker, error: BaseException) -> None:
        """Raise Ctrl-C and the like in the first worker, at its present wait."""
        first = self._first
        if self.is_closing:
            self._late = error
        elif first is not None and worker is not first:
            self._collect_strays(worker)  # it may have been about to give its turn to one
            self.throw(first, error)

    # -- running -------------------------------------------------------------------------------------------------------

    def run(self, fn: Callable[..., Any], *args: Any) -> Any:
        """Call a function in the first worker and return its result, or raise its exception; then end all other workers.

        Ctrl-C is raised in that function, whichever worker runs.

        :raises DeadlockError: all workers wait, and none has a deadline
        :raises RunawayError: it took too many turns, the clock stood still, or a worker never waited
        """
        if self._hub is not None:
            raise SchedulerError("this scheduler runs already: call the function, or spawn a worker")
        self._hub, self.is_closing, self._still_since, self._begun = getcurrent(), False, self.turns, self.turns
        self.has_ended = False
        self._first = first = self.spawn(partial(fn, *args), "first", _not_reported)
        try:
            with _no_collection(), self._limited():
                try:
                    self._turn_until_end(first)
                finally:
                    self._end_others()
        finally:
            self._hub = self.current = self._first = None
            self.has_ended, self.is_closing = True, False
        if first.error is not None:
            raise first.error
        return first.result

    def _turn_until_end(self, first: VirtualWorker) -> None:
        while not first.has_ended:
            try:
                self._turn(first)
            except KeyboardInterrupt as error:  # between two workers
                self._collect_strays()
                self.throw(first, error)
                if first.has_ended:  # before it had begun
                    raise

    def _turn(self, first: VirtualWorker) -> None:
        """Give turns to workers until the first one has ended."""
        while not first.has_ended:
            if not (self._ready or self._advance()):
                raise DeadlockError(f"seed {self.seed}: all workers wait for ever. {self.describe()}")
            self._resume(self._next())
            if self.turns >= self._look_at:
                self._look_at = self.turns + LOOK_EVERY
                self._look()

    def _collect_strays(self, ending: VirtualWorker | None = None) -> None:
        """Make those workers ready that an interrupt between two steps of the scheduler has left without a place.

        :param ending: has the turn, and ends
        """
        for worker in self._workers.values():
            if not worker.is_parked and worker is not ending and worker not in self._ready:
                self._ready.append(worker)

    def _look(self) -> None:
        if not self.turns % COLLECT_EVERY:
            gc.collect(1)
        if self.turns - self._still_since > STILL_MAX:
            self._run_away(f"{STILL_MAX} turns of workers did not move the clock")
        if self.turns - self._begun > self.turns_max:
            self._run_away(f"it took more than {self.turns_max} turns of workers")

    def _run_away(self, why: str) -> None:
        raise RunawayError(f"seed {self.seed} does not end: {why}. {self.describe()}")

    # -- the end -------------------------------------------------------------------------------------------------------

    def _end_others(self) -> None:
        self.leftovers = [worker.name for worker in self._workers.values() if worker is not self._first]
        self.is_closing = True
        while self._workers:
            self._end(next(iter(self._workers.values())))
        # Else their stacks would keep the cluster and all clients alive for as long as this process runs.
        while self._frozen:
            self._end(self._frozen.pop())
        self._ready.clear()
        self._timers.clear()
        if self._late is not None:
            late, self._late = self._late, None
            raise late

    def _end(self, worker: Waiter) -> None:
        worker.is_parked = False
        worker.turn += 1
        if worker.greenlet is None:
            worker.end()
            return
        worker.thrown = GreenletExit()
        try:
            self._resume(worker)
        except BaseException as error:  # noqa: BLE001 - Ctrl-C or the limit: the others have to end, too
            self._late = error
        if not worker.has_ended:  # it swallows what ends it
            self.forget(worker)
            _abandoned.append(worker)

    @contextmanager
    def _limited(self) -> Iterator[None]:
        """End a worker that never waits, if this is the main thread: others get no signals."""
        self._turns_then = -1
        try:
            former = signal.signal(signal.SIGVTALRM, self._on_limit)
        except ValueError:
            yield
            return
        signal.setitimer(signal.ITIMER_VIRTUAL, self.busy_limit, self.busy_limit)
        try:
            yield
        finally:
            signal.setitimer(signal.ITIMER_VIRTUAL, 0)
            signal.signal(signal.SIGVTALRM, former)

    def _on_limit(self, _number: int, frame: FrameType | None) -> None:
        turns_then, self._turns_then = self._turns_then, self.turns
        if turns_then != self.turns:  # a worker has waited meanwhile
            return
        try:
            name = self.current.name if self.current is not None else "a worker"
            why = f"{name} took more than {self.busy_limit} s of the processor's time between two waits, at {_places(frame)}"
            self._run_away(why)
        except RunawayError as error:
            if getcurrent() is self._hub:
                raise
            self._hub.throw(error)

    # -- for errors ----------------------------------------------------------------------------------------------------

    def describe(self) -> str:
        """Return where each worker is, as "name (waits at file.py:12 in f < file.py:34 in g); ..."."""
        return "; ".join(f"{worker.name} ({self._where(worker)})" for worker in self._workers.values())

    def _where(self, worker: Waiter) -> str:
        if worker.greenlet is None:
            return "has not begun"
        return f"{'waits' if worker.is_parked else 'runs'} at {_places(worker.greenlet.gr_frame)}"


def _places(frame: FrameType | None) -> str:
    """Return the innermost places of a frame, but for those of this package."""
    places: list[str] = []
    while frame is not None and len(places) < _FRAMES:
        code = frame.f_code
        if not code.co_filename.startswith(_OWN):
            places.append(f"{os.path.basename(code.co_filename)}:{frame.f_lineno} in {code.co_name}")
        frame = frame.f_back
    return " < ".join(places)


def _not_reported(_what: str, _error: BaseException) -> None:
    """Report nothing: `run` raises the error of the first worker."""


@contextmanager
def _no_collection() -> Iterator[None]:
    """Keep Python from collecting garbage whenever it likes: finalizers would run at other moments in each run."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
