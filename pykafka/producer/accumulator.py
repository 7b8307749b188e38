"""Open batches: `produce()` writes each record into one, directly in the wire format.

`RecordAccumulator.append` is the fast path: one call a message, compiled, with no lock, queue operation or clock call of its
own. Compiled, it never lets go of the interpreter while it changes state, which makes it atomic; the pure source takes
the handler's lock around the same body. Everything that happens once a batch (rolling over to a new one, closing, errors)
is Python in the modules around.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, Protocol

try:
    import cython
except ImportError:
    from pykafka.compiled import cython
from pykafka.producer.batch import BrokerQueue, ProducerBatch
from pykafka.producer.buffer_pool import BufferPool
from pykafka.producer.delivery import Delivery
from pykafka.producer.delivery_callbacks import Callback, DeliveryCallbacks
from pykafka.producer.in_flight_window import InFlightWindow
from pykafka.protocol.message import Message
from pykafka.protocol.records_write import LEAST_BATCH, likely_size
from pykafka.utils import get_string
from pykafka.utils.murmur2 import partition_for

if not cython.compiled:
    from pykafka.compiled.cython import PyContext_CopyCurrent, PyObject_GC_UnTrack

if TYPE_CHECKING:
    from collections.abc import Callable

    from pykafka.handlers import Handler
    from pykafka.handlers.base import EventType
    from pykafka.metadata.partition import Partition, TopicView
    from pykafka.network.node import Node

__all__ = [
    "RECORD_OVERHEAD",
    "RecordAccumulator",
    "Owner",
    "PartitionQueue",
    "TopicInfo",
    "headers_size",
]

#: Greenlets: after this many messages `append` lets the hub turn, if it has not for a while (`Handler.breathe`).
BREATHE_EVERY = 256
#: How many bytes go to a partition, at least, before messages without a key go to another one: Kafka's own batch.size.
STICKY_BYTES = 16 * 1024
#: What a record costs beyond its key, value and headers, at most (bytes).
RECORD_OVERHEAD = 32
# The same as a number of C, when compiled.
_OVERHEAD = RECORD_OVERHEAD


class Wakeups(Protocol):
    """The wakeups of a sender; `pykafka.producer.sender.WakeupPolicy` documents them."""

    def set_wakeup(self, queue: PartitionQueue) -> None: ...


class Owner(Protocol):
    """The sender of a leader; `pykafka.producer.sender.Sender` documents each member."""

    broker: Node
    broker_queue: BrokerQueue
    wake: EventType
    queues: dict[tuple[str, int], PartitionQueue]
    active: dict[tuple[str, int], PartitionQueue]
    running: bool
    at_work: bool

    @property
    def wakeups(self) -> Wakeups: ...
    def start(self) -> None: ...
    def stop(self) -> None: ...
    def join(self, timeout: float) -> None: ...
    def open_batch(self, queue: PartitionQueue) -> bool: ...
    def move_to(self, broker: Node) -> None: ...
    def deliver(self, done: Callable[[], bool], patient: bool = False) -> None: ...
    def deliver_all(self, done: Callable[[], bool]) -> None: ...
    def awaited(self) -> list[ProducerBatch]: ...


class PartitionQueue:
    """The batches of one partition: the open one, the waiting ones, oldest first, and those in flight.

    `open` changes hands by one assignment: only the worker that takes it away sees it afterwards. The next message
    wakes the sender if `wakes_sender` is set; otherwise the sender knows when to look, or a response wakes it. The others
    change under the producer's lock.

    :param partition_id: of the topic
    :param topic: name
    """

    def __init__(self, partition_id: int, topic: str = "") -> None:
        self.partition_id = partition_id
        self.topic = topic
        self.key = (topic, partition_id)
        #: The size of the batches that were taken away since the sticky choice fell on it (bytes).
        self.taken = 0
        self.open: ProducerBatch | None = None
        self.wakes_sender = True
        #: What its next batch will likely take (bytes).
        self.expected = LEAST_BATCH
        self.closed_batches: deque[ProducerBatch] = deque()
        self.window: InFlightWindow = InFlightWindow()
        self.owner: Owner | None = None
        #: Of the metadata; None while that lacks it.
        self.partition: Partition | None = None
        #: The sender of the batches that are on the wire.
        self.sender: object = None
        #: Offset behind the last batch of which a broker said where it is; -1 before that.
        self.next_offset = -1

    @property
    def waiting(self) -> bool:
        """Whether there are batches to send, now or later."""
        batch = self.open
        window = self.window
        return (
            bool(self.closed_batches) or len(window.batches) > window.on_wire or (batch is not None and batch.count > 0)
        )


def take_next(
    queue: PartitionQueue, sender: object, take_open: Callable[[PartitionQueue], ProducerBatch | None] | None = None
) -> ProducerBatch | None:
    """Take the next batch of a partition, and mark it as in flight; the caller holds the lock.

    :param sender: that takes it
    :param take_open: gives the batch that is not closed yet
    """
    window = queue.window
    queue.sender = sender  # before the batch is in flight, so that an interrupted one is known for the sender's
    in_flight = window.next_retry() if window.batches else None
    if in_flight is not None:
        batch: ProducerBatch | None = in_flight.batch
        in_flight.batch.in_flight = in_flight  # its begin may have been interrupted
    elif queue.closed_batches:
        batch = queue.closed_batches.popleft()
    else:
        batch = None if take_open is None else take_open(queue)
    if batch is None:
        return None
    if in_flight is None:
        batch.in_flight = window.begin(batch, batch.count)
    batch.retry_at = 0.0
    return batch


class TopicInfo:
    """The queues of one topic of a producer, and the partition that messages without a key go to at present.

    State: changes under the producer's lock.

    :param topic: that the messages are for
    """

    def __init__(self, topic: TopicView) -> None:
        self.topic = topic
        self.name = get_string(topic.name)
        #: Of all partitions, by number.
        self.queues: list[PartitionQueue] = []
        #: Of those that have a leader.
        self.led: list[PartitionQueue] = []
        self.partitions: list[Partition] = []
        #: Where messages without a key go, until enough have gone there (KIP-480, KIP-794).
        self.current: PartitionQueue | None = None
        #: The topic's `changes` that were taken over last.
        self.seen_changes = -1
        #: When a batch was begun last (s).
        self.used_at = 0.0


class RecordAccumulator:
    """The waiting messages of a producer, in a queue per partition.

    :param handler: whose lock the pure source takes, and whose hub is let turn
    :param batch_limit: size at which a batch is full (bytes, uncompressed)
    :param buffer_pool: what the messages may take together; None: no limit
    """

    def __init__(self, handler: Handler, batch_limit: int, buffer_pool: BufferPool | None = None) -> None:
        self.lock = handler.Lock()
        self.buffer_pool = buffer_pool or BufferPool(handler)
        #: By the topics' names, for `send`.
        self.topics: dict[str, TopicInfo] = {}
        #: Whether `send` chooses the partition: by the key's hash, or else the present one.
        self.chooses = True
        #: The calls of `on_delivery` that are waiting: while there are too many, `send` opens no batch.
        self.callbacks: DeliveryCallbacks | None = None
        self.cooperative = handler.cooperative
        self.breathe = handler.breathe
        self._now = handler.now
        self.batch_limit = batch_limit
        self.queues: list[PartitionQueue] = []
        self.closed = True
        #: Whose turn it is, of `queues`: the first message goes to the second partition, as in PyKafka 2.
        self._turn = 1
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
        :returns: the message; None if there is no room: roll over, wait, or find out why not
        :raises TypeError: value or key is not bytes
        """
        if self.cooperative:
            self._since_breath += 1
            if self._since_breath >= BREATHE_EVERY:
                self._since_breath = 0
                self.breathe()  # with nothing taken: a timeout or a cancellation may end it there
        if cython.compiled:
            message = self._append(value, key, timestamp, headers, queue, report_queue)
        else:
            with self.lock:
                message = self._append(value, key, timestamp, headers, queue, report_queue)
                batch: Any = None if message is None else message._batch
            if batch is not None:
                batch.broker_queue.report_news()
        return message

    def send(
        self,
        topic: Any,
        value: Any,
        key: Any,
        timestamp: int,
        headers: Any,
        partition: int,
        callback: Any,
        given_value: Any,
        given_key: Any,
    ) -> Delivery[Any, Any] | None:
        """Write a message for any topic into the open batch of a partition; never waits.

        :param topic: name
        :param value: bytes or None
        :param key: bytes or None
        :param timestamp: milliseconds since 1970; -1 for now
        :param headers: (str, bytes or None) pairs, or None
        :param partition: number; -1: by the key's hash (murmur2), or without a key the present one
        :param callback: `(error, delivery)`, called with the outcome; or None
        :param given_value: what the delivery shows: the value before it was serialized
        :param given_key: the same of the key
        :returns: the message; None if there is no room: find the topic, roll over, wait, or find out why not
        :raises TypeError: value or key is not bytes
        """
        if self.cooperative:
            self._since_breath += 1
            if self._since_breath >= BREATHE_EVERY:
                self._since_breath = 0
                self.breathe()  # with nothing taken: a timeout or a cancellation may end it there
        if not isinstance(topic, str):
            return None
        if (value is not None and not isinstance(value, bytes)) or (key is not None and not isinstance(key, bytes)):
            return None
        info = self.topics.get(topic)
        if info is None:
            return None
        if partition < 0:
            if not self.chooses:
                return None
            queue = info.current
            if key is not None:
                queue = info.queues[partition_for(key, len(info.queues))]
        elif partition < len(info.queues):
            queue = info.queues[partition]
        else:
            return None
        if queue is None or (queue.open is None and not self._open(info, queue)):
            return None
        if cython.compiled:
            delivery = self._send(queue, value, key, timestamp, headers, callback, given_value, given_key)
        else:
            with self.lock:
                delivery = self._send(queue, value, key, timestamp, headers, callback, given_value, given_key)
                batch = None if delivery is None else delivery._batch
            if batch is not None:
                batch.broker_queue.report_news()
        return delivery

    def _open(self, info: TopicInfo, queue: PartitionQueue) -> bool:
        """Give a partition an open batch; return False if something is to be found out or waited for before."""
        owner = queue.owner
        if self.closed or owner is None or info.topic.changes != info.seen_changes:
            return False
        if self.callbacks is not None and self.callbacks.full:
            return False
        if queue is info.current and queue.taken >= STICKY_BYTES:
            return False
        return owner.open_batch(queue)

    def queue_of_key(self, info: TopicInfo, key: bytes) -> PartitionQueue:
        """Return the queue of the partition that Kafka's Java client chooses for a key."""
        queue: PartitionQueue = info.queues[partition_for(key, len(info.queues))]
        return queue

    def next_queue(self) -> PartitionQueue | None:
        """Return the queue whose turn it is; None if there is none."""
        if not self.queues:
            return None
        turn = self._turn % len(self.queues)
        self._turn = turn + 1
        queue: PartitionQueue = self.queues[turn]
        return queue

    def take_open(self, queue: PartitionQueue) -> ProducerBatch | None:
        """Take the open batch of a partition away; no `append` will write to it any more."""
        with self.lock:
            batch = queue.open
            if batch is None or not batch.count:
                return None
            queue.open = None
            queue.taken += batch.builder.size
            queue.expected = likely_size(batch.builder.size)
        return batch

    def shut(self, queue: PartitionQueue) -> ProducerBatch | None:
        """Take the open batch of a partition away, and leave none, also if it is empty; return one with messages.

        In one step: an `append` between a look and a store would write into a batch that has left the queue.
        """
        with self.lock:
            batch = queue.open
            queue.open = None
            if batch is None or not batch.count:
                return None
            queue.taken += batch.builder.size
            queue.expected = likely_size(batch.builder.size)
        return batch

    def shut_empty(self, queue: PartitionQueue) -> bool:
        """Leave a partition without an open batch; return False, and change nothing, where that has messages."""
        with self.lock:
            batch = queue.open
            if batch is not None and batch.count:
                return False
            queue.open = None
        return True

    def close(self) -> None:
        """Refuse messages, until `closed` is set to False."""
        with self.lock:
            self.closed = True

    def release(self, batch: ProducerBatch) -> None:
        """Subtract a batch's messages from the count of its broker."""
        broker_queue = batch.broker_queue
        with self.lock:
            broker_queue.messages -= batch.count
            broker_queue.bytes -= batch.queued_bytes
        self.buffer_pool.give(batch.queued_bytes)

    def _append(
        self, value: Any, key: Any, timestamp: int, headers: Any, queue: PartitionQueue | None, report_queue: Any
    ) -> Message | None:
        # allocations first: a garbage collection may run here, and with it anyone's code
        message = Message.__new__(Message)
        if report_queue is not None:  # `context` has no other value: a message without a callback pays nothing for it
            calls = type(report_queue) is Callback or hasattr(report_queue, "after")  # or may, if it is a trace
            context = PyContext_CopyCurrent() if calls else None
        turn = 0
        need = _record_size(value, key, headers)
        if queue is None:
            if not self.queues:
                return None
            turn = self._turn
            if turn >= len(self.queues):
                turn = 0
            queue = self.queues[turn]
            turn += 1
        batch = queue.open
        if batch is not None and not batch.count:
            self._begin(batch)
            batch = queue.open
        if self.closed or batch is None:
            return None
        index = self._write(batch, value, key, timestamp, headers, need)
        if index < 0:
            return None
        if turn > 0:  # a caller that found no room asks for the same queue again
            self._turn = turn
        message.value = value
        message.partition_key = key
        message.partition_id = queue.partition_id
        message.headers = headers
        message._timestamp = batch.builder.last_timestamp
        message._batch = batch
        message._index = index
        if report_queue is not None:
            message.delivery_report_q = report_queue
            batch.reports.append(message)
            batch.contexts.append(context)
        if queue.wakes_sender or batch.broker_queue.messages == batch.broker_queue.min_messages:
            queue.wakes_sender = False
            batch.broker_queue.has_news = True
            if cython.compiled:  # else the caller does it, without the lock that a sender takes
                batch.broker_queue.report_news()
        return message

    def _send(
        self,
        queue: PartitionQueue,
        value: Any,
        key: Any,
        timestamp: int,
        headers: Any,
        callback: Any,
        given_value: Any,
        given_key: Any,
    ) -> Delivery[Any, Any] | None:
        # as in `_append`: allocations first
        delivery: Delivery[Any, Any] = Delivery.__new__(Delivery)
        if callback is not None:
            context = PyContext_CopyCurrent()
        need = _record_size(value, key, headers)
        batch = queue.open
        if batch is not None and not batch.count:
            self._begin(batch)
            batch = queue.open
        if self.closed or batch is None:
            return None
        index = self._write(batch, value, key, timestamp, headers, need)
        if index < 0:
            return None
        delivery.key = given_key
        delivery.value = given_value
        delivery.headers = headers
        delivery._timestamp = batch.builder.last_timestamp
        delivery._batch = batch
        delivery._index = index
        if callback is not None:
            delivery.delivery_report_q = callback
            batch.reports.append(delivery)
            batch.contexts.append(context)
        if (
            cython.compiled
            and given_value is value
            and given_key is key
            and headers is None
            and _refers_to_none(value, key)
        ):
            # Bytes refer to nothing, and completing ends the circle with the batch: the garbage collector, for which many
            # deliveries that wait for a callback were more work than all else, need not look at this one.
            PyObject_GC_UnTrack(cython.cast("void*", delivery))
        if queue.wakes_sender or batch.broker_queue.messages == batch.broker_queue.min_messages:
            queue.wakes_sender = False
            batch.broker_queue.has_news = True
            if cython.compiled:  # else the caller does it, without the lock that a sender takes
                batch.broker_queue.report_news()
        return delivery

    def _begin(self, batch: ProducerBatch) -> None:
        """Note when the first message of a batch comes: if that one found no room, the batch was opened long before."""
        batch.created = self._now()

    def _write(self, batch: ProducerBatch, value: Any, key: Any, timestamp: int, headers: Any, need: int) -> int:
        """Write a message of up to `need` bytes; return its index in the batch, or -1 if there is no room."""
        broker_queue = batch.broker_queue
        if broker_queue.messages >= broker_queue.max_messages or broker_queue.bytes >= broker_queue.max_bytes:
            return -1
        if batch.count > 0 and batch.builder.size + need > self.batch_limit:
            return -1
        buffer_pool = self.buffer_pool
        if need > buffer_pool.limit - buffer_pool.used:
            return -1
        shared = buffer_pool.shared
        if shared is not None and need > shared.limit - shared.used:
            return -1
        index = batch.builder.append(timestamp, key, value, headers)
        batch.count = index + 1
        batch.queued_bytes += need
        broker_queue.messages += 1
        broker_queue.bytes += need
        if not cython.compiled:
            buffer_pool.take(need)
        else:
            buffer_pool.used += need
            if shared is not None:
                shared.used += need
        return index


def _refers_to_none(value: Any, key: Any) -> bool:
    # subclasses of bytes may have attributes
    return (value is None or type(value) is bytes) and (key is None or type(key) is bytes)


def _record_size(value: Any, key: Any, headers: Any) -> int:
    """Return an upper bound of a record's size (bytes)."""
    need = _OVERHEAD
    if value is not None:
        need += len(value)
    if key is not None:
        need += len(key)
    if headers is not None:
        need += headers_size(headers)
    return need


def headers_size(headers: Any) -> int:
    """Return an upper bound of the headers' size (bytes)."""
    size = 0
    for name, value in headers:
        size += 4 * len(name) + 10
        if value is not None:
            size += len(value)
    return size
