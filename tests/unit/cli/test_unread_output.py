"""`kafka-tools pipeline` ends where nobody reads its output: Ctrl-S stopped the terminal, or a log hangs."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from pykafka.cli.shutdown_watchdog import write_at_once

#: Writes to a full pipe, as the main thread of a pipeline does, which then waits for its reader.
PROGRAM = """
import os
import sys
from pykafka.cli.cmd_pipeline import _Signals
from pykafka.cli.shutdown_watchdog import STDOUT, ShutdownWatchdog, write_at_once
from pykafka.spark.pipeline import StopRequest

def kill():
    write_at_once(STDOUT, b"{}")

with _Signals(kill) as signals, ShutdownWatchdog(0.05, "given up", kill) as watchdog:
    if sys.argv[1] == "asked":
        signals.ask(StopRequest(0), 1, watchdog)
    os.write(int(sys.argv[2]), b"ready")
    print("blocked")
    sys.stdout.flush()
"""


@pytest.fixture
def full() -> Iterator[tuple[int, int]]:
    """Return the ends of a pipe that takes nothing more."""
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    with pytest.raises(BlockingIOError):
        while True:
            os.write(writing, b"x" * 512)
    os.set_blocking(writing, True)
    yield reading, writing
    os.close(reading)
    os.close(writing)


def test_write_at_once(full: tuple[int, int]) -> None:
    """It writes what there is room for, and raises nothing."""
    reading, writing = full
    write_at_once(writing, b"y")
    while select.select([reading], [], [], 0)[0]:
        assert b"y" not in os.read(reading, 1 << 20)
    write_at_once(writing, b"z" * 3000)
    assert os.read(reading, 1 << 20) == b"z" * 3000
    gone, closed = os.pipe()
    os.close(gone)
    write_at_once(closed, b"z")
    os.close(closed)
    write_at_once(closed, b"z")


@pytest.mark.parametrize("when", ["at once", "asked"])
def test_a_signal_ends_a_program_whose_output_nobody_reads(full: tuple[int, int], when: str) -> None:
    """Its last words would have waited for the reader, too, for good."""
    ready, writing = os.pipe()
    command = [sys.executable, "-c", PROGRAM, when, str(writing)]
    program = subprocess.Popen(command, stdout=full[1], stderr=full[1], pass_fds=[writing])
    os.close(writing)
    try:
        assert os.read(ready, 5) == b"ready"
        program.send_signal(signal.SIGTERM)
        assert program.wait(30) == 143
    finally:
        program.kill()
        program.wait()
        os.close(ready)
