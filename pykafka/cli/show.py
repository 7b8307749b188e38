"""Output of data: tables for people, JSON for programs."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from enum import Enum
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TextIO

import click

from pykafka.cli.data import as_data

# Tables are loaded to be printed: JSON does without them, and without rich.
if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

    from pykafka.cli.sheet import Sheet

#: The width when the output is not a terminal: a line stays a line for grep and awk.
_NO_EDGE = 10_000


#: Where the context of a command that repeats (--watch) keeps its `Repetition`.
REPETITION = "pykafka.repetition"


Counter = float | Mapping[Hashable, float] | None


class Repetition(Protocol):
    """A command that repeats; see `pykafka.cli.watching.Watch`."""

    status: int

    def error(self, text: str) -> None: ...
    def console(self, out: Console) -> Console: ...
    def data(self, data: Any) -> dict[str, Any]: ...
    def rates(self, rows: Sequence[Any], rates: Rates) -> list[dict[str, float | None]]: ...


class Rates(NamedTuple):
    """The counters of a listing, for the columns "Produced/s" and the like of --watch.

    :param key: returns what identifies a row
    :param counters: returns the counters of a row by name; None for one that is not known. One of several parts is a mapping,
        and only parts that are known both times count
    """

    key: Callable[[Any], Hashable]
    counters: Callable[[Any], Mapping[str, Counter]]


def repetition() -> Repetition | None:
    """Return the repetition that the present command is part of; None without --watch."""
    ctx = click.get_current_context(silent=True)
    found: Repetition | None = None if ctx is None else ctx.meta.get(REPETITION)
    return found


def console(stream: TextIO | None = None) -> Console:
    """Return a console on a stream, by default the standard output; with --watch, for one repetition."""
    out = _console(sys.stdout if stream is None else stream)
    present = repetition() if stream is None else None
    return out if present is None else present.console(out)


def _console(file: TextIO) -> Console:
    from rich.console import Console

    if file.isatty():
        return Console(file=file, highlight=False, emoji=False)
    # With a height, too: without one, rich takes 80 columns if TERM=dumb and FORCE_COLOR are set, as CI does.
    return Console(file=file, highlight=False, emoji=False, width=_NO_EDGE, height=_NO_EDGE)


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


def styled(text: str, style: str = "") -> Text:
    """Return a text in a style of rich, whose brackets are no markup."""
    from rich.text import Text

    return Text(text, style=style)


def warned(value: Any, is_bad: object = True) -> Any:
    """Return a cell that is red if its value is bad."""
    return styled(cell(value), "red") if is_bad else value


def lagging(lag: int | None) -> Any:
    """Return a cell for a lag: yellow, unless it is 0."""
    return styled(cell(lag), "yellow") if lag else lag


def total_lag(lag: int) -> Text:
    """Return the line below the lag of partitions."""
    from rich.text import Text

    return Text.assemble("Total lag: ", Text(f"{lag:,}", style="yellow" if lag else ""), " messages.")


def table(columns: Sequence[str], rows: Iterable[Sequence[Any]], title: str | None = None) -> Sheet:
    """Return a table.

    :param columns: headings; "#" behind one marks numbers, "?" behind that a column that goes when the terminal is narrow
    :param rows: values in the order of the columns, or cells of `warned` and `lagging`
    """
    from rich.control import strip_control_codes
    from rich.text import Text

    from pykafka.cli.sheet import Column, Sheet

    cells = [[value if isinstance(value, Text) else strip_control_codes(cell(value)) for value in row] for row in rows]
    return Sheet([Column.of(name) for name in columns], cells, title)


def print_json(data: Any, one_line: bool = False) -> None:
    """Print data as JSON; with --watch in one line, with the time."""
    present = repetition()
    if present is not None:
        data, one_line = present.data(data), True
    click.echo(json.dumps(as_data(data), indent=None if one_line else 2, ensure_ascii=False))
