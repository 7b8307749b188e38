"""Compare the results with the CSV, counted independently with pandas: every flight once, every aggregate equal."""

from __future__ import annotations

import signal
import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pandas as pd

from examples.flights import data
from examples.flights.job import ALERT_MINUTES, Job
from examples.flights.topics import TopicIncompleteError, read_json
from pykafka import KafkaException

Row = dict[str, Any]
Table = dict[tuple[Any, ...], tuple[Any, ...]]

#: The columns that identify a flight: no carrier has two flights of a number in the same hour.
IDENTITY = ("carrier", "flight", "time_hour", "origin")
MONTH = ("origin", "carrier", "month")
WEATHER = ("wind", "visibility")
MEASURES = ("flights", "without_delay", "without_weather", "delay_minutes", "mean_delay")
#: Differences to show of each kind.
SHOWN = 5


def main() -> int:
    """Check, and print the result of each check."""
    job = Job.from_command_line(__doc__)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    truth = load_truth(job.limit)
    try:
        with job.client() as client:
            delays = list(read_json(client, job.delays))
            alerts = list(read_json(client, job.alerts))
    except (KafkaException, TopicIncompleteError) as error:
        print(f"check: {error}", file=sys.stderr)
        return 1
    landed = pd.read_parquet(job.landed)
    checks = {
        f"{len(truth):,} flights, each landed once": compare_flights(truth, landed),
        "delays by origin, carrier and month": compare(expected(truth, MONTH), received(delays, "month", MONTH)),
        "delays by wind and visibility": compare(expected(truth, WEATHER), received(delays, "weather", WEATHER)),
        f"alerts of flights over {ALERT_MINUTES} minutes late": compare_alerts(truth, alerts),
    }
    for name, differences in checks.items():
        print(f"  {'WRONG' if differences else 'right'}: {name}")
        for line in differences[:SHOWN]:
            print(f"    {line}")
        if differences[SHOWN:]:
            print(f"    ... and {len(differences) - SHOWN} more")
    print(f"  {summary(truth)}", flush=True)
    return 1 if any(checks.values()) else 0


def load_truth(limit: int | None) -> pd.DataFrame:
    """Return the flights of the CSV files, each with the weather of its origin and hour."""
    flights = pd.read_csv(data.directory() / "flights.csv.zip", nrows=limit)
    columns = ["origin", "time_hour", "wind_speed", "visib"]
    # Read as text: not every version of pandas reads a fraction to its last bit.
    texts = pd.read_csv(data.directory() / "weather.csv", usecols=columns, dtype=str)
    weather = texts.astype({"wind_speed": float, "visib": float})
    truth = flights.merge(weather, on=["origin", "time_hour"], how="left", validate="m:1", indicator="found")
    truth["wind"] = (truth.wind_speed // 5 * 5).clip(upper=40)
    truth["visibility"] = truth.visib // 1
    truth["without_weather"] = truth.found == "left_only"
    return truth


def summary(truth: pd.DataFrame) -> str:
    """Return a line about the flights with missing data."""
    return (
        f"counted, not lost: {truth.without_weather.sum():,} flights without weather, "
        f"{truth.dep_delay.isna().sum():,} that never left"
    )


def plain(value: Any) -> Any:
    """Return a value as in JSON: None for unknown, whole numbers as int."""
    if pd.isna(value):
        return None
    return int(value) if isinstance(value, float) and value.is_integer() else value


def expected(truth: pd.DataFrame, names: Sequence[str]) -> Table:
    """Return the counts and sums that Spark should have computed."""
    groups = truth.groupby(list(names), dropna=False)
    table = {}
    for key, own in groups:
        left = own.dep_delay.dropna()
        minutes = int(left.sum())
        mean = minutes / len(left) if len(left) else None
        found = (len(own), len(own) - len(left), int(own.without_weather.sum()), minutes, mean)
        table[tuple(plain(value) for value in key)] = found
    return table


def received(rows: Iterable[Row], table: str, names: Sequence[str]) -> list[tuple[tuple[Any, ...], tuple[Any, ...]]]:
    """Return key and measures of the messages of one table."""
    own = [row for row in rows if row["table"] == table]
    return [(tuple(row[name] for name in names), tuple(row[name] for name in MEASURES)) for row in own]


def compare(wanted: Mapping[Any, Any], got: Sequence[tuple[Any, Any]]) -> list[str]:
    """Return a line for each key that is missing, unexpected, there twice or has another value."""
    counts = Counter(key for key, _ in got)
    lines = [f"{key} is there {count} times" for key, count in counts.items() if count > 1]
    lines += [f"{key} is missing" for key in wanted if key not in counts]
    for key, value in got:
        if key not in wanted:
            lines.append(f"{key} should not be there")
        elif wanted[key] != value:
            lines.append(f"{key} is {value}, and should be {wanted[key]}")
    return lines


def compare_flights(truth: pd.DataFrame, landed: pd.DataFrame) -> list[str]:
    """Compare the flights that landed, one by one, with their delay and weather."""
    hours = landed.time_hour.dt.tz_convert("UTC") if landed.time_hour.dt.tz is not None else landed.time_hour
    landed = landed.assign(time_hour=hours.dt.strftime("%Y-%m-%dT%H:%M:%SZ"), without_weather=~landed.has_weather)
    names = ("dep_delay", "wind_speed", "visib", "without_weather")
    return compare(dict(identified(truth, names)), identified(landed, names))


def compare_alerts(truth: pd.DataFrame, alerts: Iterable[Row]) -> list[str]:
    """Compare the alerts; one that a retry wrote twice, as a streaming sink may, counts once."""
    late = truth[truth.dep_delay > ALERT_MINUTES]
    wanted = dict(identified(late, ("dest", "dep_delay")))
    rows = map(as_hour, alerts)
    got = {tuple(row[name] for name in IDENTITY): (row["dest"], row["dep_delay"]) for row in rows}
    return compare(wanted, list(got.items()))


def as_hour(alert: Row) -> Row:
    """Return an alert with the hour as in the CSV."""
    return {**alert, "time_hour": pd.Timestamp(alert["time_hour"]).strftime("%Y-%m-%dT%H:%M:%SZ")}


def identified(frame: pd.DataFrame, names: Sequence[str]) -> list[tuple[tuple[Any, ...], tuple[Any, ...]]]:
    """Return each flight's identity, and its values to compare."""
    columns = [[plain(value) for value in frame[name]] for name in (*IDENTITY, *names)]
    return [(row[: len(IDENTITY)], row[len(IDENTITY) :]) for row in zip(*columns, strict=True)]


if __name__ == "__main__":
    raise SystemExit(main())
