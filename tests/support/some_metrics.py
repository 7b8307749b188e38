"""Metrics made by hand, and something that has them as clients do."""

from __future__ import annotations

from collections.abc import Callable

from pykafka.metrics.metric import GAUGE, Buckets, Metric, MetricName, Metrics

FETCH = "consumer-fetch-manager-metrics"


def metric(
    group: str, name: str, value: float, kind: str = GAUGE, unit: str = "", buckets: Buckets | None = None, **tags: str
) -> Metric:
    """Return a metric of the client "c", or of `client_id`; underscores in tags stand for hyphens."""
    with_id = {"client-id": "c", **{tag.replace("_", "-"): text for tag, text in tags.items()}}
    return Metric(MetricName(name, group, tuple(sorted(with_id.items()))), value, kind, unit, f"about {name}", buckets)


class HasSome:
    """A client as far as a collector knows it.

    :param metrics: its metrics, or a function that returns them
    """

    def __init__(self, *metrics: Metric, read: Callable[[], list[Metric]] | None = None) -> None:
        self.some = list(metrics)
        self.read = read

    def metrics(self) -> Metrics:
        """Return the metrics."""
        return Metrics(self.some if self.read is None else self.read())
