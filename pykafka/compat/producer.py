"""`Producer`: the messages of one topic, from `produce()` to the broker's acknowledgement."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Literal, cast

from pykafka.common import CompressionType
from pykafka.compat.delivery_reports import Reports
from pykafka.exceptions import KafkaException, LeaderNotFoundError, MessageSizeTooLarge, ProducerStoppedException
from pykafka.handlers.exit_calls import note_block
from pykafka.health import EngineHealth, watching
from pykafka.partitioners import RandomPartitioner
from pykafka.producer.accumulator import RECORD_OVERHEAD, PartitionQueue, headers_size
from pykafka.producer.batch import ProducerBatch
from pykafka.producer.buffer_pool import Bounds
from pykafka.producer.delivery_callbacks import Callback, OnDelivery
from pykafka.producer.engine import ProducerEngine
from pykafka.producer.options import ProducerOptions
from pykafka.producer.produce_request import PRODUCE_RECORD_BATCHES, PRODUCE_V1_MESSAGES
from pykafka.producer.producer_record import Headers, as_bytes, header_pairs, timestamp_ms
from pykafka.producer.sender import Sender
from pykafka.protocol import wire
from pykafka.protocol.message import Message
from pykafka.utils import old_attributes
from pykafka.utils.error_handlers import valid_callable, valid_int
from pykafka.utils.option_table import collected

if TYPE_CHECKING:
    from types import TracebackType

    from pykafka.health.view import View
    from pykafka.metadata.cluster import BaseCluster
    from pykafka.metadata.partition import Partition, TopicView
    from pykafka.metrics.tracing import RecordTracer
    from pykafka.network.node import Node


@old_attributes(
    """
    _ack_timeout_ms _block_on_queue_full _compression _linger_ms _max_queued_messages _max_request_size
    _max_retries _min_queued_messages _pending_timeout_ms _required_acks _retry_backoff_ms _serializer
    _synchronous _worker_exception
    """
)
class Producer(EngineHealth):
    """Send messages to a topic.

    `produce()` writes a message into the open batch of its partition and returns; a sender for each leader in use sends a batch
    when it is full, `linger_ms` old, or `min_queued_messages` wait for that leader. `stop()`, or leaving a `with` block,
    delivers what is queued and raises `MessagesNotDelivered` with all that could not be. A producer that nobody holds any
    more, and nobody has stopped, delivers what is queued and ends; what fails then is only logged.

    Partitions that are added to the topic are noticed within five minutes, as by Kafka's own producer
    (`metadata.max.age.ms`); at once where `client.update_cluster()`, or a consumer of the same client, asks before.

    :param cluster: to which to produce
    :param topic: to which to produce
    :param partitioner: `(partitions, key) -> partition`; by default one partition after another, without regard to
        keys: messages of one key go to all partitions, and have no order; `Murmur2Partitioner()` sends a key to one, as
        Kafka's Java producer does
    :param compression: a `pykafka.common.CompressionType`
    :param max_retries: how often a batch is sent again, within `delivery_timeout_ms`, that a broker found wrong or, if
        batches have no sequence numbers (`enable_idempotence`), may have stored without saying so; a cluster that is
        not ready (no leader, brokers down, too few replicas in sync) does not count
    :param retry_backoff_ms: pause before the first time (ms), give or take a fifth; twice as long each time after that
    :param required_acks: 1 waits for the leader's log, -1 for all replicas in sync, 0 for nothing; with 1, the default,
        a message is lost if the leader fails before another replica has copied it; -1 keeps it, and makes the producer
        idempotent
    :param ack_timeout_ms: how long the leader may wait for replicas (ms)
    :param max_queued_messages: for each broker; beyond, `produce()` blocks or raises
    :param min_queued_messages: for each broker; from this many on, batches are sent without lingering
    :param linger_ms: how long a message may wait for others to fill its batch (ms); 0 sends at once; with the default a
        lone message leaves after 5 seconds, so choose 0 to 50 if a caller waits for it
    :param queue_empty_timeout_ms: accepted for old code; an idle sender sleeps until it is woken
    :param block_on_queue_full: whether a full queue blocks `produce()` or raises
    :param max_request_size: of one request, and so of a message (bytes); a batch is full at the latest when it would
        fill a request alone
    :param sync: whether `produce()` waits for the acknowledgement, and raises what went wrong
    :param delivery_reports: keep a report of each message for `get_delivery_report()`, which must be called for each:
        they are kept until then, however many; a warning is logged once if a thread or greenlet has
        `max_queued_messages`, or `max_queued_bytes` in messages, that it has not read
    :param pending_timeout_ms: how long `stop()` waits while no message gets through (ms)
    :param auto_start: start at once; else with `start()`
    :param serializer: `(message, partition_key) -> (bytes, bytes)`
    :param retry_backoff_max_ms: the longest such pause (ms); `retry_backoff_ms` if that is longer
    :param delivery_timeout_ms: how old a message may get before it has failed (ms)
    :param max_queued_bytes: for each broker, as `max_queued_messages` (bytes)
    :param enable_idempotence: number the batches of each partition (KIP-98), so that messages that are sent again are
        stored once and in order, with up to five batches in flight; None: if all replicas have to acknowledge, retries
        are allowed, and brokers can (0.11 on); True: raise if that is not so
    :param on_delivery: `(error, message)`, called for each message when it is acknowledged (error is None) or has
        failed, by a worker of its own, in the order of each partition; its errors are logged; on greenlets it must not
        hold up the hub. `flush()` and `stop()` wait for it. For an `offset` of -1 see `Message.offset`
    :param max_failed_messages: how many messages may have failed without a report (by `on_delivery`, the delivery or
        its report, or the error that `flush()` raises); beyond, `produce()` raises `MessagesNotDelivered` with all of
        them, and forgets them
    :param max_failed_bytes: how many bytes these may take
    :param on_topic_recreated: messages for a topic that was deleted and created again: "continue" sends them to the new
        topic, with a warning that has both ids; "fail" fails them with `TopicRecreatedError` until the producer is
        started, or made, again. Brokers distinguish topics since Kafka 4.1; with 2.8 to 4.0 the client compares ids
        when it asks for metadata; older ones have no ids, and messages go to the new topic
    :param compression_level: how hard the codec tries: gzip 1 to 9, lz4 1 to 17, zstd -131072 to 22; None: the codec's
        own (6 for gzip, 3 for zstd, the fast mode for lz4); snappy has none
    """

    __module__ = "pykafka.producer"  # its documented place
    _engine: DocumentedEngine

    def _build(self, cluster: BaseCluster, topic: TopicView, given: dict[str, Any]) -> None:
        self._cluster = cluster
        self._topic = topic
        self._handler = cluster.handler
        self._options = options = ProducerOptions.of(given)
        # round robin is done where the record is written; other partitioners are asked for each message
        self._partitioner = None if type(options.partitioner) is RandomPartitioner else options.partitioner
        is_simple = options.serializer is None and not options.sync and not options.delivery_reports
        self._is_simple = self._partitioner is None and is_simple
        self._on_delivery = None if options.on_delivery is None else Callback(options.on_delivery)
        self._engine = self._make_engine()
        self._accumulator = self._engine.accumulator
        self._trace(cluster.tracer)
        self._engine.on_start, self._engine.on_stop = watching(self, cluster)
        cluster.stop_at_close(self)
        self._handler.at_fork(self._after_fork)
        if given["auto_start"]:
            self.start()

    @collected(_build, ProducerOptions)
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
        linger_ms: int = 5000,
        queue_empty_timeout_ms: int = 0,
        block_on_queue_full: bool = True,
        max_request_size: int = 1000012,
        sync: bool = False,
        delivery_reports: bool = False,
        pending_timeout_ms: int = 5000,
        auto_start: bool = True,
        serializer: Callable[[Any, Any], tuple[Any, Any]] | None = None,
        *,
        retry_backoff_max_ms: int = 1000,
        delivery_timeout_ms: int = 2 * 60 * 1000,
        max_queued_bytes: int = 256 * 1024 * 1024,
        enable_idempotence: bool | None = None,
        on_delivery: OnDelivery | None = None,
        max_failed_messages: int = 10000,
        max_failed_bytes: int = 32 * 1024 * 1024,
        on_topic_recreated: Literal["continue", "fail"] = "continue",
        compression_level: int | None = None,
    ) -> None: ...

    def _trace(self, tracer: RecordTracer | None) -> None:
        """Take up a tracer, or leave the present one; the client calls this."""
        self._tracer = tracer
        if tracer is not None:  # for good: traces may be under way when it leaves
            self._engine.completion.observed = True
            self._engine.trace_headers = tracer.header_names
        self._plain = self._is_simple and tracer is None

    def _view_class(self) -> type[View]:
        from pykafka.health.producers import ProducerView

        return ProducerView

    def _make_engine(self) -> DocumentedEngine:
        return DocumentedEngine(self._cluster, self._topic, self._options, self)

    def __repr__(self) -> str:
        return f"<{type(self).__module__}.{type(self).__name__} at {id(self):#x} (topic={self._topic.name})>"

    def __enter__(self) -> Producer:
        """Start the producer, if it is not running."""
        note_block()
        self.start()
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Stop the producer, delivering what is queued."""
        self.stop()

    def start(self) -> None:
        """Take messages, for whose leaders senders start; a stopped producer starts afresh.

        :raises ClientClosedError: the client was closed
        :raises LeaderNotFoundError: no partition has a leader
        :raises UnsupportedVersion: `enable_idempotence` is True, and a leader is older than Kafka 0.11
        """
        self._engine.start()

    def stop(self) -> None:
        """Deliver what is queued and end the senders; does nothing when it is stopped. Takes no messages from its start on.

        An `on_delivery` function that does not return is waited for twice `pending_timeout_ms`, and then logged.

        :raises MessagesNotDelivered: messages failed that were not reported yet, or did not get through in time;
            `.failures` has them
        """
        self._engine.stop()

    def flush(self, timeout_ms: int | None = None) -> None:
        """Send what is queued without lingering, and wait until each message is acknowledged or has failed.

        :param timeout_ms: how long to wait while no message gets through; by default `pending_timeout_ms`
        :raises ResponseTimeoutError: that time passed; what is queued stays so, and is sent if it can be
        :raises MessagesNotDelivered: messages failed that were not reported yet; `.failures` has them
        """
        patience_ms = None if timeout_ms is None else valid_int(timeout_ms, True, name="timeout_ms")
        self._engine.flush(patience_ms)

    # -- producing ----------------------------------------------------------------------------------------------------

    def produce(
        self,
        message: bytes | None,
        partition_key: bytes | None = None,
        timestamp: float | datetime.datetime | None = None,
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

    def _at_once(self, message: Any, partition_key: Any) -> Message | None:
        """Produce a plain message if there is room, for coroutines, which try this before they wait in `produce`."""
        if (
            self._plain
            and (message is None or type(message) is bytes)
            and (partition_key is None or type(partition_key) is bytes)
        ):
            return self._accumulator.append(message, partition_key, -1, None, None, self._on_delivery)
        return None

    def _produce_fully(
        self,
        value: Any,
        key: Any,
        timestamp: float | datetime.datetime | None,
        headers: Headers | None,
        on_delivery: OnDelivery | None,
    ) -> Message:
        """Produce with whatever was asked for: the way of a message that is not plain, or found no room."""
        valid_callable(on_delivery, "on_delivery")
        if self._engine.starts.due:
            self.start()
        self._engine.check_running()
        report_to = self._report_to(None if on_delivery is None else Callback(on_delivery))
        pairs = header_pairs(headers) if headers is not None else None
        tracer = self._tracer
        if tracer is None:
            queue, message = self._write(value, key, timestamp, pairs, pairs, report_to)
        else:
            queue, message = self._write_traced(tracer, value, key, timestamp, pairs, report_to)
        self._engine.await_acknowledgement(queue, message)
        return message

    def _write_traced(
        self, tracer: RecordTracer, value: Any, key: Any, timestamp: Any, own: Any, report_to: Any
    ) -> tuple[PartitionQueue, Message]:
        """Do as `_write`, with a trace, which ends here if the message is not taken."""
        pairs, trace = tracer.sending(self._engine.name, value, key, own or [], None)
        if trace is not None:
            trace.after, report_to = report_to, trace
        try:
            return self._write(value, key, timestamp, own, pairs or None, report_to)
        except BaseException as error:  # also a greenlet's timeout
            if trace is not None:
                trace.failed(error)
            raise

    def _write(
        self, value: Any, key: Any, timestamp: Any, own: Any, pairs: Any, report_to: Any
    ) -> tuple[PartitionQueue, Message]:
        """Write a message into the open batch of its partition, waiting for room where that is allowed; return both.

        :param own: the headers that the application gave
        :param pairs: those to send: for an old broker, those of a trace are left out without an error
        :param report_to: as of `_report_to`, or the message's trace
        """
        if self._options.serializer is not None:
            value, key = self._serialized(value, key)
        value, key = as_bytes("message", value), as_bytes("partition_key", key)
        queue = self._choose_queue(key)
        if isinstance(timestamp, float):
            timestamp = int(timestamp)  # as PyKafka 2, for time.time() * 1000
        when = -1 if timestamp is None else timestamp_ms(timestamp)
        if own is not None or timestamp is not None:
            self._check_format(queue, own is not None, timestamp is not None)
        self._check_size(value, key, pairs)
        return queue, self._engine.place(queue, value, key, when, pairs, report_to)

    def _report_to(self, callback: Callback | None) -> Any:
        """Return what is told of a message: a function, this worker's queue of reports, or None."""
        if callback is not None or self._on_delivery is not None:
            return callback or self._on_delivery
        return self._engine.reports.queue() if self._options.delivery_reports else None

    def _serialized(self, value: Any, key: Any) -> tuple[Any, Any]:
        made: object = self._options.serializer(value, key) if self._options.serializer is not None else (value, key)
        if not isinstance(made, tuple) or len(made) != 2:
            found = f"{type(made).__name__} of {len(made)}" if isinstance(made, tuple) else type(made).__name__
            raise TypeError(f"the serializer must return a pair, (value, partition key) as bytes, not {found}")
        return made

    def _choose_queue(self, key: Any) -> PartitionQueue:
        engine = self._engine
        if engine.routing.outgrown:
            engine.routing.catch_up()
        if self._partitioner is None:
            queue = self._accumulator.next_queue() or engine.await_queue(self._accumulator.next_queue)
        else:
            queue = self._queue_of(self._partitioner(self._partitions(), key))
        if queue is None:
            raise LeaderNotFoundError(
                "the partitioner chose a partition that the topic does not have"
                if self._partitioner is not None
                else "the topic has no partitions",
                topic=self._topic.name,
            )
        return queue

    def _partitions(self) -> list[Partition]:
        """Return the partitions of the topic; wait for them if an answer has left out all of them."""
        info = self._engine.routing.only
        if info is not None and not info.partitions:
            self._engine.await_queue(lambda: info.queues[0] if info.partitions else None)
            if not info.partitions:
                raise LeaderNotFoundError("the topic has no partitions", topic=self._topic.name)
        return [] if info is None else info.partitions

    def _queue_of(self, partition: Any) -> PartitionQueue | None:
        """Return the queue of a partition; wait for one that an answer has left out."""
        if not hasattr(partition, "id"):
            raise TypeError(f"the partitioner must return one of the partitions it was given, not {partition!r}")
        return self._queue_at(partition.id)

    def _queue_at(self, id_: int) -> PartitionQueue | None:
        engine, key = self._engine, (self._engine.name, id_)

        def led() -> PartitionQueue | None:
            queue = engine.routing.queues.get(key)
            return queue if queue is not None and self._is_led(queue) else None

        return led() or engine.await_queue(led)

    def _is_led(self, queue: PartitionQueue) -> bool:
        """Return whether the partition has a sender, if not a leader at this moment."""
        return queue.owner is not None

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
        leader = None if queue.partition is None else queue.partition.leader
        if leader is None or not leader.knows_versions:
            return  # found out when the batch is sent
        version = leader.api_version(wire.ProduceRequest)
        if has_headers and version < PRODUCE_RECORD_BATCHES:
            raise RuntimeError(f"broker {leader.address} is older than Kafka 0.11 and takes no headers")
        if has_timestamp and version < PRODUCE_V1_MESSAGES:
            raise RuntimeError(f"broker {leader.address} is older than Kafka 0.10 and takes no timestamps")

    def get_delivery_report(
        self, block: bool = True, timeout: float | None = None
    ) -> tuple[Message, KafkaException | None]:
        """Return the next report on a message that this thread, greenlet or task produced.

        Reports come in the order in which the outcomes become known. After `queue.Empty` the messages without a report are
        still under way: call again. There is none for messages of others.

        :param block: wait for one
        :param timeout: how long (s); None for as long as it takes, which is for ever when nothing is under way
        :returns: the message, and None or why it was not delivered; delivered with an `offset` of -1, it is stored at a place
            that no broker has told (see `Message.offset`)
        :raises queue.Empty: there is none within `timeout`, or none yet with `block=False`; the standard library's class,
            also on greenlets
        :raises ValueError: `timeout` is negative
        :raises KafkaException: `delivery_reports` is off, or an error has ended a sender
        """
        self._raise_worker_exceptions()
        # Of a synchronous producer `produce()` takes the reports, so old code finds none; it would wait for ever for one.
        none_to_come = self._options.sync and (not block or timeout is not None)
        if not self._options.delivery_reports and not none_to_come:
            raise KafkaException(
                "delivery reports are off; make the producer with delivery_reports=True", topic=self._topic.name
            )
        return self._engine.reports.get(block, timeout)

    # -- for subclasses and old code, whose overriding methods `DocumentedEngine` and `OwnedBroker` call ----------------

    def _produce(self, message: Message | tuple[tuple[bytes | None, bytes | None], int]) -> None:
        """Enqueue a message whose partition is known.

        :param message: a Message with its `partition_id`; or, as in 2.0, ((key, value), partition id)
        :raises LeaderNotFoundError: the topic has no such partition
        :raises ProducerStoppedException: the producer is not running
        """
        if not isinstance(message, Message):
            (key, value), partition_id = message
            message = Message(value, partition_key=key, partition_id=partition_id)
        if not self._engine.running:
            raise ProducerStoppedException(
                "the producer is not running; call start(), or make another", topic=self._topic.name
            )
        queue = self._queue_at(message.partition_id)
        if queue is None:
            raise LeaderNotFoundError(
                "the topic has no such partition, or no broker leads it; check the message's partition_id",
                topic=self._topic.name,
                partition=message.partition_id,
            )
        timestamp = -1 if message.timestamp is None else message.timestamp
        fields = message.value, message.partition_key, timestamp, message.headers
        self._check_size(message.value, message.partition_key, message.headers)
        queued = self._engine.place(queue, *fields, self._report_to(None))
        self._engine.await_acknowledgement(queue, queued)
        # So that offset and error can be read from the message that was given.
        message._batch = queued._batch
        message._index = queued._index

    def _send_request(self, message_batch: Iterable[ProducerBatch], owned_broker: OwnedBroker) -> None:
        """Send one request; its answer completes the batches, or has them sent again.

        :param message_batch: what to send, at most a batch a partition
        :param owned_broker: where to send it
        """
        Sender.send(owned_broker, list(message_batch))

    def _mark_as_delivered(
        self, owned_broker: OwnedBroker, message_batch: Iterable[ProducerBatch], req: Any = None
    ) -> None:
        """Complete batches that were acknowledged.

        :param owned_broker: which took them
        :param message_batch: the batches
        :param req: accepted for old code
        """
        for batch in message_batch:
            self._engine.completion.complete(batch, None)

    def _produce_has_timed_out(self, start_time: float) -> bool:
        """Return whether `pending_timeout_ms` has passed.

        :param start_time: since when (ms since 1970)
        """
        return self._engine.handler.time_ms() - start_time > self._options.pending_timeout_ms

    def _after_fork(self) -> None:
        self._engine.after_fork()
        self._accumulator = self._engine.accumulator
        self._trace(self._tracer)

    @property
    def _running(self) -> bool:
        return self._engine.running

    @property
    def _owned_brokers(self) -> dict[int, OwnedBroker]:
        return cast("dict[int, OwnedBroker]", self._engine.routing.owned_brokers)

    def _update(self) -> None:
        """Bring metadata and senders up to date."""
        self._engine.routing.refresh()

    def _setup_owned_brokers(self) -> None:
        """Give each leader a sender, and each partition's queue to the sender of its leader."""
        self._engine.follow_leaders()

    def _wait_all(self) -> int:
        """Wait until nothing is queued, or nothing has got through for `pending_timeout_ms`; return what is left."""
        return self._engine.wait_all()

    def _raise_worker_exceptions(self) -> None:
        """Raise the error that ended a sender, if one did."""
        self._engine.raise_worker_exception()


class DocumentedEngine(ProducerEngine):
    """A `ProducerEngine` of one topic, which calls the methods of `Producer` that old code overrides.

    State: `reports` is of one process.

    :param cluster: to which to produce
    :param topic: to which to produce
    :param options: checked
    :param producer: whose methods to call
    """

    producer: Producer

    def __init__(self, cluster: BaseCluster, topic: TopicView, options: ProducerOptions, producer: Producer) -> None:
        super().__init__(cluster, topic, options, lambda broker: OwnedBroker(producer, broker, False))
        self.producer = producer

    def _begin(self) -> None:
        super()._begin()
        queued = Bounds(self.options.max_queued_messages, self.options.max_queued_bytes)
        self.reports = Reports(self.handler, self.name, queued)

    def set_up(self) -> None:
        """Bring senders and queues up to date, by `Producer._setup_owned_brokers`."""
        self.producer._setup_owned_brokers()

    def follow_leaders(self) -> None:
        """Give each leader a sender, and each partition's queue to the sender of its leader."""
        super().set_up()

    def stop(self, timeout_ms: int | None = None) -> None:
        """Deliver what is queued and end the senders; as of `ProducerEngine.stop`. Log reports that are unread."""
        unread = self.running and not self.options.sync  # a synchronous produce() has raised its error
        try:
            super().stop(timeout_ms)
        finally:
            if unread:
                self.reports.log_unread()


class OwnedBroker(Sender):
    """The producer's side of one leader, as the reference has it.

    :param producer: whose messages these are
    :param broker: where they go
    :param auto_start: start the sender at once
    """

    __module__ = "pykafka.producer"  # its documented place

    def __init__(self, producer: Producer, broker: Node, auto_start: bool = True) -> None:
        self.producer = producer
        super().__init__(producer._engine, producer._engine.routing, broker, auto_start)

    def send(self, batches: list[ProducerBatch]) -> None:
        """Send one request, by `Producer._send_request`."""
        self.producer._send_request(batches, self)

    def delivered(self, batch: ProducerBatch) -> None:
        """Complete a batch that was acknowledged, by `Producer._mark_as_delivered`."""
        self.producer._mark_as_delivered(self, [batch])

    def message_is_pending(self) -> bool:
        """Return whether a message for this broker waits for its acknowledgement."""
        return bool(self.broker_queue.messages)

    def cleanup(self) -> None:
        """End the sender; the same as `stop()`."""
        self.stop()

    def enqueue(self, message: Message) -> None:
        """Enqueue a message that has its partition; see `Producer._produce`."""
        self.producer._produce(message)
