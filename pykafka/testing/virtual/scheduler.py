"""`Scheduler`: workers as greenlets of one thread, in virtual time; a seed decides which of them runs next."""

from __future__ import annotations

import gc
import heapq
import itertools
import math
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from random import Random
from types import FrameType
from typing import Any

from pykafka.exceptions import KafkaException
from pykafka.handlers.base import Worker

try:
    from greenlet import GreenletExit, getcurrent, greenlet
except ImportError as error:
    raise ImportError("virtual time needs greenlet: pip install greenlet", name="greenlet") from error

#: The clock at the beginning (µs): no deadline of a program is near zero.
START_US = 1_000_000_000
#: The longest wait (s), about 300 years: a longer one counts as this long.
WAIT_MAX_S = 1e10
WAIT_MAX_US = int(WAIT_MAX_S) * 1_000_000
#: So many turns without a step of the clock are a circle that never ends.
STILL_MAX = 200_000
#: How many turns a run may take: a seed of a simulation takes some thousands.
TURNS_MAX = 2_000_000
#: How often the scheduler looks whether it should end (turns).
LOOK_EVERY = 1024
#: How often garbage is collected (turns, a multiple of those): at the same turns with each run of a seed.
COLLECT_EVERY = 50 * LOOK_EVERY
#: How many waits a worker may try to begin when it has been ended, before the scheduler leaves it where it is.
LAST_WAITS = 1000
#: How many calls of a worker an error shows, the innermost ones.
_FRAMES = 4
#: Workers that could not be ended. Freeing them would run them on, outside of their scheduler.
_abandoned: list[VirtualWorker] = []
_OWN = os.path.dirname(__file__) + os.sep


class SchedulerError(KafkaException):
    """Raised when a scheduler cannot do something; the classes below say what."""


class DeadlockError(SchedulerError):
    """Raised by `Scheduler.run` when all workers wait, and none of them has a deadline."""


class RunawayError(SchedulerError):
    """Raised by `Scheduler.run` when a seed takes too many turns, its clock stands still, or a worker never waits."""


class OutsideSchedulerError(SchedulerError):
    """Raised when code waits that does not run in a worker of the scheduler: call it by `Scheduler.run`."""


class VirtualWorker(Worker):
    """A greenlet of a scheduler.

    :param scheduler: runs it
    :param run: what to call
    :param name: for errors and logs
    :param report: called with the name and the exception that ended it
    """

    def __init__(
        self, scheduler: Scheduler, run: Callable[[], object], name: str, report: Callable[[str, BaseException], object]
    ) -> None:
        super().__init__(name)
        self.number = scheduler.next_number()
        #: What `Handler.local` keeps for this worker, by the number of the object.
        self.locals: dict[int, dict[str, Any]] = {}
        self.result: object = None
        self._scheduler = scheduler
        self._run = run
        self._report = report
        self._joining: list[VirtualWorker] = []
        # Of the scheduler, from here on. None until it runs for the first time.
        self.greenlet: Any = None
        #: Counts its waits, so that a timer knows whether its wait has ended.
        self.turn = 0
        self.is_parked = False
        self.is_woken = False
        self.has_ended = False
        #: What its present or next wait raises.
        self.thrown: BaseException | None = None
        #: How many waits it may still try to begin once it is being ended.
        self.waits_left = LAST_WAITS

    def __hash__(self) -> int:
        return self.number

    def __eq__(self, other: object) -> bool:
        return self is other

    def main(self, _woken: bool = False) -> None:
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


