"""The metrics of parallel work."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from pykafka.parallel.pool import Pool

if TYPE_CHECKING:
    from pykafka.metrics.reading import Reading

GROUP = "parallel-metrics"


class Counts(Protocol):
    """The counts of a run, as `pykafka.parallel.run.Stats` has them."""

    @property
    def acknowledged(self) -> int: ...
    @property
    def unacknowledged(self) -> int: ...
    @property
    def under_way(self) -> int: ...


def add_run(reading: Reading, counts: Counts, pool: Pool) -> None:
    """Add the metrics of a run to those of its consumer."""
    reading.add(GROUP, "tasks-in-progress", counts.under_way)
    # Records of revoked partitions may still be under way, and are not waited for.
    reading.add(GROUP, "tasks-waiting", max(counts.unacknowledged - counts.under_way, 0))
    reading.add(GROUP, "tasks-done-total", counts.acknowledged)
    reading.add(GROUP, "tasks-failed-total", pool.failed)
    reading.add(GROUP, "tasks-retried-total", pool.retried)
    reading.add(GROUP, "dead-letters-total", pool.dead)
    if pool.durations is not None:
        reading.spread(GROUP, "handle-time", [pool.durations])
        reading.histogram(GROUP, "handle-time", [pool.durations])
        began = pool.oldest_began
        reading.add(GROUP, "oldest-task-seconds", 0.0 if began is None else max(reading.now - began, 0.0))
