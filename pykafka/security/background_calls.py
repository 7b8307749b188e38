"""`BackgroundCalls`: calls to other services for logins, by native workers, so that a caller can leave them."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from pykafka.exceptions import KafkaException, TokenUnavailableError
from pykafka.handlers.interrupts import OwnedWorker

if TYPE_CHECKING:
    from pykafka.handlers.base import Handler

#: How often a login checks whether its call is done: at first, and later on (s).
FIRST_POLL_INTERVAL_S = 0.001
MAX_POLL_INTERVAL_S = 0.05


class BackgroundCall:
    """One call to another service, by a worker of its own."""

    def __init__(self) -> None:
        #: The process that makes it.
        self.pid = os.getpid()
        self.done = False
        self.error: Exception | None = None

    def wait(self, handler: Handler, timeout: float, wanted: Callable[[], bool]) -> bool:
        """Wait for its end; return False if that does not come in time, or is not wanted any more.

        :param handler: supplies the clock
        :param timeout: (s)
        :param wanted: False ends the wait
        """
        deadline = handler.now() + timeout
        pause = FIRST_POLL_INTERVAL_S
        while not self.done:
            if handler.now() >= deadline or not wanted():
                return False
            handler.sleep(pause)
            pause = min(pause * 2, MAX_POLL_INTERVAL_S)
        return True


class BackgroundCalls:
    """At most one call at a time in this process: whoever needs its result joins the one under way.

    It takes no lock, and changes by single steps: logins are of threads, hubs and native threads at once.

    :param name: of the workers
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._under_way: dict[str, BackgroundCall] = {}

    def join(self, handler: Handler, run: Callable[[Handler, BackgroundCall], object]) -> BackgroundCall:
        """Return the call that is under way; begin one if none is.

        :param handler: supplies the native worker
        :param run: does the call; given the handler of that worker. It must set `error`, not raise
        :raises WorkerNotStartedError: the system has no thread left
        """
        while True:
            mine = BackgroundCall()
            found = self._under_way.setdefault("now", mine)
            if found is mine:
                break
            if found.pid == mine.pid:
                return found
            self._under_way = {}  # its worker is the parent process's
        native, worker = handler.native, None
        try:
            worker = OwnedWorker(native, partial(self._run, run, native, mine), self._name)
            worker.start()
        except BaseException as error:  # an interrupt may come when the worker has begun, which ends the call
            if worker is None or not worker.is_started:
                self._end(mine, error)
            raise
        return mine

    def _run(self, run: Callable[[Handler, BackgroundCall], object], handler: Handler, call: BackgroundCall) -> None:
        try:
            run(handler, call)
        except BaseException as error:
            self._end(call, error)
            raise
        self._end(call)

    def _end(self, call: BackgroundCall, error: BaseException | None = None) -> None:
        """End a call for all who have joined it.

        :param error: what has ended it; None if it has run
        """
        if isinstance(error, KafkaException):
            call.error = error
        elif error is not None:
            call.error = TokenUnavailableError(f"the call was ended by {type(error).__name__}: try again")
        call.done = True
        self._under_way.pop("now", None)
