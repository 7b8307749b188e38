"""`Sources`: where the metrics of a client come from: itself, each of its producers and each of its consumers."""

from __future__ import annotations

import itertools
import logging
import weakref
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from pykafka.metrics.metric import Metric, MetricName

if TYPE_CHECKING:
    from pykafka.utils.loglimit import LogLimiter

log = logging.getLogger(__name__)

#: How long the error of a source is not logged again (s).
AGAIN_S = 3600.0
#: The label that tells the producers and consumers of one client apart.
COMPONENT = "client_component"

Labels = tuple[tuple[str, str], ...]


class Measured(Protocol):
    """The cluster of a client; `BaseCluster` says what each member does."""

    client_rack: str
    own_metrics: Callable[[], Iterable[Metric]] | None

    def open_parts(self) -> list[Any]: ...


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

    A producer or consumer is a source if it has a method `metrics()`, which returns `Metrics` or any iterable of `Metric`;
    `_metric_labels()` adds labels to it. A metric that two sources have counts for the first of them: for producer or
    consumer before the client.

    :param limiter: logs errors of a source, once
    """

    def __init__(self, limiter: LogLimiter) -> None:
        self._limiter = limiter
        self._names: weakref.WeakKeyDictionary[Any, str] = weakref.WeakKeyDictionary()
        self._numbers = itertools.count(1)

    def read(self, cluster: Measured) -> list[Source]:
        """Return the metrics of all sources; one that raises is left out, and logged once."""
        rack = {"client_rack": cluster.client_rack} if cluster.client_rack else {}
        sources = []
        for part in cluster.open_parts():
            if callable(getattr(part, "metrics", None)):
                name = self._name(part)
                labels = {**rack, COMPONENT: name, **self._labels(part, name)}
                sources.append(Source(name, tuple(labels.items()), self._read(part.metrics, name)))
        own = [] if cluster.own_metrics is None else self._read(cluster.own_metrics, "the client")
        seen = {metric.name for source in sources for metric in source.metrics}
        sources.append(Source("", tuple(rack.items()), [metric for metric in own if metric.name not in seen]))
        return sources

    def names(self, cluster: Measured) -> set[MetricName]:
        """Return the names of all metrics that the client has by itself."""
        return {metric.name for source in self.read(cluster) for metric in source.metrics}

    def _name(self, part: Any) -> str:
        name = self._names.get(part)
        if name is None:
            name = self._names[part] = f"{type(part).__name__}-{next(self._numbers)}"
        return name

    def _labels(self, part: Any, name: str) -> dict[str, str]:
        read = getattr(part, "_metric_labels", dict)
        try:
            return {label: value for label, value in read().items() if value}
        except Exception as error:  # noqa: BLE001 - the other sources are pushed all the same
            self._complain(name, error)
            return {}

    def _read(self, read: Callable[[], Any], name: str) -> list[Metric]:
        try:
            metrics = read()
            return list(metrics.values() if isinstance(metrics, Mapping) else metrics)
        except Exception as error:  # noqa: BLE001 - the other sources are pushed all the same
            self._complain(name, error)
            return []

    def _complain(self, name: str, error: Exception) -> None:
        text = "the metrics of %s cannot be read, and are not pushed to the broker: %r"
        self._limiter.warn(log, f"telemetry {name}", text, name, error, again_s=AGAIN_S)
