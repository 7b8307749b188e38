"""`Naming`: the names of metrics in Prometheus: by base units, or as the JMX exporter calls Java's."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from functools import lru_cache
from typing import NamedTuple

from pykafka.metrics.metric import COUNTER, GAUGE, HISTOGRAM, Metric, MetricName

#: {unit of a metric: (base unit, how many of it are one base unit)}
BASE_UNITS = {
    "ns": ("seconds", 1e9),
    "us": ("seconds", 1e6),
    "ms": ("seconds", 1e3),
    "s": ("seconds", 1.0),
    "bytes": ("bytes", 1.0),
}
#: {metric of a partition that is a value of the moment: Java's metric of its window}, which dashboards ask for.
OF_WINDOW = {"records-lag": "records-lag-max", "records-lead": "records-lead-min"}
#: Words of Java's names that say the unit, which the base unit at the end replaces.
UNIT_WORDS = frozenset({"ns", "ms", "seconds", "byte", "bytes"})
#: {first words of a group: Java's kind of client, as the JMX exporter labels it}
CLIENT_TYPES = {"producer": "producer", "consumer": "consumer", "admin-client": "admin.client"}
_INVALID = re.compile(r"[^a-zA-Z0-9_]")


@lru_cache(10_000)
def _joined(text: str) -> str:
    return _INVALID.sub("_", text)


def client_type(group: str) -> str:
    """Return the kind of client that a group of metrics belongs to; "client" for those that Java lacks."""
    return next((kind for prefix, kind in CLIENT_TYPES.items() if group.startswith(f"{prefix}-")), "client")


class SeriesName(NamedTuple):
    """The name of a metric's series.

    :param text: the name; a counter's with "_total", a histogram's without "_bucket"
    :param kind: GAUGE, COUNTER or HISTOGRAM
    :param divisor: what values are divided by
    :param labels: beside those that come from the metric's tags
    """

    text: str
    kind: str
    divisor: float
    labels: tuple[tuple[str, str], ...]


class Naming(ABC):
    """A way of naming series."""

    #: What the names of the collector's own series begin with.
    prefix: str
    #: Whether a name has series of one level of labels only, so that a sum counts nothing twice.
    one_level: bool

    @abstractmethod
    def of(self, name: MetricName, kind: str, unit: str) -> SeriesName:
        """Return the name of the series of a metric.

        :param unit: of `Metric`
        """

    @abstractmethod
    def info(self, group: str) -> SeriesName | None:
        """Return the name of the series with the version of the clients that have a group of metrics; None if none has it."""


class BaseNaming(Naming):
    """Prometheus' own conventions: kafka_client_GROUP_NAME_UNIT, in seconds and bytes; counters end in "_total".

    The group loses "-metrics", and the admin client's "-client". A rate keeps its name: it is per second or hour. A count at
    the end becomes a plural and a sum "_in_all", since "_count" and "_sum" are a histogram's.
    """

    prefix = "kafka_client"
    one_level = True

    def of(self, name: MetricName, kind: str, unit: str) -> SeriesName:
        """Return the name of the series of a metric. As `Naming.of`."""
        words = name.name.split("-")
        base, divisor = BASE_UNITS.get(unit, ("", 1.0))
        if kind == COUNTER:
            words = [word for word in words if word != "total"]
        elif words[-1] == "count" and len(words) > 1:
            words[-2:] = [f"{words[-2]}s"]
        elif words[-1] == "sum":
            words[-1:] = ["in", "all"]
        if base:
            words = [word for word in words if word not in UNIT_WORDS]
            words.append(base)
        if kind == COUNTER:
            words.append("total")
        group = name.group.removesuffix("-metrics").replace("admin-client", "admin").removeprefix("client-")
        room = () if group == "client" else (group,)
        return SeriesName(_joined("_".join((self.prefix, *room, *words))), kind, divisor, ())

    def info(self, group: str) -> SeriesName:
        """Return the name of the series with the version. As `Naming.info`."""
        return SeriesName(f"{self.prefix}_info", GAUGE, 1.0, ())


class JmxNaming(Naming):
    """The names that Prometheus' JMX exporter gives Java's metrics by the usual rules, in Java's units; all are gauges."""

    prefix = "kafka_jmx"
    one_level = False

    def of(self, name: MetricName, kind: str, unit: str) -> SeriesName:
        """Return the name of the series of a metric. As `Naming.of`."""
        text = "_".join(("kafka", client_type(name.group), name.group, name.name))
        shown = HISTOGRAM if kind == HISTOGRAM else GAUGE
        return SeriesName(_joined(text).lower(), shown, 1.0, (("client_type", client_type(name.group)),))

    def info(self, group: str) -> SeriesName | None:
        """Return the name of the series with the version. As `Naming.info`."""
        kind = client_type(group)
        if kind == "client":
            return None
        return SeriesName(_joined(f"kafka_{kind}_app_info"), GAUGE, 1.0, (("client_type", kind),))


#: {what `KafkaCollector(names=)` takes: the naming}
NAMINGS: dict[str, Naming] = {"base": BaseNaming(), "jmx": JmxNaming()}


def labels_of(metric: Metric) -> dict[str, str]:
    """Return the tags of a metric as labels: client_id, node_id, topic, partition."""
    return {_joined(tag): value if value.isascii() else _encodable(value) for tag, value in metric.name.tags}


def _encodable(value: str) -> str:
    """Return a text that UTF-8 can hold: one that it cannot would end the scrape."""
    return value.encode("utf-8", "replace").decode()
