"""Reports of a client on its own state, reasons for standing still, and applications for probes. README.md has the map."""

from __future__ import annotations

import weakref
from collections import deque
from typing import TYPE_CHECKING, Any

from pykafka.utils import names_on_use

if TYPE_CHECKING:
    from collections.abc import Callable

    from pykafka.consumer.engine import ConsumerEngine
    from pykafka.health.explanation import Explanation, Reason, Why
    from pykafka.health.report import (
        BrokerHealth,
        ClientHealth,
        ConsumerHealth,
        MemberHealth,
        PartitionHealth,
        Problem,
        ProducerHealth,
        ShareConsumerHealth,
    )
    from pykafka.health.view import Held, Stalled, View
    from pykafka.health.web import asgi_app, wsgi_app
    from pykafka.metadata.cluster import BaseCluster
    from pykafka.metrics.metric import Metrics
    from pykafka.producer.engine import ProducerEngine

__all__ = [
    "BrokerHealth",
    "ClientHealth",
    "ConsumerHealth",
    "Explanation",
    "Held",
    "MemberHealth",
    "PartitionHealth",
    "Problem",
    "ProducerHealth",
    "Reason",
    "ShareConsumerHealth",
    "Stalled",
    "Why",
    "asgi_app",
    "wsgi_app",
]


if not TYPE_CHECKING:
    # Loaded when a program asks for them: every client imports this package.
    __getattr__ = names_on_use(
        __name__,
        {
            "explanation": "Explanation Reason Why",
            "report": "BrokerHealth ClientHealth ConsumerHealth MemberHealth PartitionHealth Problem ProducerHealth "
            "ShareConsumerHealth",
            "view": "Held Stalled",
            "web": "asgi_app wsgi_app",
        },
    )


#: Of the watch's worker while it runs: what it is to watch from its next look on. One, or none.
_inboxes: list[deque[tuple[weakref.ref[Any], weakref.ref[BaseCluster]]]] = []


def watching(subject: Any, cluster: BaseCluster) -> tuple[Callable[[], object], Callable[[], object]]:
    """Return what to call when a producer or consumer has started, and when it has stopped: the watch then knows it.

    :param subject: held weakly; `_view()` returns its `View`, `_is_running` whether it runs
    :param cluster: of its client
    """
    settings = cluster.metrics_settings
    if not (settings.stall_report_ms or (settings.hold_report_ms and cluster.handler.cooperative)):
        return int, int
    reference, of_cluster = weakref.ref(subject), weakref.ref(cluster)

    def start() -> None:
        if (found := reference()) is not None:
            found._view_class()  # imported here: a fork while the watch's own thread imports would leave a lock taken
        inbox = None if cluster.handler.cooperative else next(iter(_inboxes), None)
        if inbox is not None:  # the worker runs, and takes it up: starts stay cheap
            inbox.append((reference, of_cluster))
            if _inboxes:  # it has not ended meanwhile
                return
        from pykafka.health.watch import watch_of

        if found is not None:
            watch_of(cluster.handler).add(found, cluster)

    def stop() -> None:
        from pykafka.health.watch import watch_of

        watch_of(cluster.handler).hurry()

    return start, stop


class Viewed:
    """A producer or consumer that reports and the watch look at."""

    if TYPE_CHECKING:

        def _view_class(self) -> type[View]: ...  # loads its module

    def _view(self, asking: object = None) -> View:
        """Return the state of now.

        :param asking: what stands for the worker that asks, whose own stack says nothing; None for none
        """
        return self._view_class()(self, asking)


class EngineHealth(Viewed):
    """A producer or consumer with an engine, as reports and the watch ask it."""

    _engine: Any

    @property
    def _is_running(self) -> bool:
        return bool(self._engine.running)

    @property
    def _is_open(self) -> bool:
        """Whether it runs, or the next call starts it, in a forked child."""
        return bool(self._engine.running or self._engine.starts.due)


class ConsumerHealthCalls(EngineHealth):
    """The calls of a consumer about its own state."""

    _progress: Any = None
    #: What stands for the worker that has called last, as of `Handler.here`.
    _reader: object = None
    _here: Callable[[], object]
    _run: Any
    _engine: ConsumerEngine

    def _view_class(self) -> type[View]:
        from pykafka.health.consumers import ConsumerView

        return ConsumerView

    def metrics(self) -> Metrics:
        """Return the metrics of this consumer now, with Java's names; docs/metrics.md lists them. No broker is asked.

        The connections are those of the client, whose producers and consumers share them.
        """
        from pykafka.metrics.metric import Metrics

        return Metrics(self._engine.read_metrics())

    def health(self) -> ConsumerHealth:
        """Return the state of the consumer, without a request: partitions, lag, membership, and what is wrong.

        :returns: `pykafka.health.ConsumerHealth`; its `to_dict()` is for JSON
        """
        from pykafka.health.consumers import ConsumerView

        return ConsumerView(self, self._here()).report()

    def explain(self, timeout: float = 5.0) -> Explanation:
        """Return why each partition stands where it stands; `print()` shows a line for each.

        It asks leaders where paused partitions end, and which transaction is open, if one holds a partition up.

        :param timeout: how long brokers may take to answer (s); 0 asks none
        """
        from pykafka.health.explaining import explain_consumer

        return explain_consumer(self, timeout)


class ProducerHealthCalls(EngineHealth):
    """The calls of a producer about its own state."""

    _engine: ProducerEngine

    def _view_class(self) -> type[View]:
        from pykafka.health.producers import ProducerView

        return ProducerView

    def metrics(self) -> Metrics:
        """Return the metrics of this producer now, with Java's names; docs/metrics.md lists them. No broker is asked.

        The connections are those of the client, whose producers and consumers share them.
        """
        from pykafka.metrics.metric import Metrics

        return Metrics(self._engine.read_metrics())

    def health(self) -> ProducerHealth:
        """Return the state of the producer, without a request: its queue, its oldest message, and what is wrong.

        :returns: `pykafka.health.ProducerHealth`; its `to_dict()` is for JSON
        """
        from pykafka.health.producers import ProducerView

        return ProducerView(self).report()

    def explain(self) -> Explanation:
        """Return why the oldest message of each partition is not acknowledged yet; `print()` shows a line for each."""
        from pykafka.health.explaining import explain_producer

        return explain_producer(self)
