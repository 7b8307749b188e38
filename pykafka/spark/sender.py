"""Record batches on their way to the brokers: several requests in flight, tried again until all replicas have them."""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pykafka.common import TopicPartition
from pykafka.exceptions import KafkaException, error_for
from pykafka.metadata.cluster import BaseCluster
from pykafka.producer.idempotence import Flight, Lane, Verdict
from pykafka.protocol import wire
from pykafka.protocol.messagesets import encode_message_set
from pykafka.protocol.records import RecordBatchBuilder
from pykafka.protocol.records_write import record_size
from pykafka.spark import batchlimits, sequences
from pykafka.spark.errors import SinkError
from pykafka.spark.loss import log
from pykafka.spark.options import WriteOptions
from pykafka.spark.sequences import RETRY_BACKOFF_MAX_S, RETRY_BACKOFF_S
from pykafka.utils.backoff import Backoff
from pykafka.utils.compression import compress

if TYPE_CHECKING:
    from pykafka.broker import Broker
    from pykafka.network.channel import PendingResponse
    from pykafka.protocol import wire

#: Requests that a broker may have unanswered, as in Kafka's Java client.
IN_FLIGHT = 5
#: Bytes that may wait for acknowledgements before more rows are taken.
MAX_QUEUED_BYTES = 16 * 1024 * 1024
#: How long a task that fails waits for the answers still to come, to tell what is written (s).
SETTLE_S = 2.0
CODECS = {"none": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}


@dataclass(eq=False, slots=True)
class Batch:
    """A record batch that is not acknowledged yet.

    :param tp: where it goes
    :param builder: its records
    :param payload: the same, compressed
    :param deadline: when it must be acknowledged (s of the handler's clock)
    """

    tp: TopicPartition
    builder: RecordBatchBuilder
    payload: Any
    deadline: float

    @property
    def size(self) -> int:
        """Bytes in a request."""
        return 61 + len(self.payload)


@dataclass(eq=False, slots=True)
class _Outbox:
    # The batches of one partition: those never sent, and the lane of those that were.
    lane: Lane[Batch]
    waiting: deque[Batch] = field(default_factory=deque)
    retry_at: float = 0.0
    #: Failures since something was last acknowledged.
    failures: int = 0
    #: Who has what is unanswered.
    broker: Broker | None = None


@dataclass(eq=False, slots=True)
class _Request:
    broker: Broker
    flights: list[Flight[Batch]]
    answer: PendingResponse[wire.ProduceResponse]


