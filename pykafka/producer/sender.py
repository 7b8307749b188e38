"""One worker a leader: takes batches that are ready, sends them, and sorts out the answers.

A batch's life: open (in `PartitionQueue.open`, written by `append`), sealed (full, or taken by the sender), on its way
(in `PartitionQueue.lane`, sent once or again), done.

The sender's worker connects, compresses, sends and refreshes metadata; where `produce()` waits for the acknowledgement
anyway, its worker does the same instead. Answers are handled in the connection's reader worker, which never blocks: it
marks batches and wakes the sender.
"""

from __future__ import annotations

import logging
import weakref
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from pykafka.common import CompressionType
from pykafka.exceptions import (
    CorruptResponseError,
    DuplicateSequenceNumber,
    IdempotenceLostError,
    KafkaException,
    ProtocolClientError,
    RequestTimedOut,
    ResponseTimeoutError,
    SocketDisconnectedError,
    ThrottledError,
    UnsupportedCompressionType,
    error_for,
)
from pykafka.producer.accumulator import Ledger, MessageBatch, PartitionQueue
from pykafka.producer.idempotence import Verdict
from pykafka.producer.retrying import counts, kind_of, with_remark
from pykafka.producer.settlement import outcome_unknown
from pykafka.protocol import wire
from pykafka.protocol.messagesets import encode_message_set
from pykafka.utils.compression import compress

if TYPE_CHECKING:
    from pykafka.broker import Broker
    from pykafka.handlers import Worker
    from pykafka.handlers.base import EventType
    from pykafka.network.channel import PendingResponse
    from pykafka.network.futures import ResponseFuture
    from pykafka.producer.core import ProducerCore
    from pykafka.producer.idempotence import Flight, Lane
    from pykafka.producer.routing import Routing

log = logging.getLogger(__name__)

#: Requests that may await their answers on one connection: Kafka's own max.in.flight.requests.per.connection.
MAX_IN_FLIGHT = 5
#: How often a sender looks up that is not woken (s): what was queued may have gone out since, or its producer be gone.
LOOK_UP_S = 1.0
#: From this size on a batch is compressed off the hub (bytes); below, the detour costs more than it saves.
OFFLOAD_FROM = 8 * 1024
#: Produce versions at which the form of messages changed.
PRODUCE_V1_MESSAGES = 2
PRODUCE_RECORD_BATCHES = 3
PRODUCE_ZSTD = 7


