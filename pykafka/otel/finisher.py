"""`SpanFinisher`: ends spans on a worker of its own, so that an exporter that blocks holds up no worker of the client."""

from __future__ import annotations

import math
import sys
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Protocol

from pykafka.handlers.interrupts import OwnedWorker
from pykafka.metadata.lifecycle import Tether

if TYPE_CHECKING:
    from pykafka.handlers import Handler

#: How many spans may wait for their end; those beyond are dropped, and the first time that is logged.
WAITING_MAX = 20_000
#: How long the worker lets spans gather before it ends them (s): to wake it for each one costs more than the span.
GATHER_S = 0.01
#: So many spans wake it at once.
MANY = 1000
#: How long the worker sleeps before it ends (s).
IDLE_S = 1.0
#: How long `stop` waits while no span ends, and at most (s).
STOP_S, STOP_MOST_S = 1.0, 5.0
#: How often `join` looks (s).
LOOK_S = 0.002


class Tally:
    """Counts that are added to their counters together, at the end of a round of the worker."""

    def __init__(self) -> None:
        self._counts: dict[int, list[Any]] = {}

    def count(self, counter: Any, labels: dict[str, Any]) -> None:
        """Count one message.

        :param labels: the same object for the same labels
        """
        entry = self._counts.get(id(labels))
        if entry is None:
            self._counts[id(labels)] = [counter, labels, 1]
        else:
            entry[2] += 1

    def add(self) -> None:
        """Add to the counters."""
        counts, self._counts = self._counts, {}
        for counter, labels, count in counts.values():
            counter.add(count, labels)


class FinishedSpan(Protocol):
    """The end of a span; `due`: what it waits for comes until then (s)."""

    due: float

    def end(self, tally: Tally) -> None: ...


