"""The cost of many consumers in one process, and the memory of a slow reader."""

from __future__ import annotations

import gc
import os
import time

from benchmarks.job import cpu_seconds, rss_kib

#: Number of consumers.
CONSUMERS = 200
#: Time for the first fetches (s), then the time of idle CPU that is counted.
SETTLE_S, IDLE_S = 2.0, 10.0


def descriptors() -> int:
    """Return the number of this process's open descriptors."""
    return len(os.listdir("/proc/self/fd"))


def os_threads() -> int:
    """Return the number of this process's threads in the kernel, with those of C libraries."""
    return len(os.listdir("/proc/self/task"))


class Footprint:
    """A counter of resources, from before the consumers exist until they have idled for a while."""

    def __init__(self) -> None:
        gc.collect()
        self._rss, self._threads, self._start = rss_kib(), os_threads(), time.perf_counter()
        self._setup = self._kib = self._more_threads = 0.0
        self._idle = (0.0, 0.0)

    def opened(self) -> None:
        """Take the counts when all consumers exist and can be asked for messages."""
        self._setup = time.perf_counter() - self._start

    def settled(self) -> None:
        """Start to count idle CPU: the consumers have sent their first fetches."""
        gc.collect()
        self._kib, self._more_threads = rss_kib() - self._rss, os_threads() - self._threads
        self._idle = time.perf_counter(), cpu_seconds()

    def measures(self) -> dict[str, float]:
        """Return the cost per consumer (KiB), in all (threads, s), and the CPU used while idle (%)."""
        start, cpu = self._idle
        idle = 100 * (cpu_seconds() - cpu) / (time.perf_counter() - start)
        return {
            "kib_each": self._kib / CONSUMERS,
            "threads": self._more_threads,
            "setup_s": self._setup,
            "idle_cpu_percent": idle,
        }


class Watermark:
    """The highest memory use at regular samples since its creation."""

    def __init__(self) -> None:
        gc.collect()
        self._start = self.peak = rss_kib()
        self.marks: list[tuple[float, int, int]] = []

    def look(self) -> None:
        """Take a sample."""
        self.peak = max(self.peak, rss_kib())

    def mark(self) -> None:
        """Store the memory use at the end of one of several equal parts of the work."""
        self.marks.append((rss_kib(), os_threads(), descriptors()))

    def budgeted(self, budget_bytes: int) -> dict[str, float]:
        """Return MiB: the growth to the peak, the excess over the budget, and the drift from the first part to the last."""
        grown = (self.peak - self._start) / 1024
        return {
            "rss_grown_mib": grown,
            "rss_over_budget_mib": grown - budget_bytes / 2**20,
            "rss_drift_mib": self._drift() / 1024,
        }

    def lasting(self) -> dict[str, float]:
        """Return the growth from the first part's end to the last's: MiB, threads and descriptors."""
        return {
            "rss_drift_mib": self._drift() / 1024,
            "more_threads": self._drift(1),
            "more_descriptors": self._drift(2),
        }

    def _drift(self, which: int = 0) -> float:
        return self.marks[-1][which] - self.marks[0][which]
