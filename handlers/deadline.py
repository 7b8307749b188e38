"""`Deadline`: how long a worker waits for the network, and whether anybody still wants what it waits for."""

from __future__ import annotations

import errno
import time
from collections.abc import Callable

#: How often a wait checks whether its result is still wanted (s).
WANTED_POLL_INTERVAL_S = 0.1


class Deadline:
    """A deadline, and a condition that ends a wait early.

    :param timeout: how long to wait from now on (s)
    :param wanted: called every tenth of a second; the wait ends when it returns False. None: the caller always waits
    """

    __slots__ = ("_deadline", "_wanted", "timeout")

    def __init__(self, timeout: float, wanted: Callable[[], bool] | None = None) -> None:
        #: As given (s), for messages.
        self.timeout = timeout
        self._deadline = time.monotonic() + timeout
        self._wanted = wanted

    def wait(self, wait: Callable[[float], object]) -> bool:
        """Wait until `wait` succeeds; return False if the deadline passes first.

        :param wait: waits for the given time at most (s), and returns whether what it waits for has happened
        :raises ConnectionAbortedError: it is not wanted any more
        """
        while True:
            left = max(self._deadline - time.monotonic(), 0.0)
            if wait(left if self._wanted is None else min(left, WANTED_POLL_INTERVAL_S)):
                return True
            if self._wanted is not None and not self._wanted():
                raise ConnectionAbortedError(errno.ECONNABORTED, "the caller does not wait for the connection any more")
            if time.monotonic() >= self._deadline:
                return False
