# ruff: noqa: N802 - the names of methods are Spark's
"""Filter pushdown (Spark 4.1 and later): the partitions and offsets that remain to be read."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
)

from pykafka.spark.batch import KafkaBatchReader
from pykafka.spark.cluster import OffsetReader
from pykafka.spark.offsets import MAX_OFFSET, OffsetRange
from pykafka.utils import milliseconds

#: Columns that are never null: filters on them can be applied exactly.
_EXACT: dict[str, type] = {"topic": str, "partition": int, "offset": int}


@dataclass(frozen=True, slots=True)
class Wanted:
    """The remainder after filters.

    :param topics: names; None: all
    :param partitions: numbers; None: all
    :param first: the lowest offset
    :param end: behind the highest offset
    :param since_ms: skip records before the first one that is not older than this time; None: skip none
    """

    topics: frozenset[str] | None = None
    partitions: frozenset[int] | None = None
    first: int = 0
    end: int = MAX_OFFSET
    since_ms: int | None = None

    def under(self, one: Filter) -> tuple[Wanted, bool]:
        """Return the remainder after one more filter, and whether it is exactly the filter's result.

        A filter on the time does not: records are in the order of offsets, so the reader can only skip those before the first
        record of that time.
        """
        name = ".".join(getattr(one, "attribute", ()))
        if isinstance(one, IsNotNull):
            return self, name in _EXACT
        value: Any = getattr(one, "value", None)
        values = value if isinstance(one, In) else (value,)
        if name == "timestamp" and isinstance(value, datetime) and value.tzinfo is not None:
            if isinstance(one, EqualTo | GreaterThan | GreaterThanOrEqual):
                since = milliseconds(value)
                return replace(self, since_ms=max(since, self.since_ms or 0)), False
            return self, False
        kind = _EXACT.get(name)
        if kind is None or not values or not all(type(each) is kind for each in values):
            return self, False
        if name == "offset":
            return self._bounded(one, value)
        if not isinstance(one, EqualTo | In):
            return self, False
        known: frozenset[Any] | None = self.topics if name == "topic" else self.partitions
        left = frozenset(values) if known is None else known & frozenset(values)
        return (replace(self, topics=left) if name == "topic" else replace(self, partitions=left)), True

    def _bounded(self, one: Filter, value: Any) -> tuple[Wanted, bool]:
        bounds = _BOUNDS.get(type(one))
        if bounds is None:
            return self, False
        first, end = bounds(value)
        return replace(self, first=max(first, self.first), end=min(end, self.end)), True

    def of(self, ranges: Iterable[OffsetRange]) -> list[OffsetRange]:
        """Return the remainder of some ranges, without empty ones; it ignores the time."""
        cut = (
            OffsetRange(tp, max(start, self.first), min(end, self.end))
            for tp, start, end in ranges
            if (self.topics is None or tp.topic in self.topics)
            and (self.partitions is None or tp.partition in self.partitions)
        )
        return [one for one in cut if one.start < one.end]


_BOUNDS: dict[type, Callable[[int], tuple[int, int]]] = {
    EqualTo: lambda value: (value, value + 1),
    GreaterThan: lambda value: (value + 1, MAX_OFFSET),
    GreaterThanOrEqual: lambda value: (value, MAX_OFFSET),
    LessThan: lambda value: (0, value),
    LessThanOrEqual: lambda value: (0, value + 1),
}


class FilteringBatchReader(KafkaBatchReader):
    """A batch reader that reads only what Spark's filters may accept.

    A class of its own, as Spark refuses every reader that has `pushFilters` while filters must not be pushed down.
    """

    _wanted = Wanted()

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        """Accept filters on topic, partition, offset and timestamp; return those that Spark must still apply."""
        left = []
        for one in filters:
            self._wanted, exact = self._wanted.under(one)
            if not exact:
                left.append(one)
        return left

    def _narrowed(self, ranges: list[OffsetRange], offsets: OffsetReader) -> list[OffsetRange]:
        ranges = self._wanted.of(ranges)
        if self._wanted.since_ms is None:
            return ranges
        first = offsets.since({one.tp for one in ranges}, self._wanted.since_ms)
        cut = (OffsetRange(tp, max(start, first[tp]), end) for tp, start, end in ranges)
        return [one for one in cut if one.start < one.end]
