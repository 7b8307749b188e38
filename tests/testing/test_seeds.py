"""Thousands of seeds that no earlier commit has had: 2,000 in each `make test`, 8,000 in each rotation of the matrix.

Two hundred of each rotation run twice, and have to have the same history.

In a checkout without changes the seeds of `make test` come from the commit: whoever runs it again has the same ones, and the
same failure. In any other tree they come from the clock. PYKAFKA_SIMULATED=A..B chooses the seeds.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from pykafka.testing.simulation.tally import parsed_seeds, seeds_text

ROOT = Path(__file__).resolve().parents[2]
#: Two runs that begin in different minutes share no seed.
SEEDS_A_MINUTE = 100_000
#: The seeds come from the minutes of about two years, so that their numbers stay short.
MINUTES = 1_000_000
#: Seeds of commits are above those of minutes.
COMMITS_FROM = MINUTES * SEEDS_A_MINUTE


def git(*arguments: str) -> str | None:
    """Return what git says of the checkout; None if this is none."""
    done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else None


def unchanged_commit() -> str | None:
    """Return the commit of the checkout; None if files differ from it, or there is no checkout."""
    return git("rev-parse", "HEAD") if git("status", "--porcelain", "--untracked-files=no") == "" else None


def drawn(count: int, commit: str | None = None) -> range:
    """Return the seeds that the environment names, else those of a commit, else so many that no other minute has."""
    if chosen := os.environ.get("PYKAFKA_SIMULATED"):
        return parsed_seeds(chosen)
    if commit is not None:
        first = COMMITS_FROM + int(commit[:8], 16) * SEEDS_A_MINUTE
    else:
        first = int(time.time() / 60) % MINUTES * SEEDS_A_MINUTE
    return range(first, first + count)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("count", [2_000, pytest.param(8_000, marks=pytest.mark.matrix)])
def test_no_seed_fails(count: int, capfd: pytest.CaptureFixture[str]) -> None:
    """The command that runs them again is printed."""
    seeds = drawn(count, unchanged_commit() if count == 2_000 else None)
    arguments = ["-m", "pykafka.testing.simulate", "--seeds", seeds_text(seeds), "--jobs", "2"]
    # Seeds wait for nothing: they take what other parts leave of the cores, and take no time from tests on real clocks.
    done = subprocess.run(
        ["nice", "-n", "5", sys.executable, *arguments],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    again = f"python {' '.join(arguments)}"
    with capfd.disabled():
        print(f"\n{again}\n{done.stdout.splitlines()[-1] if done.stdout else ''}")
    assert done.returncode == 0, f"{again}\n{done.stdout}"


#: Prints the digest of each seed's history: of seeds whose workers give way before locks, or of the others.
DIGESTS = """
import hashlib, sys
from pykafka.testing.simulation.simulation import Simulation
for seed in map(int, sys.argv[2:]):
    simulation = Simulation(seed)
    if (simulation.preemption > 0) == (sys.argv[1] == "giving-way"):
        lines = "".join(f"{line}\\n" for line in simulation.run().history.lines())
        print(seed, hashlib.sha256(lines.encode()).hexdigest())
"""


def digests(kind: str, seeds: range, **environment: str) -> list[str]:
    """Return a line for each seed of a kind, from a process of its own."""
    done = subprocess.run(
        [sys.executable, "-c", DIGESTS, kind, *map(str, seeds)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout.splitlines()


@pytest.mark.slow
@pytest.mark.matrix
@pytest.mark.timeout(1800)
def test_two_hundred_seeds_are_one_history_each() -> None:
    """Byte for byte, in another process with other hashes, compiled and from the sources.

    Those whose workers give way before free locks are the same in two compiled processes alone: the sources take more locks.
    """
    seeds = drawn(200)
    whole = digests("whole", seeds, PYTHONHASHSEED="1")
    giving_way = digests("giving-way", seeds, PYTHONHASHSEED="1")
    assert len(whole) + len(giving_way) == len(seeds)
    assert digests("whole", seeds, PYTHONHASHSEED="2", PYKAFKA_PURE_PYTHON="1") == whole
    assert digests("giving-way", seeds, PYTHONHASHSEED="2") == giving_way


def test_seeds_are_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYKAFKA_SIMULATED", raising=False)
    assert len(drawn(2_000)) == 2_000
    ours, another = drawn(2_000, "2031a5e7" * 5), drawn(2_000, "2031a5e6" + "2031a5e7" * 4)
    assert ours == drawn(2_000, "2031a5e7" * 5)
    assert not set(ours) & (set(another) | set(drawn(2_000)))
    monkeypatch.setenv("PYKAFKA_SIMULATED", "7..9")
    assert drawn(2_000, "2031a5e7" * 5) == range(7, 10)
