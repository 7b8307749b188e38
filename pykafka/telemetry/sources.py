"""`Sources`: where the metrics of a client come from: itself, each of its producers and each of its consumers."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

from pykafka.metadata.client_metrics import read_client
from pykafka.metrics.metric import Metric, MetricName
from pykafka.metrics.recorder import Recorder

if TYPE_CHECKING:
    from pykafka.metadata.cluster import BaseCluster
    from pykafka.utils.loglimit import LogLimiter

log = logging.getLogger(__name__)

#: How long the error of a source is not logged again (s).
AGAIN_S = 3600.0
#: The label that tells the producers and consumers of one client apart: the tag client-id of their metrics.
COMPONENT = "client_component"

Labels = tuple[tuple[str, str], ...]


class Source(NamedTuple):
    """The metrics of the client itself, of a producer or of a consumer, now.

    :param name: tells it from the others; "" is the client itself
    :param labels: of the resource, as KIP-714 names them
    :param metrics: in order
    """

    name: str
    labels: Labels
    metrics: list[Metric]


class Sources:
    """The sources of one client's metrics.

    Producers and consumers are sources if the client counts (`record_metrics`); `metric_labels()` adds labels to one. A metric
    that two sources have counts for the first of them.

    :param limiter: logs errors of a source, once
    """

    def __init__(self, limiter: LogLimiter) -> None:
        self._limiter = limiter

    def read(self, cluster: BaseCluster) -> list[Source]:
        """Return the metrics of all sources, the client itself last; one that raises is left out, and logged once."""
        rack = {"client_rack": cluster.client_rack} if cluster.client_rack else {}
        parts: list[tuple[str, Any]] = [*cluster.listener.living()] if isinstance(cluster.listener, Recorder) else []
        sources = []
        for name, part in parts:
            labels = {**rack, COMPONENT: name, **self._labels(part, name)}
            sources.append(Source(name, tuple(labels.items()), self._read(part.read_metrics, name)))
        own = self._read(lambda: read_own(cluster), "the client")
        seen = {metric.name for source in sources for metric in source.metrics}
        sources.append(Source("", tuple(rack.items()), [metric for metric in own if metric.name not in seen]))
        return sources

    def names(self, cluster: BaseCluster) -> set[MetricName]:
        """Return the names of all metrics that the client has by itself."""
        return {metric.name for source in self.read(cluster) for metric in source.metrics}

    def _labels(self, part: Any, name: str) -> dict[str, str]:
        read = getattr(part, "metric_labels", dict)
        try:
            return {label: value for label, value in read().items() if value}
        except Exception as error:  # noqa: BLE001 - the other sources are pushed all the same
            self._complain(name, error)
            return {}

    def _read(self, read: Callable[[], Iterable[Metric]], name: str) -> list[Metric]:
        try:
            return list(read())
        except Exception as error:  # noqa: BLE001 - the other sources are pushed all the same
            self._complain(name, error)
            return []

    def _complain(self, name: str, error: Exception) -> None:
        text = "the metrics of %s cannot be read, and are not pushed to the broker: %r"
        self._limiter.warn(log, f"telemetry {name}", text, name, error, again_s=AGAIN_S)


def read_own(cluster: BaseCluster) -> list[Metric]:
    """Return the metrics of a client alone, without its producers and consumers."""
    return read_client(cluster).metrics