class BatchSender:
    """Send record batches; used by one task alone.

    Each task is an idempotent producer (KIP-98): a batch that is sent again because its answer was lost is stored once,
    and at its place.

    :param cluster: to write to
    :param options: of the write
    """

    def __init__(self, cluster: BaseCluster, options: WriteOptions) -> None:
        self._cluster = cluster
        self._handler = cluster.handler
        self._options = options
        self._codec = CODECS[options.compression]
        self._outboxes: dict[TopicPartition, _Outbox] = {}
        self._requests: deque[_Request] = deque()
        self._queued_bytes = 0
        self._given_up: list[Flight[Batch]] = []
        self._refreshed_at = -RETRY_BACKOFF_S
        self._backoff = Backoff(RETRY_BACKOFF_S * 1000, RETRY_BACKOFF_MAX_S * 1000, self._handler.random)
        self._sequences = sequences.take(cluster, options.client)
        self._sequences.begin(self._deadline())
        #: Rows acknowledged so far, by topic.
        self.acknowledged: Counter[str] = Counter()

    def submit(self, topic: str, partition: int, builder: RecordBatchBuilder) -> None:
        """Queue a batch; wait while too much is queued.

        :raises SinkError: a batch could not be delivered
        """
        tp = TopicPartition(topic, partition)
        outbox = self._outboxes.get(tp)
        if outbox is None:
            outbox = self._outboxes[tp] = _Outbox(self._sequences.lane(tp))
        outbox.waiting.append(self._batch(tp, builder, self._deadline()))
        self._send_due()
        while self._queued_bytes > MAX_QUEUED_BYTES:
            self._advance()

    def finish(self) -> None:
        """Wait until all that was submitted is acknowledged.

        :raises SinkError: a batch could not be delivered
        """
        while self._queued_bytes:
            self._advance()
        sequences.keep(self._options.client, self._sequences)

    def settle(self) -> str:
        """Take the answers that still come within a moment, and say what has become of the rows."""
        until = self._handler.now() + SETTLE_S
        while self._requests and self._handler.now() < until:
            if self._requests[0].answer.future.done:
                self._answered(self._requests.popleft())
            else:
                self._handler.sleep(RETRY_BACKOFF_S / 10)
        unsent = sum(batch.builder.count for outbox in self._outboxes.values() for batch in outbox.waiting)
        flights = [*self._given_up, *(flight for outbox in self._outboxes.values() for flight in outbox.lane.window)]
        maybe = sum(flight.count for flight in flights if flight.on_wire or flight.uncertain)
        waiting = unsent + sum(flight.count for flight in flights) - maybe
        written = ", ".join(f"{rows} to {topic}" for topic, rows in sorted(self.acknowledged.items())) or "0"
        return (
            f"Of this task's rows {written} are written, {maybe} may be and {waiting} waited; when Spark tries the task "
            "again, it writes all of them"
        )

    def _deadline(self) -> float:
        return self._handler.now() + self._options.delivery_timeout_ms / 1000

    def _batch(self, tp: TopicPartition, builder: RecordBatchBuilder, deadline: float) -> Batch:
        self._queued_bytes += builder.size
        payload = compress(self._codec, builder.view()) if self._codec else builder.view()
        return Batch(tp, builder, payload, deadline)

    def _advance(self) -> None:
        # One step: take an answer, or where nothing is under way, wait for what is to be tried again.
        self._send_due()
        if self._requests:
            self._take_answer(self._requests.popleft())
        elif self._queued_bytes:
            self._handler.sleep(RETRY_BACKOFF_S / 4)

    def _send_due(self) -> None:
        while self._requests and self._requests[0].answer.future.done:
            self._take_answer(self._requests.popleft())
        while chosen := self._choose():
            for broker, flights in chosen.items():
                self._send(broker, flights)

    def _choose(self) -> dict[Broker, list[Flight[Batch]]]:
        # For each broker that may get another request, the next batch of each partition, as many as it takes.
        now = self._handler.now()
        load = Counter(request.broker for request in self._requests)
        chosen: dict[Broker, list[Flight[Batch]]] = {}
        for tp, outbox in self._outboxes.items():
            batch = self._next(outbox)
            if batch is None or outbox.retry_at > now:
                continue
            try:
                broker = self._cluster.leader(*tp)
            except KafkaException as error:
                self._pause(batch, error)
                continue
            if load[broker] >= IN_FLIGHT or (outbox.lane.on_wire and broker is not outbox.broker):
                continue
            flights = chosen.setdefault(broker, [])
            if flights and sum(flight.item.size for flight in flights) + batch.size > self._options.max_request_bytes:
                continue
            flight = outbox.lane.resend()
            if flight is None:
                flight = outbox.lane.launch(outbox.waiting.popleft(), batch.builder.count)
            outbox.broker = broker
            flights.append(flight)
        return {broker: flights for broker, flights in chosen.items() if flights}

    def _next(self, outbox: _Outbox) -> Batch | None:
        flight = outbox.lane.next_to_resend()
        if flight is not None:
            return flight.item
        if outbox.waiting and outbox.lane.may_launch(self._sequences.numbered):
            return outbox.waiting[0]
        return None

    def _send(self, broker: Broker, flights: list[Flight[Batch]]) -> None:
        try:
            for flight in flights:
                self._sequences.number(self._outboxes[flight.item.tp].lane, flight, broker, flight.item.deadline)
            version = broker.api_version(wire.ProduceRequest)
            answer = broker.send(self._request(flights, version), channel="produce", version=version)
        except KafkaException as error:
            for flight in flights:
                self._outboxes[flight.item.tp].lane.unsent(flight)
            for flight in flights:
                self._pause(flight.item, error)
            return
        self._requests.append(_Request(broker, flights, answer))

    def _request(self, flights: list[Flight[Batch]], version: int) -> wire.ProduceRequest:
        topics: dict[str, list[wire.ProduceRequest.Topic.Partition]] = {}
        for flight in flights:
            batch = flight.item
            if version >= 3:
                records: Any = batch.builder.seal(
                    self._codec,
                    payload=batch.payload,
                    producer_id=flight.producer_id,
                    producer_epoch=flight.epoch,
                    base_sequence=flight.sequence,
                )
            else:
                records = encode_message_set(batch.builder, 1 if version == 2 else 0, self._codec)
            partition = wire.ProduceRequest.Topic.Partition(index=batch.tp.partition, records=records)
            topics.setdefault(batch.tp.topic, []).append(partition)
        return wire.ProduceRequest(
            acks=-1,
            timeout_ms=self._options.client.timeout_ms,
            topic_data=[wire.ProduceRequest.Topic(name=name, partition_data=parts) for name, parts in topics.items()],
        )

    def _take_answer(self, request: _Request) -> None:
        for flight, verdict, error in self._answered(request):
            if error is None:
                continue
            if verdict is Verdict.FAILED:
                raise self._failure(flight.item, error, "")
            if verdict is Verdict.SPLIT:
                self._check_deadline(flight.item, error)
                self._split(flight)
            elif verdict is Verdict.RESEND:
                self._pause(flight.item, error)

    def _answered(self, request: _Request) -> list[tuple[Flight[Batch], Verdict, KafkaException | None]]:
        # Book what a request's answer tells of each batch; return what is to be done, and why.
        parts: dict[TopicPartition, wire.ProduceResponse.Topic.Partition] = {}
        problem: KafkaException | None = None
        try:
            for topic in request.answer.get().responses:
                parts |= {TopicPartition(topic.name, part.index): part for part in topic.partition_responses}
        except KafkaException as lost:
            problem = lost.with_context(broker=request.broker.address)
        outcomes = []
        for flight in request.flights:
            tp = flight.item.tp
            error = problem if problem is not None else _refusal(parts.get(tp), tp, request.broker)
            for other, verdict in self._outboxes[tp].lane.answered(flight, error):
                if verdict is Verdict.DELIVERED:
                    self._outboxes[tp].failures = 0
                    self._queued_bytes -= other.item.builder.size
                    self.acknowledged[tp.topic] += other.count
                elif verdict is Verdict.FAILED:
                    self._given_up.append(other)
                outcomes.append((other, verdict, error))
        return outcomes

    def _pause(self, batch: Batch, error: KafkaException) -> None:
        # Before a batch is sent again.
        now = self._check_deadline(batch, error)
        outbox = self._outboxes[batch.tp]
        outbox.failures += 1
        outbox.retry_at = now + self._backoff.seconds(outbox.failures)
        if now - self._refreshed_at >= RETRY_BACKOFF_S:
            self._refreshed_at = now
            self._refresh(batch.tp.topic)

    def _check_deadline(self, batch: Batch, error: KafkaException) -> float:
        # Returns the time, where there is some left.
        now = self._handler.now()
        if now > batch.deadline:
            raise self._failure(
                batch, error, f" within {self._options.delivery_timeout_ms} ms (kafka.delivery.timeout.ms)"
            )
        return now

    def _failure(self, batch: Batch, error: KafkaException, when: str) -> SinkError:
        failure = SinkError(
            f"{batch.builder.count} rows were not acknowledged{when}: {error}. {self.settle()}",
            topic=batch.tp.topic,
            partition=batch.tp.partition,
        )
        failure.__cause__ = error
        return failure

    def _refresh(self, topic: str) -> None:
        try:
            self._cluster.update([topic])
        except KafkaException as error:
            # The batch is tried again until its deadline, and that names what went wrong then.
            log.info("the leaders of %s could not be looked up: %s", topic, error)

    def _split(self, flight: Flight[Batch]) -> None:
        # The topic takes smaller batches than a request has: smaller ones, which keep order and numbers.
        batch = flight.item
        topic, size = batch.tp.topic, batch.builder.size
        limit = batchlimits.learn(self._cluster, self._options.client, topic, size, batch.size)
        self._queued_bytes -= size
        parts = [(self._batch(batch.tp, part, batch.deadline), part.count) for part in _cut(batch.builder, limit)]
        self._outboxes[batch.tp].lane.split(flight, parts)


def _refusal(
    part: wire.ProduceResponse.Topic.Partition | None, tp: TopicPartition, broker: Broker
) -> KafkaException | None:
    # What a broker says of a batch that it did not take; of a record in it, where it says that.
    if part is None:
        return error_for(-1, broker=broker.address, topic=tp.topic, partition=tp.partition)
    if not part.error_code:
        return None
    text = next((bad.batch_index_error_message for bad in part.record_errors), None) or part.error_message
    return error_for(part.error_code, text, broker=broker.address, topic=tp.topic, partition=tp.partition)


def _cut(builder: RecordBatchBuilder, limit: int) -> list[RecordBatchBuilder]:
    parts = [RecordBatchBuilder()]
    for timestamp, key, value, headers in builder.records():
        if parts[-1].count and parts[-1].size + record_size(key, value, headers) > limit:
            parts.append(RecordBatchBuilder())
        parts[-1].append(timestamp, key, value, headers)
    return parts
