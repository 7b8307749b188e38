"""Child processes that all end with the job, with everything that they started."""

from __future__ import annotations

import os
import signal
import subprocess
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import IO

from examples.flights.job import ROOT

#: The environment variable that marks the processes of a stage.
MARK = "PYKAFKA_FLIGHTS_STAGE"
#: How long the processes of a stage may take to end when asked, before they are killed (s).
GRACE_S = 2.0


class Interrupts:
    """A handler that turns Ctrl-C and SIGTERM into SystemExit, in the main thread, once; it ignores later signals."""

    def __init__(self) -> None:
        self._held = False
        self._number: int | None = None
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._handle)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self._number is None:
            self._number = number
            if not self._held:
                raise SystemExit(128 + number)

    @contextmanager
    def held(self) -> Iterator[None]:
        """Defer a signal until the end of the block, which starts a process that must not be lost."""
        self._held = True
        try:
            yield
        finally:
            self._held = False
        if self._number is not None:
            raise SystemExit(128 + self._number)


@contextmanager
def session(
    interrupts: Interrupts,
    command: Sequence[str],
    *,
    environment: Mapping[str, str],
    directory: Path = ROOT,
    stdin: int = subprocess.DEVNULL,
    stdout: int | None = None,
    stderr: int | IO[bytes] | None = None,
) -> Iterator[subprocess.Popen[str]]:
    """Run a command; at the end of the block, end it and all processes that it has started.

    Each process inherits a variable that marks it: PySpark's worker daemons leave the process group, Kafka's brokers
    even the session. The command gets a session of its own, so that Ctrl-C at the terminal reaches the job alone, which
    then ends its children one after another.

    :param command: program and arguments
    :param environment: of the command
    :param directory: that it works in
    """
    process: subprocess.Popen[str] | None = None
    mark = uuid.uuid4().hex
    try:
        with interrupts.held():
            process = subprocess.Popen(
                command,
                cwd=directory,
                env={**environment, MARK: mark},
                stdin=stdin,
                stdout=stdout,
                stderr=stderr,
                text=True,
                start_new_session=True,
            )
        yield process
    finally:
        if process is not None:
            _end(process, f"{MARK}={mark}".encode())
            for stream in (process.stdin, process.stdout, process.stderr):
                if stream is not None:
                    stream.close()


def _end(process: subprocess.Popen[str], mark: bytes) -> None:
    if process.poll() is None:
        process.terminate()
    _wait_until(lambda: process.poll() is not None and not _marked(mark), GRACE_S)
    if process.poll() is None:
        process.kill()
    deadline = time.monotonic() + GRACE_S
    while (left := _marked(mark)) and time.monotonic() < deadline:
        # Repeatedly: one process may have been starting another.
        for pid in left:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        time.sleep(0.02)
    process.wait(GRACE_S)


def _marked(mark: bytes) -> list[int]:
    if not os.path.isdir("/proc/self"):
        return []  # without /proc, only the command itself is known
    found = []
    for entry in os.scandir("/proc"):
        if not entry.name.isdigit():
            continue
        try:
            if mark in Path(entry.path, "environ").read_bytes():
                found.append(int(entry.name))
        except OSError:  # it has ended, or belongs to another user
            continue
    return found


def _wait_until(condition: Callable[[], bool], seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.02)
