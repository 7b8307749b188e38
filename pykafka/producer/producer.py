"""`Producer`: the messages of one topic, from `produce()` to the broker's acknowledgement."""

from __future__ import annotations

import datetime
import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from pykafka.common import CompressionType
from pykafka.exceptions import (
    ClientClosedError,
    KafkaException,
    LeaderNotFoundError,
    MessageSizeTooLarge,
    MessagesNotDelivered,
    ProducerQueueFullError,
    ProducerStoppedException,
    ResponseTimeoutError,
    SocketDisconnectedError,
)
from pykafka.partitioners import RandomPartitioner
from pykafka.producer.accumulator import (
    RECORD_OVERHEAD,
    Accumulator,
    MessageBatch,
    PartitionQueue,
    headers_size,
)
from pykafka.producer.deliveries import Callback, Deliveries, Failures, OnDelivery, Reports
from pykafka.producer.documented import DocumentedProducer
from pykafka.producer.identity import Identity
from pykafka.producer.options import ProducerOptions
from pykafka.producer.routing import Routing
from pykafka.producer.sender import PRODUCE_RECORD_BATCHES, PRODUCE_V1_MESSAGES, OwnedBroker, outcome_unknown
from pykafka.producer.values import Headers, as_bytes, header_pairs, timestamp_ms
from pykafka.protocol import wire
from pykafka.utils.backoff import Backoff
from pykafka.utils.error_handlers import valid_callable, valid_int

if TYPE_CHECKING:
    from types import TracebackType

    from pykafka.metadata.cluster import BaseCluster
    from pykafka.partition import Partition, TopicView
    from pykafka.producer.idempotence import Lane
    from pykafka.protocol.message import Message

log = logging.getLogger(__name__)

#: How long stop() waits for senders to end, beyond what it waits for messages (s).
JOIN_TIMEOUT_S = 5.0


