"""All metrics that a client can have, with values made up."""

from __future__ import annotations

from collections.abc import Iterator

from pykafka.metrics.catalog import catalog
from pykafka.metrics.metric import HISTOGRAM, Buckets, Metric
from tests.support.some_metrics import HasSome, metric

#: {tag: its values}
VALUES = {"topic": ("orders", "payments"), "partition": ("0", "1"), "node-id": ("1", "2"), "api": ("Fetch", "Produce")}
BUCKETS = Buckets((1.0, 10.0, 100.0), (1, 2, 3, 4), 500.0)


def _combinations(tags: list[str]) -> Iterator[dict[str, str]]:
    if not tags:
        yield {}
        return
    for value in VALUES.get(tags[0], ("1",)):
        for others in _combinations(tags[1:]):
            yield {tags[0].replace("-", "_"): value, **others}


def made_metrics() -> list[Metric]:
    """Return all metrics of the client "c", for two topics of two partitions on two brokers."""
    return [
        metric(
            entry.group,
            entry.name,
            number,
            entry.kind,
            entry.unit,
            BUCKETS if entry.kind == HISTOGRAM else None,
            **labels,
        )
        for number, entry in enumerate(catalog())
        for labels in _combinations([tag for tag in entry.tags if tag != "client-id"])
    ]


def full_client() -> HasSome:
    """Return something with all metrics that a client can have."""
    return HasSome(*made_metrics())
