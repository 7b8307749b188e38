"""`ProducerBatch`: one record batch, from its first message to its acknowledgement; `BrokerQueue`, which counts.

`DeliveryWait` has the waits of `Delivery.get()`.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator
from contextvars import Context
from typing import TYPE_CHECKING, Any

from pykafka.exceptions import ProducerStoppedException, ResponseTimeoutError
from pykafka.producer.delivery import Delivery
from pykafka.protocol.message import Message
from pykafka.protocol.records_read import BATCH_HEADER
from pykafka.protocol.records_write import LEAST_BATCH, MAX_BATCH, RecordBatchBuilder, record_size
from pykafka.utils.error_handlers import valid_timeout

if TYPE_CHECKING:
    from pykafka.exceptions import KafkaException
    from pykafka.handlers.base import EventType

#: What a batch may take beyond its delivery timeout and the last request's (s).
MARGIN_S = 5.0
#: How often waiting callers check whether the producer was stopped, or a sender ended by an error (s).
STOP_POLL_INTERVAL_S = 1.0


class BrokerQueue:
    """The messages and bytes that are queued for one broker and not yet acknowledged or failed.

    :param wake: wakes the broker's sender
    :param max_messages: beyond which `append` refuses
    :param max_bytes: beyond which `append` refuses
    :param min_messages: from which on the sender need not linger
    """

    def __init__(self, wake: EventType, max_messages: int, max_bytes: int, min_messages: int) -> None:
        self.wake = wake
        #: Whether the sender has to be woken for a message that was written.
        self.has_news = False
        self.messages = 0
        self.bytes = 0
        self.max_messages = max_messages
        self.max_bytes = max_bytes
        self.min_messages = min_messages

    @property
    def full(self) -> bool:
        """Whether the queue of the broker is full."""
        return bool(self.messages >= self.max_messages or self.bytes >= self.max_bytes)

    def report_news(self) -> None:
        """Wake the sender if it does not know yet of a message; the caller's worker may be the one that sends it."""
        if self.has_news:
            self.has_news = False
            self.wake.set()

    def release(self, messages: int, nbytes: int) -> None:
        """Subtract acknowledged or failed messages; the pure source calls this under the producer's lock."""
        self.messages -= messages
        self.bytes -= nbytes


class ProducerBatch:
    """One record batch, from its first message to its acknowledgement.

    The messages that `produce()` returned look up their offset, timestamp and error here.

    State belongs to `append` while the batch is open in its queue, then to the sender.

    :param topic: name
    :param partition_id: of the topic
    :param broker_queue: that counts its messages
    :param created: monotonic time of its first message (s)
    :param clock: wall clock (ms), or None if compiled code may read the system's
    :param expected: what it will likely take (bytes)
    :param builder: its records, where there are some already
    """

    #: What its header takes in a request (bytes).
    header_bytes = BATCH_HEADER

    def __init__(
        self,
        topic: str,
        partition_id: int,
        broker_queue: BrokerQueue,
        created: float,
        clock: Callable[[], int] | None,
        expected: int = LEAST_BATCH,
        builder: RecordBatchBuilder | None = None,
    ) -> None:
        self.topic = topic
        self.partition_id = partition_id
        self.broker_queue = broker_queue
        self.created = created
        self.builder = RecordBatchBuilder(clock, MAX_BATCH, expected) if builder is None else builder
        self.count = 0 if builder is None else builder.count
        self.queued_bytes = 0
        self.base_offset = -1
        self.log_append_time = -1
        self.error: KafkaException | None = None
        self.record_errors: dict[int, KafkaException] | None = None
        self.done = False
        #: Its time is over while a broker has it: it is about to be `done`, and is not divided any more.
        self.given_up = False
        #: Whether each outcome was reported, and the broker queue no longer counts it.
        self.reported = False
        #: Failures that count against `max_retries`.
        self.attempts = 0
        #: All failures, by which the pause before the next try grows.
        self.failures = 0
        self.retry_at = 0.0
        self.last_error: KafkaException | None = None
        self.wire: list[Any] | None = None
        self.wire_form: Any = None
        self.in_flight: Any = None
        #: The indexes of failed messages whose error `Delivery.get()` has raised.
        self.raised_indexes: set[int] | None = None
        #: Whether a caller waits for this batch: it does not linger.
        self.urgent = False
        self.event: EventType | None = None
        #: How `Delivery.get` waits for it; None for the documented producer's.
        self.delivery_wait: DeliveryWait | None = None
        #: The messages with a callback or a queue of reports, and the context of the `produce()` of each one with a callback.
        self.reports: list[Any] = []
        self.contexts: list[Context | None] = []
        self.parent: ProducerBatch | None = None
        self.parts: list[ProducerBatch] | None = None

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
        if self.parts is not None and self.error is None:  # with an error of its own its parts are not sent
            part, index = self.part_of(index)
            return part.error_of(index)
        if self.record_errors is not None:
            return self.record_errors.get(index, self.error)
        return self.error

    def offset_of(self, index: int) -> int:
        """Return the offset of message `index`; -1 while it is unknown."""
        if self.parts is not None:
            part, index = self.part_of(index)
            return part.offset_of(index)
        if self.base_offset < 0 or self.error is not None:
            return -1
        return self.base_offset + index

    def part_of(self, index: int) -> tuple[ProducerBatch, int]:
        assert self.parts is not None
        for part in self.parts:
            if index < part.count:
                return part, index
            index -= part.count
        raise IndexError(f"the batch has no message {index}")

    def split(self, limit: int | None = None) -> list[ProducerBatch]:
        """Return smaller batches that replace this one; its messages find their outcome through them.

        :param limit: what each of them may take (bytes), unless it has one message; None: two, with half the messages each
        """
        middle = self.builder.count // 2
        parts: list[ProducerBatch] = []
        part: ProducerBatch | None = None
        for index, (timestamp, key, value, headers) in enumerate(self.builder.records()):
            if limit is None or part is None:
                full = index == middle
            else:
                full = part.builder.size + record_size(key, value, headers) > limit
            if part is None or full:
                part = ProducerBatch(self.topic, self.partition_id, self.broker_queue, self.created, None)
                part.delivery_wait = self.delivery_wait
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

    def deliveries(self) -> Iterator[Delivery[Any, Any]]:
        """Yield the messages of this batch as `KafkaProducer.produce()` returns them, with the bytes that were sent."""
        for index, (timestamp, key, value, headers) in enumerate(self.builder.records()):
            yield Delivery(self, index, key, value, headers, timestamp)


