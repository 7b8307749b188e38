"""`Turnstile`: one call at a time, which no interrupt can leave closed."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pykafka.handlers.base import Handler, LockType

#: How often a call that waits for its turn looks (s).
TURN_S = 0.002


class Turnstile:
    """Lets one call in at a time; a second one is refused, or waits.

    Each call brings a lock of its own, its pass, and holds it as long as it is inside:

        with (turn := handler.Lock()):
            if not turnstile.enter(turn):
                raise ...

    `lock.acquire(timeout=...)` before a `try` would be open to Ctrl-C between the two, and nobody would release the lock. A
    `with` block takes and releases a pass in C, however it ends, and so the call whose pass is free is not inside any more.

    State: `_inside` is the pass of the call that came in last. `_lock` is held for a few steps, in which nothing waits.

    :param handler: makes the passes
    """

    def __init__(self, handler: Handler) -> None:
        self._handler = handler
        self._lock = handler.Lock()
        self._inside = handler.Lock()

    def locked(self) -> bool:
        """Return whether a call is inside."""
        return self._inside.locked()

    def enter(self, turn: LockType) -> bool:
        """Return whether a call may go in, which it then does: no other is inside.

        :param turn: its pass, which it holds
        """
        with self._lock:
            if self._inside.locked():
                return False
            self._inside = turn
            return True

    def await_entry(self, turn: LockType, seconds: float) -> bool:
        """Wait until a call may go in, which it then does; return whether that was in time.

        :param turn: as of `enter`
        :param seconds: how long to wait
        """
        deadline = self._handler.now() + seconds
        while not self.enter(turn):
            left = deadline - self._handler.now()
            if left <= 0:
                return False
            self._handler.sleep(min(left, TURN_S))
        return True
