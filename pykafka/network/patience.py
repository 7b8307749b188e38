"""`Patience`: a worker that does what the time of a call was too short for, so that the next call finds it done."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from pykafka.exceptions import KafkaException
from pykafka.handlers.interrupts import OwnedWorker, is_at_work
from pykafka.utils.error_handlers import QUICK_ANSWER_MS

if TYPE_CHECKING:
    from pykafka.handlers import Handler, Worker

log = logging.getLogger(__name__)

#: How long a worker connects, or waits for an answer, when the time of a call was too short for it (ms); if that was too short,
#: too, the next one takes twice as long, up to the maximum.
PATIENT_MS = 5_000
PATIENT_MAX_MS = 60_000
#: What part of its time a worker has used that had too little.
MOST = 0.9


class Patience:
    """At most one worker at a time, which does for later calls what a call with little time could not wait for.

    Without it a program that polls with less time than its way to the brokers takes would never connect, nor get the answers
    that it needs before its first record: each call would begin anew.

    :param handler: supplies the worker
    :param what: for the worker's name and the log
    """

    def __init__(self, handler: Handler, what: str) -> None:
        self._handler = handler
        self._what = what
        self._worker: Worker | None = None
        # When it has begun, of the handler's clock (s).
        self._began = 0.0
        # The time of the next worker (ms).
        self._patient_ms = PATIENT_MS
        #: Why the call that has begun it failed: what later calls raise if the worker is still at it.
        self.reason: KafkaException | None = None

    def takes_over(self, timeout_ms: int | None) -> bool:
        """Return whether a call's time is shorter than a worker's, and no worker is at it.

        :param timeout_ms: None for a call that waits for as long as it takes
        """
        return timeout_ms is not None and timeout_ms < self._patient_ms and self.is_over

    def take_over(self, error: KafkaException, timeout_ms: int | None, do: Callable[..., object], *args: Any) -> bool:
        """Start a worker for a call that has failed, if its time was the reason; return whether it was started.

        :param error: of the call: what later calls raise if the worker is still at it
        :param timeout_ms: of the call; None: it had as long as it takes
        :param do: called with `args` and the worker's own time (ms)
        """
        if not error.retriable or not self.takes_over(timeout_ms):
            return False
        self.reason = error.again()
        self.begin(do, *args, self._patient_ms)
        return True

    @property
    def is_over(self) -> bool:
        """Whether no worker is at it."""
        return not is_at_work(self._worker)

    def begin(self, do: Callable[..., object], *args: Any) -> None:
        """Start a worker that does it. Its error is logged: later calls try themselves, and raise theirs."""
        name = f"pykafka.Patience.{self._what}"
        self._began = self._handler.now()
        self._worker = worker = OwnedWorker(self._handler, partial(self._do, do, args), name)
        worker.start()

    def wait(self, seconds: float) -> bool:
        """Wait for the worker, if there is one; return whether it has ended.

        A call that has time for a quick answer only does not wait for one that is slow already.
        """
        worker, quick_s = self._worker, QUICK_ANSWER_MS / 1000
        if seconds <= quick_s:
            seconds = min(seconds, max(self._began + quick_s - self._handler.now(), 0.0))
        return worker is None or worker.join(seconds)

    def _do(self, do: Callable[..., object], args: tuple[Any, ...]) -> None:
        began = self._handler.now()
        try:
            do(*args)
            self._patient_ms = PATIENT_MS
        except KafkaException as error:
            log.debug("%s, for calls that had less than %d ms: %s", self._what, self._patient_ms, error)
            if self._handler.now() - began >= MOST * self._patient_ms / 1000:
                self._patient_ms = min(2 * self._patient_ms, PATIENT_MAX_MS)
