"""Fetched messages that are not read yet: a cursor per partition, and the round over partitions with messages.

`Buffers.next` is the fast path of consuming: one compiled call a message, without a lock, queue operation or clock call;
`take` is one call for many. Records are decoded when they are asked for. Compiled, a call is atomic; the pure source takes
the handler's lock. A reader without objects borrows the cursors of a partition, and is their only one meanwhile.

A fetch worker appends readers; whoever consumes takes messages. Positions are read from the cursors, so they say what was
delivered, not what was fetched. The records of the last call are in process: it counts as processed at the next call.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from pykafka.common import TopicPartition
from pykafka.consumer.leader_epochs import NO_EPOCH, LeaderEpochs, Start
from pykafka.exceptions import InvalidMessageError
from pykafka.protocol.records_read import BatchReader
from pykafka.utils.compression import MAX_UNPACKED

if TYPE_CHECKING:
    from uuid import UUID

    from pykafka.handlers import Handler
    from pykafka.handlers.base import EventType
    from pykafka.metadata.partition import Partition
    from pykafka.metrics.listener import ClientListener

try:
    import cython
except ImportError:
    from pykafka.compiled import cython

#: What a batch counts for besides its bytes: its cursor (bytes).
CURSOR_BYTES = 256

#: Greenlets: after this much `next` and `take` let the hub turn, if it has not for a while. Bytes, of which handing
#: out a message counts as some, however short it is.
BREATHE_EVERY = 128 * 1024
MESSAGE_COUNTS = 512


def volume(readers: Iterable[BatchReader]) -> tuple[int, int]:
    # How many messages are left to read, and what the cursors hold (bytes).
    messages = nbytes = 0
    for reader in readers:
        messages += reader.remaining
        nbytes += CURSOR_BYTES + reader._end
    return messages, nbytes


class Borrow:
    """The cursors of a partition, borrowed by a reader that bypasses `Buffers.next`.

    :param owned: the partition
    :param number: it differs from that of the partition if that has been moved meanwhile
    :param readers: the cursors, in order
    """

    __slots__ = ("nbytes", "number", "owned", "readers", "rows")

    def __init__(self, owned: Any, number: int, readers: list[BatchReader]) -> None:
        self.owned = owned
        self.number = number
        self.readers = readers
        self.rows, self.nbytes = volume(readers)


class OwnedPartition:
    """A partition as one consumer reads it: its buffer and its position.

    State: all that changes does so in calls of `Buffers`, under its lock (compiled: in one call); `max_bytes`, `wake`,
    `fetcher`, `trouble_since`, `topic_id`, `leader_epoch`, and the log's ends belong to the fetch side. `paused` is what the
    application has paused; `given_up` what the consumer reads no more.

    :param partition: the partition
    :param buffers: the consumer's round, to which this belongs
    :param max_messages: fetching pauses while more than this many messages are buffered
    :param max_bytes: how much to fetch at a time (bytes)
    """

    def __init__(self, partition: Partition, buffers: Buffers, max_messages: int, max_bytes: int) -> None:
        self.partition = partition
        self.partition_id = partition.id
        self.key = TopicPartition(partition.topic_name, partition.id)
        self.buffers = buffers
        self.max_messages = max_messages
        self.max_bytes = max_bytes
        self.reader: BatchReader | None = None
        self.readers: deque[BatchReader] = deque()
        self.messages = 0
        self.position = -1
        self.last_offset_consumed = -1
        # The log's ends as the last answer had them; -1 while they are unknown.
        self.high_watermark = self.last_stable_offset = self.log_start_offset = -1
        self.last_timestamp = -1  # the newest of the last batch that was read to its end (ms)
        self.taken_in = self.taken_from = -1  # the number of the call that took from here last, and where that began
        self.fetch_offset = -1
        self.epoch = self.moves = 0
        self.buffer_full = False
        self.paused = False
        self.given_up = False
        self.active = False  # whether it has a turn, and whether the round lists it
        self.listed = False
        self.borrow = 0  # the number of the borrow while the cursors are borrowed, else 0
        self.wake: EventType | None = None
        self.fetcher: Any = None
        self.trouble_since: float | None = None
        self.topic_id: UUID | None = None  # of the topic that the position is of
        self.former: tuple[UUID, int] | None = None  # a topic made anew: the former id, and where the new one begins
        self.leader_epoch = NO_EPOCH  # of the leader that the client knew when it began to fetch there
        self.leader_epochs = LeaderEpochs()

    def copy_into(self, buffers: Buffers) -> OwnedPartition:
        """Return a copy with this position and an empty buffer, in another round."""
        fresh = OwnedPartition(self.partition, buffers, self.max_messages, self.max_bytes)
        fresh.position = fresh.fetch_offset = self.position
        fresh.last_offset_consumed = self.last_offset_consumed
        fresh.topic_id, fresh.former = self.topic_id, self.former
        fresh.paused = self.paused
        fresh.leader_epochs = self.leader_epochs
        if self.taken_in == self.buffers.calls:
            fresh.taken_in, fresh.taken_from = buffers.calls, self.taken_from
        return fresh

    @property
    def next_offset(self) -> int:
        """The offset of the next message; -1 while it is unknown."""
        return self.position

    def _take(self) -> Any:
        """Return the next message, or record; None when nothing is buffered."""
        while True:
            reader = self.reader
            if reader is None:
                if not self.readers:
                    return None
                reader = self.reader = self.readers.popleft()
                if self.buffers._listener is not None:
                    self.buffers.taken_at = self.buffers._now()
            before = reader._at
            message = reader.next_record() if self.buffers.records else reader.next()
            if message is not None:
                offset = reader.offset - 1
                self.buffers.work += MESSAGE_COUNTS + reader._at - before
                if self.taken_in != self.buffers.calls:  # as `begin_taking`
                    self.taken_in = self.buffers.calls
                    self.taken_from = offset
                self.last_offset_consumed = offset
                self.position = offset + 1
                self._forget(1)
                return message
            if self.reader is reader:
                self.reader = None
                if self.buffers._listener is not None:
                    self.buffers.taken_at = self.buffers._now()
                if reader.max_timestamp >= 0:
                    self.last_timestamp = reader.max_timestamp
                self.buffers.forget(CURSOR_BYTES + reader._end)
                if reader.next_offset > self.position:  # offsets that no message has: compaction, transaction markers
                    self.position = reader.next_offset

    def begin_taking(self, offset: int) -> None:
        """Store where the present call begins to take, unless it has begun here; the caller holds the lock."""
        if self.taken_in != self.buffers.calls:
            self.taken_in = self.buffers.calls
            self.taken_from = offset

    def reached_timestamp(self) -> int:
        """Return the timestamp of the last message handed out (ms), as of `BatchReader.last_timestamp`; -1 if it is unknown.

        This takes no lock: reports ask it on native threads, and reading alone changes nothing.
        """
        reader = self.reader
        if reader is not None and reader.max_timestamp >= 0:
            return reader.last_timestamp()
        return self.last_timestamp

    def _forget(self, messages: int) -> None:
        """Count messages as read, and request a fetch of the partition when few are left."""
        self.messages -= messages
        if self.buffer_full and self.messages < self.max_messages:
            self.buffer_full = False
            if self.wake is not None:
                self.wake.set()


class Buffers:
    """The partitions of one consumer with buffered messages, taken in turn.

    State: `nbytes` is what is buffered, unpacked; `_waiting` are the fetchers that wait for it to become less; `calls`
    counts the calls that take messages, so that what the last one took is known: with several workers, the last of any.
    `held` is stored by any worker, of any thread: nothing is delivered while it is set. `nbytes` leaves out what is buffered
    of paused partitions, which stays: else they could use up the room of the others. `_active` has the partitions
    in the order of their turns; `_stale` of them have no turn any more, and go together, so that none is searched for.

    :param handler: whose lock the pure source takes, and whose hub is let turn
    :param max_bytes: fetching pauses while this much is buffered of all partitions together, and continues when a quarter
        of it has been read
    :param records: deliver `Record`s, not `Message`s
    :param max_unpacked: what a batch may unpack to (bytes); fetchers ask
    :param listener: hears of what is put here; None: nobody listens
    """

    def __init__(
        self,
        handler: Handler,
        max_bytes: int,
        records: bool = False,
        max_unpacked: int = MAX_UNPACKED,
        listener: ClientListener | None = None,
    ) -> None:
        self._listener = listener
        self._now = handler.now
        self.max_bytes = max_bytes
        self.max_unpacked = max_unpacked
        self.records = records
        self.held = False
        self.nbytes = 0
        self._resume_at = max_bytes - max_bytes // 4
        self._waiting: list[EventType] = []
        self.calls = 0
        #: When a batch was begun, or read to its end, of the handler's clock (s): iteration reports no call that need not wait.
        self.taken_at = -math.inf
        self.work = 0
        self.lock = handler.Lock()
        self.cooperative = handler.cooperative
        self.breathe = handler.breathe
        self.closed = True
        self._active: list[OwnedPartition] = []
        self._turn = self._stale = self._borrows = 0

    def next(self) -> Any:
        """Return the next message, one partition after another; None when nothing is buffered or all is closed.

        :raises InvalidMessageError: a record cannot be read
        """
        if self.cooperative and self.work >= BREATHE_EVERY:
            self.work = 0
            self.breathe()  # with nothing taken: a greenlet's timeout may end it there
        if cython.compiled:
            message = self._next()
        else:
            with self.lock:
                message = self._next()
        return message

    def take(self, limit: int) -> list[Any]:
        """Return up to `limit` messages, a batch of one partition after one of another; none when nothing is buffered.

        They belong to the call that has begun: `begin_call` comes before. Greenlets: fewer, if the hub is to turn before.

        :raises InvalidMessageError: the next record cannot be read
        """
        if self.turn_is_due():
            self.work = 0
            self.breathe()  # as above
        found: list[Any] = []
        if cython.compiled:
            self._take(found, limit)
        else:
            with self.lock:
                self._take(found, limit)
        return found

    def begin_call(self) -> None:
        """Count all messages returned so far as processed; `next` does so by itself."""
        with self.lock:
            self.calls += 1

    def processed(self, owned: OwnedPartition) -> int:
        """Return a partition's position without the messages in process; -1 while it is unknown."""
        with self.lock:
            return owned.taken_from if owned.taken_in == self.calls else owned.position

    def hold(self, owned: OwnedPartition, offset: int) -> None:
        """Count messages from an offset on as in process, which another consumer has returned."""
        with self.lock:
            owned.taken_in = self.calls
            owned.taken_from = offset

    def committed(self, owned: OwnedPartition, offset: int) -> None:
        """Count committed messages as processed, although they are those of the last call."""
        with self.lock:
            if owned.taken_in == self.calls and owned.taken_from < offset <= owned.position:
                owned.taken_from = offset

    def has_any(self) -> bool:
        """Return whether a call may find something to take; this takes nothing, and never waits."""
        return not self.closed and not self.held and self._stale < len(self._active)

    def pause(self, owned: OwnedPartition) -> None:
        """Deliver nothing of a partition, and fetch no more of it; buffered records stay."""
        with self.lock:
            if owned.paused:
                return
            nbytes = self._counted(owned)
            owned.paused = True
            self._drop(owned)
            self.forget(nbytes)

    def resume(self, owned: OwnedPartition) -> None:
        """Deliver messages of a paused partition again."""
        with self.lock:
            if not owned.paused:
                return
            owned.paused = False
            self.nbytes += self._counted(owned)
            if (owned.reader is not None or owned.readers) and not owned.borrow:
                self._activate(owned)
            if owned.wake is not None:
                owned.wake.set()

    def _counted(self, owned: OwnedPartition) -> int:
        # What is buffered of a partition and counts (bytes): nothing while it is paused.
        if owned.paused:
            return 0
        _, nbytes = volume(owned.readers)
        return nbytes if owned.reader is None else nbytes + CURSOR_BYTES + owned.reader._end

    def turn_is_due(self) -> bool:
        """Return whether the next message will be taken only after a yield to the hub, if that has not run for a while."""
        return self.cooperative and self.work >= BREATHE_EVERY

    def _take(self, found: list[Any], limit: int) -> None:
        here: Buffers = self  # for flags that other workers set meanwhile, which type checkers take for unchanged
        while len(found) < limit and not self.closed and not self.held and self._stale < len(self._active):
            if self.cooperative and self.work >= BREATHE_EVERY and found:
                return
            if self._turn >= len(self._active):
                self._turn = 0
            owned: OwnedPartition = self._active[self._turn]
            self._turn += 1  # before: if a record cannot be read, the other partitions have theirs all the same
            while owned.active:
                try:
                    message = owned._take()
                except InvalidMessageError:
                    if not found:
                        raise
                    self._turn -= 1  # the cursor has stayed where it was, so that the next call raises it
                    return
                if message is None:
                    self._drop(owned)
                    break
                found.append(message)
                reader = owned.reader
                if reader is None or reader.remaining == 0:
                    break
                if len(found) >= limit or here.closed or here.held or (self.cooperative and self.work >= BREATHE_EVERY):
                    self._turn -= 1  # the rest of the batch comes next
                    return

    def _next(self) -> Any:
        self.calls += 1
        while not self.closed and not self.held and self._stale < len(self._active):
            if self._turn >= len(self._active):
                self._turn = 0
            owned: OwnedPartition = self._active[self._turn]
            self._turn += 1  # before: if a record cannot be read, the other partitions have their turn all the same
            if not owned.active:
                continue
            message = owned._take()
            if message is not None:
                return message
            self._drop(owned)
        return None

    def _drop(self, owned: OwnedPartition) -> None:
        if owned.active:
            owned.active = False
            self._stale += 1
            if 2 * self._stale >= len(self._active):
                self._tidy()

    def _tidy(self) -> None:
        # Remove the partitions without a turn from the list.
        kept: list[OwnedPartition] = []
        turn = 0
        for index, owned in enumerate(self._active):
            if owned.active:
                kept.append(owned)
                turn += index < self._turn
            else:
                owned.listed = False
        self._active = kept
        self._turn = turn
        self._stale = 0

    def next_fetch(self, owned: OwnedPartition, coming: int) -> tuple[int, int] | None:
        """Return where to fetch a partition: (epoch, offset). None if its buffer is full; its fetcher is then woken later.

        :param coming: how many messages were fetched and not put here yet
        """
        with self.lock:
            if owned.paused or owned.position < 0:  # `resume` and `move` wake the fetcher
                return None
            if owned.messages + coming >= owned.max_messages:
                owned.buffer_full = owned.messages > 0
                return None
            return owned.epoch, owned.fetch_offset

    def advance(self, owned: OwnedPartition, epoch: int, offset: int, starts: Iterable[Start] = ()) -> bool:
        """Set the next offset to fetch; False if the partition was moved since `epoch`.

        :param starts: the first offset and the leader epoch of each batch that was fetched
        """
        with self.lock:
            if owned.epoch != epoch:
                return False
            owned.fetch_offset = offset
            owned.leader_epochs = owned.leader_epochs.with_batches(starts)
            return True

    def rewind(self, owned: OwnedPartition, epoch: int, offset: int) -> None:
        """Fetch again the records that were fetched but never put here; do nothing if the partition was moved since `epoch`.

        :param offset: where that begins
        """
        with self.lock:
            if owned.epoch == epoch:
                owned.epoch += 1
                owned.fetch_offset = offset

    def put(self, owned: OwnedPartition, epoch: int, readers: list[BatchReader]) -> bool:
        """Append fetched readers; False, and nothing appended, if the partition was moved since `epoch`."""
        with self.lock:
            if owned.epoch != epoch:
                return False
            messages, nbytes = volume(readers)
            owned.messages += messages
            owned.readers.extend(readers)
            if self._listener is not None:
                self._listener.on_records(owned.key.topic, owned.partition_id, messages, nbytes, self._now())
            if owned.paused:
                return True
            self.nbytes += nbytes
            if readers and not owned.borrow:
                self._activate(owned)
            return True

    def _activate(self, owned: OwnedPartition) -> None:
        if owned.active:
            return
        owned.active = True
        if owned.listed:
            self._stale -= 1
        else:
            owned.listed = True
            self._active.append(owned)

    def forget(self, nbytes: int) -> None:
        """Count bytes as read, and wake fetchers that wait for room; the caller holds the lock."""
        self.nbytes -= nbytes
        if self._waiting and self.nbytes <= self._resume_at:
            waiting = self._waiting
            self._waiting = []
            for wake in waiting:
                wake.set()

    def wait_for_room(self, wake: EventType) -> bool:
        """Return False if there is room; else return True, and set `wake` when there is room.

        :param wake: of the fetcher that asks
        """
        with self.lock:
            if wake in self._waiting:
                return True
            if self.nbytes < self.max_bytes:
                return False
            self._waiting.append(wake)
            return True

    def borrow(self, rows: int, cursors: int) -> Borrow | None:
        """Lend the cursors of the partition whose turn it is; None if nothing is buffered or all is closed.

        :param rows: how many messages are wanted
        :param cursors: how many cursors at most
        """
        with self.lock:
            if not self.has_any():
                return None
            while True:
                if self._turn >= len(self._active):
                    self._turn = 0
                owned: OwnedPartition = self._active[self._turn]
                self._turn += 1
                if owned.active:
                    break
            self._drop(owned)
            borrowed: list[BatchReader] = []
            if owned.reader is not None:
                owned.readers.appendleft(owned.reader)
                owned.reader = None
            while owned.readers and rows > 0 and len(borrowed) < cursors:
                reader: BatchReader = owned.readers.popleft()
                borrowed.append(reader)
                rows -= reader.remaining
            self._borrows += 1
            owned.borrow = self._borrows
            return Borrow(owned, owned.borrow, borrowed)

    def return_borrowed(self, borrow: Borrow, last_offset: int) -> bool:
        """Take borrowed cursors back, and count their read records as consumed.

        :param last_offset: of the last message that was read; -1 if none was
        :returns: False, and nothing was counted, if the partition has moved on
        """
        owned = borrow.owned
        with self.lock:
            if owned.borrow != borrow.number:
                self.forget(borrow.nbytes)
                return False
            owned.borrow = 0
            if last_offset >= 0:
                owned.begin_taking(owned.position)
                owned.last_offset_consumed = last_offset
                owned.position = max(owned.position, last_offset + 1)
            read = 0
            for reader in borrow.readers:
                if reader.remaining > 0 or reader._at != reader._end:
                    break
                read += 1
                owned.position = max(owned.position, reader.next_offset)
                owned.last_timestamp = max(owned.last_timestamp, reader.max_timestamp)
            left = borrow.readers[read:]
            if left and left[0].max_timestamp >= 0 and last_offset >= left[0].base_offset:
                owned.last_timestamp = left[0].last_timestamp()
            owned.readers.extendleft(reversed(left))
            messages, nbytes = volume(left)
            owned._forget(borrow.rows - messages)
            if owned.paused:
                nbytes = 0
            elif owned.readers:
                self._activate(owned)
            self.forget(borrow.nbytes - nbytes)
            return True

    def abandon(self, borrow: Borrow) -> None:
        """Leave borrowed cursors to their reader, and fetch their messages again; do nothing if the partition has moved on."""
        owned = borrow.owned
        with self.lock:
            if owned.borrow == borrow.number:
                self._move(owned, owned.position, owned.last_offset_consumed)
            self.forget(borrow.nbytes)

    def move(
        self,
        owned: OwnedPartition,
        position: int,
        last_offset_consumed: int,
        moves: int = -1,
        leader_epochs: LeaderEpochs | None = None,
    ) -> bool:
        """Drop the buffered and in-flight records of a partition, and continue at another position.

        :param position: the offset of the next message to deliver
        :param last_offset_consumed: what to say was consumed; -1 for nothing
        :param moves: what `owned.moves` was: do nothing, and return False, if it was moved since; -1 for whatever was
        :param leader_epochs: the known epochs of the log before the position; None for none
        """
        with self.lock:
            if 0 <= moves != owned.moves:
                return False
            self._move(owned, position, last_offset_consumed)
            owned.leader_epochs, owned.former = leader_epochs or LeaderEpochs(), None
            return True

    def correct(self, owned: OwnedPartition, moves: int, before: int, after: int) -> bool:
        """Set a partition's position apart from its cursors, if one message is put off; False if the partition was moved.

        :param moves: what `owned.moves` was
        :param before: where it stands; where it has gone on meanwhile it stays there
        :param after: where it is to stand
        """
        with self.lock:
            if owned.moves != moves:
                return False
            if owned.position == before:
                owned.position = after
                owned.last_offset_consumed = after - 1
            return True

    def _move(self, owned: OwnedPartition, position: int, last_offset_consumed: int) -> None:
        owned.epoch += 1
        owned.moves += 1
        nbytes = self._counted(owned)
        owned.readers.clear()
        owned.reader = None
        owned.borrow = 0
        owned.messages = 0
        owned.buffer_full = False
        owned.taken_in = -1
        owned.last_timestamp = -1
        owned.position = owned.fetch_offset = position
        owned.last_offset_consumed = last_offset_consumed
        self._drop(owned)
        self.forget(nbytes)
