"""Write the tables of docs/metrics.md: which of Java's metrics are here, why the others are not, and what Java lacks.

    python -m tools.metric_table           # write them anew
    python -m tools.metric_table --check   # fail when they are out of date; `make lint` does this

Java's metrics are those of tests/data/java-client-metrics.tsv, ours those of `pykafka.metrics.catalog`. Each metric of Java's
is in one of `catalog()` and `ABSENT`: this fails when one is in neither.
"""

from __future__ import annotations

import csv
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from pykafka.metrics.catalog import ABSENT, Entry, catalog
from pykafka.metrics.metric import MetricName
from pykafka.prometheus.names import NAMINGS
from pykafka.prometheus.translation import INFO_GROUPS

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "metrics.md"
JAVA = ROOT / "tests" / "data" / "java-client-metrics.tsv"
BEGIN = "<!-- metrics: python -m tools.metric_table writes this -->"
END = "<!-- end of metrics -->"
HEAD = ["| metric | tags | unit | in Prometheus | what it is |", "|---|---|---|---|---|"]


class Row(NamedTuple):
    """A metric of Java's clients.

    :param client: producer, consumer-classic, consumer-consumer, share or admin
    :param tags: sorted
    """

    client: str
    group: str
    name: str
    tags: tuple[str, ...]


def java_rows() -> list[Row]:
    """Return all metrics that Java's clients have."""
    rows = csv.reader(JAVA.read_text().splitlines(), delimiter="\t")
    return [Row(client, group, name, _sorted(tags.strip("[]").split(", "))) for client, group, name, tags in rows]


def _sorted(tags: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted(tags))


def reason(row: Row, absent: Mapping[str, str]) -> str | None:
    """Return why a metric is not here: by its name, its beginning, or its end; None if there is no reason."""
    if row.name in absent:
        return absent[row.name]
    fits = (key for key in absent if row.name.startswith(f"{key}-") or row.name.endswith(f"-{key}"))
    return next((absent[key] for key in fits), None)


def _tags(tags: Iterable[str]) -> str:
    return ", ".join(tag for tag in tags if tag != "client-id")


def _line(entry: Entry) -> str:
    series = NAMINGS["base"].of(MetricName(entry.name, entry.group), entry.kind, entry.unit).text
    shown = "`kafka_client_info`" if entry.group in INFO_GROUPS else f"`{series}`"
    return f"| `{entry.name}` | {_tags(entry.tags)} | {entry.unit} | {shown} | {entry.description} |"


def java_tables(entries: Iterable[Entry], absent: Mapping[str, str]) -> str:
    """Return the tables of Java's metrics, a group each.

    :raises SystemExit: a metric of Java's is neither here nor absent for a reason
    """
    known = {(entry.group, entry.name, _sorted(entry.tags)): entry for entry in entries if entry.java}
    groups: dict[str, dict[str, None]] = {}
    here, missing = 0, []
    for row in java_rows():
        entry = known.get(row[1:])
        why = reason(row, absent)
        if entry is not None:
            here += 1
            line = _line(entry)
        elif why is not None:
            line = f"| `{row.name}` | {_tags(row.tags)} | | | not here: {why} |"
        else:
            missing.append(f"{row.group} {row.name} {_tags(row.tags)}")
            continue
        groups.setdefault(row.group, {})[line] = None
    if missing:
        sys.exit("metric_table: neither in catalog() nor in ABSENT: " + "; ".join(sorted(set(missing))))
    rows = len(java_rows())
    lines = [
        f"Java's clients have {rows} metrics, each client's counted. {here} of them are here, {rows - here} are not.",
        "",
    ]
    for group, table in sorted(groups.items()):
        lines += [f"### {group}", "", *HEAD, *table, ""]
    return "\n".join(lines)


def own_table(entries: Iterable[Entry]) -> str:
    """Return the table of the metrics that Java lacks."""
    groups: dict[str, list[str]] = {}
    for entry in entries:
        if not entry.java:
            groups.setdefault(entry.group, []).append(_line(entry))
    lines: list[str] = []
    for group, table in sorted(groups.items()):
        lines += [f"### {group}: not in Java", "", *HEAD, *table, ""]
    return "\n".join(lines)


def page() -> str:
    """Return the page with new tables.

    :raises SystemExit: it lacks the lines that they stand between
    """
    text = PAGE.read_text()
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    if not rest or not after:
        sys.exit(f"metric_table: {PAGE.name} lacks the lines that the tables stand between: {BEGIN} and {END}")
    tables = f"## What Java lacks\n\n{own_table(catalog())}\n## Java's metrics\n\n{java_tables(catalog(), ABSENT)}"
    return f"{before}{BEGIN}\n\n{tables}\n{END}{after}"


def main(argv: list[str]) -> None:
    """Write the tables, or compare them."""
    made = page()
    if "--check" not in argv:
        PAGE.write_text(made)
    elif made != PAGE.read_text():
        sys.exit(
            f"metric_table: the tables of {PAGE.name} are out of date: python -m tools.metric_table writes them anew"
        )


if __name__ == "__main__":
    main(sys.argv[1:])
