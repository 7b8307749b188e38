"""`PartitionLog`: the batches of one partition, as they were written, with the offsets that the log gave them."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from pykafka.protocol.message import Message
from pykafka.protocol.records import RawBatch, scan
from pykafka.testing.batches import Numbering, StoredBatch, marker, number
from pykafka.testing.cleaning import compacted
from pykafka.testing.producers import ProducerStates


class AbortedTransaction(NamedTuple):
    """A transaction whose records committed readers skip.

    :param producer_id: whose
    :param first_offset: of its first record
    :param marker_offset: of the batch that ended it
    """

    producer_id: int
    first_offset: int
    marker_offset: int


class PartitionLog:
    """Record batches in memory. Offsets are whole batches' ends everywhere but in `read`, `start` and `delete_before`."""

    __slots__ = (
        "_aborted",
        "_ended",
        "_ends",
        "appended_ms",
        "batches",
        "end",
        "epochs",
        "open_transactions",
        "producers",
        "start",
    )

    def __init__(self) -> None:
        #: The first offset that can be read.
        self.start = 0
        #: The offset that the next record gets.
        self.end = 0
        self.batches: list[StoredBatch] = []
        # The next offset of each batch, for bisection.
        self._ends: list[int] = []
        self.producers = ProducerStates()
        #: The first offset of each producer's transaction under way.
        self.open_transactions: dict[int, int] = {}
        #: First offset and marker of the ended transactions, whether committed or not, in the order of their ends.
        self._ended: list[tuple[int, int]] = []
        self._aborted: list[AbortedTransaction] = []
        #: Leader epochs, each with the first offset that it could write.
        self.epochs: list[tuple[int, int]] = []
        #: When the last batch was appended (ms).
        self.appended_ms = -1

    def __repr__(self) -> str:
        return f"<PartitionLog {self.start} to {self.end}, {len(self.batches)} batches>"

    def copied(self) -> PartitionLog:
        """Return a log with the same records, to which others can be appended."""
        other = PartitionLog()
        other.start, other.end, other.appended_ms = self.start, self.end, self.appended_ms
        other.batches, other._ends = list(self.batches), list(self._ends)
        other.producers = self.producers.copied()
        other.open_transactions = dict(self.open_transactions)
        other._ended, other._aborted, other.epochs = list(self._ended), list(self._aborted), list(self.epochs)
        return other

    @property
    def size(self) -> int:
        """How much it stores (bytes)."""
        return self._size_between(0, len(self.batches))

    def _size_between(self, first: int, behind: int) -> int:
        if first >= behind:
            return 0
        last = self.batches[behind - 1]
        return last.position + len(last.data) - self.batches[first].position

    def append(
        self,
        records: bytes | bytearray | memoryview | Iterable[RawBatch],
        now_ms: int,
        leader_epoch: int,
        append_time: int = -1,
    ) -> int:
        """Append batches and return the offset of their first record. The caller has checked them.

        :param records: their bytes, or what `scan` found in them
        :param now_ms: when (ms)
        :param leader_epoch: of the leader
        :param append_time: the time for all records (ms); -1: they keep their own
        """
        raws = scan(records)[0] if isinstance(records, bytes | bytearray | memoryview) else list(records)
        first = self.end
        self.begin_epoch(leader_epoch)
        for raw, batch in zip(
            raws, self._store(number(raws, Numbering(first, leader_epoch, append_time))), strict=False
        ):
            if raw.producer_id >= 0:
                self._note(raw, batch.base_offset, now_ms)
        self.appended_ms = now_ms
        return first

    def _store(self, batches: list[StoredBatch]) -> list[StoredBatch]:
        position = self.batches[-1].position + len(self.batches[-1].data) if self.batches else 0
        for batch in batches:
            batch.position = position
            position += len(batch.data)
            self._ends.append(batch.next_offset)
        self.batches += batches
        if batches:
            self.end = batches[-1].next_offset
        return batches

    def _note(self, raw: RawBatch, offset: int, now_ms: int) -> None:
        self.producers.add(raw, offset, now_ms)
        if raw.is_transactional:
            self.open_transactions.setdefault(raw.producer_id, offset)

    def append_marker(
        self,
        producer_id: int,
        producer_epoch: int,
        is_commit: bool,
        now_ms: int,
        leader_epoch: int,
        coordinator_epoch: int = 0,
    ) -> int:
        """End the transaction of a producer in this log, and return the offset of the control batch.

        :param producer_id: whose transaction
        :param producer_epoch: of that producer
        :param is_commit: or it is aborted
        :param now_ms: when (ms)
        :param leader_epoch: of the leader
        :param coordinator_epoch: of the transaction coordinator
        """
        raws = scan(marker(producer_id, producer_epoch, is_commit, now_ms, coordinator_epoch))[0]
        self.begin_epoch(leader_epoch)
        offset = self._store(number(raws, Numbering(self.end, leader_epoch)))[0].base_offset
        self.producers.end_transaction(producer_id, producer_epoch, coordinator_epoch, now_ms)
        self._end_transaction(producer_id, offset, is_commit)
        self.appended_ms = now_ms
        return offset

    def _end_transaction(self, producer_id: int, offset: int, is_commit: bool) -> None:
        first = self.open_transactions.pop(producer_id, None)
        if first is None:
            return
        self._ended.append((first, offset))
        if not is_commit:
            self._aborted.append(AbortedTransaction(producer_id, first, offset))

    @property
    def last_stable(self) -> int:
        """The offset below which all transactions have ended."""
        return min(self.open_transactions.values(), default=self.end)

    def stable_below(self, high_watermark: int) -> int:
        """Return the offset below which all transactions have ended, and have their ends below the high watermark."""
        found = min(high_watermark, self.last_stable)
        for first, ended in reversed(self._ended):
            if ended < high_watermark:
                break
            found = min(found, first)
        return found

    def read(self, offset: int, max_bytes: int, below: int, *, whole: bool = True) -> list[memoryview | bytes]:
        """Return batches from the one with an offset on.

        :param offset: of a record; the first batch may have others before it
        :param max_bytes: how much (bytes); of whole batches one at least
        :param below: read no batch that goes beyond this offset
        :param whole: False: brokers cut the last batch where the bytes end, even the first one
        """
        if whole:
            return [batch.data for batch in self.select(offset, max_bytes, below)]
        pieces: list[memoryview | bytes] = []
        for batch in self.batches[bisect_right(self._ends, offset) : bisect_right(self._ends, below)]:
            if max_bytes <= 0:
                break
            pieces.append(batch.data if len(batch.data) <= max_bytes else memoryview(batch.data)[:max_bytes])
            max_bytes -= len(batch.data)
        return pieces

    def select(self, offset: int, max_bytes: int, below: int) -> list[StoredBatch]:
        """Return what `read` would read, as the batches that are stored."""
        first, behind = bisect_right(self._ends, offset), bisect_right(self._ends, below)
        if first >= behind:
            return []
        limit = self.batches[first].position + max_bytes
        last = first + 1
        while last < behind and self.batches[last].position + len(self.batches[last].data) <= limit:
            last += 1
        return self.batches[first:last]

    def available(self, offset: int, below: int) -> int:
        """Return how many bytes `read` could return from an offset on."""
        return self._size_between(bisect_right(self._ends, offset), bisect_right(self._ends, below))

    def aborted(self, first: int, below: int) -> list[tuple[int, int]]:
        """Return producer id and first offset of the aborted transactions with records in a range, in the order of their ends.

        :param first: the first offset that is read
        :param below: the offset behind the last one
        """
        at = bisect_left(self._aborted, first, key=lambda transaction: transaction.marker_offset)
        return [
            (transaction.producer_id, transaction.first_offset)
            for transaction in self._aborted[at:]
            if transaction.first_offset < below
        ]

    def is_aborted(self, batch: StoredBatch) -> bool:
        """Return whether a batch is of an aborted transaction."""
        ended = self.aborted(batch.base_offset, batch.next_offset) if batch.is_transactional else ()
        return any(producer_id == batch.producer_id for producer_id, _ in ended)

    def begin_epoch(self, epoch: int) -> None:
        """Note that a leader's epoch begins at the end of the log, unless it has begun."""
        if not self.epochs or self.epochs[-1][0] < epoch:
            self.epochs.append((epoch, self.end))

    def epoch_of(self, offset: int) -> int:
        """Return the leader epoch of an offset; -1 if no epoch has begun before it."""
        at = bisect_right([begin for _, begin in self.epochs], offset)
        return self.epochs[at - 1][0] if at else -1

    def end_of_epoch(self, epoch: int) -> tuple[int, int]:
        """Return the latest epoch up to the given one that wrote, and the offset behind its last record.

        Both are -1 if no epoch so late is known. Of an epoch before the first one, the end is the start of the first.
        """
        if epoch < 0 or not self.epochs or epoch > self.epochs[-1][0]:
            return -1, -1
        if epoch == self.epochs[-1][0]:
            return epoch, self.end
        at = bisect_right([known for known, _ in self.epochs], epoch)
        return (self.epochs[at - 1][0] if at else epoch), self.epochs[at][1]

    def offset_by_time(self, timestamp_ms: int) -> tuple[int, int] | None:
        """Return offset and timestamp (ms) of the first record at or after a time; None if there is none."""
        for batch in self.batches:
            if batch.max_timestamp < timestamp_ms or batch.next_offset <= self.start or batch.is_control:
                continue
            for message in batch.messages():
                if message._timestamp >= timestamp_ms and message.offset >= self.start:
                    return message.offset, message._timestamp
        return None

    def newest(self) -> tuple[int, int] | None:
        """Return offset and timestamp (ms) of the first record with the highest timestamp; None if there are no records."""
        known = [batch for batch in self.batches if not batch.is_control and batch.next_offset > self.start]
        if not known:
            return None
        batch = max(known, key=lambda one: one.max_timestamp)
        found = [message for message in batch.messages() if message._timestamp == batch.max_timestamp]
        return (found[0].offset, batch.max_timestamp) if found else (batch.next_offset - 1, batch.max_timestamp)

    def records(self) -> Iterator[Message]:
        """Yield all records from the start on, of open and aborted transactions too."""
        for batch in list(self.batches):
            if not batch.is_control:
                yield from (message for message in batch.messages() if message.offset >= self.start)

    def delete_before(self, offset: int, *, forgets: bool = False) -> None:
        """Delete records before an offset, as DeleteRecords and retention do; batches go when all their records do.

        :param forgets: whether producers without other records go with them
        :raises ValueError: the log ends before it
        """
        if offset > self.end:
            raise ValueError(f"there is no offset {offset} to delete up to: the log ends at {self.end}")
        self.start = max(self.start, offset)
        if forgets:
            self.producers.forget_before(self.start)
        gone = bisect_right(self._ends, self.start)
        del self.batches[:gone], self._ends[:gone]
        self._aborted = [one for one in self._aborted if one.marker_offset >= self.start]
        self._ended = [one for one in self._ended if one[1] >= self.start]
        if self.epochs:
            at = max(bisect_right([begin for _, begin in self.epochs], self.start) - 1, 0)
            kept = self.epochs[at:]
            self.epochs = [(kept[0][0], max(kept[0][1], self.start)), *kept[1:]]

    def truncate(self, offset: int) -> None:
        """Remove records from an offset on, as a follower does whose leader lacks them: they are lost.

        A batch with records on both sides goes as a whole.
        """
        if offset >= self.end:
            return
        kept = bisect_right(self._ends, offset)
        self._replace(self.batches[:kept])
        self.end = offset
        self.start = min(self.start, offset)
        self.epochs = [one for one in self.epochs if one[1] < self.end or one[1] == 0]

    def compact(self, *, tombstones: bool = True) -> None:
        """Remove records that have a later one of the same key, and those of aborted transactions: offsets get gaps.

        :param tombstones: whether records without a value stay, as they do for delete.retention.ms
        """
        batches, end = compacted(self.batches, self.last_stable, self.is_aborted, tombstones), self.end
        self.batches, self._ends = [], []
        self._store(batches)
        self.end = end

    def expire(self, now_ms: int, retention_ms: int) -> bool:
        """Delete all if the newest record is too old, as brokers do with a segment: a log is one; return whether it was.

        :param now_ms: the time (ms)
        :param retention_ms: how long records are kept (ms); -1: for ever
        """
        if retention_ms < 0 or not self.batches or now_ms - self.batches[-1].max_timestamp <= retention_ms:
            return False
        newest = max(batch.max_timestamp for batch in self.batches)
        if now_ms - (self.appended_ms if newest < 0 else newest) <= retention_ms:
            return False
        self.delete_before(self.end)
        return True

    def _replace(self, batches: list[StoredBatch]) -> None:
        # Keep these batches alone; what is known of producers and transactions is found in them again.
        self.batches, self._ends = [], []
        self._store(batches)
        self.producers, self.open_transactions = ProducerStates(), {}
        self._ended, self._aborted = [], []
        for batch in self.batches:
            if batch.producer_id < 0:
                continue
            raw = batch.raw()
            if batch.is_control:
                self.producers.end_transaction(raw.producer_id, raw.producer_epoch, 0, raw.max_timestamp)
                self._end_transaction(raw.producer_id, batch.base_offset, raw.control_type() == 1)
            else:
                self._note(raw, batch.base_offset, raw.max_timestamp)
