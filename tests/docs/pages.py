"""Read a Markdown page: its programs, its commands, and the comments that say how to test them.

Each Python block of a page runs, one after another, in one namespace and a process of its own. An embedded cluster takes the
place of `localhost:9092`, a schema registry that of `http://localhost:8081`, a temporary directory that of /data. An HTML
comment before a block, which readers of the page do not see, changes that:

    <!-- not run: WHY -->           the block needs what no test has: it is only compiled, and its names are checked
    <!-- test: program -->          it runs as a program of its own, as one that patches the process must
    <!-- test: pytest -->           it is a file of tests, and pytest runs it; the imports of the page are added
    <!-- test: raises NAME -->      it ends by this exception
    <!-- test: file NAME.py -->     it is a file that the processes of later blocks can import; imports of others are not added
    <!-- cluster: real -->          the page runs against a real broker, with an authorizer that lets everybody do anything
    <!-- given: NAME, NAME -->      names that blocks of the page which are not run take for given
    <!-- test-code                  code that only the test runs, at this place: what the page takes for given, or asserts;
    ...                             `printed` is what the blocks before it have printed, `cluster` the embedded cluster
    -->
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
README = ROOT / "README.md"
#: The pages that show programs; the reference is Sphinx's.
PAGES = [README, *sorted((ROOT / "docs").glob("*.md"))]
#: All pages that are written by hand, with those for whoever changes the code.
ALL_PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]
MODES = {"run", "compile", "program", "pytest", "raises", "file"}
#: Those that a comment names.
NAMED = MODES - {"run", "compile"}
#: What shows commands, beside blocks that are indented.
SHELLS = {"sh", "shell", "bash", "console"}

_FENCE = re.compile(r"^( *)```+ *(\S*)[^\n]*\n(.*?)^ *```+ *$", re.MULTILINE | re.DOTALL)
_CODE = re.compile(r"^<!-- test-code\n(.*?)^-->$", re.MULTILINE | re.DOTALL)
_COMMENT = re.compile(r"<!-- (not run|test)(?!-)(.*?)-->\s*\Z", re.DOTALL)
_REAL = re.compile(r"^<!-- cluster: real -->$", re.MULTILINE)
_GIVEN = re.compile(r"^<!-- given: (.*?) -->$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Block:
    """A program that a page shows.

    :param page: relative to the checkout
    :param line: of its first line
    :param text: the program
    :param mode: one of `MODES`
    :param argument: of the mode
    :param shown: whether readers see it
    """

    page: str
    line: int
    text: str
    mode: str = "run"
    argument: str = ""
    shown: bool = True

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"


class Command(NamedTuple):
    """A command that a page shows.

    :param place: page and line
    :param line: as it would be typed
    :param typed: whether it stands alone to be typed, and not in a sentence
    """

    place: str
    line: str
    typed: bool


class PageError(ValueError):
    """A comment about tests that means nothing, or lacks a reason."""


def programs(path: Path) -> list[Block]:
    """Return the Python blocks of a page, and the code between them that only tests run, in their order."""
    text, page = path.read_text(), os.path.relpath(path, ROOT)
    found: list[tuple[int, Block]] = []
    for fence in _FENCE.finditer(text):
        if fence[2] == "python":
            mode, argument = _mode(text[: fence.start()], f"{page}:{_line(text, fence.start())}")
            found.append((fence.start(), Block(page, _line(text, fence.start(3)), _dedented(fence), mode, argument)))
    for code in _CODE.finditer(text):
        found.append((code.start(), Block(page, _line(text, code.start(1)), code[1], shown=False)))
    return [block for _, block in sorted(found, key=lambda one: one[0])]


def wants_real_cluster(page: Path) -> bool:
    """Tell whether the programs of a page need more than the embedded cluster has."""
    return _REAL.search(page.read_text()) is not None


def given_names(path: Path) -> set[str]:
    """Return the names that a page takes for given."""
    return {name for names in _GIVEN.findall(path.read_text()) for name in re.findall(r"\w+", names)}


def commands(path: Path) -> list[Command]:
    """Return the lines that a page shows as something to type, and the commands within its sentences."""
    text, page = path.read_text(), os.path.relpath(path, ROOT)
    found: list[tuple[int, str, bool]] = []
    for fence in _FENCE.finditer(text):
        if fence[2] in SHELLS:
            found += [(fence.start(3) + at, line, True) for at, line in _lines(fence[3])]
    prose = _FENCE.sub(_blanked, text)
    prose = re.sub(r"<!--.*?-->", _blanked, prose, flags=re.DOTALL)
    found += [(match.start(), match[1], True) for match in re.finditer(r"^    ([^ \n].*)$", prose, re.MULTILINE)]
    inline = re.finditer(r"`((?:make|kafka-tools|pip|python3? -m|python3? [\w/]+\.py)(?: [^`]+)?)`", prose)
    found += [(match.start(), " ".join(match[1].split()), False) for match in inline]
    return [
        Command(f"{page}:{_line(text, at)}", line.strip().removeprefix("$ "), typed)
        for at, line, typed in sorted(found)
    ]


def _blanked(match: re.Match[str]) -> str:
    """Leave the lines of what is no prose, so that places stay."""
    return re.sub(r"[^\n]", " ", match[0])


def _lines(text: str) -> Iterator[tuple[int, str]]:
    joined = text.replace("\\\n", "  ")  # a line that goes on; places stay
    for match in re.finditer(r"^.*\S.*$", joined, re.MULTILINE):
        yield match.start(), match[0]


def _mode(before: str, place: str) -> tuple[str, str]:
    """Return how to test a block by the comment right before it."""
    comment = _COMMENT.match(before, max(before.rfind("<!--"), 0))
    if comment is None:
        return "run", ""
    if comment[1] == "not run":
        _check_reason(comment[2], place)
        return "compile", ""
    mode, _, argument = comment[2].removeprefix(":").strip().partition(" ")
    if mode not in NAMED:
        raise PageError(f"{place}: <!-- test{comment[2]}--> names none of {', '.join(sorted(NAMED))}")
    return mode, argument


def _check_reason(text: str, place: str) -> None:
    if not re.match(r": *\w", text):
        raise PageError(f"{place}: <!-- not run: WHY --> says not why")


def _dedented(fence: re.Match[str]) -> str:
    return re.sub(rf"^{fence[1]}", "", fence[3], flags=re.MULTILINE)


def _line(text: str, at: int) -> int:
    return text.count("\n", 0, at) + 1
