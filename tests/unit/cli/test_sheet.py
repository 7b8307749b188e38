"""Tables of kafka-tools in terminals of any width: nothing is cut."""

from __future__ import annotations

import io
import re
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

import pytest
from rich.console import Console
from rich.text import Text

from pykafka.cli import show
from pykafka.cli.sheet import Column

TOPIC = "orders.of-the-northern-region.retries.dlq"
ROWS = [
    (TOPIC, number, 12_345_678_901, 12_345_678_999 + number, show.lagging(98 + number), "a note of three words")
    for number in range(3)
]
COLUMNS = ("Topic", "Partition#", "Committed#?", "Latest#?", "Lag#", "Metadata?")


def printed(
    width: int, columns: Sequence[str] = COLUMNS, rows: Sequence[Sequence[Any]] = ROWS, color: bool = False, **more: Any
) -> str:
    """Return a table as a terminal of some width shows it."""
    out = io.StringIO()
    console = Console(
        file=out, width=width, height=50, highlight=False, force_terminal=color, _environ={"TERM": "xterm-256color"}
    )
    console.print(show.table(columns, rows, **more))
    return out.getvalue()


@pytest.mark.parametrize("width", range(20, 160))
def test_names_and_figures_are_never_cut(width: int) -> None:
    text = printed(width)
    assert "…" not in text
    assert all(len(line) <= width for line in text.splitlines())
    whole = re.sub(r"\s+", "", text)
    for row in ROWS:
        assert TOPIC in whole
        assert str(row[4]) in text.split()
    for name, figures in (("Committed", {"12,345,678,901"}), ("Latest", {f"12,345,678,{999 + n}" for n in range(1)})):
        shown = figures <= set(text.split())
        assert shown or re.search(rf"Not shown here.*{name}", text, re.DOTALL), text
    if width >= 45:
        assert TOPIC in text  # in one piece


def test_a_wide_terminal_shows_all_in_one_line_each() -> None:
    lines = printed(130).splitlines()
    assert lines[0].split() == ["Topic", "Partition", "Committed", "Latest", "Lag", "Metadata"]
    assert lines[2].split() == [
        TOPIC,
        "0",
        "12,345,678,901",
        "12,345,678,999",
        "98",
        "a",
        "note",
        "of",
        "three",
        "words",
    ]
    assert len(lines) == 5


def test_words_break_first_then_optional_columns_go() -> None:
    at_120 = printed(120)
    assert "Not shown" not in at_120
    at_80 = printed(80)
    assert at_80.splitlines()[0].split() == ["Topic", "Partition", "Committed", "Lag"]
    assert at_80.splitlines()[-1] == "Not shown here, for want of room: Latest, Metadata"


def test_a_row_breaks_in_two_and_names_its_topic_once() -> None:
    lines = printed(
        46, ("Topic", "Partition#", "Committed#", "Lag#"), [(*row[:3], row[4]) for row in ROWS]
    ).splitlines()
    assert [line.split() for line in lines] == [
        ["Topic"],
        ["Partition", "Committed", "Lag"],
        ["─" * 46],
        [TOPIC],
        *([str(number), "12,345,678,901", str(98 + number)] for number in range(3)),
    ]
    assert len({line.index("12,345") for line in lines[4:]}) == 1


def test_a_list_of_partitions_breaks_between_them() -> None:
    partitions = [f"clicks-{number}" for number in range(40)]
    rows = [("consumer-1-6a5e", "10.0.0.1", partitions)]
    text = printed(80, ("Member", "Host", "Partitions"), rows)
    assert re.sub(r"\s+", "", text).count("clicks-") == 40
    assert set(partitions) <= set(re.findall(r"clicks-\d+", text))
    assert "10.0.0.1" in text
    assert max(map(len, text.splitlines())) <= 80


def test_what_is_unhealthy_is_coloured_on_a_terminal_alone() -> None:
    rows = [("t", show.warned(1), show.lagging(5)), ("u", show.warned(0, 0), show.lagging(0))]
    columns = ("Topic", "Without leader#", "Lag#")
    coloured = printed(80, columns, rows, color=True)
    assert re.search(r"\x1b\[31m *1 *\x1b", coloured)
    assert re.search(r"\x1b\[33m *5 *\x1b", coloured)
    assert not re.search(r"\x1b\[3[13]m *0", coloured)
    assert "\x1b" not in printed(80, columns, rows)
    assert "\x1b[31m" in printed(8, columns, rows, color=True)  # a line a cell


def test_a_title_and_an_empty_table() -> None:
    assert printed(10, ("Topic", "Partition#"), [], title="Title").splitlines()[0] == "Title"
    assert printed(200, title="Title").splitlines()[0].rstrip() == "Title"
    assert printed(46, ("Topic", "A#", "B"), [(TOPIC, 1, "b")], title="Title").splitlines()[0].rstrip() == "Title"


def test_headings_say_what_may_go() -> None:
    assert Column.of("Lag#") == ("Lag", True, False)
    assert Column.of("Log end#?") == ("Log end", True, True)
    assert Column.of("Host?") == ("Host", False, True)
    assert Column.of("") == ("", False, False)


@pytest.mark.parametrize("environment", [{}, {"COLUMNS": "80"}, {"TERM": "dumb", "FORCE_COLOR": "1", "COLUMNS": "80"}])
def test_a_pipe_gets_whole_lines(environment: dict[str, str]) -> None:
    """In CI, where TERM=dumb and FORCE_COLOR are set, rich took a pipe for a terminal of 80 columns, and cut."""
    program = f"""
from pykafka.cli import show
show.console().print(show.table({COLUMNS!r}, [({TOPIC!r}, 0, 12345678901, 12345678999, 98, "note " * 300)]))
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, env={**environment, "PATH": ""}, check=True
    )
    line = next(line for line in done.stdout.splitlines() if TOPIC in line)
    assert line.split()[:5] == [TOPIC, "0", "12,345,678,901", "12,345,678,999", "98"]
    assert line.count("note") == 300


def test_a_cell_of_several_lines_is_as_wide_as_its_longest() -> None:
    assert "second line" in printed(80, ("Setting", "Value"), [("a", "first\nsecond line")])
    assert show.cell(None) == "-"
    assert Text("x").plain in printed(20, ("A",), [("x",)])
