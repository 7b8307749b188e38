"""`StartOnce`: one start at a time, whichever workers ask for it, and the start that a forked child owes."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from pykafka.exceptions import KafkaException, ResponseTimeoutError
from pykafka.handlers.interrupts import SingleCaller

if TYPE_CHECKING:
    from pykafka.handlers.base import Handler, Worker

#: How long a worker waits for a start that another worker makes (s).
START_S = 120.0


class StartOnce:
    """The starts of a producer or consumer: one worker makes a start, and the others wait for its end.

    A start that fails, or that a timeout or Ctrl-C ends, remains due: the next call makes it. The workers that waited for it
    raise its error too. A `stop()` never waits for a start: it notes itself, and the start undoes its work at its end.

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
        # The worker that starts for calls with little time, and what it raised.
        self._under_way: tuple[Worker, list[Exception]] | None = None
        # Of a worker: whether it makes a start; of one for such calls: how many stops there had been when a call asked for it.
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
        seen = self._failures
        if getattr(self._here, "starts", False):
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
                self._here.starts = True
                self._start(start, undo)
            finally:
                self._here.starts = False

    def run_within(self, start: Callable[[], object], seconds: float) -> bool:
        """Start on a worker, and return whether that has ended in time. The next call waits for the same start.

        A stop that comes before the worker has begun ends it, too.

        :param start: calls `run`
        :param seconds: how long to wait
        :raises Exception: the start failed
        """
        under_way = self._under_way
        if under_way is None:
            noted: list[Exception] = []
            worker = self._handler.spawn(self._start_for_others, start, self._stops, noted, name="pykafka.StartOnce")
            under_way = self._under_way = worker, noted
        worker, errors = under_way
        if not worker.join(seconds):
            return False
        self._under_way = None
        if errors:
            raise errors[0]
        return True

    def _start_for_others(self, start: Callable[[], object], stops: int, errors: list[Exception]) -> None:
        self._here.stops = stops
        try:
            start()
        except Exception as error:  # noqa: BLE001 - the call that waits for the start raises it
            errors.append(error)

    def _start(self, start: Callable[[], object], undo: Callable[[], object]) -> None:
        stops = self._stops
        if getattr(self._here, "stops", stops) != stops:
            return  # the call for which this worker starts has returned, and a stop has come behind it
        try:
            start()
        except KafkaException as error:
            self._error = error.again()  # without the traceback, which holds the frames of this call
            self._failures += 1
            raise
        self._error = None
        if self._stops != stops:
            undo()
        else:
            self.due = False
