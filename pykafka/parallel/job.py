"""`Job`: one record on its way through `handle()`; `Strands`: the order among them; `Progress`: one partition. Without I/O."""

from __future__ import annotations

from array import array
from collections.abc import Hashable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

if TYPE_CHECKING:
    from pykafka.common import TopicPartition


T = TypeVar("T")

#: Acknowledged entries at the front that are kept until there are so many of them: removing them costs a copy of the rest.
_TRIM = 1024

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


class OffsetTracker(Generic[T]):
    """Offsets in the order in which they were handed out, each with an item until it is acknowledged.

    Offsets that the log lacks (compaction, control records of transactions) are in no ledger, so they hold nothing up.
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

        :param offsets: ascending, and not below `end`: call `rewind` first where the consumer went back
        :param items: one for each
        :raises ValueError: the first offset is below `end`
        """
        if self.end is not None and offsets[0] < self.end:
            raise ValueError(f"offset {offsets[0]} comes after offset {self.end - 1}: rewind() the ledger first")
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

    def unsettled(self) -> list[T]:
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
        self.ledger: OffsetTracker[Job] = OffsetTracker()
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
