"""DESIGN.md and the README.md of each room are short, and whatever path or name of ours they have exists in the sources."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.docs.pages import ROOT

PACKAGE = ROOT / "pykafka"
DESIGN = ROOT / "DESIGN.md"
READMES = sorted({page.resolve() for page in PACKAGE.rglob("README.md")} | {ROOT / "handlers" / "README.md"})
#: Pages that name classes and files of the package.
PAGES = [DESIGN, ROOT / "docs" / "development" / "brokers.md", *READMES]
WIDTH, DESIGN_LINES, README_LINES = 120, 300, 60

#: Names in code spans that are those of Python, gevent, kazoo, Spark and others.
OTHERS = {
    *("BoundedSemaphore", "CancelledError", "KazooClient", "SystemExit", "Thread"),
    *("foreachBatch", "from_json", "json_array_length", "latestOffset", "pushFilters"),
    *("asyncio", "sys", "threading", "import_module", "time"),
    *("await", "false", "random", "repr", "true", "try", "with"),
}
_SPAN = re.compile(r"`([^`\n]+)`")
_PATH = re.compile(r"(?<![\w./-])[\w./-]+\.(?:py|pxd|md|json|cfg)\b")
#: What stands in a path for any name: `cmd_NAME.py`.
_PLACEHOLDER = re.compile(r"NAME|NOUN|VIEW")
_NAME = re.compile(r"[A-Za-z_]\w*(?:\.\w+)*")


class Sources:
    """The names that the package's sources define."""

    def __init__(self) -> None:
        #: The members of each class, and the names of its bases.
        self.members: dict[str, set[str]] = {}
        self.bases: dict[str, set[str]] = {}
        self.names: set[str] = set()
        for folder in (PACKAGE, ROOT / "handlers"):
            for path in folder.rglob("*.py"):
                if "handlers" not in path.relative_to(folder).parts:  # which is a link
                    self.names.add(path.stem)
                    self._read(ast.parse(path.read_text()))

    def _read(self, tree: ast.Module) -> None:
        for node in ast.walk(tree):
            self.names.update(_defined(node))
            if isinstance(node, ast.ClassDef):
                members = self.members.setdefault(node.name, set())
                members.update(name for inner in ast.walk(node) for name in _defined(inner))
                bases = (re.split(r"[.[]", ast.unparse(base).removeprefix("original"))[0] for base in node.bases)
                self.bases.setdefault(node.name, set()).update(bases)

    def has(self, cls: str, member: str, seen: tuple[str, ...] = ()) -> bool:
        """Return whether a class, or a base of it, defines a member."""
        if member in self.members.get(cls, ()):
            return True
        return any(self.has(base, member, (*seen, cls)) for base in self.bases.get(cls, ()) if base not in seen)


def _defined(node: ast.AST) -> Iterator[str]:
    """Yield the names that a node of a syntax tree defines."""
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        yield node.name
    elif isinstance(node, ast.arg):
        yield node.arg
    elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
        yield node.id
    elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
        yield node.attr


@cache
def sources() -> Sources:
    return Sources()


def paths(text: str) -> Iterator[str]:
    """Yield the paths in a text; none with a placeholder."""
    folders = {span for span in _SPAN.findall(text) if re.fullmatch(r"[\w/]+/", span)}
    for path in folders.union(_PATH.findall(text)):
        if not _PLACEHOLDER.search(path):
            yield path


def names(text: str) -> Iterator[str]:
    """Yield the names in the code spans of a text: `Class`, `Class.member`, `function(...)`."""
    prose = re.sub(r"^    .*$", "", text, flags=re.MULTILINE)
    for span in set(_SPAN.findall(prose)):
        name = re.sub(r"\(.*\)$", "", span)
        if _NAME.fullmatch(name) and not _PATH.fullmatch(name):
            yield name


def missing_paths(page: Path) -> list[str]:
    """Return the paths in a page that lead nowhere, from the checkout, the package, its rooms or the page's folder."""
    folders = [ROOT, PACKAGE, page.parent, *(room for room in PACKAGE.iterdir() if room.is_dir())]
    folders += [PACKAGE / "spark" / "pipeline", PACKAGE / "spark" / "formats"]
    return sorted(path for path in paths(page.read_text()) if not any((folder / path).exists() for folder in folders))


def missing_names(text: str) -> list[str]:
    """Return the names in a text that the sources do not define."""
    known, missing = sources(), []
    for name in names(text):
        first, *rest = name.split(".")
        if first in OTHERS or (PACKAGE / first).exists() or first == "pykafka":
            continue
        if first in known.members and rest:
            found = known.has(first, rest[0])
        else:
            found = first in known.names and all(part in known.names for part in rest)
        if not found:
            missing.append(name)
    return sorted(missing)


def relative(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


@pytest.mark.parametrize("page", [DESIGN, *READMES], ids=relative)
def test_a_page_is_short(page: Path) -> None:
    lines = page.read_text().splitlines()
    assert len(lines) <= (DESIGN_LINES if page == DESIGN else README_LINES)
    assert [number for number, line in enumerate(lines, 1) if len(line) > WIDTH] == []


@pytest.mark.parametrize("page", PAGES, ids=relative)
def test_what_a_page_names_exists(page: Path) -> None:
    assert missing_paths(page) == []
    assert missing_names(page.read_text()) == []


def test_the_names_are_looked_for() -> None:
    text = (
        "`Sender.no_such_step`, `NoSuchClass`, `no_such_function()`, `Sender._step`, `Handler`, `producer/sender.py`\n"
    )
    assert missing_names(text) == ["NoSuchClass", "Sender.no_such_step", "no_such_function"]
    assert sorted(paths("see `producer/gone.py`, docs/gone.md and `gone/`; not `cmd_NAME.py`")) == [
        "docs/gone.md",
        "gone/",
        "producer/gone.py",
    ]


def test_each_room_says_what_it_is() -> None:
    """By a line in DESIGN.md, and by a README.md or a docstring."""
    rooms = {path.parent for path in PACKAGE.rglob("__init__.py")} - {PACKAGE}
    documented = [room for room in rooms if (room / "README.md").exists()]
    documented += [room for room in rooms if ast.get_docstring(ast.parse((room / "__init__.py").read_text()))]
    assert rooms - set(documented) == set()
    text = DESIGN.read_text()
    assert [room.name for room in rooms if room.parent == PACKAGE and f"`{room.name}/" not in text] == []
