"""All metrics of Java's clients with values made up, in Java's units."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path

from pykafka.metrics.metric import COUNTER, GAUGE, Metric
from tests.support.some_metrics import HasSome, metric

#: Client, group, name and tags of each metric that Java's clients 4.4.0 have while they run.
JAVA = Path(__file__).resolve().parents[1] / "data" / "java-client-metrics.tsv"
#: {a part of a name: unit}; the first that fits counts.
UNITS = {
    "-rate-per-hour": "1/h",
    "compression-rate": "ratio",
    "-ratio": "ratio",
    "-rate": "1/s",
    "-ns-": "ns",
    "-ago": "s",
    "metadata-age": "s",
    "latency": "ms",
    "throttle-time": "ms",
    "queue-time": "ms",
    "between-poll": "ms",
    "response-time": "ms",
    "-ms": "ms",
    "byte": "bytes",
    "-size": "bytes",
}
VALUES = {"topic": ("orders", "payments"), "partition": ("0", "1"), "node-id": ("1", "2")}


def rows() -> list[tuple[str, str, str, tuple[str, ...]]]:
    """Return (client, group, name, tags) of each metric of Java's clients."""
    found = csv.reader(JAVA.read_text().splitlines(), delimiter="\t")
    return [(client, group, name, tuple(tags.strip("[]").split(", "))) for client, group, name, tags in found]


def unit(name: str) -> str:
    """Return the unit of a metric, as its description has it."""
    return next((of for part, of in UNITS.items() if part in name), "")


def _combinations(tags: list[str]) -> Iterator[dict[str, str]]:
    if not tags:
        yield {}
        return
    for value in VALUES.get(tags[0], ("1",)):
        for others in _combinations(tags[1:]):
            yield {tags[0].replace("-", "_"): value, **others}


def made_metrics() -> list[Metric]:
    """Return all metrics of Java's clients, of the client "c", for two topics of two partitions on two brokers."""
    found = {}
    for number, (_, group, name, tags) in enumerate(rows()):
        kind = COUNTER if name.endswith("-total") else GAUGE
        for labels in _combinations([tag for tag in tags if tag != "client-id"]):
            made = metric(group, name, number, kind, unit(name), None, **labels)
            found[made.name] = made
    return list(found.values())


def java_client() -> HasSome:
    """Return something with the metrics of all of Java's clients."""
    return HasSome(*made_metrics())
