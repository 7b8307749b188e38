"""Which rows of the catalog of metrics have shown a value besides 0: then something counts what the row names."""

from __future__ import annotations

import math
from collections.abc import Collection

from pykafka.metrics.catalog import catalog
from pykafka.metrics.metric import Metrics


class Rows:
    """The rows of some groups that were 0, NaN or absent in all metrics so far.

    :param of_shares: whether those of share groups, which real brokers alone have; else all others
    """

    def __init__(self, of_shares: bool) -> None:
        self._left = {
            (entry.group, entry.name, frozenset(entry.tags))
            for entry in catalog()
            if entry.group.startswith("consumer-share-") == of_shares
        }

    def see(self, metrics: Metrics) -> None:
        """Strike out the rows that have a value."""
        for metric in metrics.values():
            if metric.value and not math.isnan(metric.value):
                name = metric.name
                self._left.discard((name.group, name.name, frozenset(tag for tag, _ in name.tags)))

    def left(self, may_be_zero: Collection[str] = ()) -> list[str]:
        """Return the rows that are left, as "group name tags".

        :param may_be_zero: names of others
        """
        return sorted(f"{group} {name} {sorted(tags)}" for group, name, tags in self._left if name not in may_be_zero)