class Producer(DocumentedProducer):
    """Send messages to a topic.

    `produce()` writes a message into the open batch of its partition and returns; a sender for each leader sends a batch
    when it is full, `linger_ms` old, or `min_queued_messages` wait for that leader. `stop()`, or leaving a `with` block,
    delivers what is queued and raises `MessagesNotDelivered` with all that could not be. A producer that nobody holds any
    more, and nobody has stopped, delivers what is queued and ends; what fails then is only logged.

    Partitions that are added to the topic are noticed within five minutes, as by Kafka's own producer
    (`metadata.max.age.ms`); at once where `client.update_cluster()`, or a consumer of the same client, asks before.

    :param cluster: to which to produce
    :param topic: to which to produce
    :param partitioner: `(partitions, key) -> partition`; by default one partition after another
    :param compression: a `pykafka.common.CompressionType`
    :param max_retries: how often a batch is sent again that a broker found wrong or, where batches have no sequence numbers
        (`enable_idempotence`), may have stored without saying so; a cluster that is not ready (no leader, brokers down, too
        few replicas in sync) is waited for until `delivery_timeout_ms`
    :param retry_backoff_ms: pause before the first time, give or take a fifth; twice as long each time after that
    :param required_acks: 1 waits for the leader's log, -1 for all replicas in sync, 0 for nothing
    :param ack_timeout_ms: how long the leader may wait for replicas
    :param max_queued_messages: for each broker; beyond, `produce()` blocks or raises
    :param min_queued_messages: for each broker; from this many on, batches are sent without lingering
    :param linger_ms: how long a message may wait for company; 0 sends at once
    :param queue_empty_timeout_ms: accepted for old code; an idle sender sleeps until it is woken
    :param block_on_queue_full: whether a full queue blocks `produce()` or raises
    :param max_request_size: of one request (bytes); a batch is full when it would fill a request alone
    :param sync: whether `produce()` waits for the acknowledgement, and raises what went wrong
    :param delivery_reports: keep a report of each message for `get_delivery_report()`, which must be called for each: they
        are kept until then, however many; a warning is logged once where a thread or greenlet has `max_queued_messages`, or
        `max_queued_bytes` in messages, that it has not read
    :param pending_timeout_ms: how long `stop()` waits while no message gets through
    :param auto_start: start at once; else with `start()`
    :param serializer: `(message, partition_key) -> (bytes, bytes)`
    :param retry_backoff_max_ms: the longest such pause; `retry_backoff_ms` where that is longer
    :param delivery_timeout_ms: how old a message may get before it has failed
    :param max_queued_bytes: for each broker, as `max_queued_messages`
    :param enable_idempotence: number the batches of each partition (KIP-98), so that what is sent again is stored once
        and in its place, with up to five batches under way; None: where `required_acks` is -1, retries are allowed, and
        brokers can (0.11 on); True: or refuse
    :param on_delivery: `(error, message)`, called for each message when it is acknowledged (error is None) or has failed, by
        a worker of its own, in the order of each partition; what it raises is logged; on greenlets it must not hold up the
        hub. `flush()` and `stop()` wait for it. For an `offset` of -1 see `Message.offset`
    :param max_failed_messages: how many messages may have failed without anybody being told (by `on_delivery`, a report, or
        what `flush()` raises); beyond, `produce()` raises `MessagesNotDelivered` with all of them, and forgets them
    :param max_failed_bytes: how many bytes these may take
    """

    def __init__(
        self,
        cluster: BaseCluster,
        topic: TopicView,
        partitioner: Callable[[Sequence[Partition], Any], Partition] | None = None,
        compression: int = CompressionType.NONE,
        max_retries: int = 3,
        retry_backoff_ms: int = 100,
        required_acks: int = 1,
        ack_timeout_ms: int = 10 * 1000,
        max_queued_messages: int = 100000,
        min_queued_messages: int = 70000,
        linger_ms: int = 5 * 1000,
        queue_empty_timeout_ms: int = 0,
        block_on_queue_full: bool = True,
        max_request_size: int = 1000012,
        sync: bool = False,
        delivery_reports: bool = False,
        pending_timeout_ms: int = 5 * 1000,
        auto_start: bool = True,
        serializer: Callable[[Any, Any], tuple[Any, Any]] | None = None,
        *,
        retry_backoff_max_ms: int = 1000,
        delivery_timeout_ms: int = 120 * 1000,
        max_queued_bytes: int = 256 * 1024 * 1024,
        enable_idempotence: bool | None = None,
        on_delivery: OnDelivery | None = None,
        max_failed_messages: int = 10_000,
        max_failed_bytes: int = 32 * 1024 * 1024,
    ) -> None:
        self._cluster = cluster
        self._topic = topic
        self._handler = cluster.handler
        self._options = ProducerOptions.checked(
            compression=compression,
            max_retries=max_retries,
            retry_backoff_ms=retry_backoff_ms,
            retry_backoff_max_ms=retry_backoff_max_ms,
            required_acks=required_acks,
            ack_timeout_ms=ack_timeout_ms,
            max_queued_messages=max_queued_messages,
            max_queued_bytes=max_queued_bytes,
            min_queued_messages=min_queued_messages,
            linger_ms=linger_ms,
            block_on_queue_full=block_on_queue_full,
            max_request_size=max_request_size,
            sync=sync,
            delivery_reports=delivery_reports,
            pending_timeout_ms=pending_timeout_ms,
            delivery_timeout_ms=delivery_timeout_ms,
            serializer=serializer,
            enable_idempotence=enable_idempotence,
            on_delivery=on_delivery,
            max_failed_messages=max_failed_messages,
            max_failed_bytes=max_failed_bytes,
        )
        # round robin is done where the record is written; other partitioners are asked for each message
        self._partitioner = (
            None if type(partitioner) is RandomPartitioner else valid_callable(partitioner, "partitioner")
        )
        self._lock = self._handler.Lock()
        self._accumulator = Accumulator(self._handler, self._options.batch_limit)
        self._clock = None if self._handler.system_clock else self._handler.time_ms
        self._plain = self._partitioner is None and serializer is None and not sync and not delivery_reports
        self._routing = Routing(self)
        self._identity = Identity(cluster, self._options.enable_idempotence)
        self._backoff = Backoff(retry_backoff_ms, retry_backoff_max_ms, self._handler.random)
        self._progress = self._handler.Event()
        self._reports = self._make_reports()
        self._on_delivery = None if on_delivery is None else Callback(on_delivery)
        self._failures = Failures(max_failed_messages, max_failed_bytes)
        self._deliveries = self._make_deliveries()
        self._worker_exception: BaseException | None = None
        self._flushing = 0
        self._stopping = False
        self._running = False
        self._restart = False
        self._left_to_parent: list[Any] = []
        cluster.stop_at_close(self)
        self._handler.at_fork(self._after_fork)
        if auto_start:
            self.start()

    def __repr__(self) -> str:
        return f"<{type(self).__module__}.{type(self).__name__} at {id(self):#x} (topic={self._topic.name})>"

    def __enter__(self) -> Producer:
        """Start the producer, if it is not running."""
        self.start()
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Stop the producer, delivering what is queued."""
        self.stop()

    # -- life ------------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Start a sender for each leader; a stopped producer starts afresh.

        :raises ClientClosedError: the client was closed
        :raises LeaderNotFoundError: no partition has a leader
        :raises UnsupportedVersion: `enable_idempotence` is True, and a leader is older than Kafka 0.11
        """
        if self._running:
            return
        if self._cluster.closed:
            raise ClientClosedError("this client was closed; make a new KafkaClient", topic=self._topic.name)
        self._worker_exception = None
        self._routing = Routing(self)
        self._identity = Identity(self._cluster, self._options.enable_idempotence)
        if self._options.enable_idempotence:
            self._check_leaders()
        try:
            self._setup_owned_brokers()
        except BaseException:
            self._routing.ended = True
            for owned in self._owned_brokers.values():
                owned.stop()
            raise
        self._running = True
        self._accumulator.closed = False

    def _check_leaders(self) -> None:
        """Raise UnsupportedVersion where a leader that can be asked now knows no idempotent producer."""
        for leader in {partition.leader for partition in self._topic.partitions.values()}:
            if leader is None:
                continue
            try:
                self._identity.known_to(leader)
            except SocketDisconnectedError as error:
                log.info("broker %s is asked what it knows when there is something to send: %s", leader.address, error)

    def _after_fork(self) -> None:
        # What was queued stays the parent's. Senders are threads that this child has not got, or greenlets that it has
        # got a copy of, which must not send; locks may be held by nobody. The next produce() starts afresh.
        self._left_to_parent.append((self._routing, self._identity, self._accumulator))
        for owned in self._owned_brokers.values():
            owned.running = False
        self._restart = self._running and not self._stopping
        self._running = self._stopping = False
        self._flushing = 0
        self._accumulator.closed = True
        self._accumulator = Accumulator(self._handler, self._options.batch_limit)
        self._lock = self._handler.Lock()
        self._progress = self._handler.Event()
        self._reports = self._make_reports()
        self._routing = Routing(self)
        self._identity = Identity(self._cluster, self._options.enable_idempotence)
        self._failures = self._failures.empty()
        self._deliveries = self._make_deliveries()

    def _make_deliveries(self) -> Deliveries:
        options = self._options
        # of the event alone: the worker keeps no producer that nobody else has any more
        return Deliveries(
            self._handler, self._topic.name, self._progress.set, options.max_queued_messages, options.max_queued_bytes
        )

    def _make_reports(self) -> Reports:
        options = self._options
        return Reports(self._handler, self._topic.name, options.max_queued_messages, options.max_queued_bytes)

    def stop(self) -> None:
        """Deliver what is queued and end the senders; does nothing when it is stopped. Takes no messages from its start on.

        :raises MessagesNotDelivered: messages failed of which nobody was told yet, or did not get through in time;
            `.failures` has them
        """
        self._restart = False
        if self._running:
            with self._lock:
                self._stopping = True
                self._accumulator.close()
            try:
                if isinstance(self._worker_exception, (KeyboardInterrupt, SystemExit)):
                    # A signal that came while a sender's greenlet ran: the program was told by it, and what is queued can go.
                    self._worker_exception = None
                    for owned in list(self._owned_brokers.values()):
                        owned.running = False
                        owned.start()
                if self._worker_exception is None:
                    self._wait_all()
            finally:
                self._end()
            self._end_deliveries()
            if not self._options.sync:  # produce() has raised it
                self._reports.tell_unread()
        self._raise_failures()

    def _end_deliveries(self) -> None:
        """Wait until `on_delivery` has been called for each message; what it keeps from being told is raised instead."""
        untold = 0
        batch: Any
        for batch, messages in self._deliveries.finish(self._options.pending_timeout_ms / 1000):
            indexes = {message._index for message in messages}
            untold += len(messages)
            if self._options.sync:
                continue  # produce() has raised it
            self._keep(batch, [message for message in batch.messages() if message._index not in indexes])
        if untold:
            log.error(
                "on_delivery has not returned for %d ms, and is not called for %d messages to %s; stop() raises those of them "
                "that failed",
                self._options.pending_timeout_ms,
                untold,
                self._topic.name,
            )

    def _raise_failures(self) -> None:
        """Raise the failures of which nobody was told yet, and forget them."""
        with self._lock:
            failed = self._failures.take()
            if self._running and not self._stopping:
                self._accumulator.closed = False
        if not failed.count:
            return
        try:
            raise MessagesNotDelivered(self._topic.name, failed.pairs())
        except BaseException as error:
            if not isinstance(error, MessagesNotDelivered):  # Ctrl-C, or somebody's timeout
                with self._lock:
                    self._failures.restore(failed)
            raise

    def _end(self) -> None:
        """End the senders and give up what is queued, also where somebody's timeout ends this."""
        with self._lock:
            self._routing.ended = True
        owned_brokers = list(self._owned_brokers.values())
        try:
            for owned in owned_brokers:
                owned.stop()
            for owned in owned_brokers:
                owned.join(JOIN_TIMEOUT_S)
        finally:
            self._running = self._stopping = False
            self._give_up_queued()

    def flush(self, timeout_ms: int | None = None) -> None:
        """Send what is queued without lingering, and wait until each message is acknowledged or has failed.

        :param timeout_ms: how long to wait while no message gets through; by default `pending_timeout_ms`
        :raises ResponseTimeoutError: that time passed; what is queued stays so, and is sent if it can be
        :raises MessagesNotDelivered: messages failed of which nobody was told yet; `.failures` has them
        """
        patience = (
            self._options.pending_timeout_ms if timeout_ms is None else valid_int(timeout_ms, True, name="timeout_ms")
        )
        left = self._wait_all(timeout_ms)
        self._raise_worker_exceptions()
        if left:
            failed = (
                f" ({self._failures.count} others have failed: the next flush() tells)" if self._failures.count else ""
            )
            raise ResponseTimeoutError(
                f"{left} messages are still queued, and none got through for {patience} ms{failed}; see that the brokers are "
                f"up and on_delivery returns, or give flush() a longer timeout_ms{self._about_throttling()}",
                topic=self._topic.name,
            )
        self._raise_failures()

    def _wait_all(self, timeout_ms: int | None = None) -> int:
        """Wait until nothing is queued, or nothing has got through for so long; return how many messages are left."""
        patience = (self._options.pending_timeout_ms if timeout_ms is None else timeout_ms) / 1000
        with self._lock:
            self._flushing += 1
        try:
            # A function of on_delivery that flushes does not wait for itself.
            here = self._deliveries.here
            calls = self._deliveries.calls
            pending: list[Any] = self._queued()
            if not here:
                pending += self._deliveries.waiting()
            deadline = self._handler.now() + patience
            while pending and self._worker_exception is None:
                for owned in list(self._owned_brokers.values()):
                    owned.wake.set()
                self._deliveries.begin()
                remaining = deadline - self._handler.now()
                if remaining <= 0:
                    break
                self._progress.wait(min(remaining, 1.0))
                self._progress.clear()
                left = [batch for batch in pending if not (batch.done if here else batch.told)]
                if len(left) < len(pending) or calls != self._deliveries.calls:
                    calls, deadline = self._deliveries.calls, self._handler.now() + patience
                pending = left
            return sum(batch.count for batch in pending)
        finally:
            with self._lock:
                self._flushing -= 1

    def _queued(self) -> list[MessageBatch]:
        """Return what is queued now: who goes on producing does not make others wait."""
        with self._lock:
            found = [flight.item for queue in self._queues.values() for flight in queue.lane.window]
            for queue in self._queues.values():
                found += queue.sealed
                if queue.open is not None and queue.open.count:
                    found.append(queue.open)
            return list({id(whole): whole for whole in map(_whole, found)}.values())

    def _about_throttling(self) -> str:
        """Return what an error about time is to say of brokers that throttle; nothing where none does."""
        for owned in list(self._owned_brokers.values()):
            muted_for = owned.broker.muted_for("produce")
            if muted_for:
                return (
                    f"; broker {owned.broker.address} throttles this client by a quota, "
                    f"for {muted_for * 1000:.0f} ms more"
                )
        return ""

    def _give_up_queued(self) -> None:
        error = ProducerStoppedException(
            "the producer was stopped before the message got through "
            f"(pending_timeout_ms={self._options.pending_timeout_ms}{self._about_throttling()})",
            topic=self._topic.name,
        )
        left: list[MessageBatch | None] = []
        with self._lock:
            for queue in self._queues.values():
                left += [flight.item for flight in queue.lane.window]
                left += queue.sealed
                left.append(self._accumulator.take_open(queue))
                queue.open = None  # for good: somebody may still wait for room in this queue
        for batch in left:
            if batch is not None and not batch.done:
                reason = batch.last_error or error
                self._finish(batch, outcome_unknown(batch, reason) or reason)
        self._routing = Routing(self)
        self._accumulator.queues = []

    # -- producing -------------------------------------------------------------------------------------------------

    def produce(
        self,
        message: bytes | None,
        partition_key: bytes | None = None,
        timestamp: int | datetime.datetime | None = None,
        headers: Headers | None = None,
        *,
        on_delivery: OnDelivery | None = None,
    ) -> Message:
        """Send a message.

        :param message: its value; None is a null value, a tombstone in compacted topics
        :param partition_key: its key, by which the partitioner may choose
        :param timestamp: its time (ms since 1970, or a datetime; naive ones are UTC); by default now
        :param headers: {name: value} or (name, value) pairs, from Kafka 0.11 on
        :param on_delivery: called for this message instead of the producer's `on_delivery`, or of a report
        :returns: the message; its `offset` is known once it is acknowledged
        :raises TypeError: message or key is not bytes and there is no serializer
        :raises MessageSizeTooLarge: it would not fit into `max_request_size`
        :raises ProducerQueueFullError: the queue is full and `block_on_queue_full` is off
        :raises ProducerStoppedException: the producer is not running
        :raises MessagesNotDelivered: `max_failed_messages` or `max_failed_bytes` of earlier messages failed and nobody was told
            of them; this message was not taken
        :raises RuntimeError: the broker is too old for a timestamp (before 0.10) or headers (before 0.11)
        """
        if (
            self._plain
            and on_delivery is None
            and timestamp is None
            and headers is None
            and (message is None or type(message) is bytes)
            and (partition_key is None or type(partition_key) is bytes)
        ):
            found = self._accumulator.append(message, partition_key, -1, None, None, self._on_delivery)
            if found is not None:
                return found
        return self._produce_fully(message, partition_key, timestamp, headers, on_delivery)

    def _produce_fully(
        self,
        value: Any,
        key: Any,
        timestamp: int | datetime.datetime | None,
        headers: Headers | None,
        on_delivery: OnDelivery | None,
    ) -> Message:
        """Produce with whatever was asked for: the way of a message that is not plain, or found no room."""
        valid_callable(on_delivery, "on_delivery")
        if self._restart:
            self._restart = False
            self.start()
        self._check_running()
        if self._options.serializer is not None:
            value, key = self._serialized(value, key)
        value, key = as_bytes("message", value), as_bytes("partition_key", key)
        pairs = header_pairs(headers) if headers is not None else None
        queue = self._choose_queue(key)
        when = -1 if timestamp is None else timestamp_ms(timestamp)
        if pairs is not None or timestamp is not None:
            self._check_format(queue, pairs is not None, timestamp is not None)
        return self._enqueue(queue, value, key, when, pairs, None if on_delivery is None else Callback(on_delivery))

    def _check_running(self) -> None:
        """Raise what ended a sender, that the producer takes no messages, or what has failed where that is too much."""
        self._raise_worker_exceptions()
        if not self._running or self._stopping:
            raise ProducerStoppedException(
                "the producer is not running; call start(), or make another", topic=self._topic.name
            )
        if self._failures.full:
            self._raise_failures()

    def _told(self, callback: Callback | None) -> Any:
        """Return what is told of a message: a function, this worker's queue of reports, or None."""
        if callback is not None or self._on_delivery is not None:
            return callback or self._on_delivery
        return self._reports.queue() if self._options.delivery_reports else None

    def _serialized(self, value: Any, key: Any) -> tuple[Any, Any]:
        made: object = self._options.serializer(value, key) if self._options.serializer is not None else (value, key)
        if not isinstance(made, tuple) or len(made) != 2:
            raise TypeError(f"the serializer must return a pair, (value, partition key) as bytes, not {made!r}")
        return made

    def _enqueue(
        self,
        queue: PartitionQueue,
        value: Any,
        key: Any,
        timestamp: int,
        headers: Any,
        callback: Callback | None = None,
    ) -> Message:
        """Write a message into the open batch of its partition, waiting for room where that is allowed."""
        told = self._told(callback)
        self._check_size(value, key, headers)
        while True:
            message = self._accumulator.append(value, key, timestamp, headers, queue, told)
            if message is not None:
                break
            self._make_room(queue)
        if self._options.sync:
            if queue.owner is not None:
                batch: Any = message._batch
                queue.owner.deliver(batch)
            self._wait_for(message)
        return message

    def _choose_queue(self, key: Any) -> PartitionQueue:
        if self._topic.changes != self._routing.seen_changes:
            self._routing.catch_up()
        if self._partitioner is None:
            queue = self._accumulator.next_queue()
        else:
            partition = self._partitioner(self._routing.partitions, key)
            if not hasattr(partition, "id"):
                raise TypeError(f"the partitioner must return one of the partitions it was given, not {partition!r}")
            queue = self._queues.get(partition.id)
        if queue is None:
            raise LeaderNotFoundError(
                "the partitioner chose a partition that the topic does not have"
                if self._partitioner is not None
                else "the topic has no partitions",
                topic=self._topic.name,
            )
        return queue

    def _check_size(
        self, value: bytes | None, key: bytes | None, pairs: Sequence[tuple[str, bytes | None]] | None
    ) -> None:
        size = RECORD_OVERHEAD + len(value or b"") + len(key or b"") + (headers_size(pairs) if pairs is not None else 0)
        if size > self._options.batch_limit:
            raise MessageSizeTooLarge(
                f"a message of {size} bytes does not fit into max_request_size={self._options.max_request_size}; "
                "send less, or raise max_request_size here and max.message.bytes of the topic",
                topic=self._topic.name,
            )

    def _check_format(self, queue: PartitionQueue, has_headers: bool, has_timestamp: bool) -> None:
        leader = self._routing.leader_of(queue)
        if leader is None or leader._api_versions is None:
            return  # found out when the batch is sent
        version = leader.api_version(wire.ProduceRequest)
        if has_headers and version < PRODUCE_RECORD_BATCHES:
            raise RuntimeError(f"broker {leader.address} is older than Kafka 0.11 and takes no headers")
        if has_timestamp and version < PRODUCE_V1_MESSAGES:
            raise RuntimeError(f"broker {leader.address} is older than Kafka 0.10 and takes no timestamps")

    def _make_room(self, queue: PartitionQueue) -> None:
        """Find out why a message found no room, and see to it: a full queue, a full batch, or none yet."""
        self._check_running()
        if self._queues.get(queue.partition_id) is not queue:
            raise ProducerStoppedException("the producer was stopped before there was room", topic=self._topic.name)
        owner = queue.owner
        if owner is None:
            raise LeaderNotFoundError(
                "no broker leads this partition", topic=self._topic.name, partition=queue.partition_id
            )
        # A function of on_delivery may produce all the same: it cannot wait for itself.
        telling = self._deliveries.full and not self._deliveries.here
        if not owner.ledger.full and not telling:
            self._roll(queue, owner)
            return
        if not self._options.block_on_queue_full:
            held = (
                f"{self._deliveries.messages} messages wait for on_delivery"
                if telling
                else f"{owner.ledger.messages} messages ({owner.ledger.bytes} bytes) are queued for broker {owner.broker.id}"
            )
            raise ProducerQueueFullError(
                f"{held}; produce more slowly, raise max_queued_messages, or let block_on_queue_full wait",
                topic=self._topic.name,
            )
        owner.wake.set()
        self._progress.wait(0.1)
        self._progress.clear()

    def _roll(self, queue: PartitionQueue, owner: OwnedBroker) -> None:
        """Give a partition a new open batch, where the present one is full or missing."""
        if self._routing.outgrown:
            self._routing.catch_up()
        now, expected = self._handler.now(), queue.expected
        fresh = MessageBatch(self._topic.name, queue.partition_id, owner.ledger, now, self._clock, expected)
        if self._options.sync:
            fresh.event = self._handler.Event()
        with self._lock:
            # Others may have been here, a leader may have moved, the producer may have been stopped: look again.
            current = queue.owner is owner and self._queues.get(queue.partition_id) is queue and not self._routing.ended
            if not current or (queue.open is not None and queue.open.count == 0):
                return
            full = self._accumulator.take_open(queue)
            if full is not None:
                queue.sealed.append(full)
            queue.open = fresh
            owner.keep()
        if full is not None:
            owner.wake.set()

    def _wait_for(self, message: Message) -> None:
        """Wait until a message is acknowledged, and raise what went wrong."""
        batch: Any = message._batch
        if batch.event is not None and not batch.done:
            self._wait_for_batch(batch)
        error = message.error
        if error is not None:
            raise error

    def _wait_for_batch(self, batch: MessageBatch) -> None:
        options = self._options
        patience = options.delivery_timeout_s + max(options.ack_timeout_ms, self._cluster.socket_timeout_ms) / 1000
        deadline = self._handler.now() + patience + JOIN_TIMEOUT_S
        while batch.event is not None and not batch.done:
            self._raise_worker_exceptions()
            if self._handler.now() > deadline:  # the sender answers for each batch before, if nobody has interrupted it
                raise ResponseTimeoutError(
                    "the sender has not said what became of the message; stop() the producer, and start() it again",
                    topic=self._topic.name,
                    partition=batch.partition_id,
                )
            batch.event.wait(1.0)

    # -- delivery reports ------------------------------------------------------------------------------------------

    def get_delivery_report(
        self, block: bool = True, timeout: float | None = None
    ) -> tuple[Message, KafkaException | None]:
        """Return the next report on a message that this thread or greenlet produced.

        :param block: wait for one
        :param timeout: how long (s); None for as long as it takes
        :returns: the message, and None or why it was not delivered; delivered with an `offset` of -1, it is stored at a place
            that no broker has told (see `Message.offset`)
        :raises KafkaException: `delivery_reports` is off
        :raises queue.Empty: there is none (in time)
        """
        self._raise_worker_exceptions()
        if not self._options.delivery_reports:
            raise KafkaException(
                "delivery reports are off; make the producer with delivery_reports=True", topic=self._topic.name
            )
        return self._reports.get(block, timeout)

    # -- batches (called by senders) -------------------------------------------------------------------------------

    def _finish(self, batch: MessageBatch, error: KafkaException | None) -> None:
        """Settle a batch for good: acknowledged, or failed by `error`."""
        with self._lock:
            if batch.done:
                return
            # without the frames that it came through, which hold batches
            batch.error = None if error is None else error.again()
            batch.done = True
        batch.wire = None
        if error is not None:
            about = f"{batch.topic}/{batch.partition_id} {type(error).__name__}"
            text, args = "%d messages to %s/%d were not delivered: %s", (batch.topic, batch.partition_id, error)
            self._cluster.limiter.warn(log, about, text, batch.count, *args, level=logging.ERROR)
        parent = batch.parent
        if parent is None:
            self._report(batch)
        elif all(part.done for part in parent.parts or ()):
            self._finish(parent, None)
            with self._lock:
                # Parts and whole refer to each other, and would stay until the garbage collector comes by.
                for part in parent.parts or ():
                    part.parent = None

    def _report(self, batch: MessageBatch) -> None:
        """Tell whoever waits for a batch, and take it off the books."""
        reports, batch.reports = batch.reports, []
        if not self._options.sync and len(reports) < batch.count:
            self._keep(batch, reports)
        callbacks = reports
        if self._options.delivery_reports:
            callbacks = [message for message in reports if type(message.delivery_report_q) is Callback]
            self._reports.put(
                [
                    (message, batch.error_of(message._index))
                    for message in reports
                    if type(message.delivery_report_q) is not Callback
                ],
                batch.queued_bytes / max(batch.count, 1),
            )
        if batch.event is not None:
            batch.event.set()
        # At last, for whoever waits in `flush()`, and looks at the reports then.
        self._accumulator.release(batch)
        if callbacks:
            self._deliveries.tell(batch, callbacks, batch.queued_bytes)
        else:
            batch.told = True
        self._progress.set()

    def _keep(self, batch: MessageBatch, told: Sequence[Message]) -> None:
        """Keep what has failed of a batch until somebody is told; at the bound, the next `produce()` is.

        :param told: messages of which somebody is told
        """
        indexes = {message._index for message in told}
        first = 0
        for leaf in _leaves(batch):
            if leaf.error is not None:
                those = {index - first for index in indexes if first <= index < first + leaf.count}
                with self._lock:
                    self._failures.add(leaf, leaf.count, leaf.builder.size, those)
                    if self._failures.full:
                        self._accumulator.close()
            first += leaf.count

    def _split(self, batch: MessageBatch, reason: str, lane: Lane[MessageBatch]) -> None:
        """Send a batch that the broker does not take in two halves, so that only what is to blame fails."""
        log.info("%s/%d: %d messages go in two halves: %s", batch.topic, batch.partition_id, batch.count, reason)
        parts = batch.split()
        with self._lock:
            for flight in lane.split(batch.flight, [(part, part.count) for part in parts]):
                flight.item.flight = flight

    def _worker_failed(self, error: BaseException) -> None:
        self._worker_exception = error
        self._progress.set()

    def _raise_worker_exceptions(self) -> None:
        """Raise the error that ended a sender, if one did."""
        if self._worker_exception is not None:
            raise self._worker_exception

    # -- leaders, as documented --------------------------------------------------------------------------------------

    @property
    def _queues(self) -> dict[int, PartitionQueue]:
        return self._routing.queues

    @property
    def _owned_brokers(self) -> dict[int, OwnedBroker]:
        return self._routing.owned_brokers

    def _update(self) -> None:
        """Bring metadata and senders up to date."""
        self._routing.refresh()

    def _setup_owned_brokers(self) -> None:
        """Give each leader a sender, and each partition's queue to its leader's."""
        self._routing.set_up()


def _whole(batch: MessageBatch) -> MessageBatch:
    """Return the batch that was split into this one, else itself."""
    return batch if batch.parent is None else _whole(batch.parent)


def _leaves(batch: MessageBatch) -> list[MessageBatch]:
    """Return the batches that were sent for this one: itself, unless it was split."""
    if batch.parts is None:
        return [batch]
    return [leaf for part in batch.parts for leaf in _leaves(part)]