class Scheduler:
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
        self.seed = seed
        self.turns_max = turns_max
        self.busy_limit = busy_limit
        self.preemption = preemption
        #: Draws a float from 0 to 1 for the order of workers, and for nothing else.
        self.draw = Random(f"order of {seed}").random
        #: The clock (µs).
        self.clock_us = START_US
        #: The worker that runs; None outside of `run`.
        self.current: VirtualWorker | None = None
        #: The names of the workers that had not ended when the function of the last `run` returned.
        self.leftovers: list[str] = []
        #: Names and errors of what has failed without a caller to raise it to.
        self.errors: list[tuple[str, BaseException]] = []
        #: Whether `run` has ended, so that nothing can wait any more.
        self.has_ended = False
        #: How many turns workers have had.
        self.turns = 0
        self._ready: list[VirtualWorker] = []
        # (when (µs), number, worker, its turn)
        self._timers: list[tuple[int, int, VirtualWorker, int]] = []
        self._workers: dict[int, VirtualWorker] = {}
        self._frozen: list[VirtualWorker] = []
        #: Returns a number that was not used before: what is made gets one, which takes the place of its address.
        self.next_number = itertools.count(1).__next__
        self._next_timer = itertools.count(1).__next__
        self._nameless = 0
        self._first: VirtualWorker | None = None
        self._hub: Any = None
        #: Whether the function of `run` has returned, and the other workers are being ended.
        self.is_closing = False
        # What came while the other workers were being ended; raised behind that.
        self._late: BaseException | None = None
        self._still_since = self._begun = 0
        # The turns at the last signal of the processor's time.
        self._turns_then = -1

    def __repr__(self) -> str:
        return f"<Scheduler of seed {self.seed} at {self.now_ms()} ms, {len(self._workers)} workers>"

    # -- the clock -----------------------------------------------------------------------------------------------------

    def now(self) -> float:
        """Return the time of the clock (s)."""
        return self.clock_us / 1_000_000

    def now_ms(self) -> int:
        """Return the time since the scheduler was made (ms)."""
        return (self.clock_us - START_US) // 1000

    def until(self, timeout: float | None) -> int | None:
        """Return the time of the clock after a timeout (s): at least one microsecond later, so that polling moves the clock."""
        if timeout is None:
            return None
        # Not `min` and `max`: this is called some thousand times for each seed.
        microseconds = math.ceil(timeout * 1_000_000) if timeout < WAIT_MAX_S else WAIT_MAX_US
        return self.clock_us + (1 if microseconds < 1 else microseconds)  # noqa: FURB136

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

    def check_inside(self) -> None:
        """Raise an error unless the caller runs in a worker of this scheduler.

        :raises OutsideSchedulerError: it does not
        """
        worker = self.current
        if worker is None or getcurrent() is not worker.greenlet:
            raise OutsideSchedulerError(
                "this call has to wait, but does not run in a worker of the scheduler: call it within scheduler.run(), "
                "and from no other thread or greenlet"
            )

    def park(self, until_us: int | None) -> bool:
        """Wait until `wake`, or until a time of the clock (µs); return whether it was `wake`.

        :raises OutsideSchedulerError: the caller is no worker of this scheduler
        """
        worker = self.current
        if worker is None or getcurrent() is not worker.greenlet:
            self.check_inside()  # raises
        assert worker is not None
        if self.is_closing:
            self._refuse(worker)
        if worker.thrown is not None:
            thrown, worker.thrown = worker.thrown, None
            raise thrown
        if until_us is not None:
            self._add_timer(worker, until_us)
        worker.is_parked = True
        woken: bool = self._hub.switch()
        return woken

    def give_way(self) -> None:
        """Return after the turns of those other workers that are drawn before this one."""
        self.check_inside()
        worker = self.current
        assert worker is not None
        if self.is_closing:
            self._refuse(worker)
        self._ready.append(worker)
        self._hub.switch()

    def wake(self, worker: VirtualWorker) -> bool:
        """End the wait of a worker; return whether it waited."""
        if not worker.is_parked:
            return False
        self._unpark(worker, True)
        return True

    def wake_at(self, worker: VirtualWorker, at_us: int) -> None:
        """End the present wait of a worker at a time of the clock (µs), if nothing ends it before: `park` returns False."""
        if worker.is_parked:  # else that wait has ended: the timer would end the next one
            self._add_timer(worker, at_us)

    def _add_timer(self, worker: VirtualWorker, at_us: int) -> None:
        timers = self._timers
        if len(timers) > 64 + 8 * len(self._workers):  # most are of waits that have ended
            self._timers = timers = [timer for timer in timers if timer[3] == timer[2].turn]
            heapq.heapify(timers)
        heapq.heappush(timers, (at_us, self._next_timer(), worker, worker.turn))

    def _unpark(self, worker: VirtualWorker, woken: bool) -> None:
        worker.is_parked = False
        worker.is_woken = woken
        worker.turn += 1
        self._ready.append(worker)

    def throw(self, worker: VirtualWorker, error: BaseException) -> None:
        """Raise an exception at the present or next wait of a worker; one that has not begun ends without it."""
        if worker.greenlet is None:
            self._ready.remove(worker)
            worker.end()
            return
        worker.thrown = error
        if worker.is_parked:
            self._unpark(worker, False)

    def forget(self, worker: VirtualWorker) -> None:
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
        draw = self.draw
        while not first.has_ended:
            ready = self._ready
            if not ready:
                self._advance()
            count = len(ready)
            if count == 1:
                worker = ready.pop()
            else:
                index = int(draw() * count)
                worker, last = ready[index], ready.pop()
                if worker is not last:
                    ready[index] = last
            self._resume(worker)
            self.turns += 1
            if not self.turns % LOOK_EVERY:
                self._look()

    def _resume(self, worker: VirtualWorker) -> None:
        self.current = worker
        if worker.greenlet is None:
            worker.greenlet = greenlet(worker.main)  # its parent is the hub
        if worker.thrown is None:
            worker.greenlet.switch(worker.is_woken)
        else:
            thrown, worker.thrown = worker.thrown, None
            worker.greenlet.throw(thrown)

    def _advance(self) -> None:
        """Move the clock to the next deadline, and wake the workers whose deadline it is."""
        timers = self._timers
        while timers and timers[0][3] != timers[0][2].turn:
            heapq.heappop(timers)
        if not timers:
            raise DeadlockError(f"seed {self.seed}: all workers wait for ever. {self.describe()}")
        clock = self.clock_us = max(timers[0][0], self.clock_us)
        self._still_since = self.turns
        while timers and timers[0][0] <= clock:
            _, _, worker, turn = heapq.heappop(timers)
            if worker.turn == turn:
                self._unpark(worker, False)

    def _collect_strays(self) -> None:
        """Make those workers ready that an interrupt between two steps of the scheduler has left without a place."""
        for worker in self._workers.values():
            if not worker.is_parked and worker not in self._ready:
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

    def _end(self, worker: VirtualWorker) -> None:
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

    def _refuse(self, worker: VirtualWorker) -> None:
        """End a wait of a worker that is being ended."""
        worker.waits_left -= 1
        if worker.waits_left < 0:
            self._hub.switch()
        raise GreenletExit

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

    def _where(self, worker: VirtualWorker) -> str:
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
