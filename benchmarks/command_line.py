"""The CPU time of one call of kafka-tools: `python -m benchmarks.command_line HOST:PORT` prints each command's median.

Not part of `make bench`, as a call needs a broker and other processes of the machine blur it; tests bound what a call loads.
"""

from __future__ import annotations

import resource
import statistics
import subprocess
import sys

#: Calls of each command, and the most that the median may take (s).
CALLS, LIMIT_S = 7, 0.25
COMMANDS = (("--help",), ("topics", "list"), ("groups", "list"), ("lag",))


def cpu_s(arguments: tuple[str, ...]) -> float:
    """Return the CPU time of one call, of the process and of the kernel for it (s)."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-m", "pykafka.cli", *arguments], stdout=subprocess.DEVNULL, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main(hosts: str) -> int:
    """Print the median of each command; return 1 if one takes more than the limit."""
    worst = 0.0
    for command in COMMANDS:
        times = [cpu_s((*command, "-b", hosts)) for _ in range(CALLS)]
        worst = max(worst, statistics.median(times))
        print(
            f"kafka-tools {' '.join(command):12} {statistics.median(times):.3f} s of CPU ({min(times):.3f} to {max(times):.3f})"
        )
    return int(worst > LIMIT_S)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:9092"))
