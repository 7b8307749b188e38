"""A program that was asked to end does so in time, whoever holds it up."""

from __future__ import annotations

import subprocess
import sys

import pytest

from pykafka.cli.shutdown_watchdog import ShutdownWatchdog

PROGRAM = """
import sys, time
from pykafka.cli.shutdown_watchdog import ShutdownWatchdog

with ShutdownWatchdog({timeout}, "Spark did not end", lambda: print("killed", flush=True)) as watchdog:
    {asked}
    time.sleep({work})
print("ended by itself")
"""


def run(timeout: float, asked: str, work: float) -> subprocess.CompletedProcess[str]:
    """Run a program that works for a while."""
    program = PROGRAM.format(timeout=timeout, asked=asked, work=work)
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)


def test_the_time_runs_out() -> None:
    """It ends with the status that it was to have, says why, and where it was."""
    done = run(0.3, "watchdog.begin(143)", 50)
    assert done.returncode == 143
    assert "kafka-tools: Spark did not end" in done.stderr
    assert "most recent call first" in done.stderr
    assert done.stdout == "killed\n"


@pytest.mark.parametrize("asked", ["watchdog.begin(143)", "pass"])
def test_it_ends_by_itself(asked: str) -> None:
    """Nothing is said of a program that ends in time, or was never asked to."""
    done = run(30, asked, 0.1)
    assert (done.returncode, done.stdout, done.stderr) == (0, "ended by itself\n", "")


def test_its_worker_ends_with_the_block() -> None:
    """No thread is left behind (tests/conftest.py looks)."""
    with ShutdownWatchdog(30, "never said", pytest.fail):
        pass
