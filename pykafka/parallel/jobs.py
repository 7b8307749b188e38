"""`Jobs`: all records that a run has handed out, as a table without I/O: which is next, which wait, what can be committed."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from heapq import heappop, heappush
from itertools import count
from typing import Any, Literal, NamedTuple

from pykafka.common import TopicPartition
from pykafka.parallel.job import ENDED, PAUSED, READY, RETURNED, RUNNING, Job, Progress, Strands

Order = Literal["key", "partition"] | None

#: The key of all records of a partition, where they are handled in its order.
_ALL = "all"


class Limits(NamedTuple):
    """How much may be handed out: from there on partitions are paused, and at half of it they are resumed.

    :param records: of one partition, from the lowest unacknowledged one on
    :param nbytes: of unacknowledged records of all partitions
    """

    records: int
    nbytes: int


def grouped(records: Sequence[Any]) -> Iterator[tuple[TopicPartition, list[int], list[Any]]]:
    """Yield records by partition, in stretches of ascending offsets: (partition, offsets, records)."""
    topic, partition, end = None, -1, 0
    offsets: list[int] = []
    members: list[Any] = []
    for record in records:
        offset = record.offset
        if offset < end or record.partition != partition or record.topic != topic:
            if members:
                yield TopicPartition(str(topic), partition), offsets, members
            topic, partition = record.topic, record.partition
            offsets, members = [], []
        end = offset + 1
        offsets.append(offset)
        members.append(record)
    if members:
        yield TopicPartition(str(topic), partition), offsets, members


class Jobs:
    """The records that a run has handed out and not settled.

    All methods are called under the run's lock, which guards the state.

    :param order: among the records of a partition
    :param limits: how much of a partition, and of all, may be handed out at a time
    :param acknowledger: makes what acknowledges a record by hand; None where the return of `handle()` acknowledges it
    """

    def __init__(self, order: Order, limits: Limits, acknowledger: Callable[[Job], object] | None = None) -> None:
        self._order = order
        self._limits = limits
        self._acknowledger = acknowledger
        self._manual = acknowledger is not None
        self.ready: deque[Job] = deque()
        self.pauses: list[tuple[float, int, Job]] = []
        self._numbers = count()
        self.progress: dict[TopicPartition, Progress] = {}
        self._strands: dict[TopicPartition, Strands] = {}
        self._held: list[Progress] = []
        #: Whether all partitions are held, as their records take too many bytes.
        self.full = False
        #: Records that were handed out and are not acknowledged, and their bytes.
        self.unacknowledged = 0
        self.bytes = 0
        #: Jobs that are RUNNING or RETURNED, also of partitions that were given away.
        self.under_way = 0
        self.acknowledged = 0
        #: Acknowledgements that came after the partition was given away.
        self.late = 0

    # -- by the worker that polls -----------------------------------------------------------------------------------

    def give(self, records: Sequence[Any]) -> list[Progress]:
        """Add records in the order in which the consumer returned them; return their partitions."""
        touched = []
        for partition, offsets, members in grouped(records):
            progress = self.progress.get(partition)
            if progress is None:
                strands = self._strands.setdefault(partition, Strands())
                progress = self.progress[partition] = Progress(partition, strands, offsets[0])
            ledger = progress.ledger
            if ledger.end is not None and offsets[0] < ledger.end:
                self._discard(ledger.rewind(offsets[0]))
            jobs = self._make(progress, members)
            number = ledger.give(offsets, jobs)
            for job in jobs:
                job.number = number
                number += 1
                self.bytes += job.size
            self.unacknowledged += len(jobs)
            self.ready.extend(progress.strands.give(jobs))
            touched.append(progress)
        return touched

    def _make(self, progress: Progress, records: list[Any]) -> list[Job]:
        by_key = self._order == "key"
        strand = _ALL if self._order == "partition" else None
        jobs = []
        for record in records:
            key, value = record.raw_key, record.raw_value
            size = (len(key) if key is not None else 0) + (len(value) if value is not None else 0)
            jobs.append(Job(record, progress, key if by_key else strand, size))
        if self._acknowledger is not None:
            for job in jobs:
                job.record._set_ack(self._acknowledger(job))
        return jobs

    def flow(self, touched: Iterable[Progress]) -> tuple[list[TopicPartition], list[TopicPartition]]:
        """Return the partitions that are to be paused, and those that are to be resumed.

        :param touched: the partitions that have got records since the last call
        """
        most, nbytes = self._limits
        full = self.bytes >= nbytes or (self.full and self.bytes > nbytes // 2)
        changed = list(self.progress.values()) if full != self.full else [*touched, *self._held]
        self.full = full
        pause: list[TopicPartition] = []
        resume: list[TopicPartition] = []
        for progress in changed:
            ahead = len(progress.ledger)
            hold = full or ahead >= most or (progress.held and ahead > most // 2)
            if hold != progress.held:
                (pause if hold else resume).append(progress.partition)
            progress.held = progress.watched = hold
        self._held = [progress for progress in dict.fromkeys((*changed, *self._held)) if progress.held]
        return pause, resume

    def is_news(self, progress: Progress) -> bool:
        """Return whether the worker that polls waits for what has just happened in a partition; True only once.

        :param progress: one that is `watched`
        """
        most, nbytes = self._limits
        news = (
            progress.under_way == 0
            if progress.withheld
            else len(progress.ledger) <= most // 2 or (self.full and self.bytes <= nbytes // 2)
        )
        progress.watched = not news
        return news

    def withhold(self, partitions: Iterable[TopicPartition]) -> list[Progress]:
        """Hand out nothing more of partitions; return those that have jobs under way or unacknowledged."""
        found = []
        for partition in partitions:
            progress = self.progress.get(partition)
            if progress is not None:
                progress.withheld = progress.watched = True
                self._drop([job for job in progress.ledger.unsettled() if job.state not in (RUNNING, RETURNED)])
                found.append(progress)
        return found

    def forget(self, partition: TopicPartition) -> list[Any]:
        """Give a partition up; return the records that `handle()` has seen and nobody has acknowledged."""
        progress = self.progress.pop(partition, None)
        if progress is None:
            return []
        self._held = [one for one in self._held if one is not progress]
        jobs = progress.ledger.unsettled()
        begun = [job.record for job in jobs if job.begun]
        self._discard(jobs)
        self._tidy(progress)
        return begun

    def _discard(self, jobs: Collection[Job]) -> None:
        self._drop(jobs)
        self.unacknowledged -= len(jobs)
        for job in jobs:
            self.bytes -= job.size

    def _drop(self, jobs: Collection[Job]) -> None:
        """Drop jobs: those that wait never run, and the end of those that run concerns only their strands."""
        if not jobs:
            return
        first = []
        queued = False
        for job in jobs:
            job.dropped = True
        for job in jobs:
            queued = queued or job.state == READY
            if job.state in (READY, PAUSED):
                first.append(job)
            elif job.state == RETURNED:
                self._leave(job)
                first.append(job)
        if queued:
            self.ready = deque(job for job in self.ready if not job.dropped)
        for job in first:
            self._end(job)

    # -- by the workers of the pool -----------------------------------------------------------------------------------

    def take(self) -> Job | None:
        """Return the next job to run; None if there is none."""
        while self.ready:
            job = self.ready.popleft()
            if job.acknowledged:  # by hand, after nack()
                self._end(job)
                continue
            job.state = RUNNING
            job.progress.under_way += 1
            self.under_way += 1
            return job
        return None

    def handled(self, job: Job) -> bool:
        """Note that `handle()` has returned; return False if the application has refused the record meanwhile."""
        if self._manual and not job.acknowledged and not job.dropped:
            if job.error is not None:
                return False
            job.state = RETURNED
            return True
        self._leave(job)
        self._end(job)
        if job.dropped:
            self.late += not self._manual
        elif not job.acknowledged:
            self._settle(job)
        return True

    def put_off(self, job: Job, due: float) -> None:
        """Run a job that failed again later.

        :param due: when (s, of the handler's clock)
        """
        self._leave(job)
        job.error = None
        if job.dropped or job.acknowledged or job.progress.withheld:
            self._end(job)
            return
        job.state = PAUSED
        heappush(self.pauses, (due, next(self._numbers), job))

    def give_up(self, job: Job) -> None:
        """End a job that stays unacknowledged, and nothing of its strand after it."""
        self._leave(job)
        job.failures += not job.failures  # it was begun
        job.state = ENDED

    def settle(self, job: Job) -> None:
        """Acknowledge a job that failed: it is among the dead letters, or was acknowledged by hand."""
        self._leave(job)
        self._end(job)
        if not job.acknowledged and not job.dropped:
            self._settle(job)

    def acknowledge(self, job: Job) -> bool:
        """Acknowledge by hand; return whether that counts: not after the partition was given away."""
        if job.acknowledged:
            return True
        if job.dropped:
            self.late += 1
            return False
        if job.state == RETURNED:
            self._leave(job)
        if job.state in (RETURNED, PAUSED):
            self._end(job)
        self._settle(job)
        return True

    def refuse(self, job: Job, error: BaseException) -> bool:
        """Refuse a record by hand; return whether that counts: not after it was acknowledged or given away."""
        if job.acknowledged or job.dropped or job.state not in (RUNNING, RETURNED):
            return False
        job.error = error
        if job.state == RETURNED:
            self._leave(job)
            if job.progress.withheld:
                job.failures += 1
                self._end(job)
            else:
                job.state = READY
                self.ready.append(job)
        return True

    def wake_due(self, now: float) -> None:
        """Move the jobs whose pause is over to those that are ready.

        :param now: s, of the handler's clock
        """
        while self.pauses and (self.pauses[0][0] <= now or self.pauses[0][2].state != PAUSED):
            _, _, job = heappop(self.pauses)
            if job.state == PAUSED:
                job.state = READY
                self.ready.append(job)

    @property
    def next_due(self) -> float | None:
        """When the next pause ends (s, of the handler's clock); None if no job pauses."""
        while self.pauses and self.pauses[0][2].state != PAUSED:
            heappop(self.pauses)
        return self.pauses[0][0] if self.pauses else None

    @property
    def pausing(self) -> int:
        """The number of jobs in a pause."""
        return sum(job.state == PAUSED for _, _, job in self.pauses)

    def _leave(self, job: Job) -> None:
        job.progress.under_way -= 1
        self.under_way -= 1

    def _end(self, job: Job) -> None:
        """Take a job out of its strand, whose next one becomes ready."""
        job.state = ENDED
        behind = job.progress.strands.release(job)
        if behind is not None:
            self.ready.append(behind)
        if job.dropped:
            self._tidy(job.progress)

    def _tidy(self, progress: Progress) -> None:
        """Forget the strands of a partition that was given away, once none of its jobs runs."""
        partition = progress.partition
        if not progress.strands and partition not in self.progress and self._strands.get(partition) is progress.strands:
            del self._strands[partition]

    def _settle(self, job: Job) -> None:
        job.acknowledged = True
        job.record = None
        job.progress.ledger.acknowledge(job.number)
        self.acknowledged += 1
        self.unacknowledged -= 1
        self.bytes -= job.size
