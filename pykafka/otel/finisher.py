"""`SpanFinisher`: ends spans on a worker of its own, so that an exporter that blocks holds up no worker of the client."""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Protocol

from pykafka.metadata.lifecycle import Tether

if TYPE_CHECKING:
    from pykafka.handlers import Handler

#: How many spans may wait for their end; those beyond are dropped, and the first time that is logged.
WAITING_MAX = 20_000
#: How long the worker waits for more before it ends (s).
IDLE_S = 1.0
#: How long `stop` waits while no span ends (s).
STOP_S = 1.0
#: How often `join` looks (s).
LOOK_S = 0.002


class Ending(Protocol):
    """The end of a span; `due`: what it waits for comes until then (s)."""

    due: float

    def end(self) -> None: ...


class SpanFinisher(Tether):
    """Ends spans, and records their measurements, in the order in which they come.

    Its worker is an OS thread beside gevent's hub, or an event loop. It starts when there is something to end, and ends when
    there has been nothing for a while. As a `Tether`, it is stopped with the client, after all producers and consumers.

    State: `_waiting` by single steps; `_running` under `_lock`.

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
        self._waiting: deque[Ending] = deque()
        self._running = self._ending = self._hurried = False
        #: Spans that found no place.
        self.dropped = 0

    def add(self, ending: Ending) -> None:
        """End a span soon; never waits."""
        if len(self._waiting) >= WAITING_MAX:
            self.dropped += 1
            self._failed(
                "ending spans", RuntimeError(f"{WAITING_MAX} spans wait: a span processor blocks; more are dropped")
            )
            return
        self._waiting.append(ending)
        if (self._stopped or sys.is_finalizing()) and not self._running:
            self._end_here()
            return
        if not self._running:
            self._start()
        self.wake.set()

    def _end_here(self) -> None:
        """End what comes after the client's end, as of a loop that the interpreter's end lets go: no thread starts then."""
        with suppress(IndexError):
            while True:
                self._end(self._waiting.popleft())

    def _start(self) -> None:
        with self._lock:
            if self._running:
                return
            self._running = True
        try:
            self._native.spawn(self._run, name="pykafka.otel")
        except Exception as error:  # noqa: BLE001 - there may be no more threads; the next span tries again
            self._running = False
            self._failed("starting the worker that ends spans", error)

    def join(self, timeout: float) -> bool:
        """Wait until all spans are ended; return whether they are.

        :param timeout: how long to wait while none ends (s)
        """
        left, deadline = len(self._waiting), self._handler.now() + timeout
        self._hurried = True
        self.wake.set()
        try:
            while self._waiting or self._ending:
                if len(self._waiting) != left:
                    left, deadline = len(self._waiting), self._handler.now() + timeout
                if self._handler.now() >= deadline:
                    return False
                self._handler.sleep(LOOK_S)
        finally:
            self._hurried = False
        return True

    def stop(self) -> None:
        """End the spans that wait, and the worker; a processor that blocks is not waited for."""
        self._stopped = True
        if not self._handler.has_ended and not self.join(STOP_S):
            self._failed("ending spans", RuntimeError("a span processor blocks: the last spans may be lost"))
        self.wake.set()

    def _run(self) -> None:
        try:
            while (ending := self._next()) is not None:
                self._end(ending)
        finally:
            self._ending = False

    def _next(self) -> Ending | None:
        """Return the next ending; None if this worker must end."""
        waited = False
        while True:
            self._ending = True  # before the look: `join` must not miss what is taken
            try:
                return self._waiting.popleft()
            except IndexError:
                self._ending = False
            with self._lock:
                if waited and not self._waiting:
                    self._running = False
                    return None
            waited = not self.wake.wait(0.0 if self._stopped else IDLE_S)
            self.wake.clear()

    def _end(self, ending: Ending) -> None:
        now = self._native.now
        while not (self._hurried or self._stopped) and (left := ending.due - now()) > 0:
            self.wake.wait(left)
            self.wake.clear()
        try:
            ending.end()
        except Exception as error:  # noqa: BLE001 - of a span processor or a meter, which must not end this worker
            self._failed("ending a span", error)
