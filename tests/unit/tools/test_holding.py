"""Processes that tests hold: once `hold` has returned, no thread of theirs does anything."""

from __future__ import annotations

import mmap
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.brokers import process
from tests.brokers.process import hold

#: Eight threads that write what they have counted, each in a place of its own, as quickly as they can.
COUNTING = """
import mmap, sys, threading
with open(sys.argv[1], "r+b") as file:
    counts = mmap.mmap(file.fileno(), 0)

def count(place):
    number = 0
    while True:
        number += 1
        counts[place : place + 8] = number.to_bytes(8, "big")

for place in range(0, 64, 8):
    threading.Thread(target=count, args=[place]).start()
"""


def test_a_held_process_does_nothing_until_it_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "counts"
    path.write_bytes(bytes(64))
    counting = subprocess.Popen([sys.executable, "-c", COUNTING, path])
    try:
        with path.open("r+b") as file, mmap.mmap(file.fileno(), 0) as counts:
            for _ in range(20):
                before = counts[:]
                deadline = time.monotonic() + 30
                while counts[:] == before:
                    assert time.monotonic() < deadline, "it does not count"
                    time.sleep(0.001)
                hold(counting.pid)
                held = counts[:]
                time.sleep(0.01)
                assert counts[:] == held
                hold(counting.pid)  # again, which changes nothing
                os.kill(counting.pid, signal.SIGCONT)
    finally:
        counting.kill()
        counting.wait()


def test_a_process_that_does_not_stop_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "HOLD_TIMEOUT_S", 0.05)
    monkeypatch.setattr(process, "_runs", lambda _: True)
    sleeping = subprocess.Popen(["sleep", "60"])
    try:
        with pytest.raises(TimeoutError, match=f"process {sleeping.pid} has not stopped"):
            hold(sleeping.pid)
    finally:
        sleeping.kill()
        sleeping.wait()
