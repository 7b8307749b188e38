"""What was fetched and not yet read: a cursor a partition, and the round over the partitions that have something.

`Buffers.next` is the fast path of consuming: one compiled call a message, without a lock, queue operation or clock call.
Records are decoded when they are asked for. Compiled, a call is atomic; the pure source takes the handler's lock.

A fetch worker appends readers; whoever consumes takes messages. Positions are read from the cursors, so they say what was
handed out, not what was fetched.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any

try:
    import cython
except ImportError:
    import pykafka._cython as cython
from pykafka.protocol.records_read import BatchReader

if TYPE_CHECKING:
    from pykafka.handlers import Handler
    from pykafka.handlers.base import EventType
    from pykafka.partition import Partition
    from pykafka.protocol.message import Message

#: Greenlets: after this many messages `next` lets the hub turn, if it has not for a millisecond.
BREATHE_EVERY = 256


class OwnedPartition:
    """A partition as one consumer reads it: what is buffered, and where it stands.

    State: `position`, `last_offset_consumed`, `reader`, `readers`, `messages` and `nbytes` change under `Buffers`' lock
    (compiled: in one call). `fetch_offset`, `max_bytes` and `epoch` belong to the fetch side, which changes them under
    the consumer's lock.

    :param partition: the partition
    :param buffers: the consumer's round, to which this belongs
    :param max_messages: fetching pauses while more than this many messages are buffered
    :param max_bytes: how much to fetch at a time (bytes)
    """

    def __init__(self, partition: Partition, buffers: Buffers, max_messages: int, max_bytes: int) -> None:
        self.partition = partition
        self.partition_id = partition.id
        self.buffers = buffers
        self.max_messages = max_messages
        self.max_bytes = max_bytes
        self.reader: BatchReader | None = None
        self.readers: deque[BatchReader] = deque()
        self.messages = 0
        self.position = -1
        self.last_offset_consumed = -1
        self.fetch_offset = -1
        self.epoch = 0
        self.paused = False
        self.active = False
        self.wake: EventType | None = None
        self.fetcher: Any = None
        self.trouble_since: float | None = None

    def copy_into(self, buffers: Buffers) -> OwnedPartition:
        """Return a fresh one that stands where this one does, with nothing buffered, in another round."""
        fresh = OwnedPartition(self.partition, buffers, self.max_messages, self.max_bytes)
        fresh.position = fresh.fetch_offset = self.position
        fresh.last_offset_consumed = self.last_offset_consumed
        return fresh

    @property
    def next_offset(self) -> int:
        """The offset of the next message to be handed out; -1 while it is not known."""
        return self.position

    def _take(self) -> Message | None:
        """Return the next message; None when nothing is buffered."""
        while True:
            reader = self.reader
            if reader is None:
                if not self.readers:
                    return None
                reader = self.reader = self.readers.popleft()
            message = reader.next()
            if message is not None:
                self.last_offset_consumed = message._offset
                self.position = message._offset + 1
                self.messages -= 1
                if self.paused and self.messages < self.max_messages:
                    self.paused = False
                    if self.wake is not None:
                        self.wake.set()
                return message
            if self.reader is reader:
                self.reader = None
                if reader.next_offset > self.position:  # offsets that no message has: compaction, transaction markers
                    self.position = reader.next_offset


class Buffers:
    """The partitions of one consumer that have something to read, taken in turn.

    :param handler: whose lock the pure source takes, and whose hub is let turn
    :param topic_name: of the partitions
    """

    def __init__(self, handler: Handler, topic_name: str) -> None:
        self.topic_name = topic_name
        self.lock = handler.Lock()
        self.cooperative = handler.cooperative
        self.breathe = handler.breathe
        self.closed = True
        self._active: list[OwnedPartition] = []
        self._turn = 0
        self._since_breath = 0

    def next(self) -> Message | None:
        """Return the next message, one partition after another; None when nothing is buffered or all is closed.

        :raises InvalidMessageError: a record cannot be read
        """
        if cython.compiled:
            message = self._next()
        else:
            with self.lock:
                message = self._next()
        if self.cooperative:
            self._since_breath += 1
            if self._since_breath >= BREATHE_EVERY:
                self._since_breath = 0
                self.breathe()
        return message

    def _next(self) -> Message | None:
        while not self.closed and self._active:
            if self._turn >= len(self._active):
                self._turn = 0
            owned: OwnedPartition = self._active[self._turn]
            message = owned._take()
            if message is not None:
                self._turn += 1
                return message
            self._drop(owned)
        return None

    def _drop(self, owned: OwnedPartition) -> None:
        if owned.active:
            owned.active = False
            self._active.remove(owned)

    def put(self, owned: OwnedPartition, readers: list[BatchReader]) -> None:
        """Append what was fetched to a partition."""
        with self.lock:
            for reader in readers:
                owned.messages += reader.remaining
            owned.readers.extend(readers)
            if readers and not owned.active:
                owned.active = True
                self._active.append(owned)

    def move(self, owned: OwnedPartition, position: int, last_offset_consumed: int) -> None:
        """Forget what is buffered of a partition and go on elsewhere.

        :param position: the offset of the next message to hand out
        :param last_offset_consumed: what to say was consumed; -1 for nothing
        """
        with self.lock:
            owned.readers.clear()
            owned.reader = None
            owned.messages = 0
            owned.paused = False
            owned.position = position
            owned.last_offset_consumed = last_offset_consumed
            self._drop(owned)
