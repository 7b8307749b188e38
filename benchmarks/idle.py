"""How often a process wakes while it has nothing to do."""

from __future__ import annotations

import time
from pathlib import Path

from benchmarks.job import cpu_seconds

#: Time for the first fetches (s), then the time that is counted.
SETTLE_S, IDLE_S = 3.0, 20.0


def wake_ups() -> int:
    """Return how often the threads of this process have waited and been woken, those of C libraries too."""
    found = 0
    for status in Path("/proc/self/task").glob("*/status"):
        line = next(line for line in status.read_text().splitlines() if line.startswith("voluntary_ctxt_switches"))
        found += int(line.split()[1])
    return found


class Rest:
    """A counter of what a client does while it is idle."""

    def __init__(self) -> None:
        self._before = time.perf_counter(), wake_ups(), cpu_seconds()

    def measures(self) -> dict[str, float]:
        """Return the wake-ups a second, and the CPU used (%)."""
        start, woken, cpu = self._before
        seconds = time.perf_counter() - start
        return {
            "wakeups_per_s": (wake_ups() - woken) / seconds,
            "idle_cpu_percent": 100 * (cpu_seconds() - cpu) / seconds,
        }
