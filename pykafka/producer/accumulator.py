"""Open batches: `produce()` writes each record into one, directly in the wire format.

`Accumulator.append` is the fast path: one call a message, compiled, with no lock, queue operation or clock call of its
own. Compiled, it never lets go of the interpreter while it changes state, which makes it atomic; the pure source takes
the handler's lock around the same body. Everything that happens once a batch (rolling over to a new one, sealing, errors)
is Python in the modules around.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Protocol

try:
    import cython
except ImportError:
    from pykafka.compiled import cython
from pykafka.producer.idempotence import Lane
from pykafka.protocol.message import Message
from pykafka.protocol.records_write import LEAST_BATCH, MAX_BATCH, RecordBatchBuilder, likely_size, record_size

if TYPE_CHECKING:
    from pykafka.broker import Broker
    from pykafka.exceptions import KafkaException
    from pykafka.handlers import Handler
    from pykafka.handlers.base import EventType

#: Greenlets: after this many messages `append` lets the hub turn, if it has not for a while (`Handler.breathe`).
BREATHE_EVERY = 256
#: The header of a record batch (bytes).
BATCH_HEADER = 61
#: What a record costs beyond its key, value and headers, at most (bytes).
RECORD_OVERHEAD = 32


class Backlog:
    """The messages and bytes that are queued for one broker and not yet acknowledged or failed.

    :param wake: wakes the broker's sender
    :param max_messages: beyond which `append` refuses
    :param max_bytes: beyond which `append` refuses
    :param min_messages: from which on the sender need not linger
    """

    def __init__(self, wake: EventType, max_messages: int, max_bytes: int, min_messages: int) -> None:
        self.wake = wake
        self.messages = 0
        self.bytes = 0
        self.max_messages = max_messages
        self.max_bytes = max_bytes
        self.min_messages = min_messages

    @property
    def full(self) -> bool:
        """Whether the queue of the broker is full."""
        return bool(self.messages >= self.max_messages or self.bytes >= self.max_bytes)

    def release(self, messages: int, nbytes: int) -> None:
        """Subtract acknowledged or failed messages; the pure source calls this under the producer's lock."""
        self.messages -= messages
        self.bytes -= nbytes


