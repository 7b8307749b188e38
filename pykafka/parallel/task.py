"""`Task`: one record on its way through `handle()`; `SerialQueues`: their order; `Progress`: one partition. Without I/O."""

from __future__ import annotations

from array import array
from collections.abc import Hashable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

if TYPE_CHECKING:
    from pykafka.common import TopicPartition


T = TypeVar("T")

#: Acknowledged entries at the front that are kept until there are so many of them: removing them costs a copy of the rest.
_TRIM = 1024

#: Behind another record of its serial queue.
WAITING: Final = 0
#: To be taken by the next worker that is free.
READY: Final = 1
#: A worker has taken it, and is about to call `handle()`, is inside of it, or handles its failure.
RUNNING: Final = 2
#: `handle()` has returned, and the acknowledgement by hand is still to come.
RETURNED: Final = 3
#: In the pause before it is tried again.
PAUSED: Final = 4
#: Acknowledged, abandoned, or handled after it was dropped.
ENDED: Final = 5


class OffsetTracker(Generic[T]):
    """Offsets in the order in which they were handed out, each with an item until it is acknowledged.

    Offsets that the log lacks (compaction, control records of transactions) are not tracked, so they hold nothing up.
    An entry costs 17 bytes and its item; a million of them are handed out and acknowledged in any order within a second.

    State: entry `number` is at index `number - _base` of three sequences; all before `_head` are acknowledged. The lock of the
    run guards it.
    """

    __slots__ = ("_acknowledged", "_base", "_head", "_items", "_offsets", "end", "unacknowledged")

    def __init__(self) -> None:
        self._offsets = array("q")
        self._acknowledged = bytearray()
        self._items: list[T | None] = []
        self._base = 0
        self._head = 0
        #: The offset behind the last one that was handed out; None before the first.
        self.end: int | None = None
        #: Entries that are not acknowledged.
        self.unacknowledged = 0

    def __len__(self) -> int:
        """Return the number of entries from the lowest unacknowledged one on."""
        return len(self._items) - self._head

    def give(self, offsets: Sequence[int], items: Sequence[T]) -> int:
        """Add entries and return the number of the first; the others have the numbers that follow.

        :param offsets: ascending, and not below `end`: call `rewind` first if the consumer went back
        :param items: one for each
        :raises ValueError: the first offset is below `end`
        """
        if self.end is not None and offsets[0] < self.end:
            raise ValueError(f"offset {offsets[0]} comes after offset {self.end - 1}: rewind() the tracker first")
        number = self._base + len(self._items)
        self._offsets.extend(offsets)
        self._acknowledged.extend(bytes(len(items)))
        self._items.extend(items)
        self.unacknowledged += len(items)
        self.end = offsets[-1] + 1
        return number

    def acknowledge(self, number: int) -> bool:
        """Acknowledge an entry and let its item go; return False if that was done before.

        :param number: as `give` counts
        """
        index = number - self._base
        if index < 0 or self._acknowledged[index]:
            return False
        self._acknowledged[index] = 1
        self._items[index] = None
        self.unacknowledged -= 1
        if index == self._head:
            self._advance()
        return True

    def _advance(self) -> None:
        head = self._acknowledged.find(0, self._head)
        self._head = head = len(self._items) if head < 0 else head
        if head >= _TRIM and 2 * head >= len(self._items):
            del self._offsets[:head], self._acknowledged[:head], self._items[:head]
            self._base += head
            self._head = 0

    @property
    def committable(self) -> int | None:
        """The offset to commit: of the lowest unacknowledged entry, else `end`; None before anything was handed out."""
        return self._offsets[self._head] if self.unacknowledged else self.end

    def unacknowledged_items(self) -> list[T]:
        """Return the items of all entries that are not acknowledged, in their order."""
        return [item for item in self._items[self._head :] if item is not None]

    def rewind(self, offset: int) -> list[T]:
        """Forget the entries from an offset on, which are about to be handed out once more; return their items.

        Unacknowledged entries below it stay, so nothing is committed past them.

        :param offset: where the consumer went back to
        """
        replaced = []
        for index in range(self._head, len(self._items)):
            item = self._items[index]
            if item is not None and self._offsets[index] >= offset:
                replaced.append(item)
                self._acknowledged[index] = 1
                self._items[index] = None
        self.unacknowledged -= len(replaced)
        self._advance()
        self.end = offset
        return replaced


