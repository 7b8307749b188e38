"""`Tally`: what a range of seeds has shown; `SeedLog`: a file with the tallies of a long search, a line for each."""

from __future__ import annotations

import json
import os
import subprocess
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pykafka._version import __version__
from pykafka.exceptions import KafkaException
from pykafka.testing.simulation.scale import scale_of
from pykafka.testing.sometimes import STATIC, missing


def parsed_seeds(text: str) -> range:
    """Return the seeds of a text: "N" are 0 to N-1, "A..B" are A to B."""
    first, dots, last = text.partition("..")
    return range(int(first), int(last) + 1) if dots else range(int(first))


def seeds_text(seeds: range) -> str:
    """Return a range as `parsed_seeds` reads it."""
    return f"{seeds.start}..{seeds.stop - 1}"


@dataclass
class Tally:
    """The outcome of a range of seeds.

    :param failed: the seeds that have failed
    :param cpu_s: how much of the processor's time the seeds took, without what made plans of faults shorter (s)
    :param counts: in how many seeds each thing of `Sometimes` has happened
    """

    seeds: range
    failed: list[int] = field(default_factory=list)
    cpu_s: float = 0.0
    counts: Counter[str] = field(default_factory=Counter)

    def __str__(self) -> str:
        count = len(self.seeds)
        cpu_ms = 1000 * self.cpu_s / max(count, 1)
        return f"{count} seeds, {len(self.failed)} failed {self.failed}, {cpu_ms:.0f} ms of CPU each"

    def add(self, other: Tally) -> None:
        """Add the outcome of the seeds behind these."""
        self.seeds = range(self.seeds.start if self.seeds else other.seeds.start, other.seeds.stop)
        self.failed += other.failed
        self.cpu_s += other.cpu_s
        self.counts += other.counts

    def missing(self) -> list[str]:
        """Return what has happened in no seed, of all that some of them could show."""
        never = missing(self.counts)
        return never if self.seeds and scale_of(self.seeds[-1]).stays else [thing for thing in never if thing != STATIC]

    def line(self, commit: str) -> str:
        """Return this as a line of JSON."""
        row = {"seeds": seeds_text(self.seeds), "commit": commit, "failed": self.failed, "cpu_s": round(self.cpu_s, 3)}
        return json.dumps({**row, "counts": self.counts})

    @classmethod
    def of_line(cls, line: str) -> tuple[str, Tally]:
        """Return the commit and the tally of a line."""
        row: dict[str, Any] = json.loads(line)
        tally = cls(parsed_seeds(row["seeds"]), row["failed"], row["cpu_s"], Counter(row["counts"]))
        return row["commit"], tally


class SeedLogError(KafkaException):
    """Raised when a log cannot be read or written; the text has its name and the reason."""


class SeedLog:
    """A file with a line for each piece of a search.

    :param path: of the file, which need not exist
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)

    def append(self, tally: Tally, commit: str) -> None:
        """Add a line."""
        self._write(tally.line(commit) + "\n")

    def check(self) -> None:
        """Check that it can be read and written.

        :raises SeedLogError: it cannot
        """
        self.entries()
        self._write("")

    def _write(self, text: str) -> None:
        try:
            with self.path.open("a", encoding="utf-8") as file:
                file.write(text)
        except OSError as error:
            raise SeedLogError(f"{self.path}: the log cannot be written: {error.strerror}") from error

    def entries(self) -> list[tuple[str, Tally]]:
        """Return the commits and tallies of all lines.

        :raises SeedLogError: it cannot be read, or a line is none of a log
        """
        try:
            lines = self.path.read_text(encoding="utf-8").splitlines() if self.path.is_file() else []
        except (OSError, UnicodeError) as error:
            raise SeedLogError(f"{self.path}: the log cannot be read: {error}") from error
        return [self._entry(number, line) for number, line in enumerate(lines, 1)]

    def _entry(self, number: int, line: str) -> tuple[str, Tally]:
        try:
            return Tally.of_line(line)
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            text = "is no line of a log; if its end is missing, delete it, and its seeds run again"
            raise SeedLogError(f"{self.path}, line {number} {text}: {line[:200]}") from error

    def next_seed(self) -> int:
        """Return the first seed behind all that were logged."""
        return max((tally.seeds.stop for _, tally in self.entries()), default=0)

    def summed(self) -> str:
        """Return a line for each commit, and one for all: seeds that ran twice at a commit count once."""
        by_commit: dict[str, list[Tally]] = {}
        for commit, tally in self.entries():
            by_commit.setdefault(commit, []).append(tally)
        lines = [f"{commit}: {_sum(tallies)}" for commit, tallies in by_commit.items()]
        seeds = sum(_distinct(tally.seeds for tally in tallies) for tallies in by_commit.values())
        failures = sum(len(set(_failed(tallies))) for tallies in by_commit.values())
        lines.append(f"all: {seeds} seeds, {failures} failed, at {len(by_commit)} commits")
        return "\n".join(lines) + "\n"


def _failed(tallies: Iterable[Tally]) -> list[int]:
    return sorted({seed for tally in tallies for seed in tally.failed})


def _distinct(ranges: Iterable[range]) -> int:
    """Return how many numbers ranges have, each counted once."""
    count = end = 0
    for one in sorted(ranges, key=lambda one: one.start):
        count += max(one.stop - max(one.start, end), 0)
        end = max(end, one.stop)
    return count


def _sum(tallies: list[Tally]) -> str:
    counts: Counter[str] = sum((tally.counts for tally in tallies), Counter())
    runs = sum(len(tally.seeds) for tally in tallies)
    cpu_ms = 1000 * sum(tally.cpu_s for tally in tallies) / max(runs, 1)
    failed = _failed(tallies)
    text = (
        f"{_distinct(tally.seeds for tally in tallies)} seeds in {len(tallies)} pieces, {len(failed)} failed {failed}"
    )
    never = missing(counts)
    return f"{text}, {cpu_ms:.0f} ms of CPU each" + (f"; never: {', '.join(never)}" if never else "")


def commit() -> str:
    """Return the commit of this package's checkout, "-dirty" behind it if files differ; its version if it is installed."""
    here = Path(__file__).parent
    if "site-packages" not in here.parts:
        command = ["git", "-C", str(here), "describe", "--always", "--dirty", "--exclude=*", "--abbrev=10"]
        try:
            return subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout.strip()
        except (OSError, subprocess.SubprocessError):  # no git, or no checkout
            pass
    return __version__
