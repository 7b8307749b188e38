"""`LeaderRequests`: the requests of a producer to one leader. It numbers, closes and sends batches, and reads the responses."""

from __future__ import annotations

import logging
import weakref
from typing import TYPE_CHECKING, Protocol
from uuid import UUID

from pykafka.exceptions import (
    IdempotenceLostError,
    KafkaException,
    ProducerStoppedException,
    ProtocolClientError,
    SocketDisconnectedError,
    ThrottledError,
    TopicRecreatedError,
    TransactionError,
    UnsupportedForMessageFormat,
)
from pykafka.network.authentication import is_answer
from pykafka.producer.batch_results import BatchOwner, BatchResults
from pykafka.producer.produce_request import PRODUCE_RECORD_BATCHES, Request, close_batch, has_traces_alone
from pykafka.protocol import wire

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Mapping

    from pykafka.handlers import Handler
    from pykafka.handlers.base import LockType
    from pykafka.metadata.cluster import BaseCluster
    from pykafka.metrics.listener import ClientListener
    from pykafka.network.node import Node
    from pykafka.network.requests import RequestHandler
    from pykafka.producer.accumulator import PartitionQueue
    from pykafka.producer.batch import ProducerBatch
    from pykafka.producer.core import Transaction
    from pykafka.producer.in_flight_window import InFlightWindow
    from pykafka.producer.message_formats import MessageFormats
    from pykafka.producer.options import ProducerOptions
    from pykafka.producer.producer_id import ProducerIds
    from pykafka.producer.retry_policy import RetryPolicy
    from pykafka.producer.topic_ids import TopicIds

log = logging.getLogger(__name__)

#: Requests that may await their answers on one connection: Kafka's own max.in.flight.requests.per.connection.
MAX_IN_FLIGHT = 5
#: The highest version that names topics, and that which takes their ids.
BY_NAME, BY_ID = 12, 13
#: For a topic whose id was never compared with the metadata.
NOT_COMPARED: tuple[int, UUID | None] = (-1, None)


class RequestsCore(Protocol):
    """The parts that the dispatches of one producer share."""

    cluster: BaseCluster
    handler: Handler
    options: ProducerOptions
    lock: LockType
    retry_policy: RetryPolicy
    producer_ids: ProducerIds
    topic_ids: TopicIds
    message_formats: MessageFormats
    listener: ClientListener | None

    @property
    def transaction(self) -> Transaction | None: ...
    @property
    def trace_headers(self) -> Container[str]: ...  # the names of those into which traces are written


class RequestOwner(BatchOwner, Protocol):
    """The caller of a `LeaderRequests`, which it notifies of requests and responses."""

    def sent(self, requests: LeaderRequests, request: Request) -> None: ...  # `request.pending` has the answer to come
    def on_response(self, requests: LeaderRequests, request: Request) -> None: ...  # for `LeaderRequests.read`


class _MustWait(Exception):
    """Sending has to wait, which the worker that sends must not."""


