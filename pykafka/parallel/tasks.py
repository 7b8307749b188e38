"""`TaskTable`: all records that a run has handed out, without I/O: which is next, which wait, which offset to commit."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from heapq import heappop, heappush
from itertools import count
from typing import Any, Literal, NamedTuple

from pykafka.common import TopicPartition
from pykafka.parallel.task import ENDED, PAUSED, READY, RETURNED, RUNNING, Progress, SerialQueues, Task

Order = Literal["key", "partition"] | None

#: The key of all records of a partition, if they are handled in its order.
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


class TaskTable:
    """The records that a run has handed out and that are not complete.

    All methods are called under the run's lock, which guards the state.

    :param order: among the records of a partition
    :param limits: how much of a partition, and of all, may be handed out at a time
    :param acknowledger: makes the receiver of `record.ack()`; None if the return of `handle()` acknowledges a record
    """

    def __init__(self, order: Order, limits: Limits, acknowledger: Callable[[Task], object] | None = None) -> None:
        self._order = order
        self._limits = limits
        self._acknowledger = acknowledger
        self._manual = acknowledger is not None
        self.ready: deque[Task] = deque()
        self.pauses: list[tuple[float, int, Task]] = []
        self._numbers = count()
        self.progress: dict[TopicPartition, Progress] = {}
        self._queues: dict[TopicPartition, SerialQueues] = {}
        self._paused: list[Progress] = []
        #: Whether all partitions are paused, as their records take too many bytes.
        self.full = False
        #: Records that were handed out and are not acknowledged, and their bytes.
        self.unacknowledged = 0
        self.bytes = 0
        #: Tasks that are RUNNING or RETURNED, also of revoked partitions.
        self.under_way = 0
        self.acknowledged = 0
        #: Acknowledgements that came after the partition was revoked.
        self.late = 0

    # -- by the worker that polls -----------------------------------------------------------------------------------

    def give(self, records: Sequence[Any]) -> list[Progress]:
        """Add records in the order in which the consumer returned them; return their partitions."""
        touched = []
        for partition, offsets, members in grouped(records):
            progress = self.progress.get(partition)
            if progress is None:
                queues = self._queues.setdefault(partition, SerialQueues())
                progress = self.progress[partition] = Progress(partition, queues, offsets[0])
            tracker = progress.tracker
            if tracker.end is not None and offsets[0] < tracker.end:
                self._discard(tracker.rewind(offsets[0]))
            tasks = self._make(progress, members)
            number = tracker.give(offsets, tasks)
            for task in tasks:
                task.number = number
                number += 1
                self.bytes += task.size
            self.unacknowledged += len(tasks)
            self.ready.extend(progress.queues.give(tasks))
            touched.append(progress)
        return touched

    def _make(self, progress: Progress, records: list[Any]) -> list[Task]:
        by_key = self._order == "key"
        queue_key = _ALL if self._order == "partition" else None
        tasks = []
        for record in records:
            key, value = record.raw_key, record.raw_value
            size = (len(key) if key is not None else 0) + (len(value) if value is not None else 0)
            tasks.append(Task(record, progress, key if by_key else queue_key, size))
        if self._acknowledger is not None:
            for task in tasks:
                task.record._set_ack(self._acknowledger(task))
        return tasks

    def flow(self, touched: Iterable[Progress]) -> tuple[list[TopicPartition], list[TopicPartition]]:
        """Return the partitions that are to be paused, and those that are to be resumed.

        :param touched: the partitions that have got records since the last call
        """
        most, nbytes = self._limits
        full = self.bytes >= nbytes or (self.full and self.bytes > nbytes // 2)
        changed = list(self.progress.values()) if full != self.full else [*touched, *self._paused]
        self.full = full
        pause: list[TopicPartition] = []
        resume: list[TopicPartition] = []
        for progress in changed:
            ahead = len(progress.tracker)
            hold = full or ahead >= most or (progress.is_paused and ahead > most // 2)
            if hold != progress.is_paused:
                (pause if hold else resume).append(progress.partition)
            progress.is_paused = progress.watched = hold
        self._paused = [progress for progress in dict.fromkeys((*changed, *self._paused)) if progress.is_paused]
        return pause, resume

    def ends_wait(self, progress: Progress) -> bool:
        """Return whether a change in a partition ends the wait of the polling worker; True only once.

        :param progress: one that is `watched`
        """
        most, nbytes = self._limits
        if progress.is_revoked:
            ends = progress.under_way == 0
        elif self.full:  # else each record of a partition with few of them would end it
            ends = self.bytes <= nbytes // 2
        else:
            ends = len(progress.tracker) <= most // 2
        progress.watched = not ends
        return ends

    def revoke_tasks(self, partitions: Iterable[TopicPartition]) -> list[Progress]:
        """Start no further task of partitions; return those that have tasks under way or unacknowledged."""
        found = []
        for partition in partitions:
            progress = self.progress.get(partition)
            if progress is not None:
                progress.is_revoked = progress.watched = True
                self._drop(
                    [task for task in progress.tracker.unacknowledged_items() if task.state not in (RUNNING, RETURNED)]
                )
                found.append(progress)
        return found

    def forget(self, partition: TopicPartition) -> list[Any]:
        """Remove a partition; return the records that `handle()` has seen and that are not acknowledged."""
        progress = self.progress.pop(partition, None)
        if progress is None:
            return []
        self._paused = [one for one in self._paused if one is not progress]
        tasks = progress.tracker.unacknowledged_items()
        for task in tasks:
            task.dropped = (
                True  # before `begun` is read: a worker that has not called `handle()` by then does not call it
            )
        begun = [task.record for task in tasks if task.begun]
        self._discard(tasks)
        self._drop_empty_queues(progress)
        return begun

    def _discard(self, tasks: Collection[Task]) -> None:
        self._drop(tasks)
        self.unacknowledged -= len(tasks)
        for task in tasks:
            self.bytes -= task.size

    def _drop(self, tasks: Collection[Task]) -> None:
        """Drop tasks: those that wait never run, and the end of those that run matters to their queues only."""
        if not tasks:
            return
        first = []
        queued = False
        for task in tasks:
            task.dropped = True
        for task in tasks:
            queued = queued or task.state == READY
            if task.state in (READY, PAUSED):
                first.append(task)
            elif task.state == RETURNED:
                self._leave(task)
                first.append(task)
        if queued:
            self.ready = deque(task for task in self.ready if not task.dropped)
        for task in first:
            self._end(task)

    # -- by the workers of the pool -----------------------------------------------------------------------------------

    def take(self) -> Task | None:
        """Return the next task to run; None if there is none."""
        while self.ready:
            task = self.ready.popleft()
            if task.acknowledged:  # by hand, after nack()
                self._end(task)
                continue
            task.state = RUNNING
            task.progress.under_way += 1
            self.under_way += 1
            return task
        return None

    def on_handled(self, task: Task) -> bool:
        """Note that `handle()` has returned; return False if the application has refused the record meanwhile."""
        if self._manual and not task.acknowledged and not task.dropped:
            if task.error is not None:
                return False
            task.state = RETURNED
            return True
        self._leave(task)
        self._end(task)
        if task.dropped:
            self.late += not self._manual
        elif not task.acknowledged:
            self._acknowledge(task)
        return True

    def retry_later(self, task: Task, due: float) -> None:
        """Run a failed task again later.

        :param due: when (s, of the handler's clock)
        """
        self._leave(task)
        task.error = None
        if task.dropped or task.acknowledged or task.progress.is_revoked:
            self._end(task)
            return
        task.state = PAUSED
        heappush(self.pauses, (due, next(self._numbers), task))

    def abandon(self, task: Task) -> None:
        """End a task that stays unacknowledged; the tasks behind it in its queue never run."""
        self._leave(task)
        task.failures += not task.failures  # it was begun
        task.state = ENDED

    def complete(self, task: Task) -> None:
        """Acknowledge a failed task: its record is among the dead letters, or was acknowledged by hand."""
        self._leave(task)
        self._end(task)
        if not task.acknowledged and not task.dropped:
            self._acknowledge(task)

    def acknowledge(self, task: Task) -> bool:
        """Acknowledge by hand; return whether that counts: not after the partition was revoked."""
        if task.acknowledged:
            return True
        if task.dropped:
            self.late += 1
            return False
        if task.state == RETURNED:
            self._leave(task)
        if task.state in (RETURNED, PAUSED):
            self._end(task)
        self._acknowledge(task)
        return True

    def refuse(self, task: Task, error: BaseException) -> bool:
        """Refuse a record by hand; return whether that counts: not after it was acknowledged or revoked."""
        if task.acknowledged or task.dropped or task.state not in (RUNNING, RETURNED):
            return False
        task.error = error
        if task.state == RETURNED:
            self._leave(task)
            if task.progress.is_revoked:
                task.failures += 1
                self._end(task)
            else:
                task.state = READY
                self.ready.append(task)
        return True

    def wake_due(self, now: float) -> None:
        """Move the tasks whose pause is over to the ready ones.

        :param now: s, of the handler's clock
        """
        while self.pauses and (self.pauses[0][0] <= now or self.pauses[0][2].state != PAUSED):
            _, _, task = heappop(self.pauses)
            if task.state == PAUSED:
                task.state = READY
                self.ready.append(task)

    @property
    def next_due(self) -> float | None:
        """When the next pause ends (s, of the handler's clock); None if no task pauses."""
        while self.pauses and self.pauses[0][2].state != PAUSED:
            heappop(self.pauses)
        return self.pauses[0][0] if self.pauses else None

    @property
    def pausing(self) -> int:
        """The number of tasks in a pause."""
        return sum(task.state == PAUSED for _, _, task in self.pauses)

    def _leave(self, task: Task) -> None:
        task.progress.under_way -= 1
        self.under_way -= 1

    def _end(self, task: Task) -> None:
        """Remove a task from its queue, whose next task becomes ready."""
        task.state = ENDED
        behind = task.progress.queues.release(task)
        if behind is not None:
            self.ready.append(behind)
        if task.dropped:
            self._drop_empty_queues(task.progress)

    def _drop_empty_queues(self, progress: Progress) -> None:
        """Remove the queues of a revoked partition, once none of its tasks runs."""
        partition = progress.partition
        if not progress.queues and partition not in self.progress and self._queues.get(partition) is progress.queues:
            del self._queues[partition]

    def _acknowledge(self, task: Task) -> None:
        task.acknowledged = True
        task.record = None
        task.progress.tracker.acknowledge(task.number)
        self.acknowledged += 1
        self.unacknowledged -= 1
        self.bytes -= task.size
