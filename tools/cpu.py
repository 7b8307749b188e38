"""CPU time by part of the tests, for processes of all kinds: also those that nobody waits for, as workers of Spark.

The kernel adds the time of a child to its parent's only when the parent waits for it. So a sample of /proc is taken now and
then: what each process has taken itself, and what it got from children that ended. What it got from children that no
sample has seen counts as well. Only the last moments of a child that nobody waits for are missing.
"""

from __future__ import annotations

import os
import threading
import time
from collections import defaultdict
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

PROC = Path("/proc")
#: Seconds between two samples.
SAMPLE_S = 0.5
TICKS = os.sysconf("SC_CLK_TCK")


class Seen(NamedTuple):
    """A process, as the last sample saw it.

    :param parent: its number
    :param own: CPU time of its own (ticks)
    :param waited: CPU time of the children that it has waited for, and of theirs (ticks)
    """

    parent: int
    own: int
    waited: int


def seen(pid: int) -> Seen:
    """Read what a process has taken."""
    # The name, in brackets, may hold anything.
    fields = (PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
    user, system, waited_user, waited_system = map(int, fields[11:15])
    return Seen(int(fields[1]), user + system, waited_user + waited_system)


class CpuTimes:
    """CPU time by mark: the value of an environment variable that all processes of a part have.

    :param variable: its name
    """

    def __init__(self, variable: str) -> None:
        self._name = f"{variable}=".encode()
        self._lock = threading.Lock()
        self._sampled_at = 0.0
        #: By number of process; "" has no mark. A number comes again only after all others.
        self._marks: dict[int, str] = {}
        #: Those of the last sample that were new: perhaps forked, and about to get an environment of their own.
        self._new: set[int] = set()
        self._alive: dict[int, Seen] = {}
        #: By mark: ticks of processes that have ended; by process: what its parent may have got from ended children.
        self._ended: defaultdict[str, int] = defaultdict(int)
        self._passed_on: defaultdict[int, int] = defaultdict(int)

    def sample(self, at_once: bool = False) -> None:
        """Take a sample, if the last one is old.

        :param at_once: also if it is not
        """
        with self._lock:
            if not at_once and time.monotonic() - self._sampled_at < SAMPLE_S:
                return
            self._sampled_at = time.monotonic()
            pids = {int(name) for name in os.listdir(PROC) if name.isdigit()}
            self._end_all(self._marks.keys() - pids)
            new = pids - self._marks.keys()
            for pid in pids:
                with suppress(OSError):
                    if pid in new or pid in self._new:
                        self._marks[pid] = self._mark(pid) or self._marks.get(pid, "")
                    if self._marks[pid]:
                        self._alive[pid] = process = seen(pid)
                        # Nobody waited for what the ended have taken beyond this.
                        self._passed_on[pid] = min(self._passed_on[pid], process.waited)
            self._new = new

    def take(self, mark: str) -> float:
        """Return the CPU time (s) of all processes with a mark since the last call, those that still run included."""
        self.sample(at_once=True)
        with self._lock:
            self._end_all({pid for pid, of in self._marks.items() if of == mark})
            return self._ended.pop(mark, 0) / TICKS

    def _end_all(self, pids: set[int]) -> None:
        """Count processes that ended since the last sample, children first: their parents may have got their time."""
        for pid in sorted(pids, key=self._depth, reverse=True):
            mark = self._marks.pop(pid)
            if (process := self._alive.pop(pid, None)) is not None:
                passed_on = self._passed_on.pop(pid, 0)
                self._ended[mark] += process.own + max(0, process.waited - passed_on)
                # It may have waited for some of them after the last sample, and its parent gets that as well.
                self._passed_on[process.parent] += process.own + max(process.waited, passed_on)

    def _depth(self, pid: int) -> int:
        """Return how many known ancestors a process has."""
        depth = 0
        while (process := self._alive.get(pid)) is not None and depth < len(self._alive):
            pid, depth = process.parent, depth + 1
        return depth

    def _mark(self, pid: int) -> str:
        variables = (PROC / str(pid) / "environ").read_bytes().split(b"\0")
        return next((text[len(self._name) :].decode() for text in variables if text.startswith(self._name)), "")
