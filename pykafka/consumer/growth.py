"""`Growth`: noticing that a topic has got partitions, so that a consumer of all of them reads those, too.

Fetch workers tell the time, and wait for nobody: what takes waiting, asking for metadata and for offsets, is done by a
worker of the consumer's, which runs only then.
"""

from __future__ import annotations

import logging
import weakref
from typing import TYPE_CHECKING, Any

from pykafka.exceptions import KafkaException

if TYPE_CHECKING:
    from pykafka.simpleconsumer import SimpleConsumer

log = logging.getLogger(__name__)

#: When to look again where the brokers did not answer (s).
RETRY_S = 5.0


class Growth:
    """Has the metadata of a consumer's topic asked for every now and then, and partitions that are new in it read.

    State: `_worker` changes under `_lock`; `_due` by single stores.

    :param consumer: held weakly, so that a forgotten consumer can go
    :param max_age_s: how old metadata may become
    """

    def __init__(self, consumer: SimpleConsumer, max_age_s: float) -> None:
        self._consumer = weakref.ref(consumer)
        self._handler = consumer._handler
        self._max_age_s = max_age_s
        self._lock = self._handler.Lock()
        self._worker: Any = None
        self._due = self._handler.now() + max_age_s
        #: Until when nothing is tried, as the last attempt failed.
        self._pause = 0.0

    def tick(self) -> None:
        """Look whether it is time to look; returns at once."""
        consumer = self._consumer()
        now = self._handler.now()
        if consumer is None or not consumer._running or now < self._pause:
            return
        if now >= self._due or consumer._unread_partitions():
            with self._lock:
                if self._worker is None:
                    self._worker = self._handler.spawn(self._run, name="pykafka.Growth")

    def join(self) -> None:
        """Wait for the worker to end; the consumer's `_stopping` was set before."""
        worker = self._worker
        if worker is not None:
            worker.join(5.0)

    def _run(self) -> None:
        try:
            consumer = self._consumer()
            if consumer is not None and consumer._running:
                self._look(consumer)
        finally:
            with self._lock:
                self._worker = None

    def _look(self, consumer: SimpleConsumer) -> None:
        self._due = self._handler.now() + self._max_age_s
        try:
            consumer._cluster.refresh_older(self._max_age_s, [consumer.topic.name])
            consumer._read_added()
        except KafkaException as error:
            self._pause = self._handler.now() + min(self._max_age_s, RETRY_S)
            name, text = consumer.topic.name, "topic %s: new partitions cannot be read yet: %s"
            consumer._cluster.limiter.warn(log, name, text, name, error)
