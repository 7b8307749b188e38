"""The same seeds in each `make test`, and thousands of others in each rotation of the matrix, which lists what they find.

PYKAFKA_SIMULATED=A..B chooses the seeds.
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
#: What `make test` runs: new seeds still find something, one in a thousand or two, and a landing must not hang on chance.
SAME = range(400_000, 401_000)
#: Two runs that begin in different minutes share no seed.
SEEDS_A_MINUTE = 100_000
#: The seeds come from the minutes of about two years, so that their numbers stay short.
MINUTES = 1_000_000


def drawn(count: int) -> range:
    """Return the seeds that the environment names, else so many that no other minute has."""
    if chosen := os.environ.get("PYKAFKA_SIMULATED"):
        return parsed_seeds(chosen)
    first = int(time.time() / 60) % MINUTES * SEEDS_A_MINUTE
    return range(first, first + count)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("count", [pytest.param(0, id="same"), pytest.param(8_000, marks=pytest.mark.matrix)])
def test_no_seed_fails(count: int, capfd: pytest.CaptureFixture[str]) -> None:
    """The command that runs them again is printed."""
    seeds = drawn(count) if count else SAME
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


def test_seeds_are_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYKAFKA_SIMULATED", raising=False)
    assert len(drawn(2_000)) == 2_000
    monkeypatch.setenv("PYKAFKA_SIMULATED", "7..9")
    assert drawn(2_000) == range(7, 10)
