"""`CallQueue`: calls functions in order, by a worker that starts for the first one and ends when none is left."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pykafka.handlers import Handler
    from pykafka.handlers.base import Worker

log = logging.getLogger(__name__)

Call = Callable[[], object]


class CallQueue:
    """Functions that a worker calls, one after another.

    State: `_waiting` and `_worker` change under `_lock`, and the worker sets `_worker` to None in the step in which it finds
    nothing left.

    :param handler: supplies the worker
    :param name: of the worker
    """

    def __init__(self, handler: Handler, name: str) -> None:
        self._handler = handler
        self._name = name
        self.after_fork()

    def after_fork(self) -> None:
        """Leave the worker, and the functions not called yet, to the parent process."""
        self._lock = self._handler.Lock()
        self._waiting: deque[Call] = deque()
        self._worker: Worker | None = None
        self._here = self._handler.worker_local()

    def add(self, call: Call) -> None:
        """Call a function after those that wait, by the worker; return at once."""
        with self._lock:
            self._waiting.append(call)
        self.revive()

    @property
    def is_idle(self) -> bool:
        """Whether no function is being called, and none waits."""
        with self._lock:
            return not self._waiting and (self._worker is None or not self._worker.is_alive())

    def revive(self) -> None:
        """Start the worker if functions wait for one: an error has ended it, or the system could not start it."""
        with self._lock:
            if not self._waiting or (self._worker is not None and self._worker.is_alive()):
                return
            self._worker = None
            try:
                self._worker = self._handler.spawn(self._run, name=self._name)
            except RuntimeError as error:  # the system starts no thread at present; the next call here tries again
                log.error("the worker %s cannot be started for now: %s", self._name, error)

    def join(self, deadline: float) -> bool:
        """Wait until all functions were called; return whether that was in time. One that calls this calls the others itself.

        :param deadline: of the handler's clock (s)
        """
        while not getattr(self._here, "calls", False):
            self.revive()
            worker = self._worker
            if worker is None or not worker.is_alive():  # such as one that ended before its first step
                break
            left = deadline - self._handler.now()
            if left <= 0 or not worker.join(min(left, 3600.0)):
                return False
        while (call := self._pop()) is not None:
            call()
        return True

    def _run(self) -> None:
        self._here.calls = True
        try:
            while (call := self._next()) is not None:
                call()
        except BaseException:
            with self._lock:
                self._worker = None
            raise

    def _pop(self) -> Call | None:
        with self._lock:
            return self._waiting.popleft() if self._waiting else None

    def _next(self) -> Call | None:
        with self._lock:
            if self._waiting:
                return self._waiting.popleft()
            self._worker = None
            return None