class MessageBatch:
    """One record batch, from its first message to its acknowledgement.

    The messages that `produce()` returned look up their offset, timestamp and error here.

    State belongs to `append` while the batch is open in its queue, then to the sender.

    :param topic: name
    :param partition_id: of the topic
    :param backlog: that counts its messages
    :param created: monotonic time of its first message (s)
    :param clock: wall clock (ms), or None where compiled code may read the system's
    :param expected: what it will likely take (bytes)
    :param builder: its records, where there are some already
    """

    def __init__(
        self,
        topic: str,
        partition_id: int,
        backlog: Backlog,
        created: float,
        clock: Callable[[], int] | None,
        expected: int = LEAST_BATCH,
        builder: RecordBatchBuilder | None = None,
    ) -> None:
        self.topic = topic
        self.partition_id = partition_id
        self.backlog = backlog
        self.created = created
        self.builder = RecordBatchBuilder(clock, MAX_BATCH, expected) if builder is None else builder
        self.count = 0 if builder is None else builder.count
        self.queued_bytes = 0
        self.base_offset = -1
        self.log_append_time = -1
        self.error: KafkaException | None = None
        self.record_errors: dict[int, KafkaException] | None = None
        self.done = False
        #: Whether everybody has been told, and the backlog no longer counts it.
        self.told = False
        #: Failures that count against `max_retries`.
        self.attempts = 0
        #: All failures, by which the pause before the next try grows.
        self.failures = 0
        self.retry_at = 0.0
        self.last_error: KafkaException | None = None
        self.wire: list[Any] | None = None
        self.wire_form: Any = None
        self.flight: Any = None
        self.event: EventType | None = None
        self.reports: list[Message] = []
        self.parent: MessageBatch | None = None
        self.parts: list[MessageBatch] | None = None

    @property
    def size(self) -> int:
        """The uncompressed size of its records (bytes)."""
        return int(self.builder.size)

    @property
    def wire_size(self) -> int:
        """The size in a request (bytes); an upper bound while it is not compressed."""
        return int(self.builder.size) if self.wire is None else BATCH_HEADER + len(self.wire[len(self.wire) - 1])

    def error_of(self, index: int) -> KafkaException | None:
        """Return the error of message `index`; None if it was delivered, or is still in flight."""
        if self.parts is not None:
            part, index = self._part_of(index)
            return part.error_of(index)
        if self.record_errors is not None:
            return self.record_errors.get(index, self.error)
        return self.error

    def offset_of(self, index: int) -> int:
        """Return the offset of message `index`; -1 while it is unknown."""
        if self.parts is not None:
            part, index = self._part_of(index)
            return part.offset_of(index)
        if self.base_offset < 0 or self.error is not None:
            return -1
        return self.base_offset + index

    def _part_of(self, index: int) -> tuple[MessageBatch, int]:
        assert self.parts is not None
        for part in self.parts:
            if index < part.count:
                return part, index
            index -= part.count
        raise IndexError(f"the batch has no message {index}")

    def split(self, limit: int | None = None) -> list[MessageBatch]:
        """Return smaller batches that replace this one; its messages find their outcome through them.

        :param limit: what each of them may take (bytes), unless it has one message; None: two, with half the messages each
        """
        middle = self.builder.count // 2
        parts: list[MessageBatch] = []
        part: MessageBatch | None = None
        for index, (timestamp, key, value, headers) in enumerate(self.builder.records()):
            if limit is None or part is None:
                full = index == middle
            else:
                full = part.builder.size + record_size(key, value, headers) > limit
            if part is None or full:
                part = MessageBatch(self.topic, self.partition_id, self.backlog, self.created, None)
                part.parent = self
                parts.append(part)
            part.builder.append(timestamp, key, value, headers)
            part.count += 1
        self.parts = parts  # not before they are whole: other threads look messages up meanwhile
        return parts

    def messages(self) -> Iterator[Message]:
        """Yield the messages of this batch, read back from its records."""
        for index, (timestamp, key, value, headers) in enumerate(self.builder.records()):
            message = Message(value, partition_key=key, partition_id=self.partition_id, timestamp=timestamp)
            message.headers = headers
            message._batch = self
            message._index = index
            yield message


class Owner(Protocol):
    """The sender of a leader; `pykafka.producer.sender.Sender` documents each member."""

    broker: Broker
    backlog: Backlog
    wake: EventType
    queues: dict[int, PartitionQueue]
    running: bool

    def start(self) -> None: ...
    def stop(self) -> None: ...
    def join(self, timeout: float) -> None: ...
    def keep(self) -> None: ...
    def deliver(self, batch: MessageBatch) -> None: ...


class PartitionQueue:
    """The batches of one partition: the open one, the waiting ones, oldest first, and those in flight.

    `open` changes hands by one assignment: only the worker that takes it away sees it afterwards. `armed` says that
    the sender need not be woken for the next message: it knows when to look, or will be told. The others change under
    the producer's lock.

    :param partition_id: of the topic
    """

    def __init__(self, partition_id: int) -> None:
        self.partition_id = partition_id
        self.open: MessageBatch | None = None
        self.armed = False
        #: What its next batch will likely take (bytes).
        self.expected = LEAST_BATCH
        self.sealed: deque[MessageBatch] = deque()
        self.lane: Lane[MessageBatch] = Lane()
        self.owner: Owner | None = None
        #: The sender of the batches that are on the wire.
        self.sender: object = None
        #: Offset behind the last batch of which a broker said where it is; -1 before that.
        self.next_offset = -1

    @property
    def waiting(self) -> bool:
        """Whether there are batches to send, now or later."""
        batch = self.open
        return bool(self.sealed) or self.lane.recovering or (batch is not None and batch.count > 0)


