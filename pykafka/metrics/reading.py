"""`Reading`: the metrics of one part of a client at one moment, computed from its sensors and what else it knows."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from pykafka.metrics.catalog import Entry, entries
from pykafka.metrics.listener import MOVES, STALLED
from pykafka.metrics.metric import Buckets, Metric, MetricName
from pykafka.metrics.recorder import TopicSensors
from pykafka.metrics.sensors import Sensor

if TYPE_CHECKING:
    from pykafka.metrics.recorder import PartRecorder

NS_PER_MS = 1_000_000


class Reading:
    """The metrics of a part, which are added one after another. Each has to be in the catalog.

    :param client_id: the tag of all
    :param now: of the handler's clock (s)
    """

    def __init__(self, client_id: str, now: float) -> None:
        self._client_id = client_id
        self.now = now
        self.metrics: list[Metric] = []
        self._entries = entries()

    def add(
        self,
        group: str,
        name: str,
        value: float,
        tags: Mapping[str, str] | None = None,
        buckets: Buckets | None = None,
        left: float = 0.0,
    ) -> None:
        """Add a metric.

        :param tags: besides client-id, in the catalog's order
        :param left: as of `Metric`
        """
        tags = tags or {}
        entry: Entry = self._entries[group, name, ("client-id", *tags)]
        identity = MetricName(name, group, tuple(sorted([("client-id", self._client_id), *tags.items()])))
        self.metrics.append(Metric(identity, value, entry.kind, entry.unit, entry.description, buckets, left))

    def meter(
        self,
        group: str,
        stem: str,
        sensors: Iterable[Sensor],
        tags: Mapping[str, str] | None = None,
        of: str = "count",
        left: float = 0.0,
    ) -> None:
        """Add rate and total of what sensors have counted together.

        :param of: "count" of values, or their "total"
        :param left: as of `Metric`
        """
        total, rate = 0.0, 0.0
        for sensor in sensors:
            seconds, count, amount, _ = sensor.recent(self.now)
            total += sensor.count if of == "count" else sensor.total
            rate += (count if of == "count" else amount) / seconds
        self.add(group, f"{stem}-rate", rate, tags)
        self.add(group, f"{stem}-total", total, tags, left=left)

    def spread(
        self,
        group: str,
        stem: str,
        sensors: Iterable[Sensor],
        tags: Mapping[str, str] | None = None,
        ends: tuple[str, ...] = ("avg", "max"),
    ) -> None:
        """Add average and maximum of the last windows; NaN without a value, as in Java."""
        recent = [sensor.recent(self.now) for sensor in sensors]
        count = sum(part[1] for part in recent)
        found = {
            "avg": sum(part[2] for part in recent) / count if count else math.nan,
            "max": max((part[3] for part in recent if part[1]), default=math.nan),
        }
        for end in ends:
            self.add(group, f"{stem}-{end}", found[end], tags)

    def histogram(
        self, group: str, name: str, sensors: Iterable[Sensor], tags: Mapping[str, str] | None = None
    ) -> None:
        """Add the distribution of what sensors with the same buckets have measured together; nothing without a sensor."""
        parts = [sensor.distribution() for sensor in sensors]
        if parts:
            counts = tuple(map(sum, zip(*(part.counts for part in parts), strict=True)))
            buckets = Buckets(parts[0].bounds, counts, sum(part.total for part in parts))
            self.add(group, name, sum(counts), tags, buckets)

    def ns_total(self, group: str, stem: str, part: PartRecorder | None, kind: str) -> None:
        """Add how long the steps of a kind took together."""
        self.add(group, f"{stem}-ns-total", sum(one.total for one in steps(part, kind)) * NS_PER_MS)

    def stalls(self, group: str, part: PartRecorder | None) -> None:
        """Add what stands still now, and what has stood still, by the reason."""
        for kind, sensor in [] if part is None else list(part.events.items()):
            name, _, reason = kind.partition(" ")
            if name == STALLED:
                ended = sum(one.count for one in steps(part, f"{MOVES} {reason}"))
                self.add(group, "stalled-partitions", max(sensor.count - ended, 0), {"reason": reason})
                self.add(group, "stalls-total", sensor.count, {"reason": reason})

    def seconds_ago(
        self, group: str, name: str, part: PartRecorder | None, kind: str, known: float = -math.inf
    ) -> None:
        """Add the time since the last step of a kind; -1 if there was none, as in Java.

        :param known: when there was one that is not among the events (s of the handler's clock)
        """
        last = max((one.last for one in steps(part, kind)), default=-math.inf)
        last = max(last, known)
        self.add(group, name, max(self.now - last, 0.0) if last > -math.inf else -1.0)


def by_topic(part: PartRecorder) -> tuple[dict[str, TopicSensors], TopicSensors]:
    """Return what a part has counted by topic, and of the topics that it has left; none is in both, whoever records now."""
    while True:
        topics, left = part.topics.copy(), TopicSensors()
        left.take_over(part.left)  # a copy
        if all(part.topics.get(name) is sensors for name, sensors in topics.items()):
            return topics, left


def steps(part: PartRecorder | None, *kinds: str) -> list[Sensor]:
    """Return what a part has counted of some kinds of events."""
    return [] if part is None else [part.events[kind] for kind in kinds if kind in part.events]
