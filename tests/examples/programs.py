"""Programs that tests start, watch and end, with all that they started in turn."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
#: By this variable, which all its descendants inherit, the processes of a program are known.
TAG = "PYKAFKA_TEST_PROGRAM"


class Program:
    """A Python module that runs as a program of its own, its output kept line by line.

    :param module: of the checkout
    :param arguments: of its command line
    :param environment: beside, or in the place of, ours
    """

    def __init__(self, module: str, *arguments: str, environment: Mapping[str, str] | None = None) -> None:
        self.tag = uuid.uuid4().hex
        self.lines: list[str] = []
        self.process = subprocess.Popen(
            [sys.executable, "-u", "-m", module, *arguments],
            cwd=ROOT,
            env={**os.environ, **(environment or {}), TAG: self.tag},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self._said = threading.Condition()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            with self._said:
                self.lines.append(line.rstrip("\n"))
                self._said.notify_all()

    @property
    def output(self) -> str:
        """All it has said, on both streams."""
        return "\n".join(self.lines)

    def wait_for(self, text: str, timeout: float = 60.0) -> str:
        """Wait for a line that has a text in it; gives that line."""
        deadline = time.monotonic() + timeout
        while True:
            with self._said:
                found = next((line for line in self.lines if text in line), None)
                if found is None:
                    self._said.wait(0.1)
            if found is not None:
                return found
            if self.process.poll() is not None and not self._reader.is_alive():
                raise AssertionError(f"it ended with {self.process.returncode} and never said {text!r}:\n{self.output}")
            assert time.monotonic() < deadline, f"{text!r} was not said within {timeout} s:\n{self.output}"

    def signal(self, number: signal.Signals) -> None:
        """Send it a signal."""
        self.process.send_signal(number)

    def wait(self, timeout: float = 60.0) -> int:
        """Wait until it ends; gives its exit status."""
        status = self.process.wait(timeout)
        self._reader.join(5)
        return status

    def descendants(self) -> list[str]:
        """List the processes that it or its children started and that are still there."""
        wanted, found = f"{TAG}={self.tag}".encode(), []
        for entry in Path("/proc").iterdir():
            if not entry.name.isdigit() or int(entry.name) == self.process.pid:
                continue
            try:
                if wanted in (entry / "environ").read_bytes().split(b"\0"):
                    found.append(f"{entry.name} {(entry / 'cmdline').read_bytes()[:200]!r}")
            except OSError:  # it ended meanwhile, or is none of ours
                continue
        return found

    def end(self) -> None:
        """Kill whatever there still is."""
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait(10)
        for line in self.descendants():
            os.kill(int(line.split()[0]), signal.SIGKILL)
        self._reader.join(5)
        assert self.process.stdout is not None
        self.process.stdout.close()


@contextmanager
def program(module: str, *arguments: str, environment: Mapping[str, str] | None = None) -> Iterator[Program]:
    """Run a program for the length of the block; whatever it leaves behind is a failure, and killed."""
    running = Program(module, *arguments, environment=environment)
    try:
        yield running
        if running.process.poll() is not None:
            assert running.descendants() == []
    finally:
        running.end()


def run(
    module: str, *arguments: str, timeout: float = 60.0, environment: Mapping[str, str] | None = None
) -> tuple[int, str]:
    """Run a program to its end; gives its exit status and what it said."""
    with program(module, *arguments, environment=environment) as running:
        status = running.wait(timeout)
    return status, running.output
