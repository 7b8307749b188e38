"""`Waiters`: who waits for a change of the cluster, and what is due when."""

from __future__ import annotations

import heapq
import itertools
from collections import defaultdict
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pykafka.handlers.base import EventType, Handler, LockType

#: How long a worker sleeps at most (s), before it looks again.
_IDLE_S = 3600.0


@dataclass(eq=False, slots=True)
class Timer:
    """A call that is due at a time.

    :param due_ms: when (ms since 1970, by the cluster's clock)
    :param fn: what to call; None once it was called or cancelled
    """

    due_ms: int
    fn: Callable[[], object] | None

    def cancel(self) -> None:
        """Never call it."""
        self.fn = None


class Waiters:
    """The waits of all workers that serve a cluster. All methods are called by the holder of its lock.

    :param handler: makes events, and has the clock
    :param lock: of the cluster's state; a wait releases it
    """

    def __init__(self, handler: Handler, lock: LockType) -> None:
        self._handler = handler
        self._lock = lock
        self._waiting: defaultdict[Hashable, set[EventType]] = defaultdict(set)
        self._timers: list[tuple[int, int, Timer]] = []
        self._numbers = itertools.count()
        self._changed = handler.Event()
        # The wall clock may jump, or stand still in a test that freezes it: it is read once.
        self._began_ms, self._began = handler.time_ms(), handler.now()
        #: How far the cluster's clock is ahead of the handler's (ms).
        self.ahead_ms = 0
        self._closed = False

    def now_ms(self) -> int:
        """Return the cluster's time (ms since 1970)."""
        return self._began_ms + int((self._handler.now() - self._began) * 1000) + self.ahead_ms

    def advance(self, milliseconds: int) -> None:
        """Move the cluster's clock forward (ms), and wake all that wait for a time."""
        self.ahead_ms += milliseconds
        self._run_due()
        self._changed.set()
        self.wake_all()

    def at(self, due_ms: int, fn: Callable[[], object]) -> Timer:
        """Call a function once, with the lock held, at a time (ms since 1970)."""
        timer = Timer(due_ms, fn)
        heapq.heappush(self._timers, (due_ms, next(self._numbers), timer))
        if self._timers[0][2] is timer:
            self._changed.set()
        return timer

    def after(self, delay_ms: int, fn: Callable[[], object]) -> Timer:
        """Call a function once, with the lock held, after a time (ms)."""
        return self.at(self.now_ms() + delay_ms, fn)

    def wait(self, ready: Callable[[], bool], until_ms: int, *keys: Hashable) -> bool:
        """Wait until something is so, and return whether it is; the lock is free during the wait.

        :param ready: asked at the start, at the end, and each time that one of the keys is woken
        :param until_ms: how long (ms since 1970, by the cluster's clock)
        :param keys: what the answer depends on: whoever changes it calls `wake` with that key
        """
        while not (done := ready()):
            left = until_ms - self.now_ms()
            if left <= 0 or self._closed:
                return False
            event = self._handler.Event()
            for key in keys:
                self._waiting[key].add(event)
            self._lock.release()
            try:
                event.wait(min(left / 1000, _IDLE_S))  # the system cannot wait for centuries
            finally:
                self._lock.acquire()
                for key in keys:
                    self._forget(key, event)
        return done

    def _forget(self, key: Hashable, event: EventType) -> None:
        waiting = self._waiting[key]
        waiting.discard(event)
        if not waiting:
            del self._waiting[key]

    def wake(self, *keys: Hashable) -> None:
        """Make all look again that wait for one of the keys."""
        for key in keys:
            for event in self._waiting.get(key, ()):
                event.set()

    def wake_all(self) -> None:
        """Make all look again."""
        for events in self._waiting.values():
            for event in events:
                event.set()

    def close(self) -> None:
        """End all waits, and the timekeeper."""
        self._closed = True
        self._timers.clear()
        self._changed.set()
        self.wake_all()

    def keep_time(self) -> None:
        """Call what is due until `close`: the timekeeper's worker, which does not hold the lock when it calls this."""
        while True:
            with self._lock:
                if self._closed:
                    return
                self._changed.clear()
                self._run_due()
                left = (self._timers[0][0] - self.now_ms()) / 1000 if self._timers else _IDLE_S
            self._changed.wait(min(max(left, 0.0), _IDLE_S))

    def _run_due(self) -> None:
        while self._timers and (self._timers[0][2].fn is None or self._timers[0][0] <= self.now_ms()):
            timer = heapq.heappop(self._timers)[2]
            fn, timer.fn = timer.fn, None
            if fn is not None:
                try:
                    fn()
                except Exception as error:  # noqa: BLE001 - whatever it may raise, the other timers go on
                    self._handler.report("a timer of the fake cluster", error)
