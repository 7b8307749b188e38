"""Output of data: tables for people, JSON for programs."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Sequence
from enum import Enum
from typing import Any, TextIO

import click
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from pykafka.cli.listing import as_data

#: The width when the output is not a terminal: a line stays a line for grep and awk.
_NO_EDGE = 10_000


def console(stream: TextIO | None = None) -> Console:
    """Return a console on a stream, by default the standard output."""
    file = sys.stdout if stream is None else stream
    return Console(file=file, highlight=False, width=None if file.isatty() else _NO_EDGE)


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


def table(columns: Sequence[str], rows: Iterable[Sequence[Any]], title: str | None = None) -> Table:
    """Return a table.

    :param columns: headings; those that end in "#" are for numbers
    :param rows: values in the order of the columns
    """
    made = Table(
        title=title, box=box.SIMPLE_HEAD, title_justify="left", title_style="bold", show_edge=False, pad_edge=False
    )
    for name in columns:
        made.add_column(name.rstrip("#"), justify="right" if name.endswith("#") else "left", no_wrap=True)
    for row in rows:
        made.add_row(*(Text(cell(value)) for value in row))
    return made


def print_json(data: Any, one_line: bool = False) -> None:
    """Print data as JSON."""
    click.echo(json.dumps(as_data(data), indent=None if one_line else 2, ensure_ascii=False))
