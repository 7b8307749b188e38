"""`Deadline`: a time that is extended again and again, with one timer."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pykafka.testing.waiters import Timer, Waiters


class Deadline:
    """Calls a function when nothing has extended it for long enough. The timer looks how long ago that was, and waits on.

    :param waiters: of the cluster
    :param on_expired: called with the lock held
    """

    __slots__ = ("_on_expired", "_timeout_ms", "_timer", "_waiters", "due_ms")

    def __init__(self, waiters: Waiters, on_expired: Callable[[], object]) -> None:
        self._waiters = waiters
        self._on_expired = on_expired
        self._timer: Timer | None = None
        self._timeout_ms = 0
        #: When it is due (ms since 1970); None: it does not run.
        self.due_ms: int | None = None

    def extend(self, timeout_ms: int) -> None:
        """Begin, or begin again.

        :param timeout_ms: until it is due, from now on (ms)
        """
        self._timeout_ms = timeout_ms
        self.due_ms = due_ms = self._waiters.now_ms() + timeout_ms
        timer = self._timer
        if timer is not None and timer.fn is not None:
            if timer.due_ms <= due_ms:
                return
            timer.cancel()
        self._timer = self._waiters.at(due_ms, self._look)

    def suspend(self) -> None:
        """Call nothing until `renew` or `resume`: the broker that keeps the time is away."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def renew(self) -> None:
        """Begin again with the whole timeout, if it runs."""
        if self.due_ms is not None:
            self.extend(self._timeout_ms)

    def resume(self) -> None:
        """Go on after `suspend`: what was due meanwhile is due now."""
        if self._timer is None:
            self._look()

    def cancel(self) -> None:
        """Stop it; `extend` begins anew."""
        self.due_ms = None
        self.suspend()

    def _look(self) -> None:
        self._timer = None
        if self.due_ms is None:
            return
        if self._waiters.now_ms() < self.due_ms:
            self._timer = self._waiters.at(self.due_ms, self._look)
            return
        self.due_ms = None
        self._on_expired()
