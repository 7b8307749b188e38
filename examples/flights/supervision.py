"""Child processes that all end with the job, whatever they started in turn."""

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

#: The variable by which the processes of a stage are known.
MARK = "PYKAFKA_FLIGHTS_STAGE"
#: How long the processes of a stage may take to end when asked, before they are killed (s).
GRACE_S = 2.0


class Interrupts:
    """Turn Ctrl-C and SIGTERM into SystemExit, in the main thread, once; later ones do not disturb the clearing up."""

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
        """Put a signal off until the end of the block, which starts something that must not be lost track of."""
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
    stdin: int = subprocess.DEVNULL,
    stdout: int | None = None,
    stderr: int | IO[bytes] | None = None,
) -> Iterator[subprocess.Popen[str]]:
    """Run a command, and at the end of the block end it and all processes that it or they have started.

    Those are known by a variable that each inherits: PySpark's worker daemons leave the process group, Kafka's brokers
    even the session. The command gets a session of its own, so that Ctrl-C at the terminal reaches the job alone, which
    then ends its children one after another.

    :param command: program and arguments
    :param environment: of the command
    """
    process: subprocess.Popen[str] | None = None
    mark = uuid.uuid4().hex
    try:
        with interrupts.held():
            process = subprocess.Popen(
                command,
                cwd=ROOT,
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
        # Again and again: one of them may have been starting another.
        for pid in left:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        time.sleep(0.02)
    process.wait(GRACE_S)


def _marked(mark: bytes) -> list[int]:
    if not os.path.isdir("/proc/self"):
        return []  # where there is no /proc, all we know of is the command itself
    found = []
    for entry in os.scandir("/proc"):
        if not entry.name.isdigit():
            continue
        try:
            if mark in Path(entry.path, "environ").read_bytes():
                found.append(int(entry.name))
        except OSError:  # it has ended, or is somebody else's
            continue
    return found


def _wait_until(condition: Callable[[], bool], seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.02)