class Accumulator:
    """The waiting messages of a producer, in a queue per partition.

    :param handler: whose lock the pure source takes, and whose hub is let turn
    :param batch_limit: size at which a batch is full (bytes, uncompressed)
    """

    def __init__(self, handler: Handler, batch_limit: int) -> None:
        self.lock = handler.Lock()
        self.cooperative = handler.cooperative
        self.breathe = handler.breathe
        self.batch_limit = batch_limit
        self.queues: list[PartitionQueue] = []
        self.closed = True
        self._turn = 0
        self._since_breath = 0

    def append(
        self, value: Any, key: Any, timestamp: int, headers: Any, queue: PartitionQueue | None, report_queue: Any
    ) -> Message | None:
        """Write a message into the open batch of a partition.

        :param value: bytes or None
        :param key: bytes or None
        :param timestamp: milliseconds since 1970; -1 for now
        :param headers: (str, bytes or None) pairs, or None
        :param queue: the partition's; None takes the next in turn
        :param report_queue: where the delivery report is to go, or None
        :returns: the message; None where there is no room: roll over, wait, or find out why not
        :raises TypeError: value or key is not bytes
        """
        if cython.compiled:
            message = self._append(value, key, timestamp, headers, queue, report_queue)
        else:
            with self.lock:
                message = self._append(value, key, timestamp, headers, queue, report_queue)
        if self.cooperative:
            self._since_breath += 1
            if self._since_breath >= BREATHE_EVERY:
                self._since_breath = 0
                self.breathe()
        return message

    def next_queue(self) -> PartitionQueue | None:
        """Return the queue whose turn it is; None if there is none."""
        if not self.queues:
            return None
        turn = self._turn % len(self.queues)
        self._turn = turn + 1
        queue: PartitionQueue = self.queues[turn]
        return queue

    def take_open(self, queue: PartitionQueue) -> MessageBatch | None:
        """Take the open batch of a partition away; no `append` will write to it any more."""
        with self.lock:
            batch = queue.open
            if batch is None or not batch.count:
                return None
            queue.open = None
            queue.expected = likely_size(batch.builder.size)
        return batch

    def close(self) -> None:
        """Refuse messages, until `closed` is set to False."""
        with self.lock:
            self.closed = True

    def release(self, batch: MessageBatch) -> None:
        """Subtract a batch's messages from the count of its broker."""
        with self.lock:
            batch.backlog.release(batch.count, batch.queued_bytes)

    def _append(
        self, value: Any, key: Any, timestamp: int, headers: Any, queue: PartitionQueue | None, report_queue: Any
    ) -> Message | None:
        # allocations first: a garbage collection may run here, and with it anyone's code
        message = Message.__new__(Message)
        turn = 0
        need = RECORD_OVERHEAD
        if value is not None:
            need += len(value)
        if key is not None:
            need += len(key)
        if headers is not None:
            need += headers_size(headers)
        if self.closed:
            return None
        if queue is None:
            if not self.queues:
                return None
            turn = self._turn
            if turn >= len(self.queues):
                turn = 0
            queue = self.queues[turn]
            turn += 1
        batch = queue.open
        if batch is None:
            return None
        backlog = batch.backlog
        if backlog.messages >= backlog.max_messages or backlog.bytes >= backlog.max_bytes:
            return None
        builder = batch.builder
        if batch.count > 0 and builder.size + need > self.batch_limit:
            return None
        index = builder.append(timestamp, key, value, headers)
        if turn > 0:  # a caller that found no room asks for the same queue again
            self._turn = turn
        batch.count = index + 1
        batch.queued_bytes += need
        backlog.messages += 1
        backlog.bytes += need
        message.value = value
        message.partition_key = key
        message.partition_id = queue.partition_id
        message.headers = headers
        message._timestamp = builder.last_timestamp
        message._batch = batch
        message._index = index
        if report_queue is not None:
            message.delivery_report_q = report_queue
            batch.reports.append(message)
        if not queue.armed or backlog.messages == backlog.min_messages:
            queue.armed = True
            backlog.wake.set()
        return message


def headers_size(headers: Any) -> int:
    """Return an upper bound of the headers' size (bytes)."""
    size = 0
    for name, value in headers:
        size += 4 * len(name) + 10
        if value is not None:
            size += len(value)
    return size
