"""`Statistics`: calls `stats_cb` of librdkafka regularly with what a client's producers and consumers do."""

from __future__ import annotations

import logging
import weakref
from functools import partial
from typing import TYPE_CHECKING

from pykafka.compat.statistics_json import StatisticsWriter
from pykafka.exceptions import WorkerNotStartedError
from pykafka.handlers.interrupts import OwnedWorker, is_at_work
from pykafka.metadata.lifecycle import Tether

if TYPE_CHECKING:
    from collections.abc import Callable

    from pykafka.handlers.base import EventType, Worker
    from pykafka.metadata.cluster import BaseCluster

log = logging.getLogger(__name__)

#: How often the worker looks whether the client is still there (s).
OWNER_POLL_S = 5.0
#: How long `stop()` waits for a call of the function (s).
JOIN_S = 1.0


class Statistics(Tether):
    """The calls of one client's `stats_cb`.

    A worker starts with the first producer or consumer, and holds the client weakly. A function that raises is called again,
    and one that blocks holds up nothing but this worker.

    State: the worker's, but for `_stopping`, the event, and `_worker`, which changes under `_lock`.

    :param cluster: with `stats_cb` and `statistics_interval_ms`; held weakly
    """

    def __init__(self, cluster: BaseCluster) -> None:
        self._cluster = weakref.ref(cluster)
        self._handler = cluster.handler
        self._limiter = cluster.limiter
        self._interval_s = cluster.metrics_settings.statistics_interval_ms / 1000
        self._stopping = False
        self._own = self._handler.worker_local()
        super().__init__(self._handler.Event())
        self._begin()
        cluster.on_part_start = self.start  # which keeps this object as long as the cluster
        cluster.stop_at_close(self)
        self._handler.at_fork(self._after_fork)

    def _begin(self) -> None:
        self._lock = self._handler.Lock()
        self._worker: Worker | None = None
        self._writer = StatisticsWriter()
        self._due = self._handler.now() + self._interval_s
        # Whether an error of the function was logged.
        self._has_failed = False

    def _after_fork(self) -> None:
        """Leave the worker to the parent; the child's first producer or consumer that starts makes another."""
        self._begin()
        self.wake = self._handler.Event()

    def start(self) -> None:
        """Start the worker, unless it runs."""
        if self._stopping or is_at_work(self._worker):
            return
        with self._lock:
            if not is_at_work(self._worker):
                self._due = self._handler.now() + self._interval_s
                run = partial(_call_regularly, weakref.ref(self), self.wake)
                self._worker = worker = OwnedWorker(self._handler, run, "pykafka.statistics.Statistics")
                try:
                    worker.start()
                except WorkerNotStartedError as error:  # the next producer or consumer tries again
                    self._limiter.warn(log, "no worker", "stats_cb is not called yet: %s", error)

    def stop(self) -> None:
        """End the worker, once the function has returned; this waits for `JOIN_S` at most."""
        self._stopping = True
        self.wake.set()
        worker = self._worker
        if worker is not None and not getattr(self._own, "is_calling", False):
            worker.join(JOIN_S)

    def step(self) -> float | None:
        """Call the function if that is due; return how long to wait then (s), or None at the end."""
        if self._cluster() is None or self._stopping:
            return None
        now = self._handler.now()
        if now >= self._due:
            # A function that takes long misses calls; they are not made up for.
            self._due = max(self._due + self._interval_s, now)
            self._report()
        return max(self._due - self._handler.now(), 0.0)

    def _report(self) -> None:
        cluster = self._cluster()
        if cluster is None:
            return
        function = cluster.metrics_settings.stats_cb
        try:
            texts = self._writer.write(cluster)
        except Exception as error:  # noqa: BLE001 - of one text: the next one comes in an interval
            self._handler.report("writing the statistics", error)
            return
        del cluster  # however long the function takes, it holds no client
        self._own.is_calling = True
        try:
            for text in texts:
                if self._stopping or function is None:
                    return
                self._call(function, text)
        finally:
            self._own.is_calling = False

    def _call(self, function: Callable[[str], object], text: str) -> None:
        try:
            function(text)
        except Exception as error:  # noqa: BLE001 - the function is the application's, and the client goes on
            if not self._has_failed:
                self._has_failed = True
                self._handler.report("stats_cb, whose further errors are not logged,", error)


def _call_regularly(reference: weakref.ref[Statistics], wake: EventType) -> None:
    """Call the function regularly while the client is there: the worker's main function, which does not keep it alive."""
    while True:
        statistics = reference()
        left = None if statistics is None else statistics.step()
        del statistics
        if left is None:
            return
        wake.wait(min(left, OWNER_POLL_S))
