"""The measurements of coordinators. The consumers of this package take none."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from pykafka.groups.heartbeat_sender import Heartbeat


class Metrics(Protocol):
    """The receiver of measurements. Only the application's workers call its methods, which must not wait."""

    def record(self, name: str, value: float, group: str, tags: Mapping[str, str]) -> object:
        """Record one measurement, such as the duration of a join (s)."""

    def gauge(self, name: str, value: Callable[[], float], group: str, tags: Mapping[str, str]) -> object:
        """Register a function that returns a present value."""


class _Group:
    """A group of measurements.

    :param metrics: their receiver; None for none
    :param group: the group's name
    :param tags: passed on with each measurement
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
    """The durations of joins, syncs and heartbeats.

    :param heartbeat: knows when the last heartbeat went out
    :param metrics: the receiver of measurements; None for none
    :param prefix: of the group's name
    :param tags: passed on with each measurement
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
        """Record the duration of a join."""
        self._record("join-time", seconds)

    def synced(self, seconds: float) -> None:
        """Record the duration of a sync."""
        self._record("sync-time", seconds)

    def answered(self, seconds: float) -> None:
        """Record the duration of a heartbeat."""
        self._record("heartbeat-response-time", seconds)


class ConsumerCoordinatorMetrics(_Group):
    """The durations of commits, and the number of assigned partitions.

    :param metrics: the receiver of measurements; None for none
    :param metric_group_prefix: of the group's name
    :param subscription: has `assigned_partitions()`
    """

    def __init__(self, metrics: Metrics | None, metric_group_prefix: str, subscription: Any) -> None:
        super().__init__(metrics, f"{metric_group_prefix}-coordinator-metrics", None)
        self._gauge("assigned-partitions", lambda: len(subscription.assigned_partitions()))

    def committed(self, seconds: float) -> None:
        """Record the duration of a commit."""
        self._record("commit-latency", seconds)
