"""Output of data: tables for people, JSON for programs."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Sequence
from enum import Enum
from typing import Any, TextIO

import click
from rich.console import Console
from rich.text import Text

from pykafka.cli.listing import as_data
from pykafka.cli.sheet import Column, Sheet

#: The width when the output is not a terminal: a line stays a line for grep and awk.
_NO_EDGE = 10_000


def console(stream: TextIO | None = None) -> Console:
    """Return a console on a stream, by default the standard output."""
    file = sys.stdout if stream is None else stream
    if file.isatty():
        return Console(file=file, highlight=False)
    # With a height, too: without one, rich takes 80 columns if TERM=dumb and FORCE_COLOR are set, as CI does.
    return Console(file=file, highlight=False, width=_NO_EDGE, height=_NO_EDGE)


def error_console() -> Console:
    """Return a console on the standard error stream."""
    return console(sys.stderr)


def cell(value: Any) -> str:
    """Return a value as text: numbers with separators, "-" for None."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Enum):
        return value.name.lower().replace("_", " ") if isinstance(value, int) else str(value.value)
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:,.0f}" if value.is_integer() else f"{value:,}"
    if isinstance(value, (list, tuple)):
        return ", ".join(str(one) for one in value) or "-"
    return str(value)


def warned(value: Any, is_bad: object = True) -> Any:
    """Return a cell that is red if its value is bad."""
    return Text(cell(value), style="red") if is_bad else value


def lagging(lag: int | None) -> Any:
    """Return a cell for a lag: yellow, unless it is 0."""
    return Text(cell(lag), style="yellow") if lag else lag


def total_lag(lag: int) -> Text:
    """Return the line below the lag of partitions."""
    return Text.assemble("Total lag: ", Text(f"{lag:,}", style="yellow" if lag else ""), " messages.")


def table(columns: Sequence[str], rows: Iterable[Sequence[Any]], title: str | None = None) -> Sheet:
    """Return a table.

    :param columns: headings; "#" behind one marks numbers, "?" behind that a column that goes when the terminal is narrow
    :param rows: values in the order of the columns, or cells of `warned` and `lagging`
    """
    cells = [[value if isinstance(value, Text) else Text(cell(value)) for value in row] for row in rows]
    return Sheet([Column.of(name) for name in columns], cells, title)


def print_json(data: Any, one_line: bool = False) -> None:
    """Print data as JSON."""
    click.echo(json.dumps(as_data(data), indent=None if one_line else 2, ensure_ascii=False))
