"""`Job`: one record on its way through `handle()`; `Strands`: the order among them; `Progress`: one partition. Without I/O."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import TYPE_CHECKING, Any, Final

from pykafka.parallel.ledger import Ledger

if TYPE_CHECKING:
    from pykafka.common import TopicPartition

#: Behind another record of its strand.
WAITING: Final = 0
#: To be taken by the next worker that is free.
READY: Final = 1
#: In `handle()`, or a worker looks after its failure.
RUNNING: Final = 2
#: `handle()` has returned, and the acknowledgement by hand is still to come.
RETURNED: Final = 3
#: In the pause before it is tried again.
PAUSED: Final = 4
#: Acknowledged, given up, or handled by a worker for nobody.
ENDED: Final = 5


class Job:
    """One record that was handed out. The lock of the run guards all but `record` while it runs.

    :param record: the record; None once it is settled
    :param progress: of its partition
    :param key: of its strand; None where it waits for no other record
    :param size: bytes that it counts for
    """

    __slots__ = (
        *("acknowledged", "dropped", "due", "error", "failures", "key", "next", "number", "progress", "record"),
        *("size", "state"),
    )

    def __init__(self, record: Any, progress: Progress, key: Hashable, size: int) -> None:
        self.record = record
        self.progress = progress
        self.key = key
        self.size = size
        #: In the ledger.
        self.number = 0
        self.state = WAITING
        #: The job behind it in its strand.
        self.next: Job | None = None
        #: How often it has failed.
        self.failures = 0
        #: The failure that a worker has to look after.
        self.error: BaseException | None = None
        #: When it is tried again (s, of the handler's clock), while `state` is PAUSED.
        self.due = 0.0
        self.acknowledged = False
        #: Its partition was given away or rewound: its end is nobody's business but its strand's.
        self.dropped = False

    @property
    def begun(self) -> bool:
        """Whether `handle()` has been called with its record, and the record is not acknowledged."""
        return not self.acknowledged and (self.state in (RUNNING, RETURNED) or self.failures > 0)


class Strands:
    """The order among the records of one partition: those of one key one after another, and different keys side by side.

    State: {key: last job of its strand}; the jobs of a strand are linked by `next`, and the first of them is READY, RUNNING,
    RETURNED or PAUSED. The lock of the run guards it.
    """

    __slots__ = ("_last",)

    def __init__(self) -> None:
        self._last: dict[Hashable, Job] = {}

    def __len__(self) -> int:
        """Return the number of keys that have records under way."""
        return len(self._last)

    def give(self, jobs: Iterable[Job]) -> list[Job]:
        """Add jobs in the order of their records; return those that wait for no other one, as READY."""
        last, ready = self._last, []
        for job in jobs:
            if job.key is not None:
                before = last.get(job.key)
                last[job.key] = job
                if before is not None:
                    before.next = job
                    continue
            job.state = READY
            ready.append(job)
        return ready

    def release(self, job: Job) -> Job | None:
        """Take the first job of a strand out; return the next one that is to run, as READY.

        :param job: the first; its place goes to the next one that was not dropped
        """
        if job.key is None:
            return None
        behind, job.next = job.next, None
        while behind is not None and behind.dropped:
            behind.state = ENDED
            dropped, behind = behind, behind.next
            dropped.next = None
        if behind is None:
            del self._last[job.key]
        else:
            behind.state = READY
        return behind


class Progress:
    """One partition, for as long as this consumer has it.

    :param partition: which
    :param strands: the order among its records; those of a former assignment that are still being handled are in it
    :param offset: of its first record
    """

    __slots__ = (
        *("committed", "held", "ledger", "moved_at", "partition", "strands", "under_way", "watched", "withheld"),
        "_seen",
    )

    def __init__(self, partition: TopicPartition, strands: Strands, offset: int) -> None:
        self.partition = partition
        #: The offset that was committed last; the first one needs no commit.
        self.committed = offset
        self._seen: int | None = None
        #: When the lowest unacknowledged record was first found to be that one (s).
        self.moved_at = 0.0
        self.strands = strands
        self.ledger: Ledger[Job] = Ledger()
        #: Jobs that are RUNNING or RETURNED.
        self.under_way = 0
        #: Whether the run has paused the partition.
        self.held = False
        #: Whether the polling worker waits for something to end here.
        self.watched = False
        #: Whether nothing of it is handed to a worker any more.
        self.withheld = False

    def stalled(self, now: float, patience: float) -> bool:
        """Return whether the lowest unacknowledged record has been the same one for long.

        :param now: s, of the handler's clock
        :param patience: s
        """
        offset = self.ledger.committable
        if offset != self._seen or not self.ledger.unacknowledged:
            self._seen, self.moved_at = offset, now
        return now - self.moved_at >= patience