class Task:
    """One record that was handed out. The lock of the run guards all but `record` while it runs.

    :param record: the record; None once it is acknowledged
    :param progress: of its partition
    :param key: of its serial queue; None if it waits for no other record
    :param size: bytes that it counts for
    """

    __slots__ = (
        *(
            "acknowledged",
            "called",
            "dropped",
            "due",
            "error",
            "failures",
            "key",
            "next",
            "number",
            "progress",
            "record",
        ),
        *("size", "state"),
    )

    def __init__(self, record: Any, progress: Progress, key: Hashable, size: int) -> None:
        self.record = record
        self.progress = progress
        self.key = key
        self.size = size
        #: Of its entry in the tracker.
        self.number = 0
        self.state = WAITING
        #: The task behind it in its serial queue.
        self.next: Task | None = None
        #: How often it has failed.
        self.failures = 0
        #: The failure that a worker has to handle.
        self.error: BaseException | None = None
        #: When it is tried again (s, of the handler's clock), while `state` is PAUSED.
        self.due = 0.0
        self.acknowledged = False
        #: Whether a worker has called `handle()` with its record, or is about to.
        self.called = False
        #: Its partition was revoked or rewound: its end matters to its serial queue only.
        self.dropped = False

    @property
    def begun(self) -> bool:
        """Whether `handle()` has been called with its record, and the record is not acknowledged."""
        is_running = self.state == RETURNED or (self.state == RUNNING and self.called)
        return not self.acknowledged and (is_running or self.failures > 0)


class SerialQueues:
    """The order among the records of one partition: those of one key one after another, and different keys side by side.

    State: {key: last task of its queue}; the tasks of a queue are linked by `next`, and the first of them is READY, RUNNING,
    RETURNED or PAUSED. The lock of the run guards it.
    """

    __slots__ = ("_last",)

    def __init__(self) -> None:
        self._last: dict[Hashable, Task] = {}

    def __len__(self) -> int:
        """Return the number of keys that have records under way."""
        return len(self._last)

    def give(self, tasks: Iterable[Task]) -> list[Task]:
        """Add tasks in the order of their records; return those that wait for no other one, as READY."""
        last, ready = self._last, []
        for task in tasks:
            if task.key is not None:
                before = last.get(task.key)
                last[task.key] = task
                if before is not None:
                    before.next = task
                    continue
            task.state = READY
            ready.append(task)
        return ready

    def release(self, task: Task) -> Task | None:
        """Remove the first task of a queue; return the next one that is to run, as READY.

        :param task: the first; the next one that was not dropped takes its place
        """
        if task.key is None:
            return None
        behind, task.next = task.next, None
        while behind is not None and behind.dropped:
            behind.state = ENDED
            dropped, behind = behind, behind.next
            dropped.next = None
        if behind is None:
            del self._last[task.key]
        else:
            behind.state = READY
        return behind


class Progress:
    """One partition, for as long as this consumer has it.

    :param partition: which
    :param queues: the order among its records, including those of a former assignment that are still being handled
    :param offset: of its first record
    """

    __slots__ = (
        *("committed", "is_paused", "tracker", "moved_at", "partition", "queues", "under_way", "watched", "is_revoked"),
        "_seen",
    )

    def __init__(self, partition: TopicPartition, queues: SerialQueues, offset: int) -> None:
        self.partition = partition
        #: The offset that was committed last; the first one needs no commit.
        self.committed = offset
        self._seen: int | None = None
        #: When the lowest unacknowledged record was first found to be that one (s).
        self.moved_at = 0.0
        self.queues = queues
        self.tracker: OffsetTracker[Task] = OffsetTracker()
        #: Tasks that are RUNNING or RETURNED.
        self.under_way = 0
        #: Whether the run has paused the partition.
        self.is_paused = False
        #: Whether the polling worker waits for something to end here.
        self.watched = False
        #: Whether its tasks do not start any more.
        self.is_revoked = False

    def stalled(self, now: float, limit: float) -> bool:
        """Return whether the lowest unacknowledged record has been the same one for long.

        :param now: s, of the handler's clock
        :param limit: s
        """
        offset = self.tracker.committable
        if offset != self._seen or not self.tracker.unacknowledged:
            self._seen, self.moved_at = offset, now
        return now - self.moved_at >= limit
