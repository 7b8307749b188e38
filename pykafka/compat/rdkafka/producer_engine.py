"""`RdKafkaEngine`: the engine of a producer for which librdkafka sends messages."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Iterator
from contextvars import copy_context
from typing import TYPE_CHECKING, Any

from pykafka.common import CompressionType
from pykafka.compat.producer import DocumentedEngine
from pykafka.compat.rdkafka.settings import common_settings, confluent_kafka, end, error_from, keep_for_ever
from pykafka.exceptions import KafkaException, ProducerQueueFullError, ProducerStoppedException, RdKafkaException
from pykafka.handlers.interrupts import OwnedWorker, is_at_work
from pykafka.producer.accumulator import PartitionQueue
from pykafka.producer.delivery_callbacks import Callback
from pykafka.protocol.message import Message

if TYPE_CHECKING:
    from pykafka.compat.producer import Producer
    from pykafka.handlers import Worker
    from pykafka.handlers.base import EventType
    from pykafka.metadata.cluster import BaseCluster
    from pykafka.metadata.partition import TopicView
    from pykafka.producer.options import ProducerOptions

log = logging.getLogger(__name__)

#: How long the worker waits for reports at a time (s); it comes back as soon as there is one.
POLL_S = 0.1
#: The most retries that librdkafka allows.
RETRIES_MAX = 2**31 - 1
#: The longest pause that librdkafka allows (ms).
BACKOFF_MAX_MS = 300_000
#: The highest level of compression that librdkafka takes, of any codec.
LEVEL_MAX = 12
#: How long librdkafka may take to purge queued messages (s).
PURGE_S = 5.0

#: How long librdkafka may take to learn of new partitions (s).
NEW_PARTITIONS_S = 3.0


class Delivery:
    """The fate of one message; the `Message` reads its offset and its error from here.

    :param topic: its name
    :param message: the message
    :param event: set when its fate is known; None if no call waits for it
    """

    __slots__ = ("base_offset", "context", "done", "error", "event", "log_append_time", "message", "reported", "topic")

    #: The attributes of a batch: this one has one message, and is never split.
    count = 1
    parts: Any = None

    def __init__(self, topic: str, message: Message, event: EventType | None) -> None:
        self.topic = topic
        self.message = message
        self.event = event
        #: Of its `produce()`, in which its callback is called.
        callback = message.delivery_report_q
        callback = getattr(callback, "after", callback)  # of a trace
        self.context = copy_context() if type(callback) is Callback else None
        self.base_offset = -1
        self.log_append_time = -1
        self.error: KafkaException | None = None
        self.done = False
        self.reported = False

    @property
    def partition_id(self) -> int:
        """The number of the message's partition."""
        return self.message.partition_id

    @property
    def size(self) -> int:
        """The size of the message (bytes)."""
        return len(self.message.value or b"") + len(self.message.partition_key or b"")

    def offset_of(self, index: int) -> int:
        """Return the message's offset; -1 while it is not known."""
        return self.base_offset

    def error_of(self, index: int) -> KafkaException | None:
        """Return why the message was not delivered; None if it was, or is still on its way."""
        return self.error

    def messages(self) -> Iterator[Message]:
        """Yield the message."""
        yield self.message


