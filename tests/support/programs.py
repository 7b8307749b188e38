"""Programs that tests start, watch and end, together with their child processes."""

from __future__ import annotations

import codecs
import fcntl
import os
import pty
import re
import signal
import struct
import subprocess
import sys
import termios
import threading
import time
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

ROOT = Path(__file__).resolve().parents[2]
#: By this variable, which all its descendants inherit, the processes of a program are known.
TAG = "PYKAFKA_TEST_PROGRAM"


class Program:
    """A Python module that runs as a program of its own; the tests read its output line by line.

    :param module: of the checkout
    :param arguments: of its command line
    :param environment: beside, or in the place of, ours
    """

    def __init__(self, module: str, *arguments: str, environment: Mapping[str, str] | None = None) -> None:
        self.tag = uuid.uuid4().hex
        self.lines: list[str] = []
        command = [sys.executable, "-u", "-X", "faulthandler", "-m", module, *arguments]
        self.process = self._start(command, {**os.environ, **(environment or {}), TAG: self.tag})
        self._said = threading.Condition()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _start(self, command: list[str], environment: dict[str, str]) -> subprocess.Popen[str]:
        return subprocess.Popen(
            command,
            cwd=ROOT,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            with self._said:
                self.lines.append(line.rstrip("\n"))
                self._said.notify_all()

    @property
    def output(self) -> str:
        """The output so far, of both streams."""
        return "\n".join(self.lines)

    def wait_for(self, text: str, timeout: float = 60.0) -> str:
        """Wait for a line that contains a text, and return it."""
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
        """Send the program a signal."""
        self.process.send_signal(number)

    def wait(self, timeout: float = 60.0) -> int:
        """Wait until it ends, and return its exit status. Where it hangs, the error has its stacks and those of its JVM."""
        try:
            status = self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"it did not end within {timeout} s:\n{self._stacks()}") from None
        self._reader.join(5)
        return status

    def _stacks(self) -> str:
        """Return its last words, the stacks of its JVM's threads that are about Spark or Python, and then its own."""
        said = self.lines[-50:]
        for line in self.descendants():
            if "java" in line:
                os.kill(int(line.split()[0]), signal.SIGQUIT)
        time.sleep(2)
        stacks = "\n".join(self.lines).split("\n\n")
        told = [stack for stack in stacks if stack.startswith('"') and ("spark" in stack or "py4j" in stack)]
        self.process.send_signal(signal.SIGABRT)  # faulthandler prints every thread's stack then
        begin = len(self.lines)
        self._reader.join(5)
        return "\n".join([*said, *told, *self.lines[begin:]])

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
        """Kill all processes that are left."""
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait(10)
        for line in self.descendants():
            os.kill(int(line.split()[0]), signal.SIGKILL)
        self._reader.join(5)
        self._close()

    def _close(self) -> None:
        assert self.process.stdout is not None
        self.process.stdout.close()


class TerminalProgram(Program):
    """A program in the foreground of a terminal of its own; a redrawn line counts as another line."""

    COLUMNS, ROWS = 200, 50

    def _start(self, command: list[str], environment: dict[str, str]) -> subprocess.Popen[str]:
        #: All that came to the terminal.
        self.raw = ""
        self._terminal, inner = pty.openpty()
        fcntl.ioctl(inner, termios.TIOCSWINSZ, struct.pack("HHHH", self.ROWS, self.COLUMNS, 0, 0))
        try:
            return subprocess.Popen(
                command,
                cwd=ROOT,
                env={**environment, "TERM": "xterm-256color"},
                stdin=inner,
                stdout=inner,
                stderr=inner,
                text=True,
                start_new_session=True,
                preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),  # noqa: PLW1509 - nothing but a system call
            )
        finally:
            os.close(inner)

    def _read(self) -> None:
        decoder = codecs.getincrementaldecoder("utf-8")()
        while True:
            try:
                found = os.read(self._terminal, 65536)
            except OSError:  # how Linux says that nobody is left at the other side
                return
            with self._said:
                self.raw += decoder.decode(found)
                self.lines[:] = [line for line in re.split(r"[\r\n]+", self.raw) if line]
                self._said.notify_all()

    def press(self, key: str) -> None:
        """Type a key: the terminal turns Ctrl-C into a signal for the foreground processes."""
        os.write(self._terminal, key.encode())

    def _close(self) -> None:
        os.close(self._terminal)


@contextmanager
def program(module: str, *arguments: str, environment: Mapping[str, str] | None = None) -> Iterator[Program]:
    """Run a program during the block; kill the processes that it leaves behind, and fail."""
    with watched(Program(module, *arguments, environment=environment)) as running:
        yield running


P = TypeVar("P", bound=Program)


@contextmanager
def watched(running: P) -> Iterator[P]:
    """Yield a program on a terminal during the block, and end it as `program` does."""
    try:
        yield running
        if running.process.poll() is not None:
            left = running.descendants()
            assert left == [], "\n".join([*left, running.output])
    finally:
        running.end()


def run(
    module: str, *arguments: str, timeout: float = 60.0, environment: Mapping[str, str] | None = None
) -> tuple[int, str]:
    """Run a program to its end; return its exit status and output."""
    with program(module, *arguments, environment=environment) as running:
        status = running.wait(timeout)
    return status, running.output
