"""`StartOnce`: one start at a time, whichever workers ask for it, and the start that a forked child owes."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, NoReturn, TypeVar

from pykafka.exceptions import KafkaException, ResponseTimeoutError
from pykafka.handlers.interrupts import OwnedWorker, SingleCaller

if TYPE_CHECKING:
    from pykafka.handlers.base import Handler, Worker

#: How long a worker waits for a start that another worker makes (s).
START_S = 120.0
#: How often a start that waits for a worker looks whether it is cut off (s).
STOP_POLL_S = 0.05

T = TypeVar("T")


class StartOnce:
    """The starts of a producer or consumer: one worker makes a start, and the others wait for its end.

    A start that fails, or that a timeout or Ctrl-C ends, remains due: the next call makes it. The workers that waited for it
    raise its error too. A `stop()` never waits for a start: it notes itself, and the start undoes its work at its end, or ends
    at once where it waits in `unless_stopped`. A start that waits for its turn as a stop comes is not made.

    State: `_failures` and `_error` change inside of `_turns`; `due`, `_stops` and `_under_way` by single stores.

    :param handler: supplies locks and the clock
    """

    def __init__(self, handler: Handler) -> None:
        self._handler = handler
        #: Whether the next call has to start what ran when this process was forked.
        self.due = False
        self.after_fork(False)

    def after_fork(self, ran: bool) -> None:
        """Make the start due in a forked child.

        :param ran: whether the parent's producer or consumer ran; one whose start is due already stays due in a fork of a fork
        """
        self.due = self.due or ran
        self._stops = 0
        self._turns = SingleCaller(self._handler)
        self._failures = 0
        self._error: KafkaException | None = None
        # The worker that starts for calls with little time, and its outcome.
        self._under_way: tuple[Worker, list[Callable[[], object]]] | None = None
        # How many stops there had been when a start was asked for: of a worker, `starts` for the one that it makes, or None;
        # `stops` for the one of a call with little time.
        self._here = self._handler.local()

    def stop(self) -> None:
        """Note a stop: no start is due any more, and one that another worker makes is undone at its end."""
        self.due = False
        self._stops += 1

    def run(self, start: Callable[[], object], undo: Callable[[], object]) -> None:
        """Start, or wait for the start that another worker makes.

        :param start: starts, and does nothing if that was done
        :param undo: stops what was started
        :raises ResponseTimeoutError: the other worker's start has not ended in time
        :raises KafkaException: the start failed, or is what makes this call
        """
        seen, stops = self._failures, getattr(self._here, "stops", self._stops)
        if getattr(self._here, "starts", None) is not None:
            raise KafkaException(
                "start() was called by something that start() itself calls, such as post_rebalance_callback; call it when that "
                "start() has returned"
            )
        with (turn := self._handler.Lock()):
            if not self._turns.await_entry(turn, START_S):
                raise ResponseTimeoutError(
                    f"another worker starts this, and was not done within {START_S:.0f} s; check that the brokers can be "
                    "reached, and call again"
                )
            if self._failures != seen and self._error is not None:
                raise self._error.again()
            try:
                self._here.starts = stops
                self._start(start, undo, stops)
            finally:
                self._here.starts = None

    def watch(self) -> Callable[[], bool] | None:
        """Return what says whether a stop has come since the start was asked for that the caller makes; None: it makes none."""
        stops = getattr(self._here, "starts", None)
        return None if stops is None else lambda: self._stops != stops

    def unless_stopped(self, ask: Callable[[], T], is_stopped: Callable[[], bool], name: str) -> Callable[[], T] | None:
        """Call a function on a worker; return what returns its result or raises its error, or None: a stop came first.

        :param ask: changes nothing; after a stop the worker ends with it
        :param is_stopped: returns whether to wait no longer
        :param name: the worker's name
        """
        outcome: list[Callable[[], T]] = []
        worker = OwnedWorker(self._handler, partial(_keep, ask, outcome), name)
        try:
            worker.start()
        except RuntimeError:  # the system starts no thread at present
            return ask
        while not worker.join(STOP_POLL_S):
            if is_stopped():
                return None
        return outcome[0] if outcome else ask  # a greenlet may be ended from outside

    def run_within(self, start: Callable[[], object], seconds: float) -> bool:
        """Start on a worker, and return whether that has ended in time. The next call waits for the same start.

        A stop that comes before the worker has begun ends it, too.

        :param start: calls `run`
        :param seconds: how long to wait
        :raises Exception: the start failed
        """
        under_way = self._under_way
        if under_way is None:
            noted: list[Callable[[], object]] = []
            worker = self._handler.spawn(self._start_for_others, start, self._stops, noted, name="pykafka.StartOnce")
            under_way = self._under_way = worker, noted
        worker, outcome = under_way
        if not worker.join(seconds):
            return False
        self._under_way = None
        for end in outcome:
            end()
        return True

    def _start_for_others(self, start: Callable[[], object], stops: int, outcome: list[Callable[[], object]]) -> None:
        self._here.stops = stops
        _keep(start, outcome)

    def _start(self, start: Callable[[], object], undo: Callable[[], object], stops: int) -> None:
        if self._stops != stops:
            return  # a stop has come since
        try:
            start()
        except KafkaException as error:
            if self._stops == stops:  # else those that were asked for behind the stop are made
                self._error = error.again()  # without the traceback, which holds the frames of this call
                self._failures += 1
            raise
        self._error = None
        if self._stops != stops:
            undo()
        else:
            self.due = False


def _keep(call: Callable[[], T], outcome: list[Callable[[], T]]) -> None:
    """Call a function, and keep what returns its result, or raises its error."""
    try:
        found = call()
        outcome.append(lambda: found)
    except Exception as error:  # noqa: BLE001 - the call that waits raises it
        outcome.append(partial(_raise, error))


def _raise(error: Exception) -> NoReturn:
    raise error