class RdKafkaEngine(DocumentedEngine):
    """A `ProducerEngine` for which librdkafka's threads send; a worker of the client's handler takes its reports.

    State: the worker that holds `_polling` lets librdkafka fill `_reported`, and empties it: one at a time, so that reports
    come in order; `_outstanding` and `_traced` change under `lock`.

    Parameters as of `DocumentedEngine`.
    """

    topic: TopicView

    def __init__(self, cluster: BaseCluster, topic: TopicView, options: ProducerOptions, producer: Producer) -> None:
        if options.on_topic_recreated != "continue":
            raise ValueError(
                'librdkafka does not notice that a topic was recreated: on_topic_recreated must be "continue"'
            )
        if options.compression_level is not None and not 1 <= options.compression_level <= LEVEL_MAX:
            raise ValueError(
                f"compression_level must be 1 to {LEVEL_MAX} with librdkafka, not {options.compression_level}"
            )
        self._confluent_kafka = confluent_kafka()
        self._rdk_producer: Any = None
        self._rdk_worker: Worker | None = None
        self._reported: deque[tuple[Delivery, Any, Any]] = deque()
        self._outstanding = 0
        # Those of them that have a trace.
        self._traced: set[Delivery] = set()
        self._polling = cluster.handler.Lock()
        super().__init__(cluster, topic, options, producer)

    @property
    def outstanding(self) -> int:
        """How many messages librdkafka has, and has not reported on."""
        return self._outstanding

    def _settings(self) -> dict[str, Any]:
        options = self.options
        return common_settings(self.cluster) | {
            "acks": options.required_acks,
            "allow.auto.create.topics": self.cluster.allow_auto_create_topics,
            "request.timeout.ms": max(options.ack_timeout_ms, 1),
            "message.timeout.ms": max(options.delivery_timeout_ms, options.linger_ms + 1),
            # librdkafka also counts errors of a cluster that is not ready; with numbered batches more retries do no harm
            "retries": RETRIES_MAX if options.enable_idempotence else options.max_retries,
            "retry.backoff.ms": max(options.retry_backoff_ms, 1),
            "retry.backoff.max.ms": min(max(options.retry_backoff_max_ms, options.retry_backoff_ms, 1), BACKOFF_MAX_MS),
            # so that no retry arrives behind a later batch
            "max.in.flight.requests.per.connection": 1 if options.max_retries and not options.enable_idempotence else 5,
            "enable.idempotence": bool(options.enable_idempotence),
            "queue.buffering.max.messages": options.max_queued_messages,
            "queue.buffering.max.kbytes": max(options.max_queued_bytes // 1024, 1),
            "batch.num.messages": min(options.min_queued_messages, 1_000_000),
            "linger.ms": options.linger_ms,
            "message.max.bytes": max(options.max_request_size, 1000),
            "compression.type": CompressionType(options.compression).name.lower(),
            "compression.level": -1 if options.compression_level is None else options.compression_level,
        }

    # -- life ---------------------------------------------------------------------------------------------------------

    def _start(self) -> None:
        """Make librdkafka's producer and start the worker that takes its reports.

        :raises RdKafkaException: librdkafka refuses the settings
        :raises UnsupportedVersion: `enable_idempotence` is True, and a leader is older than Kafka 0.11
        """
        if self.running:
            return
        if self.options.enable_idempotence:
            self._check_leaders(self.topic)
        self.worker_exception = None
        self._outstanding = 0
        try:
            self._rdk_producer = self._confluent_kafka.Producer(self._settings())
        except self._confluent_kafka.KafkaException as error:
            raise RdKafkaException(f"librdkafka cannot make a producer: {error}", topic=self.topic.name) from error
        self.set_up()
        self._rdk_worker = worker = OwnedWorker(self.handler, self._take_reports, f"pykafka.RdKafka.{self.topic.name}")
        self.running = True
        try:
            worker.start()
        except BaseException:  # an interrupt may come when the worker has begun
            self.running = is_at_work(worker)
            raise

    def follow_leaders(self) -> None:
        """Take over the topic's partitions; librdkafka finds their leaders by itself.

        :raises RdKafkaException: there are new ones, and librdkafka cannot ask for them now
        """
        info = self.routing.only
        assert info is not None
        info.seen_changes = self.topic.changes
        if self.running and self._rdk_producer is not None:
            try:  # librdkafka refuses messages to partitions that it does not know yet
                self.handler.offload(self._rdk_producer.list_topics, self.topic.name, NEW_PARTITIONS_S)
            except self._confluent_kafka.KafkaException as error:
                raise RdKafkaException(
                    f"librdkafka cannot ask for the new partitions: {error}", topic=self.topic.name
                ) from error
        partitions = [partition for _, partition in sorted(self.topic.partitions.items())]
        kept = self.routing.queues
        info.queues = [kept.get((info.name, part.id)) or PartitionQueue(part.id, info.name) for part in partitions]
        info.partitions = partitions
        self.routing.queues = {queue.key: queue for queue in info.queues}
        self.accumulator.queues = info.queues

    def stop(self, timeout_ms: int | None = None) -> None:
        """Deliver what is queued and end librdkafka's producer; errors as of `Producer.stop`."""
        try:
            super().stop(timeout_ms)
        finally:
            worker, self._rdk_worker = self._rdk_worker, None
            if worker is not None:
                worker.join(POLL_S + PURGE_S)
            last = [self._rdk_producer]
            self._rdk_producer = None
            if last[0] is not None:
                end(self.handler, last.clear, f"its producer for {self.topic.name}")
            self._fail_traces()

    def _fail_traces(self) -> None:
        """End the traces of the messages on which librdkafka has not reported: it does so no more."""
        with self.lock:
            left, self._traced = self._traced, set()
        for delivery in left:
            delivery.message.delivery_report_q.failed(self.worker_exception or self.stopped())

    def after_fork(self) -> None:
        super().after_fork()
        if self._rdk_producer is not None:
            keep_for_ever(self._rdk_producer)
        self._rdk_producer = None
        self._rdk_worker = None
        self._reported = deque()
        self._polling = self.handler.Lock()
        self._outstanding = 0
        self._traced = set()

    def wait_all(self, timeout_ms: int | None = None, total: bool = False) -> int:
        """Wait until no message is queued, or none was delivered for the timeout; return how many messages are left."""
        idle_timeout = (self.options.pending_timeout_ms if timeout_ms is None else timeout_ms) / 1000
        with self.lock:
            self.flushing += 1
        try:
            return self._flush_all(idle_timeout)
        finally:
            with self.lock:
                self.flushing -= 1

    def _flush_all(self, idle_timeout: float) -> int:
        deliveries = self.completion.callbacks
        deadline = self.handler.now() + idle_timeout
        pending, calls = self._left(), deliveries.calls
        while pending and self.worker_exception is None and self.handler.now() < deadline:
            if self._outstanding:
                with self._polling:
                    # librdkafka does not linger while it flushes, and only then
                    self.handler.offload(self._rdk_producer.flush, POLL_S)
                    self._complete_all()
            else:
                deliveries.begin()
                self.progress.wait(POLL_S)
                self.progress.clear()
            now_pending = self._left()
            if now_pending < pending or calls != deliveries.calls:
                calls, deadline = deliveries.calls, self.handler.now() + idle_timeout
            pending = now_pending
        return pending

    def _left(self) -> int:
        """Return how many messages are not completed or not reported; an `on_delivery` function does not wait for itself."""
        return self._outstanding + (0 if self.completion.callbacks.here else self.completion.callbacks.messages)

    def _give_up_queued(self) -> None:
        """Fail the messages that were not delivered: librdkafka reports them as purged."""
        self._stopped_error = ProducerStoppedException(
            "the producer was stopped before the message was delivered "
            f"(pending_timeout_ms={self.options.pending_timeout_ms})",
            topic=self.topic.name,
        )
        deadline = self.handler.now() + PURGE_S
        self._rdk_producer.purge()
        while self._outstanding and self.handler.now() < deadline:
            self._poll(0.05)

    # -- messages -----------------------------------------------------------------------------------------------------

    def place(
        self, queue: PartitionQueue, value: Any, key: Any, timestamp: int, headers: Any, callback: Any
    ) -> Message:
        """Hand a message to librdkafka; wait for room if that is allowed. Parameters as of `ProducerEngine`."""
        if self.looks_ahead:
            self.look_ahead()
        if timestamp < 0:
            timestamp = self.handler.time_ms()
        message = Message(value, partition_key=key, partition_id=queue.partition_id, timestamp=timestamp)
        message.headers = headers
        message.delivery_report_q = callback
        delivery = Delivery(self.name, message, self.handler.Event() if self.options.sync else None)
        message._batch = delivery
        while (
            callbacks_full := self.completion.callbacks.full and not self.completion.callbacks.here
        ) or not self._give(delivery):
            if not self.options.block_on_queue_full:
                held = (
                    f"{self.completion.callbacks.messages} messages wait for on_delivery"
                    if callbacks_full
                    else f"{self._outstanding} messages are queued"
                )
                raise ProducerQueueFullError(
                    f"{held}; produce more slowly, raise max_queued_messages, or let block_on_queue_full wait",
                    topic=self.topic.name,
                )
            self.progress.wait(0.1)
            self.progress.clear()
            self.check_running()
        return message

    def await_acknowledgement(self, queue: PartitionQueue, message: Message) -> None:
        """Wait for the outcome of a message, if the producer is synchronous; raise its error."""
        if self.options.sync:
            # librdkafka has no linger by message; nothing waits behind this one anyway
            self._wait_for(message)

    def _give(self, delivery: Delivery) -> bool:
        """Give a message to librdkafka; return False if its queue is full."""
        producer = self._rdk_producer
        if producer is None or not self.running:
            raise ProducerStoppedException(
                "the producer is not running; call start(), or make another", topic=self.topic.name
            )
        message = delivery.message
        with self.lock:
            self._outstanding += 1
            if hasattr(message.delivery_report_q, "after"):  # a trace
                self._traced.add(delivery)
        try:
            producer.produce(
                self.topic.name,
                value=message.value,
                key=message.partition_key,
                partition=message.partition_id,
                timestamp=message.timestamp or 0,
                on_delivery=lambda error, found: self._reported.append((delivery, error, found)),
                **({} if message.headers is None else {"headers": message.headers}),
            )
        except BufferError:
            self._settle(delivery)
            return False
        except self._confluent_kafka.KafkaException as error:
            self._settle(delivery)
            raise error_from(error.args[0], topic=self.topic.name, partition=message.partition_id) from error
        return True

    def _settle(self, delivery: Delivery) -> None:
        """Count a message no longer: it was reported, or librdkafka has not taken it."""
        with self.lock:
            self._outstanding -= 1
            self._traced.discard(delivery)

    # -- reports ------------------------------------------------------------------------------------------------------

    def _take_reports(self) -> None:
        try:
            while self.running:
                if self.flushing:  # the flushing call takes the reports
                    self.handler.sleep(POLL_S / 10)
                else:
                    self._poll(POLL_S)
        except BaseException as error:
            log.exception("the worker of librdkafka's producer ended by an error")
            self.worker_failed(error)

    def _poll(self, seconds: float) -> None:
        """Poll librdkafka's reports, and complete the messages; its callbacks may run on another thread."""
        with self._polling:
            self.handler.offload(self._rdk_producer.poll, seconds)
            self._complete_all()

    def _complete_all(self) -> None:
        while self._reported:
            self._complete(*self._reported.popleft())

    def _complete(self, delivery: Delivery, error: Any, found: Any) -> None:
        message = delivery.message
        if error is not None:
            purged = error.code() in {
                self._confluent_kafka.KafkaError._PURGE_QUEUE,
                self._confluent_kafka.KafkaError._PURGE_INFLIGHT,
            }
            delivery.error = (
                self._stopped_error
                if purged
                else error_from(error, topic=self.topic.name, partition=message.partition_id)
            )
        elif self.options.required_acks:
            delivery.base_offset = found.offset()
        delivery.done = True
        self._settle(delivery)
        report_to = message.delivery_report_q
        if hasattr(report_to, "after"):
            trace, report_to = report_to, report_to.after
            message.delivery_report_q = report_to
            trace.delivered(delivery, [(trace, 0)])
        if type(report_to) is Callback:
            self.completion.callbacks.report(delivery, [message], [delivery.context], delivery.size)
        elif report_to is not None:
            self.reports.put([(message, delivery.error)], delivery.size)
        elif delivery.error is not None and not self.options.sync:
            with self.lock:
                self.completion.failures.add(delivery, 1, delivery.size)
        if type(report_to) is not Callback:
            delivery.reported = True
        if delivery.event is not None:
            delivery.event.set()
        self.progress.set()