class SpanFinisher(Tether):
    """Ends spans, and records their measurements, in the order in which they come.

    Its worker is an OS thread beside gevent's hub, or an event loop. It starts when there is something to end, and ends when
    there has been nothing for a while. As a `Tether`, it is stopped with the client, after all producers and consumers.

    State: `_waiting` by single steps; `_running` under `_lock`; `_asleep` and `_called` by single stores; `ended` and
    `_settled` the worker's.

    :param handler: of the client
    :param failed: called with what has failed, and the error
    """

    def __init__(self, handler: Handler, failed: Callable[[str, BaseException], None]) -> None:
        self._handler = handler
        self._failed = failed
        self._stopped = False
        self._begin()
        handler.at_fork(self._begin)

    def _begin(self) -> None:
        # Also in a forked child: spans that wait, and the worker, are the parent's.
        self._native = self._handler.native
        super().__init__(self._native.Event())
        self._lock = self._native.Lock()
        self._waiting: deque[FinishedSpan] = deque()
        self._running = self._ending = self._hurried = False
        #: Whether the worker sleeps until something comes, and whether it was called because of many.
        self._asleep = self._called = False
        #: Spans that found no place, those that have ended, and those of these that are counted, too.
        self.dropped = self.ended = self._settled = 0

    def add(self, ending: FinishedSpan) -> None:
        """End a span soon; never waits."""
        waiting = self._waiting
        if len(waiting) >= WAITING_MAX:
            self._drop(1)
            return
        waiting.append(ending)
        if self._asleep or not self._running or len(waiting) >= MANY:
            self._call()

    def add_all(self, endings: Sequence[FinishedSpan]) -> None:
        """End some spans soon; never waits."""
        waiting = self._waiting
        room = WAITING_MAX - len(waiting)
        if len(endings) > room:
            self._drop(len(endings) - max(room, 0))
            endings = endings[: max(room, 0)]
        waiting.extend(endings)
        if self._asleep or not self._running or len(waiting) >= MANY:
            self._call()

    def _drop(self, count: int) -> None:
        self.dropped += count
        error = RuntimeError(f"{WAITING_MAX} spans wait: a span processor blocks; more are dropped")
        self._failed("ending spans", error)

    def _call(self) -> None:
        """Make the worker look."""
        if (self._stopped or sys.is_finalizing()) and not self._running:
            self._end_here()
            return
        if not self._running:
            self._start()
        elif self._asleep or not self._called:
            self._called = True
            self.wake.set()

    def _end_here(self) -> None:
        """End what comes after the client's end, as of a loop that the interpreter's end lets go: no thread starts then."""
        while self._waiting:
            self._end_some()

    def _start(self) -> None:
        with self._lock:
            if self._running:
                return
            self._running = True
        worker = None
        try:
            worker = OwnedWorker(self._native, self._run, "pykafka.otel")
            worker.start()
        except Exception as error:  # noqa: BLE001 - there may be no more threads; the next span tries again
            self._running = False
            self._failed("starting the worker that ends spans", error)
        except BaseException:  # an interrupt may come when the worker has begun
            if worker is None or not worker.is_started:
                self._running = False
            raise

    def join(self, timeout: float, quiet: float = math.inf) -> bool:
        """Wait until all spans that wait now are ended; return whether they are.

        :param timeout: how long to wait (s)
        :param quiet: how long to wait while none ends (s)
        """
        now = self._handler.now
        last = len(self._waiting) + self._ending + self.ended  # others may come meanwhile, for ever
        deadline, ended, ended_at = now() + timeout, self.ended, now()
        self._hurried = True
        self.wake.set()
        try:
            while self._settled < last and (self._waiting or self._ending):
                if not self._running and not self._stopped:  # a processor has ended the worker
                    self._start()
                if self.ended != ended:
                    ended, ended_at = self.ended, now()
                if now() >= min(deadline, ended_at + quiet):
                    return False
                self._handler.sleep(LOOK_S)
        finally:
            self._hurried = False
        return True

    def stop(self) -> None:
        """End the spans that wait, and the worker; a processor that blocks is not waited for."""
        self._stopped = True
        if not self._handler.has_ended and not self.join(STOP_MOST_S, STOP_S):
            self._failed("ending spans", RuntimeError("a span processor blocks: the last spans may be lost"))
        self.wake.set()

    # -- the worker --------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            while self._goes_on():
                self._end_some()
        except BaseException:  # as SystemExit of a processor: the next span starts another worker
            self._asleep = self._running = False
            raise

    def _goes_on(self) -> bool:
        """Wait until spans have gathered; return False if this worker must end."""
        if not (self._stopped or self._hurried):
            self.wake.wait(GATHER_S)
            self._clear()
        if self._waiting:
            return True
        self._asleep = True  # before the look: `add` must see that, or this what it adds
        woken = bool(self._waiting) or self.wake.wait(0.0 if self._stopped else IDLE_S)
        self._asleep = False
        self._clear()
        with self._lock:
            # `_running` before the look: an `add` that comes after the look then starts another worker.
            self._running = woken
            self._running = self._running or bool(self._waiting)
            return self._running

    def _clear(self) -> None:
        self.wake.clear()
        self._called = False

    def _end_some(self) -> None:
        """End the spans that wait, up to a number."""
        tally = Tally()
        self._ending = True  # before the look: `join` must not miss what is taken
        try:
            with suppress(IndexError):
                for _ in range(MANY):
                    self._end(self._waiting.popleft(), tally)
                    if self._hurried:  # `join` may wait for the last one alone
                        break
        finally:
            self._settle(tally)

    def _settle(self, tally: Tally) -> None:
        try:
            tally.add()
        except Exception as error:  # noqa: BLE001 - of a meter
            self._failed("counting messages", error)
        self._settled = self.ended
        self._ending = False

    def _end(self, ending: FinishedSpan, tally: Tally) -> None:
        if ending.due:
            self._await(ending.due)
        try:
            ending.end(tally)
        except Exception as error:  # noqa: BLE001 - of a span processor or a meter, which must not end this worker
            self._failed("ending a span", error)
        finally:
            self.ended += 1

    def _await(self, due: float) -> None:
        now = self._native.now
        while not (self._hurried or self._stopped) and (left := due - now()) > 0:
            self.wake.wait(left)
            self._clear()
