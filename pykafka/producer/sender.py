"""One worker a leader: takes batches that are ready, sends them, and sorts out the answers.

A batch's life: open (in `PartitionQueue.open`, written by `append`), sealed (full, or taken by the sender), in flight or
awaiting retry (`PartitionQueue.in_flight`: at most one a partition, so that order holds without idempotence), done.

The sender's worker connects, compresses, sends and refreshes metadata. Answers are handled in the connection's reader
worker, which never blocks: it marks batches and wakes the sender.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from pykafka.common import CompressionType
from pykafka.exceptions import (
    KafkaException,
    MessageSizeTooLarge,
    ProtocolClientError,
    RequestTimedOut,
    ResponseTimeoutError,
    UnsupportedCompressionType,
    UnsupportedVersion,
    error_for,
)
from pykafka.producer.accumulator import Ledger, MessageBatch, PartitionQueue
from pykafka.protocol.messages import ProduceRequest, ProduceResponse
from pykafka.protocol.messagesets import encode_message_set
from pykafka.utils.compression import compress

if TYPE_CHECKING:
    from pykafka.broker import Broker
    from pykafka.channel import PendingResponse
    from pykafka.handlers import ResponseFuture, Worker
    from pykafka.producer import Producer
    from pykafka.protocol.message import Message

log = logging.getLogger(__name__)

#: Requests that may await their answers on one connection: Kafka's own max.in.flight.requests.per.connection.
MAX_IN_FLIGHT = 5
#: From this size on a batch is compressed off the hub (bytes); below, the detour costs more than it saves.
OFFLOAD_FROM = 8 * 1024
#: Produce versions at which the form of messages changed.
PRODUCE_V1_MESSAGES = 2
PRODUCE_RECORD_BATCHES = 3
PRODUCE_ZSTD = 7


class OwnedBroker:
    """The producer's side of one leader: its queues, its books and its sender.

    State: `queues`, and each queue's `sealed` and `in_flight`, change under the producer's lock; `_in_flight` likewise.

    :param producer: whose messages these are
    :param broker: where they go
    :param auto_start: start the sender at once
    """

    def __init__(self, producer: Producer, broker: Broker, auto_start: bool = True) -> None:
        self.producer = producer
        self.broker = broker
        self._handler = producer._handler
        self._lock = producer._lock
        self.wake = self._handler.Event()
        options = producer._options
        self.ledger = Ledger(
            self.wake, options.max_queued_messages, options.max_queued_bytes, options.min_queued_messages
        )
        self.queues: dict[int, PartitionQueue] = {}
        self.running = False
        self._in_flight = 0
        self._worker: Worker | None = None
        if auto_start:
            self.start()

    def start(self) -> None:
        """Start the sender."""
        if not self.running:
            self.running = True
            self._worker = self._handler.spawn(self._run, name=f"pykafka.OwnedBroker.{self.broker.id}")

    def stop(self) -> None:
        """Have the sender end; what is still queued stays in the queues."""
        self.running = False
        self.wake.set()

    def cleanup(self) -> None:
        """Have the sender end; the same as `stop()`."""
        self.stop()

    def enqueue(self, message: Message) -> None:
        """Enqueue a message that has its partition; see `Producer._produce`."""
        self.producer._produce(message)

    def message_is_pending(self) -> bool:
        """Return whether a message for this broker waits for its acknowledgement."""
        return bool(self.ledger.messages)

    def join(self, timeout: float) -> None:
        """Wait until the sender has ended, `timeout` seconds at most."""
        if self._worker is not None:
            self._worker.join(timeout)

    # -- the sender's worker ---------------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            while self.running:
                self.wake.wait(self._step())
                self.wake.clear()
        except BaseException as error:
            log.exception("sender of broker %d ended by an error", self.broker.id)
            self.producer._worker_failed(error)

    def _step(self) -> float | None:
        """Send what is ready; return how long to sleep unless woken (s)."""
        now = self._handler.now()
        batches, deadline = self._take_ready(now)
        for request in _cut(batches, self.producer._options.max_request_size):
            self.producer._send_request(request, self)
        if self.producer._metadata_stale or self.producer._cluster.metadata_is_old:
            return 0.0 if self.producer._refresh_metadata() else self.producer._options.retry_backoff_s
        return None if deadline is None else max(0.0, deadline - self._handler.now())

    def _take_ready(self, now: float) -> tuple[list[MessageBatch], float | None]:
        """Return batches to send now, at most one a partition, and when the next will be ready if nothing changes."""
        ready: list[MessageBatch] = []
        waiting: list[MessageBatch] = []
        deadline: float | None = None
        with self._lock:
            self.ledger.armed = False
            # an answer wakes the sender when requests may be sent again
            blocked = self._in_flight >= MAX_IN_FLIGHT
            for queue in self.queues.values():
                due = self._due(queue, now)
                if due is None:
                    continue
                if due > now:
                    deadline = due if deadline is None else min(deadline, due)
                elif not blocked:
                    batch = self._take(queue)
                    if batch is not None:
                        (waiting if batch.retry_at else ready).append(batch)
            if blocked or deadline is not None:
                self.ledger.armed = True
            elif self._has_open():
                # a message came between the look at its queue and the flag: look again at once
                self.ledger.armed = True
                deadline = now
        for batch in waiting:
            self._check_age(batch)
            deadline = min(deadline or batch.retry_at, batch.retry_at)
        return ready, deadline

    def _has_open(self) -> bool:
        return any(
            queue.open is not None and queue.open.count and queue.in_flight is None for queue in self.queues.values()
        )

    def _due(self, queue: PartitionQueue, now: float) -> float | None:
        """Return when the next batch of this partition may be sent; None while there is nothing to send."""
        waiting = queue.in_flight
        if waiting is not None:
            return waiting.retry_at if waiting.retry_at > 0 else None
        if queue.sealed:
            return now
        batch = queue.open
        if batch is None or not batch.count:
            return None
        options = self.producer._options
        if self.producer._flushing or self.ledger.messages >= options.min_queued_messages or self.ledger.full:
            return now
        return batch.created + options.linger_s

    def _take(self, queue: PartitionQueue) -> MessageBatch | None:
        """Take the next batch of a partition; with `retry_at` set where this is not its leader any more."""
        batch = queue.in_flight
        if batch is None:
            if queue.sealed:
                batch = queue.sealed.popleft()
            else:
                batch = self.producer._accumulator.take_open(queue)
                if batch is None:
                    return None
            queue.in_flight = batch
        batch.retry_at = 0.0
        if self.producer._leader_of(queue) is not self.broker:
            self.producer._metadata_stale = True
            batch.retry_at = self._handler.now() + self.producer._options.retry_backoff_s
        return batch

    def _check_age(self, batch: MessageBatch) -> None:
        """Fail a batch that has waited for a leader beyond the delivery timeout."""
        options = self.producer._options
        if self._handler.now() - batch.created > options.delivery_timeout_s:
            error = batch.last_error or RequestTimedOut(
                f"no leader took the message within delivery_timeout_ms={options.delivery_timeout_s * 1000:.0f}; "
                "check that the partition's replicas are up",
                topic=batch.topic,
                partition=batch.partition_id,
            )
            self._finish(batch, error)

    # -- sending ---------------------------------------------------------------------------------------------------

    def _send(self, batches: list[MessageBatch]) -> None:
        producer = self.producer
        options = producer._options
        try:
            version = self.broker.api_version(ProduceRequest)
            sendable = [batch for batch in batches if self._seal(batch, version)]
            if not sendable:
                return
            request = _produce_request(sendable, options.required_acks, options.ack_timeout_ms)
            with self._lock:
                self._in_flight += 1
            try:
                pending = self.broker.send(
                    request,
                    "produce",
                    timeout_ms=max(options.ack_timeout_ms, producer._cluster._socket_timeout_ms),
                    version=version,
                    has_response=options.required_acks != 0,
                )
            except BaseException:
                with self._lock:
                    self._in_flight -= 1
                raise
        except UnsupportedVersion as error:
            self._settle([(batch, error) for batch in batches])
        except KafkaException as error:
            self._unsent(batches, error)
        else:
            pending.add_done_callback(lambda future: self._answered(sendable, pending, future))

    def _seal(self, batch: MessageBatch, version: int) -> bool:
        """Bring a batch into the form that goes over the wire; False where this broker cannot take it."""
        magic = 2 if version >= PRODUCE_RECORD_BATCHES else 1 if version >= PRODUCE_V1_MESSAGES else 0
        if batch.wire is not None and batch.wire_magic == magic:
            return True
        codec = self.producer._options.compression
        builder = batch.builder
        if magic < 2 and builder.with_headers and batch.count > 1:
            self.producer._split(batch, "some messages have headers, which this broker does not take")
            return False
        try:
            if codec == CompressionType.ZSTD and version < PRODUCE_ZSTD:
                raise UnsupportedCompressionType(
                    "this broker is older than Kafka 2.1 and knows no zstd; produce with another compression"
                )
            if magic == 2:
                offload = self._handler.offload if builder.size >= OFFLOAD_FROM else _inline
                batch.wire = builder.seal(codec, offload(compress, codec, builder.view()) if codec else None)
            else:
                batch.wire = [encode_message_set(builder, magic, codec)]
        except KafkaException as error:
            self._finish(
                batch, error.with_context(broker=self.broker.address, topic=batch.topic, partition=batch.partition_id)
            )
            return False
        batch.wire_magic = magic
        return True

    def _unsent(self, batches: list[MessageBatch], error: KafkaException) -> None:
        """Nothing reached the broker: try again later, wherever the leader is then."""
        log.warning("broker %s: %s; %d batches wait", self.broker.address, error, len(batches))
        now = self._handler.now()
        with self._lock:
            self.producer._metadata_stale = True
            for batch in batches:
                batch.last_error = error
                batch.retry_at = now + self.producer._options.retry_backoff_s
        for batch in batches:
            self._check_age(batch)

    # -- answers (in the connection's reader worker: nothing here may block) -----------------------------------------

    def _answered(
        self, batches: list[MessageBatch], pending: PendingResponse[ProduceResponse], future: ResponseFuture
    ) -> None:
        with self._lock:
            self._in_flight -= 1
        try:
            if self.producer._options.required_acks == 0:
                future.get(timeout=0)
                self._settle([(batch, None) for batch in batches])
            else:
                self._read_answer(batches, pending.get(timeout=0))
        except KafkaException as error:
            self._settle([(batch, error) for batch in batches])
        finally:
            self.wake.set()
            self.producer._wake_owners(batches)

    def _read_answer(self, batches: list[MessageBatch], response: ProduceResponse) -> None:
        waiting = {batch.partition_id: batch for batch in batches}
        outcomes: list[tuple[MessageBatch, KafkaException | None]] = []
        for topic in response.responses:
            for part in topic.partition_responses:
                batch = waiting.pop(part.index, None)
                if batch is None:
                    continue
                if part.error_code == 0:
                    batch.base_offset = part.base_offset
                    batch.log_append_time = part.log_append_time_ms
                    outcomes.append((batch, None))
                    continue
                context: dict[str, Any] = {
                    "broker": self.broker.address,
                    "topic": batch.topic,
                    "partition": batch.partition_id,
                    "api": "Produce",
                }
                error = error_for(part.error_code, part.error_message, **context)
                for bad in part.record_errors:
                    if batch.record_errors is None:
                        batch.record_errors = {}
                    text = bad.batch_index_error_message or part.error_message
                    batch.record_errors[bad.batch_index] = error_for(part.error_code, text, **context)
                outcomes.append((batch, error))
        for batch in waiting.values():
            outcomes.append(
                (
                    batch,
                    ResponseTimeoutError(
                        "the broker's answer left this partition out",
                        broker=self.broker.address,
                        topic=batch.topic,
                        partition=batch.partition_id,
                    ),
                )
            )
        self._settle(outcomes)

    def _settle(self, outcomes: Sequence[tuple[MessageBatch, KafkaException | None]]) -> None:
        for batch, error in outcomes:
            if error is None:
                self.producer._mark_as_delivered(self, [batch])
            elif isinstance(error, MessageSizeTooLarge) and batch.count > 1:
                self.producer._split(batch, str(error))
            elif self._may_retry(batch, error):
                log.info(
                    "will send %d messages to %s/%d again: %s", batch.count, batch.topic, batch.partition_id, error
                )
                with self._lock:
                    batch.last_error = error
                    batch.record_errors = None
                    batch.retry_at = self._handler.now() + self.producer._options.retry_backoff_s
            else:
                self._finish(batch, error)

    def _may_retry(self, batch: MessageBatch, error: KafkaException) -> bool:
        options = self.producer._options
        if isinstance(error, ProtocolClientError):
            if not error.retriable:
                return False
            if error.invalid_metadata:
                self.producer._metadata_stale = True
            else:
                batch.attempts += 1
        else:  # the connection failed: whether the broker has the messages is not known
            self.producer._metadata_stale = True
            batch.attempts += 1
        if self._handler.now() - batch.created > options.delivery_timeout_s:
            return False
        return batch.attempts <= options.max_retries

    def _finish(self, batch: MessageBatch, error: KafkaException | None) -> None:
        self.producer._finish(batch, error)


def _inline(fn: Callable[..., Any], *args: Any) -> Any:
    return fn(*args)


def _cut(batches: list[MessageBatch], limit: int) -> list[list[MessageBatch]]:
    """Divide batches into requests of at most `limit` bytes; a batch that is larger goes alone."""
    requests: list[list[MessageBatch]] = []
    size = 0
    for batch in batches:
        if not requests or size + batch.builder.size > limit:
            requests.append([])
            size = 0
        requests[-1].append(batch)
        size += batch.builder.size
    return requests


def _produce_request(batches: list[MessageBatch], acks: int, timeout_ms: int) -> ProduceRequest:
    topics: dict[str, list[ProduceRequest.Topic.Partition]] = defaultdict(list)
    for batch in batches:
        topics[batch.topic].append(ProduceRequest.Topic.Partition(index=batch.partition_id, records=batch.wire))
    return ProduceRequest(
        acks=acks,
        timeout_ms=timeout_ms,
        topic_data=[ProduceRequest.Topic(name=name, partition_data=parts) for name, parts in topics.items()],
    )
