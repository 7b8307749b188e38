"""`Mutation`: a defect of the past as a patch over today's code; `mutated_copy` makes a copy of the package that has it.

A patch is a unified diff of one or more files under `pykafka/` or `handlers/`, behind a header of `Field: text` lines. Its
hunks are found by their text, which has to be there exactly once: line numbers may have moved on.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
PATCHES = Path(__file__).parent / "patches"
#: The fields of a header, in order: what a user sees, the commit that mended it, a test that fails with it, the kind of
#: damage, and the programs of a simulation that can meet it.
FIELDS = ("Defect", "Mended", "Test", "Damage", "Programs")
DAMAGES = {"lost messages", "duplicates", "hang", "wrong order", "wrong commit", "leak", "error"}
PROGRAMS = {"producer", "consumer", "group", "transaction", "exactly once", "share", "close", "admin"}


class PatchError(ValueError):
    """A patch that cannot be read, or does not fit today's code."""


class Hunk(NamedTuple):
    """One change: a block of a file, and what takes its place."""

    path: str
    before: str
    after: str
    changed: int


class Mutation(NamedTuple):
    """One defect.

    :param header: its fields, by name
    """

    name: str
    header: dict[str, str]
    hunks: list[Hunk]

    @property
    def test(self) -> str:
        """The node id of the test that fails with it."""
        return self.header["Test"]

    @property
    def changed_lines(self) -> int:
        """How many lines it adds and removes."""
        return sum(hunk.changed for hunk in self.hunks)

    @property
    def row(self) -> str:
        """Its row in docs/development/mutations.md."""
        header = self.header
        test = header["Test"].removeprefix("tests/").replace("|", "\\|")
        return f"| `{self.name}` | {header['Defect']} | {header['Damage']} | {header['Programs']} | `{test}` |"

    def apply(self, root: Path) -> list[Path]:
        """Change the files of a copy; return those that have changed.

        :raises PatchError: a hunk does not fit
        """
        paths = {}
        for hunk in self.hunks:
            path = paths[hunk.path] = root / hunk.path
            text = path.read_text() if path.is_file() else ""
            if (found := text.count(hunk.before)) != 1:
                raise PatchError(
                    f"{self.name}: its change of {hunk.path} fits {found} places there; make the patch anew"
                )
            path.write_text(text.replace(hunk.before, hunk.after))
        return list(paths.values())


def read(path: Path) -> Mutation:
    """Return the mutation of a patch file.

    :raises PatchError: it has no complete header, or is not a unified diff
    """
    head, _, diff = path.read_text().partition("\n--- ")
    header: dict[str, str] = {}
    field = ""
    for line in head.splitlines():
        if found := re.match(r"([A-Z][a-z]+): (.+)", line):
            field = found[1]
            header[field] = found[2]
        elif field and line.startswith("  "):
            header[field] += " " + line.strip()
        else:
            raise PatchError(f"{path.name}: {line!r} is no line of a header")
    if tuple(header) != FIELDS:
        raise PatchError(f"{path.name}: its header has {tuple(header)}, and has to have {FIELDS}")
    return Mutation(path.stem, header, _hunks(path.name, f"--- {diff}"))


def _hunks(name: str, diff: str) -> list[Hunk]:
    hunks: list[Hunk] = []
    of_file = ""
    lines: list[str] = []

    def end() -> None:
        if lines:
            before = "".join(line[1:] for line in lines if line[0] in " -")
            after = "".join(line[1:] for line in lines if line[0] in " +")
            hunks.append(Hunk(of_file, before, after, sum(line[0] in "+-" for line in lines)))
            lines.clear()

    for line in diff.splitlines(keepends=True):
        if line.startswith("--- "):
            end()
        elif line.startswith("+++ b/"):
            of_file = line[6:].split("\t")[0].strip()
        elif line.startswith("@@ "):
            end()
        elif line[0] in " +-":
            lines.append(line)
        else:
            raise PatchError(f"{name}: {line!r} is no line of a diff")
    end()
    if not hunks:
        raise PatchError(f"{name}: it changes nothing")
    return hunks


def all_mutations() -> list[Mutation]:
    """Return all mutations, by name."""
    return [read(path) for path in sorted(PATCHES.glob("*.patch"))]


@contextmanager
def mutated_copy(mutation: Mutation | None = None) -> Iterator[Path]:
    """Copy the package as sources, put a defect into it, and yield the directory for PYTHONPATH; it goes at the end.

    :param mutation: None for a clean copy
    :raises PatchError: the patch does not fit
    """
    with TemporaryDirectory(prefix="pykafka-mutation-") as directory:
        root = Path(directory)
        binaries = shutil.ignore_patterns("*.so", "*.c", "*.pyc", "__pycache__")
        for package in ("pykafka", "handlers"):
            shutil.copytree(ROOT / package, root / package, symlinks=True, ignore=binaries)
        if mutation is not None:
            mutation.apply(root)
        yield root
