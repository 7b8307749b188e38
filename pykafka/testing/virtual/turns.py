"""`Turns`: which worker of a scheduler runs, and what time it is; `Waiter`: a worker, as they know it."""

from __future__ import annotations

import heapq
from random import Random
from typing import Any, NoReturn

from greenlet import GreenletExit, getcurrent, greenlet

from pykafka.exceptions import KafkaException

#: The clock at the beginning (µs): no deadline of a program is near zero.
START_US = 1_000_000_000
#: The longest wait (s), about 300 years: a longer one counts as this long.
_WAIT_MAX_S = 1e10
#: How often the scheduler looks whether it should end (turns).
LOOK_EVERY = 1024
#: How many waits a worker may try to begin when it has been ended, before the scheduler leaves it where it is.
LAST_WAITS = 1000


class SchedulerError(KafkaException):
    """Raised when a scheduler cannot do something; its subclasses say what."""


class OutsideSchedulerError(SchedulerError):
    """Raised when code waits that does not run in a worker of the scheduler: call it by `Scheduler.run`."""


class Waiter:
    """A worker, as the turns know it. Its hash is its number, so that sets have the same order in each run.

    :param number: no other object of the scheduler has it
    :param name: for errors and logs
    """

    def __init__(self, number: int, name: str) -> None:
        self.number = number
        self.name = name
        #: None until it runs for the first time.
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

    def main(self) -> None:
        """Run it: the greenlet's function."""
        raise NotImplementedError

    def end(self) -> None:
        """Wake the workers that wait for its end."""
        raise NotImplementedError


class Turns:
    """The workers that can run, those that wait until a time, and the clock.

    A worker that waits gives the turn to the next one itself, without a way over the hub, the greenlet of `Scheduler.run`. The
    hub has the first turn, the one behind a worker that has ended, and each one at which it has to look.

    :param seed: decides the order
    :param preemption: how likely it is that a worker gives way before it takes a free lock (0 to 1)
    """

    def __init__(self, seed: int, preemption: float) -> None:
        self.preemption = preemption
        #: Draws a float from 0 to 1 for the order of workers, and for nothing else.
        self.draw = Random(f"order of {seed}").random
        #: The clock (µs).
        self.clock_us = START_US
        #: The worker that runs; None outside of `run`.
        self.current: Waiter | None = None
        #: How many turns workers have had.
        self.turns = 0
        #: Whether the function of `run` has returned, and the other workers are being ended.
        self.is_closing = False
        self._look_at = LOOK_EVERY
        # Those that have not ended, by number.
        self._workers: dict[int, Waiter] = {}
        self._numbers = 0
        self._timer_numbers = 0
        self._ready: list[Waiter] = []
        # (when (µs), number, worker, its turn)
        self._timers: list[tuple[int, int, Waiter, int]] = []
        self._hub: Any = None
        # The turns when the clock moved last.
        self._still_since = 0

    def now(self) -> float:
        """Return the time of the clock (s)."""
        return self.clock_us / 1_000_000

    def next_number(self) -> int:
        """Return a number that was not used before: what is made gets one, which takes the place of its address."""
        self._numbers += 1
        return self._numbers

    def until(self, timeout: float | None) -> int | None:
        """Return the time of the clock after a timeout (s): at least one microsecond later, so that polling moves the clock."""
        return None if timeout is None else self.deadline(timeout)

    def deadline(self, timeout: float) -> int:
        """Return the time of the clock after a timeout (s). As `until`."""
        exact = (timeout if timeout < _WAIT_MAX_S else _WAIT_MAX_S) * 1_000_000  # noqa: FURB136 - called for each wait
        if exact <= 1:
            return self.clock_us + 1
        whole = int(exact)
        return self.clock_us + whole + (1 if whole < exact else 0)

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
        self.check_inside()
        worker = self.current
        assert worker is not None
        if self.is_closing:
            self._refuse(worker)
        if worker.thrown is not None:
            thrown, worker.thrown = worker.thrown, None
            raise thrown
        if until_us is not None:
            self._add_timer(worker, until_us)
        worker.is_parked = True
        return self._pass_on(worker)

    def give_way(self) -> None:
        """Return after the turns of those other workers that are drawn before this one."""
        self.check_inside()
        worker = self.current
        assert worker is not None
        if self.is_closing:
            self._refuse(worker)
        self._ready.append(worker)
        self._pass_on(worker)

    def wake(self, worker: Waiter) -> bool:
        """End the wait of a worker; return whether it waited."""
        if not worker.is_parked:
            return False
        self._unpark(worker, True)
        return True

    def wake_at(self, worker: Waiter, at_us: int) -> None:
        """End the present wait of a worker at a time of the clock (µs), if nothing ends it before: `park` returns False."""
        if worker.is_parked:  # else that wait has ended: the timer would end the next one
            self._add_timer(worker, at_us)

    def _add_timer(self, worker: Waiter, at_us: int) -> None:
        timers = self._timers
        if len(timers) > 64 + 8 * len(self._workers):  # most are of waits that have ended
            self._timers = timers = [timer for timer in timers if timer[3] == timer[2].turn]
            heapq.heapify(timers)
        self._timer_numbers += 1
        heapq.heappush(timers, (at_us, self._timer_numbers, worker, worker.turn))

    def _unpark(self, worker: Waiter, woken: bool) -> None:
        worker.is_parked = False
        worker.is_woken = woken
        worker.turn += 1
        self._ready.append(worker)

    def _advance(self) -> bool:
        """Move the clock to the next deadline, and wake the workers whose deadline it is; return whether there is one."""
        timers = self._timers
        clock = -1
        while timers:
            at_us, _, worker, turn = timers[0]
            if worker.turn == turn:
                if clock < 0:
                    clock = at_us if at_us > self.clock_us else self.clock_us  # noqa: FURB136 - called for each turn
                if at_us > clock:
                    break
                self._unpark(worker, False)
            elif clock >= 0 and at_us > clock:
                break
            heapq.heappop(timers)
        if clock < 0:
            return False
        self.clock_us = clock
        self._still_since = self.turns
        return True

    def _next(self) -> Waiter:
        """Draw one of the workers that can run, whose turn it is."""
        ready = self._ready
        count = len(ready)
        self.turns += 1
        if count == 1:
            return ready.pop()
        index = int(self.draw() * count)
        worker, last = ready[index], ready.pop()
        if worker is not last:
            ready[index] = last
        return worker

    def _pass_on(self, worker: Waiter) -> bool:
        """Give turns to others until it is this worker's again; return whether `wake` has ended its wait."""
        if self.turns >= self._look_at or not (self._ready or self._advance()):
            woken: bool = self._hub.switch()
            return woken
        following = self._next()
        if following is not worker:
            return self._resume(following)
        if worker.thrown is not None:
            thrown, worker.thrown = worker.thrown, None
            raise thrown
        return worker.is_woken

    def _resume(self, worker: Waiter) -> bool:
        """Run a worker on; return when the caller is resumed, with whether `wake` has ended its wait."""
        self.current = worker
        if worker.greenlet is None:
            worker.greenlet = greenlet(worker.main, self._hub)
            return bool(worker.greenlet.switch())
        if worker.thrown is None:
            woken: bool = worker.greenlet.switch(worker.is_woken)
            return woken
        thrown, worker.thrown = worker.thrown, None
        return bool(worker.greenlet.throw(thrown))

    def _refuse(self, worker: Waiter) -> NoReturn:
        """End a wait of a worker that is being ended."""
        worker.waits_left -= 1
        if worker.waits_left < 0:
            self._hub.switch()
        raise GreenletExit