class DeliveryWait:
    """The waits for batches of one producer, in one process.

    It refers to the producer weakly: an unfinished batch keeps it alive, a finished one need not.

    :param engine: of the producer: its `ProducerEngine`, a module above this one
    """

    def __init__(self, engine: Any) -> None:
        self._engine = weakref.ref(engine)
        self._handler = engine.handler
        self._lock = engine.lock
        options = engine.options
        request = max(options.ack_timeout_ms, engine.cluster.socket_timeout_ms) / 1000
        # How long a batch may take at most (s).
        self._longest = options.delivery_timeout_s + request + MARGIN_S

    def wait(self, batch: ProducerBatch, index: int, timeout: float | None) -> None:
        """Wait until a batch is completed, and raise what went wrong with one of its messages; as for `Delivery.get`."""
        engine = self._engine()
        if not batch.done:
            if engine is None or engine.delivery_wait is not self:
                raise ProducerStoppedException(
                    "the producer of this message is another process's: this one was forked, and never hears of it",
                    topic=batch.topic,
                    partition=batch.partition_id,
                )
            self._handler.require_wait()  # another loop's thread would send and read beside the client's
            now = self._handler.now
            deadline = now() + (self._longest if timeout is None else valid_timeout(timeout))
            with self._lock:
                batch.urgent = True
                queue = engine.routing.queues.get((batch.topic, batch.partition_id))
                owner = None if queue is None else queue.owner
            if owner is not None and timeout != 0:
                # in this worker, unless another one sends and reads
                owner.deliver(_IsDone(batch, deadline, now), timeout is None)
            if not batch.done:
                self._await(engine, batch, deadline, timeout)
        if batch.error is None and batch.record_errors is None and batch.parts is None:
            return
        error = batch.error_of(index)
        if error is not None:
            if engine is not None:
                engine.completion.mark_reported(batch, index)
            raise error.again()

    def _await(self, engine: Any, batch: ProducerBatch, deadline: float, timeout: float | None) -> None:
        """Wait until another worker has completed a batch."""
        with self._lock:
            if batch.event is None:
                batch.event = self._handler.Event()
        while not batch.done:
            if engine.worker_exception is not None:
                engine.raise_worker_exception()
            left = deadline - self._handler.now()
            if left <= 0:
                raise ResponseTimeoutError(
                    f"the message is not acknowledged after {timeout:g} s; it is still under way"
                    if timeout is not None
                    else "the sender has not said what became of the message; close() the producer",
                    topic=batch.topic,
                    partition=batch.partition_id,
                )
            batch.event.wait(min(left, STOP_POLL_INTERVAL_S))


class _IsDone:
    """Whether a batch is completed, or its caller's time is over.

    :param batch: that the caller waits for
    :param deadline: of the caller (s of the handler's clock)
    :param now: that clock
    """

    def __init__(self, batch: ProducerBatch, deadline: float, now: Callable[[], float]) -> None:
        self._batch = batch
        self._deadline = deadline
        self._now = now

    def __call__(self) -> bool:
        return bool(self._batch.done or self._now() >= self._deadline)
