"""Child processes that all end with the job, whatever they started in turn."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import IO

from examples.flights.job import ROOT

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
    """Run a command in a session of its own, and end all processes of that session at the end of the block.

    A session is left by nobody here, unlike the process group: PySpark's worker daemon makes a group of its own. Ctrl-C
    at the terminal reaches the job alone, which then ends its children one after another.

    :param command: program and arguments
    :param environment: of the command
    """
    process: subprocess.Popen[str] | None = None
    try:
        with interrupts.held():
            process = subprocess.Popen(
                command,
                cwd=ROOT,
                env=environment,
                stdin=stdin,
                stdout=stdout,
                stderr=stderr,
                text=True,
                start_new_session=True,
            )
        yield process
    finally:
        if process is not None:
            _end(process)
            for stream in (process.stdin, process.stdout, process.stderr):
                if stream is not None:
                    stream.close()


def _end(process: subprocess.Popen[str]) -> None:
    members = _session_of(process)
    if process.poll() is None:
        process.terminate()
    _wait_until(lambda: process.poll() is not None and not members(), GRACE_S)
    deadline = time.monotonic() + GRACE_S
    while (left := members()) and time.monotonic() < deadline:
        # Again and again: one of them may have been starting another.
        for pid in left:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        time.sleep(0.02)
    process.wait(GRACE_S)


def _session_of(leader: subprocess.Popen[str]) -> Callable[[], list[int]]:
    if Path("/proc/self/stat").exists():
        return lambda: _session_members(leader.pid)
    # Without /proc, the leader is all we know of.
    return lambda: [leader.pid] if leader.poll() is None else []


def _session_members(session_id: int) -> list[int]:
    members = []
    for entry in os.scandir("/proc"):
        if not entry.name.isdigit():
            continue
        try:
            # "pid (name) state parent group session ..."; a name may hold anything, even parentheses.
            fields = Path(entry.path, "stat").read_text(errors="replace").rpartition(")")[2].split()
        except OSError:
            continue
        if fields[0] != "Z" and int(fields[3]) == session_id:
            members.append(int(entry.name))
    return members


def _wait_until(condition: Callable[[], bool], seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.02)
