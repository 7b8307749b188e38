"""`Growth`: noticing that topics have got partitions, so that a consumer of all of them reads those, too.

Fetch workers tell the time, and wait for nobody: what takes waiting, asking for metadata and for offsets, is done by a
worker of the consumer's, which runs only then.
"""

from __future__ import annotations

import logging
import weakref
from typing import TYPE_CHECKING, Any, Protocol

from pykafka.exceptions import KafkaException

if TYPE_CHECKING:
    from pykafka.handlers import Handler
    from pykafka.metadata.cluster import BaseCluster
    from pykafka.partition import Partition, TopicView

log = logging.getLogger(__name__)

#: When to look again where the brokers did not answer (s).
RETRY_S = 5.0


class Reader(Protocol):
    """The consumer of whole topics: an engine, which says what each member does."""

    @property
    def cluster(self) -> BaseCluster: ...
    @property
    def handler(self) -> Handler: ...
    @property
    def running(self) -> bool: ...
    @property
    def whole_topics(self) -> dict[str, TopicView]: ...
    def unread(self) -> list[Partition]: ...
    def read_added(self) -> None: ...


class Growth:
    """Has the metadata of a consumer's topics asked for every now and then, and partitions that are new in it read.

    State: `_worker` changes under `_lock`; `_due` by single stores.

    :param reader: the consumer, held weakly, so that a forgotten one can go
    :param max_age_s: how old metadata may become
    """

    def __init__(self, reader: Reader, max_age_s: float) -> None:
        self._reader = weakref.ref(reader)
        self._handler = reader.handler
        self._max_age_s = max_age_s
        self._lock = self._handler.Lock()
        self._worker: Any = None
        self._due = self._handler.now() + max_age_s
        #: Until when nothing is tried, as the last attempt failed.
        self._pause = 0.0

    def tick(self) -> None:
        """Look whether it is time to look; returns at once."""
        reader = self._reader()
        now = self._handler.now()
        if reader is None or not reader.running or now < self._pause:
            return
        if now >= self._due or reader.unread():
            with self._lock:
                if self._worker is None:
                    self._worker = self._handler.spawn(self._run, name="pykafka.Growth")

    def join(self) -> None:
        """Wait for the worker to end; the consumer's `stopping` was set before."""
        worker = self._worker
        if worker is not None:
            worker.join(5.0)

    def _run(self) -> None:
        try:
            reader = self._reader()
            if reader is not None and reader.running:
                self._look(reader)
        finally:
            with self._lock:
                self._worker = None

    def _look(self, reader: Reader) -> None:
        self._due = self._handler.now() + self._max_age_s
        try:
            reader.cluster.refresh_older(self._max_age_s, list(reader.whole_topics))
            reader.read_added()
        except KafkaException as error:
            self._pause = self._handler.now() + min(self._max_age_s, RETRY_S)
            names, text = ", ".join(reader.whole_topics), "topic %s: new partitions cannot be read yet: %s"
            reader.cluster.limiter.warn(log, names, text, names, error)
