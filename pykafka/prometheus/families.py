"""`Families`: series with their values, which are merged: of partitions, of clients with one id, of processes."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable, Iterator
from typing import Any, NamedTuple

from prometheus_client.core import Metric as PrometheusMetric

from pykafka.metrics.metric import COUNTER, GAUGE, HISTOGRAM, Metric

#: ((label, value), ...), sorted.
Labels = tuple[tuple[str, str], ...]
#: How values become one: added, and kept when their client has ended; added; the largest; the smallest; their mean.
TOTAL, SUM, MAX, MIN, MEAN = "total", "sum", "max", "min", "mean"
#: The name of a series, and its labels.
Key = tuple[str, Labels]
#: A mean is (sum, count); a histogram the counts of its buckets, and then the sum of all values.
Value = float | list[float]
_NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")


def merge_rule(metric: Metric) -> str:
    """Return how values of a metric become one."""
    words = set(metric.name.name.split("-"))
    if metric.kind in (COUNTER, HISTOGRAM):
        return TOTAL
    if metric.unit == "ratio" or words & {"avg", "ratio"}:
        return MEAN
    if "sum" in words:
        return SUM
    if words & {"min", "lead", "reachable"}:
        return MIN
    if words & {"max", "lag", "ago", "age"} or metric.unit in ("s", "ms", "us", "ns"):
        return MAX
    return SUM  # what is there, and rates


def _added(one: list[float], other: list[float]) -> list[float]:
    return [left + right for left, right in zip(one, other, strict=True)]


def _merged(rule: str, one: Value, other: Value) -> Value:
    if isinstance(one, list) or isinstance(other, list):
        if not isinstance(one, list) or not isinstance(other, list) or math.isnan(other[0]):
            return one
        return other if math.isnan(one[0]) else _added(one, other)
    if math.isnan(other):
        return one
    if math.isnan(one):
        return other
    if rule in (MAX, MIN):
        return max(one, other) if rule == MAX else min(one, other)
    return one + other


class Family(NamedTuple):
    """The series of one name.

    :param kind: GAUGE, COUNTER or HISTOGRAM
    :param rule: how values become one, see `merge_rule`
    :param text: the description
    :param bounds: of a histogram's buckets
    :param samples: {labels: value}
    """

    kind: str
    rule: str
    text: str
    bounds: tuple[float, ...]
    samples: dict[Labels, Value]

    @property
    def shape(self) -> tuple[object, ...]:
        """Values can be merged only if they have this in common."""
        return self.kind, self.rule, self.bounds

    def add(self, labels: Labels, value: Value) -> None:
        """Merge a value into those with the same labels."""
        known = self.samples.get(labels)
        self.samples[labels] = value if known is None else _merged(self.rule, known, value)

    def exposed(self, name: str) -> PrometheusMetric:
        """Return the family for prometheus_client."""
        shown = PrometheusMetric(name.removesuffix("_total") if self.kind == COUNTER else name, self.text, self.kind)
        for labels, value in self.samples.items():
            if self.kind == HISTOGRAM and isinstance(value, list):
                self._expose_buckets(shown, name, dict(labels), value)
            else:
                single = value[0] / value[1] if isinstance(value, list) else value
                shown.add_sample(name, dict(labels), single)
        return shown

    def _expose_buckets(self, shown: PrometheusMetric, name: str, labels: dict[str, str], value: list[float]) -> None:
        count = 0.0
        for bound, within in zip((*self.bounds, math.inf), value[:-1], strict=True):
            count += within
            shown.add_sample(
                f"{name}_bucket", {**labels, "le": "+Inf" if bound == math.inf else str(float(bound))}, count
            )
        shown.add_sample(f"{name}_count", labels, count)
        shown.add_sample(f"{name}_sum", labels, value[-1])


class Families:
    """The families of one moment, by name.

    :param families: {name: family}
    """

    def __init__(self, families: dict[str, Family] | None = None) -> None:
        self._by_name = {} if families is None else families

    def __iter__(self) -> Iterator[tuple[str, Family]]:
        return iter(sorted(self._by_name.items()))

    def labels(self, name: str) -> Collection[Labels]:
        """Return the labels of all samples of a name."""
        known = self._by_name.get(name)
        return () if known is None else known.samples.keys()

    def add(self, name: str, family: Family, samples: Iterable[tuple[Labels, Value]]) -> None:
        """Merge values into those of a name, unless its kind, its rule or its bounds differ: those of another release.

        :param family: how the family is, if there is none of the name; its samples do not count
        """
        known = self._by_name.get(name)
        if known is None:
            known = self._by_name[name] = family._replace(samples={})
        if known.shape == family.shape:
            for labels, value in samples:
                known.add(labels, value)

    def merge(self, others: Families) -> None:
        """Merge other families into these."""
        for name, family in others._by_name.items():
            self.add(name, family, family.samples.items())

    def counters(self) -> Families:
        """Return what holds when its process or client has ended: totals and histograms."""
        return Families({name: family for name, family in self._by_name.items() if family.rule == TOTAL})

    def keys(self) -> set[Key]:
        """Return name and labels of all series."""
        return {(name, labels) for name, family in self._by_name.items() for labels in family.samples}

    def without(self, keys: Collection[Key]) -> Families:
        """Return the families without some series."""
        names = {name for name, _ in keys}
        return Families(
            {
                name: family._replace(
                    samples={labels: value for labels, value in family.samples.items() if (name, labels) not in keys}
                )
                if name in names
                else family
                for name, family in self._by_name.items()
            }
        )

    def without_counters(self) -> Families:
        """Return all but `counters()`."""
        return Families({name: family for name, family in self._by_name.items() if family.rule != TOTAL})

    def without_samples(self) -> Families:
        """Return the families alone: only values of the same shape can be merged into them."""
        return Families({name: family._replace(samples={}) for name, family in self._by_name.items()})

    def plain(self) -> dict[str, Any]:
        """Return the families as JSON can hold them."""
        return {
            name: [family.kind, family.rule, family.text, family.bounds, list(family.samples.items())]
            for name, family in self._by_name.items()
        }

    @classmethod
    def of_plain(cls, plain: Any) -> Families:
        """Return the families that `plain` has returned.

        :raises ValueError: it has not returned this
        """
        try:
            return cls({_checked(name): cls._family(*fields) for name, fields in plain.items()})
        except (TypeError, AttributeError, OverflowError) as error:
            raise ValueError(f"these are no families: {error}") from error

    @staticmethod
    def _family(kind: str, rule: str, text: str, bounds: list[float], samples: list[Any]) -> Family:
        if kind not in (GAUGE, COUNTER, HISTOGRAM) or rule not in (TOTAL, SUM, MAX, MIN, MEAN):
            raise ValueError(f"there is no kind {kind!r} or rule {rule!r}")
        family = Family(kind, rule, str(text), tuple(map(float, bounds)), {})
        parts = len(family.bounds) + 2 if kind == HISTOGRAM else 2 if rule == MEAN else 0
        for labels, value in samples:
            key = tuple((_checked(label), str(of)) for label, of in labels)
            if not parts:
                family.samples[key] = float(value)
            elif len(value) == parts and (kind == HISTOGRAM or value[1] > 0):
                family.samples[key] = [float(one) for one in value]
            else:
                raise ValueError(f"these are not {parts} values: {value}")
        return family


def _checked(name: str) -> str:
    """Return the name of a series or a label, if it is one."""
    if not _NAME.fullmatch(name):
        raise ValueError(f"{name!r} is no name")
    return name