class Sender:
    """The producer's side of one leader: its queues, its books and its sender.

    State: `queues`, and each queue's `sealed` and `lane`, change under the producer's lock. Who holds `_stepping` is the
    sender for that moment; what it has taken and not yet entered in `_awaiting` is its own to settle.

    :param core: of the producer whose messages these are
    :param routing: of the run of the producer
    :param broker: where they go
    :param auto_start: start the sender at once
    """

    def __init__(self, core: ProducerCore, routing: Routing, broker: Broker, auto_start: bool = True) -> None:
        self._core = core
        self.broker = broker
        self._handler = core.handler
        self._lock = core.lock
        self._routing = routing  # of this run of the producer, whatever it does later
        self.wake = self._handler.Event()
        options = core.options
        # who waits for each message sends it, too, and wakes nobody
        enough = 0 if options.sync else options.min_queued_messages
        self.ledger = Ledger(self.wake, options.max_queued_messages, options.max_queued_bytes, enough)
        self.queues: dict[int, PartitionQueue] = {}
        self.running = False
        self._numbered = options.idempotent
        #: Batches of each request whose answer is awaited.
        self._awaiting: dict[object, list[MessageBatch]] = {}
        self._blocked = False
        # When leaders may be looked up again, and how often that has failed in a row.
        self._look_up_at = 0.0
        self._look_ups_failed = 0
        self._stepping = self._handler.Lock()
        # Itself, while something is queued: what the sender's worker holds.
        self._kept: list[Sender] = []
        self._worker: Worker | None = None
        if auto_start:
            self.start()

    def start(self) -> None:
        """Start the sender."""
        if not self.running:
            self.running = True
            try:
                self._worker = self._handler.spawn(
                    _run, weakref.ref(self), self.wake, self._kept, name=f"pykafka.OwnedBroker.{self.broker.id}"
                )
            except BaseException:
                self.running = False
                raise

    def stop(self) -> None:
        """Have the sender end; what is still queued stays in the queues."""
        self.running = False
        self.wake.set()

    def message_is_pending(self) -> bool:
        """Return whether a message for this broker waits for its acknowledgement."""
        return bool(self.ledger.messages)

    def join(self, timeout: float) -> None:
        """Wait until the sender has ended, `timeout` seconds at most."""
        if self._worker is not None:
            self._worker.join(timeout)

    # -- the sender's worker ---------------------------------------------------------------------------------------

    def keep(self) -> None:
        """Keep the producer, though nobody may hold it any more, until what is queued has gone out; under its lock."""
        if not self._kept:
            self._kept.append(self)

    def _let_go(self) -> None:
        """Leave the producer to whoever holds it, where nothing is queued, and nothing can be without `keep`."""
        if self._kept and not self.message_is_pending():
            with self._lock:
                if not self.message_is_pending() and all(queue.open is None for queue in self.queues.values()):
                    self._kept.clear()

    def _failed(self, error: BaseException) -> None:
        log.error("sender of broker %d ended by an error", self.broker.id, exc_info=error)
        if not self._routing.ended:
            self._core.worker_failed(error)

    def deliver(self, batch: MessageBatch) -> None:
        """Send what is ready and read the answer in the caller's worker, unless others are at it already."""
        requests = self.broker.channel("produce").requests
        helps = requests is not None and requests.help_read()
        if requests is None or not helps:
            self.send_now()
            return
        try:
            self.send_now()
            requests.read_until(lambda: batch.done)
        finally:
            requests.leave()

    def send_now(self) -> None:
        """Send what is ready in the caller's worker, or have the sender do so where it is at it already."""
        # Not `acquire(blocking=False)`: Ctrl-C could come before the `try` behind it, and the sender would wait for ever. Who
        # is second here waits for a step, as it would for what the sender does instead.
        if not self._stepping.locked():
            with self._stepping:
                again = self._send_ready()
            if again is None and not self._routing.stale:
                return
        self.wake.set()

    def _step(self) -> float | None:
        """Send what is ready; return how long to sleep unless woken (s)."""
        with self._stepping:
            deadline = self._send_ready()
        if self._routing.stale or self._core.cluster.metadata_is_old:
            if self._handler.now() >= self._look_up_at:
                return self._look_up()
            deadline = self._look_up_at if deadline is None else min(deadline, self._look_up_at)
        elif self._routing.behind:
            self._routing.catch_up()
        return None if deadline is None else max(0.0, deadline - self._handler.now())

    def _look_up(self) -> float:
        """Ask where the leaders are; return how long to sleep unless woken (s)."""
        found = self._routing.refresh()
        self._look_ups_failed = 0 if found else self._look_ups_failed + 1
        # Messages wake the sender as they come; that is no reason to ask again at once.
        pause = self._core.backoff.seconds(self._look_ups_failed)
        self._look_up_at = self._handler.now() + pause
        return 0.0 if found else pause

    def _send_ready(self) -> float | None:
        """Send what is ready; return when there will be more, if nothing changes."""
        try:
            ready, deadline = self._take_ready(self._handler.now())
            for request in _cut(ready, self._core.options.max_request_size):
                self._core.hooks._send_request(request, self)
        except BaseException:  # somebody's timeout, Ctrl-C, or an overridden method's error
            self._settle_interrupted()
            self.wake.set()
            raise
        return deadline

    def _settle_interrupted(self) -> None:
        """Settle what was taken and has no answer coming: what of it went out is not known."""
        error = SocketDisconnectedError("the sending of the message was interrupted", broker=self.broker.address)
        with self._lock:
            awaited = {id(batch) for batches in list(self._awaiting.values()) for batch in batches}
            lost = [
                flight
                for queue in self._routing.queues.values()
                if queue.sender is self
                for flight in queue.lane.window
                if flight.on_wire and id(flight.item) not in awaited
            ]
            for flight in lost:
                flight.item.flight = flight  # that may be what was interrupted
        self._settle([(flight.item, error) for flight in lost])

    def _take_ready(self, now: float) -> tuple[list[MessageBatch], float | None]:
        """Return batches to send now, at most one a partition, and when the next will be ready if nothing changes."""
        ready: list[MessageBatch] = []
        waiting: list[MessageBatch] = []
        deadline: float | None = None
        muted_for = self.broker.muted_for("produce")
        with self._lock:
            # an answer wakes the sender when requests may be sent again
            self._blocked = len(self._awaiting) >= MAX_IN_FLIGHT
            for queue in self.queues.values():
                queue.armed = self._core.options.sync
                due = self._due(queue, now)
                if due is not None and muted_for:
                    due = self._due_unheard(queue, max(due, now + muted_for))
                if due is not None and due <= now and not self._blocked:
                    batch = self._take(queue)
                    if batch is not None and muted_for and not batch.retry_at:
                        self._hold(batch, muted_for)
                    if batch is not None:
                        (waiting if batch.retry_at else ready).append(batch)
                        due = batch.retry_at or self._due(queue, now)
                if due is not None and not self._blocked:
                    deadline = due if deadline is None else min(deadline, due)
                # where there is no deadline, an answer is awaited, or the first message wakes the sender
                queue.armed = queue.armed or due is not None or queue.lane.on_wire > 0
        for batch in waiting:
            self._check_age(batch)
        return ready, deadline

    def _due(self, queue: PartitionQueue, now: float) -> float | None:
        """Return when the next batch of this partition may be sent; None while there is nothing, or an answer is awaited."""
        lane = queue.lane
        if lane.on_wire and queue.sender is not self:
            return None  # what a former leader has comes first
        if lane.recovering:
            flight = lane.next_to_resend()
            return flight.item.retry_at if flight is not None else None
        if not lane.may_launch(self._numbered):
            return None
        if queue.sealed:
            return now
        batch = queue.open
        if batch is None or not batch.count:
            return None
        options = self._core.options
        if self._core.flushing:
            return now
        # while a batch is under way, this one had better be filled
        if not lane.on_wire and (self.ledger.messages >= options.min_queued_messages or self.ledger.full):
            return now
        return batch.created + options.linger_s

    def _due_unheard(self, queue: PartitionQueue, heard_at: float) -> float:
        """Return when to look at a partition while the broker throttles: when it is heard again, or a batch is too old."""
        if queue.lane.recovering:
            flight = queue.lane.next_to_resend()
            batch = flight.item if flight is not None else None
        else:
            batch = queue.sealed[0] if queue.sealed else queue.open
        return heard_at if batch is None else min(heard_at, batch.created + self._core.options.delivery_timeout_s)

    def _hold(self, batch: MessageBatch, seconds: float) -> None:
        """Put a batch back that the broker, which throttles, is not sent now; the caller holds the lock."""
        self._lane_of(batch).unsent(batch.flight)
        batch.retry_at = self._handler.now() + seconds
        batch.last_error = ThrottledError(
            f"the broker throttles this client by a quota, for {seconds * 1000:.0f} ms more; send more slowly, or raise it",
            broker=self.broker.address,
        )

    def _take(self, queue: PartitionQueue) -> MessageBatch | None:
        """Take the next batch of a partition; with `retry_at` set where this is not its leader any more."""
        lane = queue.lane
        queue.sender = self  # before the launch, so that an interrupted one is known for ours
        flight = lane.resend()
        if flight is not None:
            batch: MessageBatch | None = flight.item
        elif queue.sealed:
            batch = queue.sealed.popleft()
        else:
            batch = self._core.accumulator.take_open(queue)
        if batch is None:
            return None
        if flight is None:
            flight = batch.flight = lane.launch(batch, batch.count)
        batch.retry_at = 0.0
        if self._routing.leader_of(queue) is not self.broker:
            self._routing.stale = True
            lane.unsent(flight)
            self._back_off(batch)
        return batch

    def _back_off(self, batch: MessageBatch) -> None:
        """Let a batch wait before it is sent again, the longer the oftener it has failed; called under the lock."""
        now = self._handler.now()
        batch.failures += 1
        until = now + self._core.backoff.seconds(batch.failures)
        # its last try is when its time is over
        batch.retry_at = min(until, max(now, batch.created + self._core.options.delivery_timeout_s))

    def _check_age(self, batch: MessageBatch) -> None:
        """Fail a batch that has waited for a leader beyond the delivery timeout."""
        if self._handler.now() - batch.created <= self._core.options.delivery_timeout_s:
            return
        error = batch.last_error or RequestTimedOut("no broker leads the partition; check that its replicas are up")
        self._give_up(batch, self._explained(batch, error))

    def _explained(self, batch: MessageBatch, error: KafkaException) -> KafkaException:
        """Say how long a batch was tried, with the last error that it met."""
        options = self._core.options
        late = self._handler.now() - batch.created > options.delivery_timeout_s
        bound = f"delivery_timeout_ms={options.delivery_timeout_ms}" if late else f"max_retries={options.max_retries}"
        remark = f"not delivered in {batch.failures} tries, within {bound}"
        return with_remark(error, remark).with_context(topic=batch.topic, partition=batch.partition_id)

    # -- sending ---------------------------------------------------------------------------------------------------

    def _send(self, batches: list[MessageBatch]) -> None:
        sendable = batches
        try:
            version = self.broker.api_version(wire.ProduceRequest)
            if self._core.options.idempotent:
                sendable = batches = self._number(batches)
            sendable = [batch for batch in batches if self._seal(batch, version)]
            if len(sendable) < len(batches):
                self.wake.set()  # what is behind those, or in their place, may go
            self.broker.channel("produce").open()
            if self.broker.api_version(wire.ProduceRequest) != version:
                raise SocketDisconnectedError(
                    "another broker is there now, of another version", broker=self.broker.address
                )
            # The above may take its time, after which `stop()` may have given up, and said so.
            sendable = [batch for batch in sendable if not batch.done]
            if sendable:
                self._request(sendable, version)
        except ProtocolClientError as error:  # of this client, or about the producer id
            if error.retriable:
                self._unsent(sendable, error)
            else:
                self._settle([(batch, error) for batch in sendable])
                self.wake.set()
        except KafkaException as error:
            self._unsent(sendable, error)

    def _request(self, batches: list[MessageBatch], version: int) -> None:
        """Send batches in one request, and await its answer."""
        options = self._core.options
        request = _produce_request(batches, options.required_acks, options.ack_timeout_ms)
        timeout_ms = max(options.ack_timeout_ms, self._core.cluster.socket_timeout_ms)
        # What throttling adds to the timeout ends when all of them have got too old.
        too_old_at = max(batch.created for batch in batches) + options.delivery_timeout_s
        number = object()
        pending: PendingResponse[wire.ProduceResponse] | None = None
        try:
            self._awaiting[number] = batches
            pending = sent = self.broker.send(
                request,
                "produce",
                timeout_ms=timeout_ms,
                version=version,
                has_response=options.required_acks != 0,
                latest=max(self._handler.now() + timeout_ms / 1000, too_old_at),
                patient=False,
            )
            sent.add_done_callback(lambda future: self._answered(number, batches, sent, future))
        except BaseException:
            try:
                if pending is not None and pending.future.done:  # it was settling that was interrupted
                    self._answered(number, batches, pending, pending.future)
            finally:
                self._awaiting.pop(number, None)
            raise

    def _number(self, batches: list[MessageBatch]) -> list[MessageBatch]:
        """Give batches their sequence numbers, where leader and cluster have them; return those that may go.

        Where they have none, batches go without; but not behind others of their partition that have had some.
        """
        identity = self._core.identity
        self._numbered = identity.known_to(self.broker)
        for batch in batches:
            lane = self._lane_of(batch)
            wanted = self._numbered and lane.wants_id and not batch.flight.numbered
            found = identity.get(lane.spent_id, self.broker) if wanted else None
            if wanted and found is None:
                self._numbered = False
            if not self._numbered:
                break
            with self._lock:
                if found is not None:
                    lane.adopt(*found)
                lane.number(batch.flight)
        if self._numbered:
            return batches
        waiting = [batch for batch in batches if self._lane_of(batch).numbers]
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
        return [batch for batch in batches if not self._lane_of(batch).numbers]

    def _seal(self, batch: MessageBatch, version: int) -> bool:
        """Bring a batch into the form that goes over the wire; False where this broker cannot take it."""
        magic = 2 if version >= PRODUCE_RECORD_BATCHES else 1 if version >= PRODUCE_V1_MESSAGES else 0
        flight = batch.flight
        form = (magic, flight.producer_id, flight.epoch, flight.sequence)
        if batch.wire is not None and batch.wire_form == form:
            return True
        codec = self._core.options.compression
        builder = batch.builder
        if magic < 2 and builder.with_headers and batch.count > 1:
            self._core.settlement.split(
                batch, "some messages have headers, which this broker does not take", self._lane_of(batch)
            )
            return False
        try:
            if codec == CompressionType.ZSTD and version < PRODUCE_ZSTD:
                raise UnsupportedCompressionType(
                    "this broker is older than Kafka 2.1 and knows no zstd; produce with another compression"
                )
            if magic < 2:
                batch.wire = [encode_message_set(builder, magic, codec)]
            else:
                if batch.wire is not None and batch.wire_form[0] == 2:
                    payload = batch.wire[1]  # only its numbers are new
                elif codec:
                    offload = self._handler.offload if builder.size >= OFFLOAD_FROM else _inline
                    payload = offload(compress, codec, builder.view())
                else:
                    payload = None
                batch.wire = builder.seal(codec, payload, flight.producer_id, flight.epoch, flight.sequence)
        except KafkaException as error:
            self._give_up(
                batch, error.with_context(broker=self.broker.address, topic=batch.topic, partition=batch.partition_id)
            )
            return False
        batch.wire_form = form
        self._handler.breathe()  # a checksum over a large batch takes its time
        return True

    def _unsent(self, batches: list[MessageBatch], error: KafkaException) -> None:
        """Nothing reached the broker: try again later, wherever the leader is then."""
        # the cluster is busy with itself, or wants to be left alone for a while, but well
        answered = isinstance(error, (ProtocolClientError, ThrottledError))
        tell = log.info if answered else self.broker.warn
        tell("broker %s: %s; %d batches wait", self.broker.address, error, len(batches))
        with self._lock:
            self._routing.stale |= not answered
            for batch in batches:
                self._lane_of(batch).unsent(batch.flight)
                batch.last_error = error.again()
                self._back_off(batch)
        for batch in batches:
            self._check_age(batch)
        self.wake.set()  # when to look again was worked out before

    # -- answers (in the connection's reader worker: nothing here may block) -----------------------------------------

    def _answered(
        self,
        number: object,
        batches: list[MessageBatch],
        pending: PendingResponse[wire.ProduceResponse],
        future: ResponseFuture,
    ) -> None:
        """Settle what a request had; called again where that was interrupted."""
        try:
            self._take_answer(batches, pending, future)
        except Exception:  # an overridden method's
            self._go_on(number, batches)
            raise
        self._go_on(number, batches)

    def _go_on(self, number: object, batches: list[MessageBatch]) -> None:
        """Send what has waited for an answer."""
        self._awaiting.pop(number, None)
        if self._blocked:
            self.wake.set()
        self._routing.wake_owners(batches)

    def _take_answer(
        self, batches: list[MessageBatch], pending: PendingResponse[wire.ProduceResponse], future: ResponseFuture
    ) -> None:
        try:
            if self._core.options.required_acks == 0:
                future.get(timeout=0)
                self._settle([(batch, None) for batch in batches])
            else:
                self._read_answer(batches, pending.get(timeout=0))
        except KafkaException as error:
            self._settle([(batch, error) for batch in batches])

    def _read_answer(self, batches: list[MessageBatch], response: wire.ProduceResponse) -> None:
        waiting = {(batch.topic, batch.partition_id): batch for batch in batches}
        asked = set(waiting)
        for topic in response.responses:
            for part in topic.partition_responses:
                if (topic.name, part.index) not in asked:
                    raise CorruptResponseError(
                        f"the answer tells of {topic.name}/{part.index}, which the request has nothing for, or tells it twice",
                        broker=self.broker.address,
                        api="Produce",
                    )
                asked.remove((topic.name, part.index))
        outcomes: list[tuple[MessageBatch, KafkaException | None]] = []
        for topic in response.responses:
            for part in topic.partition_responses:
                batch = waiting.pop((topic.name, part.index))
                if part.error_code in (
                    0,
                    DuplicateSequenceNumber.ERROR_CODE,
                ):  # some brokers tell of a duplicate where it is
                    batch.base_offset = part.base_offset
                    batch.log_append_time = part.log_append_time_ms
                if part.error_code == 0:
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
            with self._lock:
                lane = self._lane_of(batch)
                judged = lane.answered(batch.flight, error) if batch.flight in lane.window else []
                if judged and judged[-1][1] is Verdict.DELIVERED:
                    _locate(self._routing.queues[batch.partition_id], [flight.item for flight, _ in judged])
                for flight, verdict in judged:
                    if verdict is Verdict.RESEND:  # not before that is followed
                        self._back_off(flight.item)
            if not judged and not batch.done and batch.parts is None:  # this was interrupted half-way
                judged = [(batch.flight, Verdict.DELIVERED if error is None else Verdict.FAILED)]
            for flight, verdict in judged:
                self._follow(flight.item, verdict, error)
                if verdict in (Verdict.DELIVERED, Verdict.FAILED):
                    _let_go(flight)

    def _follow(self, batch: MessageBatch, verdict: Verdict, error: KafkaException | None) -> None:
        """Do with a batch what its answer calls for."""
        if error is None or verdict is Verdict.DELIVERED:
            self._core.hooks._mark_as_delivered(self, [batch])
        elif verdict is Verdict.SPLIT:
            self._core.settlement.split(batch, str(error), self._lane_of(batch))
        elif verdict is Verdict.FAILED:
            self._finish(batch, error)
        elif verdict is Verdict.RESEND and not self._may_retry(batch, error):
            self._give_up(batch, self._explained(batch, error))
        else:
            log.info("will send %d messages to %s/%d again: %s", batch.count, batch.topic, batch.partition_id, error)
            with self._lock:
                batch.last_error = error.again()
                batch.record_errors = None
                if verdict is Verdict.RESEND_IN_ORDER:
                    batch.retry_at = self._handler.now()

    def _may_retry(self, batch: MessageBatch, error: KafkaException) -> bool:
        options = self._core.options
        self._routing.stale |= error.invalid_metadata or not isinstance(error, ProtocolClientError)
        batch.attempts += counts(kind_of(error), batch.flight.numbered)
        if self._handler.now() - batch.created > options.delivery_timeout_s:
            return False
        return batch.attempts <= options.max_retries

    def _give_up(self, batch: MessageBatch, error: KafkaException) -> None:
        """Fail a batch that is still in its lane, and those whose fate only it could have told."""
        with self._lock:
            lane = self._lane_of(batch)
            left = lane.drop(batch.flight) if batch.flight in lane.window else []
        for flight in left:
            self._finish(flight.item, error)
            _let_go(flight)

    def _finish(self, batch: MessageBatch, error: KafkaException) -> None:
        self._core.settlement.finish(batch, outcome_unknown(batch, error) or error)

    def _lane_of(self, batch: MessageBatch) -> Lane[MessageBatch]:
        return self._routing.queues[batch.partition_id].lane


