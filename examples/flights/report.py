"""A threaded script: read the delays from their topic, print tables, and plot delay against weather."""

from __future__ import annotations

import signal
import sys
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import matplotlib as mpl
from rich.console import Console
from rich.table import Table

from examples.flights.job import Job
from examples.flights.topics import TopicIncompleteError, read_json
from pykafka import KafkaException

Row = dict[str, Any]

AIRPORTS = ("EWR", "JFK", "LGA")
#: A mean of fewer flights says nothing.
FEW_FLIGHTS = 50


def main() -> int:
    """Read, print, plot."""
    job = Job.from_command_line(__doc__)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    try:
        with job.client() as client:
            rows = list(read_json(client, job.delays))
    except (KafkaException, TopicIncompleteError) as error:
        print(f"report: {error}", file=sys.stderr)
        return 1
    by_month = [row for row in rows if row["table"] == "month"]
    by_weather = [row for row in rows if row["table"] == "weather"]
    console = Console()
    console.print(carrier_table(by_month))
    console.print(weather_table(by_weather))
    plot(by_weather, job.plot)
    return 0


def mean(rows: Iterable[Row]) -> float | None:
    """Return the mean delay of the flights that left, over several aggregates; None if none left."""
    total = left = 0
    for row in rows:
        total += row["delay_minutes"]
        left += row["flights"] - row["without_delay"]
    return total / left if left else None


def grouped(rows: Iterable[Row], *names: str) -> dict[tuple[Any, ...], list[Row]]:
    """Group rows with the same values under these names, in the order of the values."""
    groups = defaultdict(list)
    for row in rows:
        groups[tuple(row[name] for name in names)].append(row)
    return dict(sorted(groups.items(), key=lambda item: [(value is None, value) for value in item[0]]))


def carrier_table(rows: list[Row]) -> Table:
    """Return the table of the carriers: all flights of the year, and the mean delay at each airport."""
    table = Table("carrier", title="Departure delay by carrier (minutes)")
    for name in ("flights", "did not leave", "mean", *AIRPORTS):
        table.add_column(name, justify="right")
    for (carrier,), own in grouped(rows, "carrier").items():
        at_airports = (minutes(mean(row for row in own if row["origin"] == airport)) for airport in AIRPORTS)
        table.add_row(carrier, total(own, "flights"), total(own, "without_delay"), minutes(mean(own)), *at_airports)
    table.add_section()
    table.add_row("all", total(rows, "flights"), total(rows, "without_delay"), minutes(mean(rows)))
    return table


def weather_table(rows: list[Row]) -> Table:
    """Return the table of the winds: flights and the mean delay, with good and bad visibility."""
    table = Table("wind (mph)", title="Departure delay by wind and visibility (minutes)")
    for name in ("flights", "did not leave", "10 miles", "3 to 9 miles", "below 3 miles"):
        table.add_column(name, justify="right")
    for (wind,), own in grouped(rows, "wind").items():
        views = [
            [row for row in own if row["visibility"] is not None and low <= row["visibility"] <= high]
            for low, high in ((10, 10), (3, 9), (0, 2))
        ]
        name = "unknown" if wind is None else f"from {wind}"
        means = (minutes(mean(view)) for view in views)
        table.add_row(name, total(own, "flights"), total(own, "without_delay"), *means)
    table.add_section()
    table.add_row("all", total(rows, "flights"), total(rows, "without_delay"))
    table.caption = f"{total(rows, 'without_weather')} of them in hours without weather data"
    return table


def minutes(value: float | None) -> str:
    """Return a delay as the tables show it."""
    return "-" if value is None else f"{value:.1f}"


def total(rows: Iterable[Row], name: str) -> str:
    """Return the sum of a count over several aggregates as the tables show it."""
    return f"{sum(row[name] for row in rows):,}"


def plot(rows: list[Row], path: Path) -> None:
    """Save the plot of delay against weather, one half by wind, one by visibility."""
    mpl.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(1, 2, figsize=(10, 4), sharey=True, layout="constrained")
    halves = (("wind", "wind speed (mph, in bands of 5)"), ("visibility", "visibility (miles, rounded down)"))
    for axis, (name, label) in zip(axes, halves, strict=True):
        points = [
            (str(value), average)
            for (value,), own in grouped(rows, name).items()
            if value is not None
            and sum(row["flights"] for row in own) >= FEW_FLIGHTS
            and (average := mean(own)) is not None
        ]
        axis.bar([point[0] for point in points], [point[1] for point in points])
        axis.set_xlabel(label)
    axes[0].set_ylabel("mean departure delay (minutes)")
    figure.suptitle("Flights out of New York, 2013: departure delay against the weather at the airport")
    figure.savefig(path, dpi=120)
    pyplot.close(figure)


if __name__ == "__main__":
    raise SystemExit(main())
