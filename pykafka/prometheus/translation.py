"""`Translation`: turns the metrics of a client into families of series, with the labels that the application wants."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from prometheus_client.core import Metric as PrometheusMetric

from pykafka._version import __version__
from pykafka.metrics.catalog import catalog
from pykafka.metrics.metric import GAUGE, HISTOGRAM, Metric, MetricName
from pykafka.prometheus.families import MAX, MEAN, Families, Family, Labels, Value, merge_rule
from pykafka.prometheus.names import OF_WINDOW, Naming, SeriesName, labels_of

#: Metrics of partitions that say nothing of several partitions together: the id of a broker.
OF_ONE_PARTITION = frozenset({"preferred-read-replica"})
#: Groups with the version, which `Naming.info` has as a label.
INFO_GROUPS = frozenset({"app-info", "kafka-metrics-count"})

VERSION_TEXT = "the version of the client"


class Translation:
    """How the metrics of clients are shown.

    :param naming: gives the names
    :param left_out: labels that no series has: "topic", "partition"
    :param wanted: Java's names of the metrics that are shown; empty for all
    """

    def __init__(self, naming: Naming, left_out: frozenset[str], wanted: frozenset[str] = frozenset()) -> None:
        self._naming = naming
        self._left_out = left_out
        self._wanted = wanted

    def families(self, metrics: Iterable[Metric]) -> Families:
        """Return the families of a client's metrics."""
        levels: dict[tuple[str, str, str], dict[frozenset[str], list[Metric]]] = {}
        kinds: set[tuple[str, str]] = set()
        for metric in metrics:
            name, labels = metric.name, labels_of(metric)
            client_id = labels.get("client_id", "")
            kinds.add((name.group, client_id))
            if name.group not in INFO_GROUPS and (not self._wanted or name.name in self._wanted):
                of_name = levels.setdefault((name.group, name.name, client_id), {})
                of_name.setdefault(frozenset(labels), []).append(metric)
        families = Families()
        for of_name in levels.values():
            for shown in filter(None, self._shown(of_name)):
                self._add(families, shown)
        self._add_info(families, kinds)
        return families

    def described(self) -> Iterator[PrometheusMetric]:
        """Yield the families of all metrics that can exist, without values."""
        found: dict[str, PrometheusMetric] = {}
        for entry in catalog():
            info = self._naming.info(entry.group)
            if info is not None:
                found[info.text] = PrometheusMetric(info.text, VERSION_TEXT, GAUGE)
            if entry.group not in INFO_GROUPS and (not self._wanted or entry.name in self._wanted):
                name = self._naming.of(MetricName(entry.name, entry.group), entry.kind, entry.unit)
                found[name.text] = Family(name.kind, MAX, entry.description, (), {}).exposed(name.text)
        yield from found.values()

    def _shown(self, levels: dict[frozenset[str], list[Metric]]) -> list[list[Metric]]:
        """Return what is shown of the levels at which a client has a metric: of all topics, of topics, of partitions.

        With one level a name: the level with the most labels once those that are left out are gone; of two such, the one
        that loses fewer, as the client's own value is exact. Otherwise as Java: every level that loses no label.
        """
        if not self._naming.one_level:
            found = [metrics for labels, metrics in levels.items() if not labels & self._left_out]
            return [*found, *(_of_window(metrics) for metrics in found)]
        best = max(levels, key=lambda labels: (len(labels - self._left_out), -len(labels)))
        return [levels[best]]

    def _add(self, families: Families, metrics: list[Metric]) -> None:
        """Add the metrics of one name and one set of labels."""
        first = metrics[0]
        dropped = labels_of(first).keys() & self._left_out
        if dropped and first.name.name in OF_ONE_PARTITION:
            return
        name, rule = self._naming.of(first.name, first.kind, first.unit), merge_rule(first)
        bounds = () if first.buckets is None else tuple(bound / name.divisor for bound in first.buckets.bounds)
        family = Family(name.kind, rule, first.description or first.name.name, bounds, {})
        samples = [(self._labels(metric, name), _value(metric, name, rule)) for metric in metrics]
        if "topic" in dropped and first.left:  # else the sum would fall when a producer leaves topics
            samples.append((self._labels(first, name), first.left / name.divisor))
        families.add(name.text, family, samples)

    def _labels(self, metric: Metric, name: SeriesName) -> Labels:
        labels = labels_of(metric)
        for label in self._left_out:
            labels.pop(label, None)
        return _sorted(labels, name)

    def _add_info(self, families: Families, kinds: Iterable[tuple[str, str]]) -> None:
        for group, client_id in sorted(kinds):
            name = self._naming.info(group)
            if name is not None and group not in INFO_GROUPS:
                labels = _sorted({"client_id": client_id, "version": __version__}, name)
                families.add(name.text, Family(GAUGE, MAX, VERSION_TEXT, (), {}), [(labels, 1.0)])


def _of_window(metrics: Iterable[Metric]) -> list[Metric]:
    """Return metrics of partitions by the names under which Java has their windows: the client keeps none by partition."""
    return [
        metric._replace(name=metric.name._replace(name=OF_WINDOW[metric.name.name]))
        for metric in metrics
        if metric.name.name in OF_WINDOW and "partition" in labels_of(metric)
    ]


def _sorted(labels: dict[str, str], name: SeriesName) -> Labels:
    return tuple(sorted({**labels, **dict(name.labels)}.items()))


def _value(metric: Metric, name: SeriesName, rule: str) -> Value:
    if metric.kind == HISTOGRAM and metric.buckets is not None:
        return [*map(float, metric.buckets.counts), metric.buckets.total / name.divisor]
    value = metric.value / name.divisor
    return [value, 1.0] if rule == MEAN else value
