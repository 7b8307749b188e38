"""The job of an adapter, and its clock."""

from __future__ import annotations

import random
import resource
import time
from dataclasses import dataclass, field

#: A message of the runner begins with its number, so that the run can check the last one read.
NUMBER_BYTES = 10
_POOL = 1024


@dataclass(frozen=True)
class Job:
    """One run of one client.

    :param hosts: of the brokers
    :param topics: to write to or to read
    :param messages: number of messages
    :param size: bytes of a value
    :param partitions: of each topic
    :param codec: none, snappy, lz4 or zstd
    :param acks: 1, or -1 for all replicas in sync
    :param idempotent: whether a producer is to be idempotent
    :param columns: for Arrow: all, or those named
    :param cafile: authority of the brokers' certificates, where they speak TLS
    :param user: name and password for SCRAM-SHA-512, where the brokers ask for a login
    """

    hosts: str
    topics: tuple[str, ...]
    messages: int
    size: int = 100
    partitions: int = 3
    codec: str = "none"
    acks: int = 1
    idempotent: bool = False
    columns: tuple[str, ...] | None = None
    cafile: str | None = None
    user: tuple[str, str] | None = None

    @property
    def topic(self) -> str:
        """The topic, where there is only one."""
        (topic,) = self.topics
        return topic


@dataclass
class Stopwatch:
    """Wall and CPU seconds of this process between `start()` and `stop()`, without imports and cleanup."""

    wall: float = 0.0
    cpu: float = 0.0
    _before: tuple[float, float] | None = field(default=None, repr=False)

    def start(self) -> None:
        """Begin."""
        self._before = time.perf_counter(), cpu_seconds()

    def stop(self) -> None:
        """End; `wall` and `cpu` say how long it was."""
        assert self._before is not None
        wall, cpu = self._before
        self.wall, self.cpu = time.perf_counter() - wall, cpu_seconds() - cpu


def cpu_seconds() -> float:
    """Return the CPU seconds, user and system, that this process has used."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def payloads(size: int, count: int = _POOL) -> list[bytes]:
    """Return values that compress to about half, as JSON of small records does; the same in every process.

    :param size: bytes of each
    """
    chance = random.Random(size)
    words = [b'"delay":', b'"carrier":', b'"origin":"JFK",', b'"flight":', b'"tail":"N', b"null,", b"0.0,", b"true,"]
    pool = []
    for _ in range(count):
        parts: list[bytes] = []
        length = 0
        while length < size:
            parts.append(chance.choice(words) + b"%x" % chance.getrandbits(32))
            length += len(parts[-1])
        pool.append(b"".join(parts)[:size])
    return pool


def numbered(size: int, number: int, pool: list[bytes]) -> bytes:
    """Return the value of message `number` of a topic to read."""
    return (b"%010d" % number + pool[number % len(pool)])[:size]


def number_of(value: bytes) -> int:
    """Return the number of the message with this value in its topic."""
    return int(value[:NUMBER_BYTES])


def quantile(values: list[float], share: float) -> float:
    """Return the value below which a share of all values lies."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def rss_kib() -> float:
    """Return the present memory use of this process (KiB)."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize() / 1024


def peak_rss_mib() -> float:
    """Return the highest memory use of this process (MiB)."""
    # Not getrusage's, in which a process begins with its parent's.
    with open("/proc/self/status") as file:
        line = next(line for line in file if line.startswith("VmHWM"))
    return int(line.split()[1]) / 1024
