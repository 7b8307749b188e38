"""`BackgroundWorker`: the life of a worker that starts when there is something to do, and ends when nothing is left."""

from __future__ import annotations

import logging
import math
import weakref
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

from pykafka.exceptions import KafkaException
from pykafka.handlers.interrupts import OwnedWorker, is_at_work

if TYPE_CHECKING:
    from pykafka.consumer.fetching_consumer import FetchingConsumer
    from pykafka.handlers.base import Worker

log = logging.getLogger(__name__)

#: How long `join` waits for the worker, which waits for nothing then but an answer (s).
JOIN_S = 5.0


class BackgroundWorker(ABC):
    """Work of one consumer that a worker of its own does.

    State: `_worker` changes under `_lock`, and so does what `_is_left` reads: the worker sets `_worker` to None in the same
    step in which it finds nothing left.

    :param consumer: held weakly, so that a dropped one can be freed
    """

    #: Of the worker, and what it does, for logs and errors.
    worker_name = ""
    purpose = ""

    def __init__(self, consumer: FetchingConsumer) -> None:
        self._consumer = weakref.ref(consumer)
        self._handler = consumer.handler
        self._lock = self._handler.Lock()
        self._wake = self._handler.Event()
        self._worker: Worker | None = None
        #: Whether there may be work without a worker: it could not be started, or an error or an interrupt has ended it.
        self.is_stranded = False

    @abstractmethod
    def _is_left(self) -> bool:
        """Return whether there is something to do; this needs no lock."""

    @abstractmethod
    def _step(self) -> bool:
        """Do the work that is due, or wait; with nothing left, set `_worker` to None under `_lock` and return False."""

    def revive(self) -> None:
        """Start the worker again, if work `is_stranded`."""
        if self.is_stranded:
            with self._lock:
                self._start()

    def join(self, until: float = math.inf) -> None:
        """Wait for the worker to end; set the consumer's `running` to False before.

        :param until: when to wait no longer, of the handler's clock (s); `JOIN_S` from now at the most
        """
        self._wake.set()
        worker = self._worker
        if worker is not None:
            worker.join(min(JOIN_S, max(until - self._handler.now(), 0.0)))

    def _start(self) -> None:
        """Start the worker if there is none; the caller holds the lock, and has set `is_stranded` before it added work."""
        if not is_at_work(self._worker) and self._is_left():
            self._worker = worker = OwnedWorker(self._handler, self._run, self.worker_name)
            try:
                worker.start()
            except RuntimeError as error:  # the system cannot start a thread at present; calls that read try again
                log.error("no worker can be started that %s, for now: %s", self.purpose, error)
                return
        self.is_stranded = False

    def _run(self) -> None:
        try:
            while self._step():
                pass
        except BaseException as error:
            consumer = self._consumer()
            if consumer is not None and consumer.running:
                text = f"the worker that {self.purpose} has ended by {type(error).__name__}: {error}"
                failure = KafkaException(text, topic=consumer.name)
                if consumer.cluster.listener is not None:
                    consumer.cluster.listener.on_fatal(failure)
                consumer.worker_failed(failure)
            del consumer
            with self._lock:
                self._worker = None
                self.is_stranded = True
            raise