class LeaderRequests:
    """The requests to one leader, several in flight at a time.

    State: the sending worker owns `awaiting` and `numbered`; other workers make single stores. Queues, windows and batches
    change under the core's lock.

    :param core: what it shares with those of the other leaders
    :param broker: the leader
    :param owner: of the batches
    """

    def __init__(self, core: RequestsCore, broker: Node, owner: RequestOwner) -> None:
        self._core = core
        self._lock = core.lock
        self._owner = owner
        self.results = BatchResults(
            core.handler,
            core.lock,
            core.retry_policy,
            owner,
            lambda: core.cluster.metadata_error,
            core.listener,
        )
        #: Requests whose answer is awaited; in order.
        self.awaiting: dict[Request, None] = {}
        #: Whether batches get sequence numbers here, as far as is known.
        self.numbered = self._idempotent = core.options.idempotent
        self._schedule = core.cluster.refresh_schedule
        self._delivery_timeout_s = core.options.delivery_timeout_ms / 1000
        self._timeout_ms = max(core.options.ack_timeout_ms, core.cluster.socket_timeout_ms)
        self.move_to(broker)

    def move_to(self, broker: Node) -> None:
        """Send to this broker from now on: the leader has moved to another address."""
        self.broker = broker
        #: The channel of its requests.
        self.channel = broker.channel("produce")
        self._forget()

    def _forget(self, connection: RequestHandler | None = None) -> None:
        """Forget what the broker supports: on a new connection it may be of another version."""
        self._connection = None if connection is None else weakref.ref(connection)
        # Whether the broker knows the idempotent producer.
        self._knows_numbers = False

    @property
    def full(self) -> bool:
        """Whether the next request must wait for a response."""
        return len(self.awaiting) >= MAX_IN_FLIGHT

    def _must_ask(self, batches: list[ProducerBatch]) -> bool:
        """Return whether batches may have to wait for an answer: a producer id, a place in their transaction, a setting."""
        if self._core.message_formats.reshapes and [batch for batch in batches if batch.in_flight.reshaped]:
            return True  # the broker may be asked for the topic's message format
        if self._core.transaction is not None:
            return self._core.transaction.must_add(batches)
        ids = self._core.producer_ids
        return self.numbered and not ids.denied and ids.found is None

    # -- what may go -------------------------------------------------------------------------------------------------

    def must_wait(self, queue: PartitionQueue) -> bool:
        """Return whether the batches of a partition must wait for a response."""
        window = queue.window
        if not window.batches:
            return False
        if window.on_wire and queue.sender is not self:
            return True  # what a former leader has comes first
        return len(window.batches) <= window.on_wire and not window.may_begin(self.numbered)

    def due(self, queue: PartitionQueue, now: float) -> float | None:
        """Return when the next closed or earlier sent batch of a partition may go; None if there is none."""
        if queue.window.recovering:
            in_flight = queue.window.peek_retry()
            return in_flight.batch.retry_at if in_flight is not None else None
        return now if queue.closed_batches else None

    def due_unheard(self, queue: PartitionQueue, heard_at: float) -> float:
        """Return when to check a partition while the broker throttles: at the end of the throttle, or when a batch expires."""
        if queue.window.recovering:
            in_flight = queue.window.peek_retry()
            batch = in_flight.batch if in_flight is not None else None
        else:
            batch = queue.closed_batches[0] if queue.closed_batches else queue.open
        return heard_at if batch is None else min(heard_at, self._core.retry_policy.expires_at(batch))

    def hold(self, batch: ProducerBatch, seconds: float) -> None:
        """Put a batch back while the broker throttles; the caller holds the lock."""
        self._owner.queue_of(batch).window.unsent(batch.in_flight)
        batch.retry_at = self._core.handler.now() + seconds
        batch.last_error = ThrottledError(
            f"the broker throttles this client by a quota, for {seconds * 1000:.0f} ms more; send more slowly, or raise it",
            broker=self.broker.address,
        )

    # -- sending -----------------------------------------------------------------------------------------------------

    def may_outlast(self, batches: list[ProducerBatch]) -> bool:
        """Return whether sending some batches may last longer than one of them has time.

        That is so if a connection or another answer may come first, if one was tried before, or if the request has more time.
        """
        requests = self.channel.requests
        if requests is None or not requests.alive or self._must_ask(batches):
            return True
        limit = self._core.handler.now() + self._timeout_ms / 1000 - self._delivery_timeout_s
        for batch in batches:
            if batch.failures or batch.created < limit:
                break
        else:
            return False
        return True

    def send(self, batches: list[ProducerBatch], waits: bool = True) -> bool:
        """Send batches, at most one per partition, in one request; return whether some of them stayed behind.

        :param waits: False: put them back if they have to wait for a connection, or for the answer to another request, first
        """
        if not waits and (not self._is_ready or self._must_ask(batches)):
            self._put_back(batches)
            return True
        count = len(batches)
        batches = self._unfinished(batches)
        if self._core.message_formats.reshapes or self._core.topic_ids.fails:
            batches = self._allowed(batches)
        if not batches:
            return count > 0
        sendable = batches
        try:
            connection = self._connected(waits)
            if self._connection is None or self._connection() is not connection:
                self._forget(connection)
            ids = self._ids(batches)
            version = self._version(ids)
            if self._idempotent:
                sendable = batches = self._number(batches, waits)
            closed = []
            for batch in batches:
                if self._close(batch, version):
                    closed.append(batch)
            sendable = closed
            if connection.shared.requests.error is not None or connection is not self.channel.requests:
                connection = self._connected(waits)
                self._forget(connection)
                if self._version(ids) != version:
                    raise SocketDisconnectedError(
                        "another broker is there now, of another version", broker=self.broker.address
                    )
            sendable = self._unfinished(closed)  # the above may take its time
            if sendable:
                self._transmit(sendable, ids, version, connection, waits)
            return len(sendable) < count
        except _MustWait:
            self._put_back(sendable)
        except TransactionError as error:
            self.results.apply([(batch, error) for batch in sendable])
        except TopicRecreatedError as error:  # since the look above
            self.results.apply([(batch, error) for batch in sendable if batch.topic == error.topic])
            self._unsent([batch for batch in sendable if batch.topic != error.topic], error)
        except ProtocolClientError as error:  # of this client, or about the producer id
            if error.retriable or not is_answer(error):
                self._unsent(sendable, error)
            else:
                self.results.apply([(batch, error) for batch in sendable])
        except KafkaException as error:
            self._unsent(sendable, error)
        return True

    @property
    def _is_ready(self) -> bool:
        """Whether sending waits neither for a connection nor for what a broker is asked on a new one."""
        requests = self.channel.requests
        return (
            requests is not None and requests.alive and self._connection is not None and self._connection() is requests
        )

    def _connected(self, waits: bool) -> RequestHandler:
        """Return the connection; parameters: see `send`."""
        if waits:
            return self.channel.open()
        requests = self.channel.requests  # not by `open`: that connects if this one has ended since the look below
        if requests is None or not self._is_ready:
            raise _MustWait
        return requests

    def _put_back(self, batches: list[ProducerBatch]) -> None:
        """Put batches back, which go again at once."""
        with self._lock:
            for batch in batches:
                self._owner.queue_of(batch).window.unsent(batch.in_flight)

    def _unfinished(self, batches: list[ProducerBatch]) -> list[ProducerBatch]:
        """Return the batches that are still to be sent: `stop()`, or the end of their time, may have failed the others.

        One that was sent before is not sent again at the end of its time: its last error says more than an answer to come.
        """
        for batch in batches:
            if batch.done or batch.failures:
                break
        else:
            return batches
        for batch in batches:
            if batch.done:
                self.results.give_up(batch, batch.error or ProducerStoppedException("the producer was stopped"), True)
            elif batch.failures:
                self.results.check_age(batch)
        return [batch for batch in batches if not batch.done]

    def _allowed(self, batches: list[ProducerBatch]) -> list[ProducerBatch]:
        """Fail the batches that are not to be sent after all, and return the others."""
        if self._core.topic_ids.fails:
            batches = self._of_present_topics(batches)
        if self._core.message_formats.reshapes:
            batches = self._explained(batches)
        return batches

    def _of_present_topics(self, batches: list[ProducerBatch]) -> list[ProducerBatch]:
        """Fail the batches for a recreated topic, if the options ask for that; return the others."""
        gone: dict[str, TopicRecreatedError] = {}
        for topic in {batch.topic for batch in batches}:
            try:
                self._core.topic_ids.id_of(topic)
            except TopicRecreatedError as error:
                gone[topic] = error
        if not gone:
            return batches
        self.results.apply([(batch, gone[batch.topic]) for batch in batches if batch.topic in gone])
        return [batch for batch in batches if batch.topic not in gone]

    def _explained(self, batches: list[ProducerBatch]) -> list[ProducerBatch]:
        """Fail the batches whose error was not about the message format of their topic, and return the others."""
        left, failed = [], []
        for batch in batches:
            # For numbers the broker has said so; for transactions, headers and zstd it has to be asked.
            unexplained = batch.in_flight.reshaped and not isinstance(batch.last_error, UnsupportedForMessageFormat)
            batch.in_flight.reshaped = False
            if unexplained and not self._core.message_formats.ask(batch.topic, self.broker):
                failed.append((batch, batch.last_error))
            else:
                left.append(batch)
        self.results.apply(failed)
        return left

    def _ids(self, batches: list[ProducerBatch]) -> dict[str, UUID]:
        """Return the ids of the topics of some batches; none if one of them is unknown.

        :raises TopicRecreatedError: one was recreated, and the batches are for the former one
        """
        ids: dict[str, UUID] = {}
        generation = self._schedule.generation
        for batch in batches:
            topic = batch.topic
            compared_at, id_ = self._core.topic_ids.compared.get(topic, NOT_COMPARED)
            if compared_at != generation:
                id_ = self._core.topic_ids.id_of(topic)
            if id_ is None:
                return {}
            ids[topic] = id_
        return ids

    def _version(self, ids: Mapping[str, UUID]) -> int:
        """Return the version of Produce for a request with these ids."""
        # a broker hangs up on an id that it does not know if it expects no answer that could report it
        by_id = bool(ids) and self._core.options.required_acks != 0
        ceiling, transaction = BY_ID if by_id else BY_NAME, self._core.transaction
        if transaction is not None:
            ceiling = min(ceiling, transaction.produce_ceiling)
        return self.broker.versions.choose(wire.ProduceRequest, ceiling)

    def _transmit(
        self,
        batches: list[ProducerBatch],
        ids: Mapping[str, UUID],
        version: int,
        connection: RequestHandler,
        waits: bool,
    ) -> None:
        """Send a request, and register its response."""
        options, transaction = self._core.options, self._core.transaction
        request = Request(batches, ids, None if transaction is None else transaction.transactional_id)
        # What throttling adds to the timeout ends when all of them have got too old.
        newest, now = 0.0, self._core.handler.now()
        for batch in batches:
            newest = max(newest, batch.created)
        too_old_at = newest + self._delivery_timeout_s
        timeout_ms = self._timeout_ms
        try:
            self.awaiting[request] = None
            pending = self.broker.send(
                request.message(options.required_acks, options.ack_timeout_ms),
                "produce",
                timeout_ms=timeout_ms,
                version=version,
                has_response=options.required_acks != 0,
                latest=max(now + timeout_ms / 1000, too_old_at),
                patient=False,
                connection=connection,
                reconnects=waits,
            )
            if not waits and pending.unsent:
                raise _MustWait
            request.pending = pending
            if self._core.listener is not None and request.pending.sent_at:  # else nothing was written
                self._core.listener.on_send(batches, request.pending.sent_at)
            self._owner.sent(self, request)
        except BaseException:
            try:
                if request.pending is not None and request.pending.done:  # it was completing that was interrupted
                    self._owner.on_response(self, request)
            finally:
                self.awaiting.pop(request, None)
            raise

    def _number(self, batches: list[ProducerBatch], waits: bool = True) -> list[ProducerBatch]:
        """Give batches their sequence numbers, if leader and cluster support them; return those that may go.

        Where they have none, batches go without; but not behind others of their partition that have had some.
        """
        if self._core.transaction is not None:
            self._core.transaction.number(batches, self._owner.queue_of)
            return batches
        producer_ids = self._core.producer_ids
        if producer_ids.denied or not self._knows_numbers:
            self._knows_numbers = producer_ids.known_to(self.broker)
        self.numbered = self._knows_numbers
        held = []
        may_be_plain = bool(self._core.message_formats.old)
        for batch in batches:
            in_flight, window = batch.in_flight, self._owner.queue_of(batch).window
            if (may_be_plain or window.plain) and self._goes_plain(batch, window):
                if window.batches[0] is not in_flight:
                    held.append(batch)
                continue
            given: tuple[int, int] | None = None
            if self.numbered and window.producer_id < 0 and in_flight.sequence < 0:
                if not waits and producer_ids.must_ask(window.spent_id):
                    raise _MustWait
                given = producer_ids.get(window.spent_id, self.broker)
                self.numbered = given is not None
            if not self.numbered:
                break
            with self._lock:
                if given is not None:
                    window.adopt(given[0], given[1])
                window.number(in_flight)
        if held:
            batches = self._held_back(batches, held)
        return batches if self.numbered else self._unnumbered(batches)

    def _unnumbered(self, batches: list[ProducerBatch]) -> list[ProducerBatch]:
        """Return the batches whose partitions have had no numbers; the others wait for a broker that takes them."""
        waiting = [batch for batch in batches if self._owner.queue_of(batch).window.numbers]
        if waiting:
            self._unsent(
                waiting,
                IdempotenceLostError(
                    "the broker takes no sequence numbers, and messages of this partition have some already; they wait for "
                    "one that does (Kafka 0.11 and later): without, some might be stored twice",
                    broker=self.broker.address,
                    topic=waiting[0].topic,
                ),
            )
        return [batch for batch in batches if not self._owner.queue_of(batch).window.numbers]

    def _goes_plain(self, batch: ProducerBatch, window: InFlightWindow) -> bool:
        """Return whether a batch goes without numbers, as its topic cannot store them."""
        old = self._core.message_formats.is_old(batch.topic)
        if old == window.plain:
            return old
        with self._lock:
            if not old:
                return not window.resume(batch.in_flight)
            if window.batches[0] is not batch.in_flight:
                return False  # it goes with numbers as those before it, and comes back as they do
            window.forgo()
        return True

    def _held_back(self, batches: list[ProducerBatch], held: list[ProducerBatch]) -> list[ProducerBatch]:
        """Put batches back that must not overtake those that were refused for their numbers; return the others."""
        self._put_back(held)
        return [batch for batch in batches if batch not in held]

    def _close(self, batch: ProducerBatch, version: int) -> bool:
        """Bring a batch into the wire format; return False if this broker does not accept it."""
        formats, options = self._core.message_formats, self._core.options
        transactional = self._core.transaction is not None
        if (
            version < PRODUCE_RECORD_BATCHES
            and batch.builder.with_headers
            and has_traces_alone(batch, self._core.trace_headers)
        ):
            batch.builder.leave_out_headers()
        old = bool(formats.old) and formats.is_old(batch.topic)
        if (old or version < PRODUCE_RECORD_BATCHES) and batch.builder.with_headers and batch.count > 1:
            reason = "some messages have headers, which this broker, or the topic's message format, does not take"
            self.results.split(batch, None, reason)
            return False
        try:
            if old:
                formats.check(batch, options.compression, transactional)
            close_batch(
                batch, version, options.compression, self._core.handler, options.compression_level, transactional
            )
        except KafkaException as error:
            error = error.with_context(broker=self.broker.address, topic=batch.topic, partition=batch.partition_id)
            self.results.give_up(batch, error, False)
            return False
        return True

    def _unsent(self, batches: list[ProducerBatch], error: KafkaException) -> None:
        """Put back batches that did not reach the broker."""
        # The cluster is busy with itself, or wants to be left alone for a while, but well. A broker that refuses the login has
        # not said that it leads; if another leads by now, it does not say so either.
        answered = is_answer(error) or isinstance(error, ThrottledError)
        tell = log.info if answered else self.broker.warn
        # without its traceback, whose frames would hold connections for as long as a log handler keeps the record
        tell("broker %s: %s; %d batches wait", self.broker.address, error.again(), len(batches))
        if not answered:
            self._owner.leaders_moved()
        self.results.unsent(batches, error)

    # -- answers -----------------------------------------------------------------------------------------------------

    def read(self, request: Request, timeout: float | None) -> None:
        """Complete the batches of a request by its response.

        :param timeout: how long to wait for it (s); None: until it is overdue
        """
        assert request.pending is not None
        try:
            response = request.pending.get(timeout=timeout)
            if self._core.options.required_acks == 0 or request.is_written(response):
                for batch in request.batches:
                    self.results.acknowledged(batch)
            else:
                self._apply(request, response)
        except KafkaException as error:
            self.results.apply([(batch, error) for batch in request.batches])

    def _apply(self, request: Request, response: wire.ProduceResponse) -> None:
        """Apply the result of each batch of a response."""
        results = request.results(response, self.broker.address)
        if all(error is None for _, error in results):
            for batch, _ in results:
                self.results.acknowledged(batch)
            return
        results = [(batch, self._of_format(batch, error)) for batch, error in results]
        self.results.apply(results, self._take_hints(request, response))

    def _of_format(self, batch: ProducerBatch, error: KafkaException | None) -> KafkaException | None:
        """Mark a batch for another form if its topic's message format may be the reason of an error; return the error."""
        formats, in_flight = self._core.message_formats, batch.in_flight
        transactional = self._core.transaction is not None
        if isinstance(error, UnsupportedForMessageFormat):
            if not formats.lenient or not in_flight.numbered:
                return formats.explained(error, transactional)
            formats.note(batch.topic)
            with self._lock:
                in_flight.reshaped = formats.reshapes = True
                self._owner.queue_of(batch).window.plain = True
        elif error is not None and formats.may_explain(batch, error, self._core.options.compression, transactional):
            in_flight.reshaped = formats.reshapes = True
        return error

    def _take_hints(self, request: Request, response: wire.ProduceResponse) -> list[ProducerBatch]:
        """Pass the leaders that a response names to the cluster; return the batches that can go there at once."""
        cluster, endpoints = (
            self._core.cluster,
            {node.node_id: (node.host, node.port) for node in response.node_endpoints},
        )
        return [
            batch
            for batch, id_, epoch in request.leaders(response)
            if id_ != self.broker.id
            and cluster.take_current_leader(
                batch.topic, batch.partition_id, id_, epoch, endpoints, request.ids.get(batch.topic)
            )
        ]

    def lose(self, queues: Iterable[PartitionQueue], reason: BaseException) -> None:
        """Complete batches without a response to come, as their sending was interrupted: the broker may have them.

        :param queues: of the producer
        :param reason: what interrupted it
        """
        text = "the sending of the message was interrupted"
        if isinstance(reason, Exception):  # of this client, or of an overridden method: no fault of the network
            text = f"the producer's sender ended by {type(reason).__name__}: {reason}; the log has the traceback"
        error = SocketDisconnectedError(text, broker=self.broker.address)
        with self._lock:
            awaited = {id(batch) for request in list(self.awaiting) for batch in request.batches}
            lost = [
                in_flight
                for queue in queues
                if queue.sender is self
                for in_flight in queue.window.batches
                if in_flight.on_wire and id(in_flight.batch) not in awaited
            ]
            for in_flight in lost:
                in_flight.batch.in_flight = in_flight  # that may be what was interrupted
        self.results.apply([(in_flight.batch, error) for in_flight in lost])
