"""`Metrics`: the metrics of a client at one moment, by name, group and tags, as Java's clients name them."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from pykafka.metrics.sensors import Buckets

__all__ = ["COUNTER", "GAUGE", "HISTOGRAM", "Buckets", "Metric", "MetricName", "Metrics"]

#: Kinds of metrics: a value that goes up and down; a total that only grows; a distribution in buckets.
GAUGE, COUNTER, HISTOGRAM = "gauge", "counter", "histogram"


class MetricName(NamedTuple):
    """The identity of a metric.

    :param name: as "records-lag-max"
    :param group: as "consumer-fetch-manager-metrics"
    :param tags: ((tag, value), ...), sorted: client-id, and node-id, topic or partition
    """

    name: str
    group: str
    tags: tuple[tuple[str, str], ...] = ()

    def __str__(self) -> str:
        tags = ",".join(f"{tag}={value}" for tag, value in self.tags)
        return f"{self.group}:{self.name}{{{tags}}}"


class Metric(NamedTuple):
    """A metric at one moment.

    :param name: its identity
    :param value: the number; of a histogram the number of values
    :param kind: GAUGE, COUNTER or HISTOGRAM
    :param unit: "ms", "ns", "s", "bytes", "records", "ratio", "1/s", "" and the like
    :param description: one line
    :param buckets: of a histogram; None otherwise
    :param left: of a producer's total by topic: that of all topics that it no longer keeps, together
    """

    name: MetricName
    value: float
    kind: str
    unit: str
    description: str
    buckets: Buckets | None = None
    left: float = 0.0


class Metrics(Mapping[MetricName, Metric]):
    """The metrics of a client, a producer or a consumer at one moment.

    :param metrics: in order
    """

    def __init__(self, metrics: Iterable[Metric]) -> None:
        self._by_name = {metric.name: metric for metric in metrics}

    def __getitem__(self, name: MetricName) -> Metric:
        return self._by_name[name]

    def __iter__(self) -> Iterator[MetricName]:
        return iter(self._by_name)

    def __len__(self) -> int:
        return len(self._by_name)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {len(self)} metrics of {len({name.group for name in self})} groups>"

    def find(self, name: str, group: str = "", **tags: str) -> list[Metric]:
        """Return the metrics of a name.

        :param name: as "records-lag-max"
        :param group: only of this group; "" for all groups
        :param tags: only with these values, underscores for hyphens: `topic="orders"`, `node_id="1"`
        :raises KeyError: there is no metric of this name, or none with such a tag
        """
        named = [one for one in self.values() if one.name.name == name and group in ("", one.name.group)]
        if not named:
            near = difflib.get_close_matches(name, {one.name for one in self}, 3)
            raise KeyError(f"there is no metric {name!r}" + (f"; similar: {', '.join(near)}" if near else ""))
        wanted = {tag.replace("_", "-"): str(value) for tag, value in tags.items()}
        known = {tag for one in named for tag, _ in one.name.tags}
        for tag in wanted:
            if tag not in known:
                raise KeyError(f"the metric {name!r} has no tag {tag!r}; its tags: {', '.join(sorted(known))}")
        return [one for one in named if wanted.items() <= dict(one.name.tags).items()]

    def value(self, name: str, group: str = "", **tags: str) -> float:
        """Return the value of the one metric that fits; parameters and errors as of `find`.

        :raises KeyError: none fits, or more than one
        """
        found = self.find(name, group, **tags)
        if len(found) != 1:
            raise KeyError(f"{len(found)} metrics {name!r} fit: {', '.join(str(one.name) for one in found[:3])}")
        return found[0].value

    def by_group(self) -> dict[str, dict[str, float]]:
        """Return {group: {name: value}}; a name with tags besides client-id is "name{topic=orders}"."""
        groups: dict[str, dict[str, float]] = {}
        for metric in self.values():
            tags = ",".join(f"{tag}={value}" for tag, value in metric.name.tags if tag != "client-id")
            groups.setdefault(metric.name.group, {})[metric.name.name + (f"{{{tags}}}" if tags else "")] = metric.value
        return groups
