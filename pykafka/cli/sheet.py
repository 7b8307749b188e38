"""`Sheet`: a table that cuts nothing: columns that matter less go, or its rows break, when the terminal is narrow."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, JustifyMethod, RenderResult
from rich.segment import Segment
from rich.style import Style
from rich.text import Text

if TYPE_CHECKING:
    from rich.table import Table

#: Columns stand so far apart.
_GAP = 3
#: A column of words gets no narrower than this.
_NARROWEST = 12


#: A cell: a text, or one with a style of its own.
Cell = str | Text


class Column(NamedTuple):
    """A column.

    :param name: its heading
    :param is_number: aligned to the right
    :param is_optional: left out when the table is too wide
    """

    name: str
    is_number: bool
    is_optional: bool

    @classmethod
    def of(cls, heading: str) -> Column:
        """Return the column of a heading; "#" behind it marks numbers, "?" behind that an optional column."""
        name = heading.removesuffix("?")
        return cls(name.removesuffix("#"), name.endswith("#"), heading.endswith("?"))


class Sheet:
    """A table for the width of a terminal.

    What does not fit is never cut. First, cells of several words break between these; then optional columns go, the last
    one first; then the first cell of each row stands above the others; then each cell has a line of its own.

    :param columns: of the table
    :param rows: a cell for each column
    :param title: above the table
    """

    def __init__(self, columns: Sequence[Column], rows: Sequence[Sequence[Cell]], title: str | None = None) -> None:
        self._columns = columns
        self._rows = rows
        self._title = title
        self._known: dict[tuple[int, bool], int] = {}

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield the table as wide as the terminal at most."""
        room = options.max_width
        for left in self._choices():
            widths = self._widths(left, room)
            if widths is not None:
                yield from self._lines(left, widths, console)
                yield from self._gone(left)
                return
        for left in self._choices():
            lines = self._broken(left, room)
            if lines:
                yield from lines
                yield from self._gone(left)
                return
        yield from self._in_lines()

    def _choices(self) -> Iterator[list[int]]:
        """Yield the indexes of all columns, then without the last optional one, and so on."""
        left = list(range(len(self._columns)))
        yield left
        for index in reversed(range(len(self._columns))):
            if self._columns[index].is_optional:
                left = [one for one in left if one != index]
                yield left

    def _gone(self, left: Sequence[int]) -> Iterator[Text]:
        gone = [column.name for index, column in enumerate(self._columns) if index not in left]
        if gone:
            yield Text(f"Not shown here, for want of room: {', '.join(gone)}", style="dim")

    def _widths(self, left: Sequence[int], room: int) -> list[int] | None:
        """Return the widths of columns; None: they do not fit.

        :param left: indexes of the columns
        """
        wide = [self._measured(index, whole=True) for index in left]
        least = [min(self._measured(index, whole=False), width) for index, width in zip(left, wide, strict=True)]
        spare = room - _GAP * (len(left) - 1) - sum(least)
        if spare < 0:
            return None
        for place in sorted(range(len(left)), key=lambda place: wide[place] - least[place]):
            more = min(wide[place] - least[place], spare)
            least[place] += more
            spare -= more
        return least

    def _measured(self, index: int, whole: bool) -> int:
        """Return the width of a column: of whole cells, or of their longest words."""
        known = self._known.get((index, whole))
        if known is None:
            known = self._known[index, whole] = self._measure(index, whole)
        return known

    def _measure(self, index: int, whole: bool) -> int:
        column = self._columns[index]
        texts = [column.name, *(_plain(row[index]) for row in self._rows)]
        if whole or column.is_number:
            return max(map(_width, texts))
        return max(_NARROWEST, *(_width(word) for text in texts for word in text.split() or [""]))

    def _lines(self, left: Sequence[int], widths: Sequence[int], console: Console) -> RenderResult:
        """Yield a table; if no cell of it breaks, without rich's own, which takes half a millisecond for each row."""
        breaks = any(width < self._measured(index, whole=True) for index, width in zip(left, widths, strict=True))
        if breaks or self._title is not None or any(_is_special(cell) for row in self._rows for cell in row):
            yield self._table(left, widths)
            return
        bold = Style(bold=True)
        yield from self._segments([Text(column.name, bold) for column in self._columns], left, widths, console)
        yield Segment("─" * (sum(widths) + _GAP * (len(widths) - 1)))
        yield Segment.line()
        for row in self._rows:
            yield from self._segments(row, left, widths, console)

    def _segments(
        self, row: Sequence[Cell], left: Sequence[int], widths: Sequence[int], console: Console
    ) -> Iterator[Segment]:
        before = ""
        for place, (index, width) in enumerate(zip(left, widths, strict=True)):
            cell = row[index]
            plain = _plain(cell)
            space = " " * (width - _width(plain))
            if self._columns[index].is_number:
                before, space = before + space, ""
            elif place == len(left) - 1:
                space = ""
            if isinstance(cell, str) or not cell.style:
                before += plain
            else:
                yield Segment(before)
                yield Segment(plain, console.get_style(cell.style))
                before = ""
            before += space + (" " * _GAP if place < len(left) - 1 else "\n")
        yield Segment(before)

    def _table(self, left: Sequence[int], widths: Sequence[int]) -> Table:
        from rich import box
        from rich.table import Table

        made = Table(
            title=self._title,
            box=box.SIMPLE_HEAD,
            title_justify="left",
            title_style="bold",
            show_edge=False,
            pad_edge=False,
        )
        for index, width in zip(left, widths, strict=True):
            column = self._columns[index]
            whole = width >= self._measured(index, whole=True)
            justify: JustifyMethod = "right" if column.is_number else "left"
            made.add_column(column.name, justify=justify, width=width, no_wrap=whole, overflow="fold")
        for row in self._rows:
            made.add_row(*(row[index] for index in left))
        return made

    def _broken(self, left: Sequence[int], room: int) -> list[Text]:
        """Return the lines of a table whose rows have their first cell above the others; none if it does not fit."""
        lead, *others = left
        widths = [self._measured(index, whole=True) for index in others]
        if max(sum(widths) + _GAP * len(widths) - 1, self._measured(lead, whole=True)) > room:
            return []
        headings = [Text(column.name, style="bold") for column in self._columns]
        lines = [headings[lead], self._line(headings, others, widths), Text("─" * room)]
        before: str | None = None
        for row in self._rows:
            if _plain(row[lead]) != before:
                lines.append(_text(row[lead]))
                before = _plain(row[lead])
            lines.append(self._line(row, others, widths))
        return lines if self._title is None else [Text(self._title, style="bold"), *lines]

    def _line(self, row: Sequence[Cell], indexes: Sequence[int], widths: Sequence[int]) -> Text:
        line = Text()
        for index, width in zip(indexes, widths, strict=True):
            space = " " * (width - _width(_plain(row[index])))
            line.append(" " * (_GAP if line else _GAP - 1))
            if self._columns[index].is_number:
                line.append(space).append_text(_text(row[index]))
            else:
                line.append_text(_text(row[index])).append(space)
        line.rstrip()
        return line

    def _in_lines(self) -> Iterator[Text]:
        if self._title is not None:
            yield Text(self._title, style="bold")
        name_width = max((_width(column.name) for column in self._columns), default=0)
        for number, row in enumerate(self._rows):
            if number:
                yield Text("")
            for column, cell in zip(self._columns, row, strict=True):
                name = Text(column.name + " " * (name_width - _width(column.name) + 2), style="bold")
                yield Text.assemble(name, _text(cell), overflow="fold")


def _plain(cell: Cell) -> str:
    return cell if isinstance(cell, str) else cell.plain


def _is_special(cell: Cell) -> bool:
    """Return whether a cell has several lines, or styles of its parts."""
    return "\n" in _plain(cell) or (isinstance(cell, Text) and bool(cell.spans))


def _text(cell: Cell) -> Text:
    return Text(cell) if isinstance(cell, str) else cell


def _width(text: str) -> int:
    if text.isascii() and "\n" not in text:
        return len(text)
    return max(map(cell_len, text.split("\n")), default=0)
