"""`FigureWriter`: the worker that writes the figures of a process at intervals; it ends with its clients."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from pykafka.handlers.base import WeakCall
from pykafka.handlers.interrupts import OwnedWorker, is_at_work
from pykafka.metadata.lifecycle import Tether

if TYPE_CHECKING:
    from pykafka.handlers.base import EventType, Handler

#: How long `stop` waits for the worker, which may be writing (s).
STOP_S = 5.0


class _Writing(Tether):
    """The state that a worker and its `FigureWriter` share.

    :param wake: makes the worker look whether its owner is there, and has not ended it
    """

    def __init__(self, wake: EventType) -> None:
        super().__init__(wake)
        self.has_ended = False


class FigureWriter:
    """Calls a function at intervals, in a worker of a handler; it holds the function's object weakly, and ends with it.

    :param handler: supplies the worker, which begins anew in forked children
    :param interval_s: between two calls (s)
    :param write: a bound method that raises nothing; it returns False when there will be nothing more to write
    :param stop_at_close: of a cluster, whose end wakes the worker; None if there is no cluster
    """

    def __init__(
        self,
        handler: Handler,
        interval_s: float,
        write: Callable[[], bool],
        stop_at_close: Callable[[Tether], object] | None,
    ) -> None:
        self._handler = handler
        self._interval_s = interval_s
        self._write = WeakCall(write)
        self._stop_at_close = None if stop_at_close is None else WeakCall(stop_at_close)
        self._writing = _Writing(handler.Event())
        self._worker: OwnedWorker | None = None
        handler.at_fork(self._after_fork)

    def start(self) -> None:
        """Start the worker."""
        self._writing = _Writing(self._handler.Event())
        register = None if self._stop_at_close is None else self._stop_at_close()
        if register is not None:
            register(self._writing)
        # A method of this object as the target would keep it alive.
        run = partial(_write_at_intervals, self._writing, self._interval_s, self._write)
        self._worker = worker = OwnedWorker(self._handler, run, "pykafka.prometheus")
        worker.start()

    def _after_fork(self) -> None:
        if self._worker is not None and self._worker.is_started:  # it stays with the parent
            self.start()

    @property
    def is_running(self) -> bool:
        """Whether the worker has not ended."""
        return is_at_work(self._worker)

    def stop(self) -> None:
        """End the worker, and wait until it has ended; may be repeated."""
        worker, self._worker = self._worker, None
        self._writing.has_ended = True
        self._writing.stop()
        if worker is not None:
            worker.join(STOP_S)


def _write_at_intervals(writing: _Writing, interval_s: float, write: WeakCall) -> None:
    while True:
        writing.wake.wait(interval_s)
        writing.wake.clear()
        call = write()
        if call is None or writing.has_ended or not call():
            return
        del call


class LastFigures(Tether):
    """Notes the last figures of a client when it is closed, after its producers and consumers were stopped.

    :param handler: the client's
    :param note: called once, by `client.close()`
    """

    def __init__(self, handler: Handler, note: Callable[[], object]) -> None:
        super().__init__(handler.Event())
        self._note = note

    def stop(self) -> None:
        """Note the figures."""
        if not self.wake.is_set():
            self.wake.set()
            self._note()
