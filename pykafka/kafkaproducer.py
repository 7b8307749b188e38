"""`KafkaProducer`: messages for any topic; `client.producer()` makes one."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from math import inf
from typing import TYPE_CHECKING, Any, Generic, Literal, Self

from pykafka.exceptions import KafkaException, OnDeliveryError, WouldBlockError
from pykafka.handlers.exit_calls import note_block
from pykafka.health import ProducerHealthCalls, watching
from pykafka.partitioners import Murmur2Partitioner
from pykafka.producer.delivery import Delivery
from pykafka.producer.delivery_callbacks import Callback
from pykafka.producer.fastpath import FastPath
from pykafka.producer.options import KafkaProducerOptions
from pykafka.producer.produce_request import PRODUCE_RECORD_BATCHES, PRODUCE_V1_MESSAGES
from pykafka.producer.producer_record import Interceptors, ProducerRecord, as_bytes, header_pairs, timestamp_ms
from pykafka.producer.record_placement import KafkaProducerEngine, Outgoing, Partitioner
from pykafka.protocol import wire
from pykafka.record import K, V
from pykafka.serialization import may_wait, serializer_of
from pykafka.transactions.calls import Transacting
from pykafka.transactions.engine import TransactionalEngine
from pykafka.utils import get_string
from pykafka.utils.error_handlers import LONGEST_S, left_ms, valid_callable, valid_int, valid_timeout
from pykafka.utils.hints import PRODUCER, with_hints
from pykafka.utils.option_table import collected

if TYPE_CHECKING:
    from types import TracebackType

    from pykafka.metadata.cluster import BaseCluster
    from pykafka.metadata.partition import Partition
    from pykafka.metrics.tracing import Headers, RecordTracer, SendTrace
    from pykafka.serialization import SerializerLike

__all__ = ["Delivery", "KafkaProducer", "ProducerRecord"]

log = logging.getLogger(__name__)


@with_hints
class KafkaProducer(Transacting, FastPath[K, V], ProducerHealthCalls, Generic[K, V]):
    """Send messages to any topic: `client.producer(...)` makes one.

    `produce()` writes a message into the open batch of its partition and returns; a sender for each leader in use sends a batch
    when it is full or `linger_ms` old. Use the producer in a `with` block, or call `close()`: both deliver what is queued.
    Any number of threads, greenlets or tasks may use it at once.

    A message goes to the partition that `produce()` names; else, with a key, to the one that Kafka's Java client chooses;
    else to the present one, which changes when enough was written to it (KIP-480, KIP-794).

    :param cluster: to which to produce
    :param acks: "all" (or -1) waits for all replicas in sync; 1 for the leader's log alone: a message is lost if the
        leader fails before another replica has copied it; 0 for nothing
    :param enable_idempotence: number the batches of each partition (KIP-98), so that messages that are sent again are
        stored once and in order, with up to five batches in flight; None: if all replicas have to acknowledge, retries
        are allowed, and brokers can (0.11 on); True: raise if that is not so
    :param linger_ms: how long a message may wait for others to fill its batch (ms); 0 sends at once; `Delivery.get()`
        and `flush()` send without waiting
    :param batch_size: the size of a full batch (bytes, uncompressed); None: when it fills a request. A larger message
        has a batch of its own
    :param max_request_size: of one request, and so of a message (bytes); a batch is full at the latest when it would
        fill a request alone
    :param compression: the codec: "none", "gzip", "snappy", "lz4" or "zstd", or a `pykafka.common.CompressionType`
    :param compression_level: how hard the codec tries: gzip 1 to 9, lz4 1 to 17, zstd -131072 to 22; None: the codec's
        own (6 for gzip, 3 for zstd, the fast mode for lz4); snappy has none
    :param buffer_memory: what messages may take that are not acknowledged yet (bytes); beyond, `produce()` waits or
        raises. `KafkaClient(buffer_memory=)` bounds all producers of the client together
    :param on_full: what `produce()` does without room: "wait" for `max_block_ms`, or "raise" `ProducerQueueFullError`
        at once; `room()` says before whether there is some
    :param max_block_ms: how long `produce()` may wait for room, and for the metadata of a topic (ms)
    :param delivery_timeout_ms: how old a message may get before it has failed (ms)
    :param ack_timeout_ms: how long the leader may wait for replicas (ms)
    :param max_retries: how often a batch is sent again, within `delivery_timeout_ms`, that a broker found wrong or, if
        batches have no sequence numbers (`enable_idempotence`), may have stored without saying so; a cluster that is
        not ready (no leader, brokers down, too few replicas in sync) does not count
    :param retry_backoff_ms: pause before the first time (ms), give or take a fifth; twice as long each time after that
    :param retry_backoff_max_ms: the longest such pause (ms); `retry_backoff_ms` if that is longer
    :param partitioner: `(partitions, key) -> partition`, for messages that name none; None: by key, else uniform sticky
    :param key_serializer: of keys; None: keys are bytes. `pykafka.serialization` has some, and takes those of other
        clients
    :param value_serializer: of values, likewise
    :param on_delivery: `(error, delivery)`, called for each message when it is acknowledged (error is None) or has
        failed, by a worker of its own, in the order of each partition; what it raises is logged, and raised by
        `flush()` and `close()`, which wait for it; on greenlets and asyncio it must not hold up the loop
    :param interceptors: objects with `on_send(record)`, which may return another `ProducerRecord`, and
        `on_acknowledgement(delivery, error)`, or one of them; what they raise is logged, and loses no message
    :param max_failed_messages: how many messages may have failed without a report (by `on_delivery`, the delivery or
        its report, or the error that `flush()` raises); beyond, `produce()` raises `MessagesNotDelivered` with all of
        them, and forgets them
    :param max_failed_bytes: how many bytes these may take
    :param on_topic_recreated: messages for a topic that was deleted and created again: "continue" sends them to the new
        topic, with a warning that has both ids; "fail" fails them with `TopicRecreatedError` until the producer is
        started, or made, again. Brokers distinguish topics since Kafka 4.1; with 2.8 to 4.0 the client compares ids
        when it asks for metadata; older ones have no ids, and messages go to the new topic
    :param transactional_id: makes a producer that writes in transactions (KIP-98): the name under which the coordinator
        knows it; a later producer of this name fences it; None for none
    :param transaction_timeout_ms: after which the coordinator aborts a transaction that is still open (ms), and fences
        the producer; brokers have a limit, 15 minutes by default
    :raises TypeError, ValueError: an option is out of bounds, by name
    """

    def _build(self, cluster: BaseCluster, given: dict[str, Any]) -> None:
        options = KafkaProducerOptions.of(given)
        self._handler = cluster.handler
        self._of_key = serializer_of(options.key_serializer, True, self._handler.offload)
        self._of_value = serializer_of(options.value_serializer, False, self._handler.offload)
        self._may_wait = may_wait(self._of_key) or may_wait(self._of_value)
        partitioner = options.partitioner
        chooses: Partitioner | None = None if type(partitioner) is Murmur2Partitioner else partitioner
        self._engine: KafkaProducerEngine
        if options.transactional_id is None:
            self._engine = KafkaProducerEngine(cluster, options, chooses)
        else:
            self._engine = TransactionalEngine(cluster, options, chooses)
            self._transactions = self._engine.transactions
        self._engine.producer = self
        self._engine.on_start, self._engine.on_stop = watching(self, cluster)
        self._interceptors = Interceptors(options.interceptors, self._handler) if options.interceptors else None
        self._callback = self._make_callback(options.on_delivery)
        self._last_callback = None
        self._trace(cluster.tracer)
        self._accumulator = self._engine.accumulator
        cluster.stop_at_close(self)
        self._handler.at_fork(self._after_fork)
        self._engine.start()

    @collected(_build, KafkaProducerOptions, more=PRODUCER)
    def __init__(
        self,
        cluster: BaseCluster,
        *,
        acks: Literal["all", -1, 0, 1] = "all",
        enable_idempotence: bool | None = None,
        linger_ms: int = 5,
        batch_size: int | None = None,
        max_request_size: int = 1000012,
        compression: Any = "none",
        compression_level: int | None = None,
        buffer_memory: int = 32 * 1024 * 1024,
        on_full: Literal["wait", "raise"] = "wait",
        max_block_ms: int = 60 * 1000,
        delivery_timeout_ms: int = 2 * 60 * 1000,
        ack_timeout_ms: int = 10 * 1000,
        max_retries: int = 2**31 - 1,
        retry_backoff_ms: int = 100,
        retry_backoff_max_ms: int = 1000,
        partitioner: Callable[[Sequence[Partition], Any], Partition] | None = None,
        key_serializer: SerializerLike[K] | None = None,
        value_serializer: SerializerLike[V] | None = None,
        on_delivery: Callable[[KafkaException | None, Delivery[K, V]], object] | None = None,
        interceptors: Iterable[Any] = (),
        max_failed_messages: int = 10000,
        max_failed_bytes: int = 32 * 1024 * 1024,
        on_topic_recreated: Literal["continue", "fail"] = "continue",
        transactional_id: str | None = None,
        transaction_timeout_ms: int = 60 * 1000,
    ) -> None: ...

    @classmethod
    def make(cls, cluster: BaseCluster, given: dict[str, Any]) -> Self:
        """Return a producer with the client's configuration for options that are not given.

        :param given: arguments of the constructor; a codec of its own does not get the configuration's level
        """
        configuration = cluster.defaults.get("producer", {})
        rows = KafkaProducerOptions.rows()
        own = {row.name: configuration[row.field] for row in rows if row.name and row.field in configuration}
        if "compression" in given and "compression" in own:
            own.pop("compression_level", None)
        return cls(cluster, **{**own, **given})

    def _trace(self, tracer: RecordTracer | None) -> None:
        """Take up a tracer, or leave the present one; the client calls this."""
        self._tracer = tracer
        if self._is_observed:  # for good: messages under way may have a callback that reports nothing
            self._engine.completion.observed = True
        if tracer is not None:
            self._engine.trace_headers = tracer.header_names
        #: Whether messages are neither serialized nor intercepted, and whether they need nothing but to be written.
        self._bare = self._of_key is None and self._of_value is None and self._interceptors is None
        self._plain = self._bare and tracer is None

    @property
    def _is_observed(self) -> bool:
        return self._interceptors is not None or self._tracer is not None

    def __repr__(self) -> str:
        topics = len(self._engine.routing.topics)
        return f"<{type(self).__module__}.{type(self).__name__} at {id(self):#x} ({topics} topics)>"

    def __enter__(self) -> KafkaProducer[K, V]:
        note_block()
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Close the producer, delivering what is queued."""
        self.close()

    @property
    def serializes(self) -> bool:
        """Whether the producer has a serializer of keys or values; otherwise it takes bytes alone."""
        return self._of_key is not None or self._of_value is not None

    # -- producing ----------------------------------------------------------------------------------------------------

    def _produce_fully(
        self, topic: Any, value: Any, key: Any, headers: Any, timestamp: Any, partition: Any, on_delivery: Any
    ) -> Delivery[K, V]:
        """Produce with whatever was asked for: the way of a message that is not plain, or found no room."""
        call, tracer = (topic, value, key, headers, timestamp, partition, on_delivery), self._tracer
        if tracer is None:
            placed = self._engine.append(self._outgoing(call))
        else:
            placed = self._write_traced(tracer, call, [], wait=True)
        assert placed is not None
        return placed

    def _write_traced(
        self,
        tracer: RecordTracer,
        call: tuple[Any, Any, Any, Any, Any, Any, Any],
        begun: list[tuple[Headers, SendTrace | None]],
        wait: bool,
    ) -> Delivery[K, V] | None:
        """Write a message with its trace, which ends here if the message is not taken.

        :param call: the arguments of `produce()`, as of `_produce_fully`
        :param begun: what the tracer has begun; empty for nothing yet
        :param wait: whether to do what may wait; else return None if that is needed, and another call goes on with `begun`
        """
        topic, value, key, headers, timestamp, partition, on_delivery = call
        try:
            if not begun and self._bare and headers is timestamp is partition is None:
                found = self._send_traced(tracer, topic, value, key, on_delivery, begun)
                if found is not None:
                    return found
            return self._engine.append(self._outgoing(call, tracer, begun)) if wait else None
        except BaseException as error:  # also a greenlet's timeout
            if not wait and isinstance(error, WouldBlockError):  # nothing was taken
                return None
            for _, trace in begun:
                if trace is not None:
                    trace.failed(error)
            raise

    def _send_traced(
        self,
        tracer: RecordTracer,
        topic: Any,
        value: Any,
        key: Any,
        on_delivery: Any,
        begun: list[tuple[Headers, SendTrace | None]],
    ) -> Delivery[K, V] | None:
        """Write a message that needs nothing but its trace; return None if there is no room, or something is wrong with it.

        :param begun: gets what the tracer has begun
        """
        if type(topic) is not str:
            return None
        callback: Any = self._callback
        if on_delivery is not None:
            valid_callable(on_delivery, "on_delivery")
            callback = self._make_callback(on_delivery)
        traced = tracer.sending(topic, value, key, [], None)
        begun.append(traced)
        pairs, trace = traced
        if trace is not None:
            trace.after, callback = callback, trace
        return self._accumulator.send(topic, value, key, -1, pairs or None, -1, callback, value, key)

    def _try_fully(
        self, topic: Any, value: Any, key: Any, headers: Any, timestamp: Any, partition: Any, on_delivery: Any
    ) -> Delivery[K, V] | Callable[[], Delivery[K, V]]:
        """The same, but without waiting; as `_try_produce`."""
        tracer = self._tracer
        if tracer is not None:
            call = topic, value, key, headers, timestamp, partition, on_delivery
            begun: list[tuple[Headers, SendTrace | None]] = []
            found = self._write_traced(tracer, call, begun, wait=False)

            def write() -> Delivery[K, V]:
                written = self._write_traced(tracer, call, begun, wait=True)
                assert written is not None
                return written

            return write if found is None else found
        if self._may_wait:
            return lambda: self._produce_fully(topic, value, key, headers, timestamp, partition, on_delivery)
        made = self._outgoing((topic, value, key, headers, timestamp, partition, on_delivery))
        placed = self._engine.append(made, wait=False)

        def rest() -> Delivery[K, V]:
            waited = self._engine.append(made)
            assert waited is not None
            return waited

        return rest if placed is None else placed

    def produce_many(self, topic: str, values_or_records: Iterable[V | ProducerRecord[K, V] | None]) -> int:
        """Send many messages to one topic; return how many.

        :param topic: its name
        :param values_or_records: values; or `ProducerRecord` for messages with more than a value, whose topic may be left out
        :raises KafkaException: as of `produce()`; `.sent` of the error says how many messages were taken before
        """
        return self._produce_each(topic, values_or_records, self._produce_one)

    def _produce_one(self, topic: str, one: Any) -> None:
        if isinstance(one, ProducerRecord):
            self._produce_record(topic, one)
        else:
            self.produce(topic, one)

    def _produce_record(self, topic: str, record: ProducerRecord[K, V]) -> Delivery[K, V]:
        return self.produce(
            record.topic or topic,
            record.value,
            key=record.key,
            headers=record.headers,
            timestamp=record.timestamp,
            partition=record.partition,
        )

    def _outgoing(
        self,
        call: tuple[Any, Any, Any, Any, Any, Any, Any],
        tracer: RecordTracer | None = None,
        begun: list[tuple[Headers, SendTrace | None]] | None = None,
    ) -> Outgoing:
        """Return the arguments of `KafkaProducerEngine.append`: checked, intercepted and serialized.

        :param call: the arguments of `produce()`, as of `_produce_fully`
        :param tracer: None for none
        :param begun: gets what the tracer has begun for the message, unless it is there already
        """
        topic, value, key, headers, timestamp, partition, on_delivery = call
        if self._engine.starts.due:
            self._engine.start()
        self._engine.check_running()
        valid_callable(on_delivery, "on_delivery")
        if self._interceptors is not None:
            record = self._interceptors.on_send(ProducerRecord(value, key, headers, timestamp, partition, topic))
            topic, value, key = record.topic, record.value, record.key
            headers, timestamp, partition = record.headers, record.timestamp, record.partition
        topic = get_string(topic, "topic")
        own = pairs = header_pairs(headers) if headers is not None else []
        trace = None
        if tracer is not None and begun is not None:
            if not begun:
                begun.append(tracer.sending(topic, value, key, pairs, partition))
            pairs, trace = begun[0]
        carried = len(pairs)
        octets = as_bytes("key", key) if self._of_key is None else self._of_key(topic, key, pairs)
        payload = as_bytes("value", value) if self._of_value is None else self._of_value(topic, value, pairs)
        number = -1 if partition is None else valid_int(partition, allow_zero=True, name="partition")
        when = -1 if timestamp is None else timestamp_ms(timestamp)
        callback: Any = self._callback if on_delivery is None else self._make_callback(on_delivery)
        if trace is not None:
            trace.after, callback = callback, trace
        has_headers = bool(own) or len(pairs) > carried  # for an old broker the trace is left out without an error
        if has_headers or timestamp is not None:
            self._check_format(topic, has_headers, timestamp is not None)
        return topic, payload, octets, when, pairs or None, number, callback, value, key

    def _make_callback(self, on_delivery: Callable[..., object] | None) -> Callback | None:
        if self._interceptors is not None:
            return self._interceptors.callback(on_delivery)
        return None if on_delivery is None else Callback(on_delivery)

    def _check_format(self, topic: str, has_headers: bool, has_timestamp: bool) -> None:
        info = self._engine.accumulator.topics.get(topic)
        leaders = {queue.owner.broker for queue in info.queues if queue.owner is not None} if info else set()
        for leader in leaders:
            if not leader.knows_versions:
                continue  # found out when the batch is sent
            version = leader.api_version(wire.ProduceRequest)
            if has_headers and version < PRODUCE_RECORD_BATCHES:
                raise RuntimeError(f"broker {leader.address} is older than Kafka 0.11 and takes no headers")
            if has_timestamp and version < PRODUCE_V1_MESSAGES:
                raise RuntimeError(f"broker {leader.address} is older than Kafka 0.10 and takes no timestamps")

    # -- the whole ----------------------------------------------------------------------------------------------------

    def room(self) -> int:
        """Return how many bytes `produce()` would take now without waiting; a message takes up to 32 besides key and value."""
        return self._engine.buffer_pool.room

    def partitions_for(self, topic: str, timeout: float | None = None) -> list[int]:
        """Return the numbers of a topic's partitions, looking the topic up where it is not known.

        :param timeout: how long to look (s); None: `max_block_ms`
        :raises TopicNotFoundError: there is no such topic, and it is not created
        :raises NoBrokersAvailableError: no broker told of it in time
        """
        seconds = None if timeout is None else min(valid_timeout(timeout), LONGEST_S)
        return [partition.id for partition in self._engine.partitions_for(get_string(topic, "topic"), seconds)]

    def flush(self, timeout: float | None = None) -> None:
        """Send what is queued without lingering, and wait until each message is acknowledged or has failed.

        Waits for the calls of `on_delivery` as well, but not inside of one.

        :param timeout: how long to wait at most (s); None: as long as messages may take (`delivery_timeout_ms`)
        :raises ResponseTimeoutError: that time passed; what is queued stays so, and is sent if it can be
        :raises MessagesNotDelivered: messages failed that were not reported yet; `.failures` has (delivery, error) pairs
        :raises OnDeliveryError: functions given as `on_delivery` have raised
        """
        patience = _ms(timeout)
        self._ended(lambda: self._engine.flush(patience, total=patience is not None))

    def close(self, timeout: float | None = None) -> None:
        """Deliver what is queued and end the senders; does nothing when it is closed. Takes no messages from its start on.

        Where somebody's timeout or cancellation cuts it off, nothing is given up: call it again, and it goes on.

        :param timeout: how long to wait at most (s); None: as long as messages may take, and as long again for an `on_delivery`
            function that does not return; what is left then has failed
        :raises MessagesNotDelivered: messages failed that were not reported yet; `.failures` has (delivery, error) pairs
        :raises OnDeliveryError: functions given as `on_delivery` have raised
        :raises TransactionError: the transaction that was open could not be aborted; its coordinator will
        """
        patience, now = _ms(timeout), self._engine.handler.now
        deadline = None if patience is None else now() + patience / 1000

        def stop() -> None:
            self._engine.stop(None if deadline is None else left_ms(deadline, now(), 0))

        try:
            if self._transactions is not None and self._engine.running:
                self._transactions.close(timeout)
        except KafkaException:  # not after an interrupt: the next call then ends the transaction first
            self._ended(stop)
            raise
        self._ended(stop)

    #: What `client.close()` calls.
    stop = close

    def purge(self) -> int:
        """Drop the messages that were not sent yet; return how many. They fail with `ProducerPurgedError`.

        Requests on their way are answered as usual. `on_delivery` and the deliveries tell of it, `flush()` does not.
        """
        return self._engine.purge()

    def _ended(self, end: Callable[[], None]) -> None:
        """Flush or close, and tell of functions that have raised."""
        deliveries = self._engine.completion.callbacks
        try:
            end()
        except KafkaException as error:
            count, first = deliveries.take_raised()
            if count:
                error.add_note(f"on_delivery has raised in {count} calls, first {type(first).__name__}: {first}")
            raise
        if deliveries.here:
            return
        count, first = deliveries.take_raised()
        if count:
            raise OnDeliveryError(
                f"on_delivery has raised in {count} calls, first {type(first).__name__}: {first}; the messages are settled",
                count,
            ) from first

    def _after_fork(self) -> None:
        self._engine.after_fork()
        self._engine.completion.observed = self._is_observed
        self._accumulator = self._engine.accumulator


def _ms(timeout: float | None) -> int | None:
    seconds = inf if timeout is None else valid_timeout(timeout)
    return None if seconds == inf else round(seconds * 1000)
