"""What coordinators measure, and where they put it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from pykafka.coordinator.heartbeat import Heartbeat


class Metrics(Protocol):
    """Where measurements go. Both methods are called by the application's workers only, and must not wait."""

    def record(self, name: str, value: float, group: str, tags: Mapping[str, str]) -> object:
        """Take one measurement, such as how long a join took (s)."""

    def gauge(self, name: str, value: Callable[[], float], group: str, tags: Mapping[str, str]) -> object:
        """Take a function that tells a present value when asked."""


class _Group:
    """Measurements under one name.

    :param metrics: where they go; None for nowhere
    :param group: their name
    :param tags: what else to know them by
    """

    def __init__(self, metrics: Metrics | None, group: str, tags: Mapping[str, str] | None) -> None:
        self.metrics = metrics
        self.metric_group_name = group
        self.tags = dict(tags or {})

    def _record(self, name: str, value: float) -> None:
        if self.metrics is not None:
            self.metrics.record(name, value, self.metric_group_name, self.tags)

    def _gauge(self, name: str, value: Callable[[], float]) -> None:
        if self.metrics is not None:
            self.metrics.gauge(name, value, self.metric_group_name, self.tags)


class GroupCoordinatorMetrics(_Group):
    """Measure joining, syncing and heartbeats.

    :param heartbeat: tells when the last one was sent
    :param metrics: where measurements go; None for nowhere
    :param prefix: of the name they stand under
    :param tags: what else to know them by
    """

    def __init__(
        self,
        heartbeat: Heartbeat,
        metrics: Metrics | None,
        prefix: str,
        tags: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(metrics, f"{prefix}-coordinator-metrics", tags)
        self.heartbeat = heartbeat
        self._gauge("last-heartbeat-seconds-ago", heartbeat.since_last)

    def joined(self, seconds: float) -> None:
        """Note how long joining took."""
        self._record("join-time", seconds)

    def synced(self, seconds: float) -> None:
        """Note how long it took to be told the share."""
        self._record("sync-time", seconds)

    def answered(self, seconds: float) -> None:
        """Note how long a heartbeat took."""
        self._record("heartbeat-response-time", seconds)


class ConsumerCoordinatorMetrics(_Group):
    """Measure commits, and tell how many partitions are assigned.

    :param metrics: where measurements go; None for nowhere
    :param metric_group_prefix: of the name they stand under
    :param subscription: has `assigned_partitions()`
    """

    def __init__(self, metrics: Metrics | None, metric_group_prefix: str, subscription: Any) -> None:
        super().__init__(metrics, f"{metric_group_prefix}-coordinator-metrics", None)
        self._gauge("assigned-partitions", lambda: len(subscription.assigned_partitions()))

    def committed(self, seconds: float) -> None:
        """Note how long a commit took."""
        self._record("commit-latency", seconds)
