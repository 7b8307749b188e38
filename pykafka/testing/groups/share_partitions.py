"""`SharePartition`: the records of a partition that a share group has acquired, and what became of them (KIP-932)."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import groupby
from typing import TYPE_CHECKING, Final
from uuid import UUID

from pykafka.exceptions import InvalidRecordState, InvalidRequest

if TYPE_CHECKING:
    from pykafka.protocol.wire.share_groups import AcknowledgementBatch, ShareFetchRequest
    from pykafka.testing.batches import StoredBatch
    from pykafka.testing.groups.consumer_member import Key
    from pykafka.testing.topics import Partition
    from pykafka.testing.waiters import Waiters

_RELEASE, _RENEW = 2, 4
#: The mode of acquiring that takes no more than max_records (KIP-1206); in the other one whole batches may exceed it.
_STRICT = 1
_DURATION: Final = re.compile(r"by_duration:P(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:([\d.]+)S)?)?")


class State(Enum):
    """The state of a record."""

    AVAILABLE = "available"
    ACQUIRED = "acquired"
    ACKNOWLEDGED = "acknowledged"
    #: Rejected, a gap, aborted, or delivered too often.
    ARCHIVED = "archived"


#: By the numbers of the protocol: gap, accept, reject.
_OUTCOMES: Final = {0: State.ARCHIVED, 1: State.ACKNOWLEDGED, 3: State.ARCHIVED}
_DONE: Final = (State.ACKNOWLEDGED, State.ARCHIVED)


@dataclass(eq=False, slots=True)
class AcquiredBatch:
    """Records that were acquired together; brokers deliver them again together until they differ.

    :param size: how many
    """

    size: int
    is_split: bool = False


@dataclass(eq=False, slots=True)
class InFlightRecord:
    """One offset between the start and the end of a share partition, with or without a record.

    :param batch: that it was acquired with
    """

    batch: AcquiredBatch
    state: State = State.AVAILABLE
    delivery_count: int = 0
    #: Whether its deliveries are used up.
    is_spent: bool = False
    member_id: str = ""
    #: The end of its lock (ms since 1970), if it is acquired.
    locked_until_ms: int = 0


class SharePartition:
    """One partition for one share group.

    :param waiters: of the cluster
    :param partition: whose records are read; who waits for it is woken when records become available
    :param setting: returns a setting of the group
    """

    def __init__(self, waiters: Waiters, partition: Partition, setting: Callable[[str], str]) -> None:
        self._waiters = waiters
        self._partition = partition
        self._setting = setting
        self._led = (-1, -1)
        #: The first offset that is not done; -1: the group's first fetch decides it.
        self.start = -1
        #: The start that was written last, as administrators see it; -1: none.
        self.written_start = -1
        self.records: list[InFlightRecord] = []
        #: The offsets before the start whose deliveries were used up.
        self._spent: list[int] = []

    def __repr__(self) -> str:
        return f"<SharePartition {self._partition.topic}/{self._partition.index} {self.start} to {self.end}>"

    @property
    def end(self) -> int:
        """The offset behind the last one that was acquired once."""
        return self.start + len(self.records)

    @property
    def lag(self) -> int:
        """How many offsets are not done yet; -1 if no state was written."""
        return self._partition.high_watermark - self.start - self._count(*_DONE) if self.written_start >= 0 else -1

    def _count(self, *states: State) -> int:
        return sum(record.state in states for record in self.records)

    @property
    def spent(self) -> list[int]:
        """The offsets whose deliveries are used up."""
        return [*self._spent, *self._spent_of(len(self.records))]

    def _spent_of(self, count: int) -> list[int]:
        return [self.start + at for at, record in enumerate(self.records[:count]) if record.is_spent]

    @property
    def next_offset(self) -> int:
        """The first offset that can be acquired."""
        states = (record.state for record in self.records)
        return self.start + next((at for at, state in enumerate(states) if state is State.AVAILABLE), len(self.records))

    def _room(self) -> int:
        """Return how many more records may be in flight."""
        locks = int(self._setting("share.partition.max.record.locks"))
        return locks - self._count(State.AVAILABLE, State.ACQUIRED)

    def begin(self, start: int) -> None:
        """Begin at an offset, as an administrator says."""
        self.start = self.written_start = start
        self.records.clear()
        self._waiters.wake(self._partition)

    def refresh(self, led: tuple[int, int]) -> None:
        """Follow the log: its start and end, and its leader, with which locks and what was not written are lost.

        :param led: the leader's epoch, and its number of starts
        """
        log = self._partition.log
        if self.start < 0:
            self.start = self._first()
        elif led != self._led:
            for record in self._acquired():
                record.state = State.AVAILABLE
                record.delivery_count -= 1
        self._led = led
        del self.records[max(log.end - self.start, 0) :]
        if not log.start <= self.start <= log.end:
            del self.records[: max(log.start - self.start, 0)]
            self.start = min(max(self.start, log.start), log.end)

    def _first(self) -> int:
        reset, log = self._setting("share.auto.offset.reset"), self._partition.log
        if reset == "earliest":
            return log.start
        if found := _DURATION.fullmatch(reset):
            days, hours, minutes, seconds = (float(part or 0) for part in found.groups())
            ago_s = ((days * 24 + hours) * 60 + minutes) * 60 + seconds
            if first := log.offset_by_time(self._waiters.now_ms() - int(ago_s * 1000)):
                return first[0]
        return self._partition.high_watermark

    # -- acquiring --

    @property
    def readable_below(self) -> int:
        """The offset before which the group may read."""
        is_committed = self._setting("share.isolation.level") == "read_committed"
        return self._partition.last_stable if is_committed else self._partition.high_watermark

    def available(self) -> int:
        """Return how much there is to acquire (bytes)."""
        offset = self.next_offset
        if offset == self.end and self._room() <= 0:
            return 0
        return self._partition.log.available(offset, self.readable_below)

    def acquire(
        self, request: ShareFetchRequest, max_bytes: int, most: int
    ) -> tuple[list[StoredBatch], list[tuple[int, int, int]]]:
        """Acquire records for a member; return their batches, and ranges of offsets with their delivery count.

        :param request: by which the member asks
        :param max_bytes: how much (bytes), of whole batches one at least
        :param most: how many records
        """
        if most <= 0 or not self.available():
            return [], []
        offset = self.next_offset
        batches = self._partition.log.select(offset, max_bytes, self.readable_below)
        self._archive_gap(offset, batches[0].base_offset)
        is_strict = request.share_acquire_mode == _STRICT
        taken, is_throttled = self._again(most, batches[-1].next_offset, is_strict)
        if not is_throttled and batches[-1].next_offset > self.end:
            taken += self._more(min(most - len(taken), self._room()), request.batch_size, batches, is_strict)
        until_ms = self._waiters.now_ms() + self.lock_ms
        for at in taken:
            record = self.records[at - self.start]
            record.state, record.member_id, record.locked_until_ms = State.ACQUIRED, request.member_id or "", until_ms
            record.delivery_count += 1
        if self._setting("share.isolation.level") == "read_committed":
            taken = [at for at in taken if not self._is_aborted(at, batches)]
        self._waiters.at(until_ms, self._time_out)
        if not taken:
            self._settle()
            return [], []
        read = [one for one in batches if one.next_offset > taken[0] and one.base_offset <= taken[-1]]
        return read, list(self._ranges(taken))

    @property
    def lock_ms(self) -> int:
        """How long records that are acquired now are locked (ms)."""
        return int(self._setting("share.record.lock.duration.ms"))

    def _archive_gap(self, offset: int, first: int) -> None:
        # What can be read begins later, after compaction.
        for at in range(offset, min(first, self.end)):
            if self.records[at - self.start].state is State.AVAILABLE:
                self.records[at - self.start].state = State.ARCHIVED
        for _ in range(self.end, first):
            self.records.append(InFlightRecord(AcquiredBatch(1)))
            self.records[-1].state = State.ARCHIVED

    def _again(self, most: int, below: int, is_strict: bool) -> tuple[list[int], bool]:
        """Return offsets that were released, and whether they were delivered often: half of a batch, at last one alone."""
        released: dict[AcquiredBatch, list[int]] = {}
        for at, record in enumerate(self.records[: max(below - self.start, 0)], self.start):
            if record.state is State.AVAILABLE:
                released.setdefault(record.batch, []).append(at)
        taken: list[int] = []
        limit = int(self._setting("share.delivery.count.limit"))
        for batch, offsets in released.items():
            left = most - len(taken)
            if left <= 0:
                break
            counts = [self.records[at - self.start].delivery_count for at in offsets]
            if max(counts) >= max(2, -(-limit // 2)):
                batch.is_split = True
                last = next((number for number, count in enumerate(counts) if count >= limit - 1), len(counts))
                return taken + offsets[: min(left, max(batch.size // 2, 1), last or (0 if taken else 1))], True
            batch.is_split |= len(offsets) < batch.size or (is_strict and left < batch.size)
            taken += offsets[:left] if batch.is_split else offsets
        return taken, False

    def _more(self, most: int, batch_size: int, batches: Sequence[StoredBatch], is_strict: bool) -> list[int]:
        """Return offsets that are acquired for the first time."""
        first = self.end
        wanted = [one for one in batches if one.next_offset > first and one.base_offset < first + most]
        if most <= 0 or not wanted:
            return []
        end = min(first + most, wanted[-1].next_offset) if is_strict else wanted[-1].next_offset
        begins = first
        for one in wanted:
            behind = min(one.next_offset, end)
            if behind == end or behind - begins >= batch_size:
                batch = AcquiredBatch(behind - begins)
                self.records += [InFlightRecord(batch) for _ in range(begins, behind)]
                begins = behind
        return list(range(first, end))

    def _is_aborted(self, offset: int, batches: Sequence[StoredBatch]) -> bool:
        batch = next(one for one in batches if one.next_offset > offset)
        if batch.is_control or not self._partition.log.is_aborted(batch):
            return False
        self.records[offset - self.start].state = State.ARCHIVED
        return True

    def _ranges(self, offsets: Sequence[int]) -> Iterator[tuple[int, int, int]]:
        rows = [(at, self.records[at - self.start]) for at in offsets]
        for (_, _, count), group in groupby(
            enumerate(rows), lambda row: (row[1][0] - row[0], row[1][1].batch, row[1][1].delivery_count)
        ):
            members = [at for _, (at, _) in group]
            yield members[0], members[-1], count

    # -- what becomes of them --

    def acknowledge(self, member_id: str, acknowledgements: Collection[AcknowledgementBatch], *, renews: bool) -> None:
        """Note what a member did with records: all of it, or nothing if one acknowledgement is wrong.

        :param member_id: that has acquired them
        :param acknowledgements: in the order of offsets
        :param renews: whether locks may be renewed (KIP-1222)
        :raises InvalidRequest: they cannot be read, or are of records that were never acquired
        :raises InvalidRecordState: the member has not locked one of the records
        """
        changes: list[tuple[InFlightRecord, int]] = []
        before = -1
        for batch in acknowledgements:
            first, last, types = batch.first_offset, batch.last_offset, batch.acknowledge_types
            many = len(types) > 1
            if not before < first <= last or not types or (many and len(types) != last - first + 1):
                raise InvalidRequest(f"The acknowledgement of offsets {first} to {last} is not valid.")
            if not all(0 <= type_ <= (_RENEW if renews else _RENEW - 1) for type_ in types):
                raise InvalidRequest(f"There is no type {max(types)} of an acknowledgement.")
            before = last
            if last >= self.end:
                raise InvalidRequest("The last offset in the batch was never acquired.")
            for at in range(max(first, self.start), last + 1):
                record = self.records[at - self.start]
                if record.state is not State.ACQUIRED or record.member_id != member_id:
                    raise InvalidRecordState("The record is not acquired by the member.")
                record.batch.is_split |= many or last - first + 1 < record.batch.size
                changes.append((record, types[at - first if many else 0]))
        self._apply(changes)

    def _apply(self, changes: list[tuple[InFlightRecord, int]]) -> None:
        until_ms = self._waiters.now_ms() + self.lock_ms
        if any(type_ == _RENEW for _, type_ in changes):
            if self._setting("share.renew.acknowledge.enable") != "true":
                raise InvalidRecordState("Renewal of locks is disabled for the group.")
            self._waiters.at(until_ms, self._time_out)
        for record, type_ in changes:
            if type_ == _RENEW:
                record.locked_until_ms = until_ms
            elif type_ == _RELEASE:
                self._free(record)
            else:
                record.state = _OUTCOMES[type_]
        if changes:
            self._settle()

    def release(self, member_id: str) -> None:
        """Make available what a member has acquired: its session has ended."""
        self._release([record for record in self._acquired() if record.member_id == member_id])

    def _acquired(self) -> list[InFlightRecord]:
        return [record for record in self.records if record.state is State.ACQUIRED]

    def _time_out(self) -> None:
        now_ms = self._waiters.now_ms()
        self._release([record for record in self._acquired() if record.locked_until_ms <= now_ms])

    def _release(self, records: Collection[InFlightRecord]) -> None:
        for record in records:
            self._free(record)
        if records:
            self._settle()

    def _free(self, record: InFlightRecord) -> None:
        record.is_spent = record.delivery_count >= int(self._setting("share.delivery.count.limit"))
        record.state = State.ARCHIVED if record.is_spent else State.AVAILABLE

    def _settle(self) -> None:
        """Write the state, and then move the start behind what is done."""
        self.written_start = self.start
        at = (number for number, record in enumerate(self.records) if record.state not in _DONE)
        done = next(at, len(self.records))
        self._spent += self._spent_of(done)
        del self.records[:done]
        self.start += done
        self._waiters.wake(self._partition)


class SharePartitions:
    """The states of all share groups. Brokers keep them in __share_group_state.

    :param waiters: of the cluster
    :param setting: returns a setting of a group, by the group's name and its own
    """

    def __init__(self, waiters: Waiters, setting: Callable[[str, str], str]) -> None:
        self._waiters = waiters
        self._setting = setting
        self._by_key: dict[tuple[str, UUID, int], SharePartition] = {}

    def get(self, group: str, topic_id: UUID, index: int) -> SharePartition | None:
        """Return the state of a partition; None if the group has none."""
        return self._by_key.get((group, topic_id, index))

    def of_group(self, group: str) -> dict[Key, SharePartition]:
        """Return the states of a group's partitions."""
        return {(topic, index): one for (name, topic, index), one in self._by_key.items() if name == group}

    def begin(self, group: str, key: Key, partition: Partition) -> SharePartition:
        """Return the state of a partition, which begins unless it has."""
        found = self._by_key.get((group, *key))
        if found is None:
            found = SharePartition(self._waiters, partition, lambda name: self._setting(group, name))
            self._by_key[group, *key] = found
        return found

    def delete(self, group: str, topic_id: UUID | None = None) -> None:
        """Forget the states of a group, of one topic or of all."""
        for topic, index in self.of_group(group):
            if topic_id in (None, topic):
                del self._by_key[group, topic, index]