def _run(reference: weakref.ref[Sender], wake: EventType, kept: list[Sender]) -> None:
    """Send what is ready, whenever there is something; the main function of a sender's worker.

    While nothing is queued it does not hold the producer, and ends when nobody else does.
    """
    try:
        while True:
            owned = reference()
            if owned is None or not owned.running:
                return
            pause = owned._step()
            owned._let_go()
            del owned
            wake.wait(LOOK_UP_S if pause is None else min(pause, LOOK_UP_S))
            wake.clear()
    except BaseException as error:  # noqa: BLE001 - whoever produces hears of it
        owned = reference()
        if owned is not None:
            owned._failed(error)
    finally:
        kept.clear()


def _locate(queue: PartitionQueue, batches: list[MessageBatch]) -> None:
    """Find out where batches are whose answers were lost, by those around them.

    :param batches: the last one was acknowledged, and proves that those before it are written
    """
    proven, last = batches[:-1], batches[-1]
    if last.base_offset < 0:
        return
    # Where there is just room for them behind what was acknowledged before, nobody else's messages are between.
    if proven and queue.next_offset >= 0 and queue.next_offset + sum(one.count for one in proven) == last.base_offset:
        for one in proven:
            one.base_offset = queue.next_offset
            queue.next_offset += one.count
    queue.next_offset = max(queue.next_offset, last.base_offset + last.count)


def _let_go(flight: Flight[MessageBatch]) -> None:
    # It has left its lane, and batch and flight refer to each other: the batch would stay in memory until the garbage
    # collector comes by, which few objects of many bytes do not hasten.
    del flight.item


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


def _produce_request(batches: list[MessageBatch], acks: int, timeout_ms: int) -> wire.ProduceRequest:
    topics: dict[str, list[wire.ProduceRequest.Topic.Partition]] = defaultdict(list)
    for batch in batches:
        topics[batch.topic].append(wire.ProduceRequest.Topic.Partition(index=batch.partition_id, records=batch.wire))
    return wire.ProduceRequest(
        acks=acks,
        timeout_ms=timeout_ms,
        topic_data=[wire.ProduceRequest.Topic(name=name, partition_data=parts) for name, parts in topics.items()],
    )
