"""Record batches on their way to the brokers: several requests in flight, tried again until all replicas have them."""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pykafka.client import KafkaClient
from pykafka.exceptions import (
    KafkaException,
    MessageSizeTooLarge,
    ProtocolClientError,
    UnsupportedVersion,
    error_for,
)
from pykafka.protocol.messages import InitProducerIdRequest, ProduceRequest
from pykafka.protocol.messagesets import encode_message_set
from pykafka.protocol.records import RecordBatchBuilder
from pykafka.spark.errors import SinkError
from pykafka.spark.offsets import TopicPartition
from pykafka.spark.options import WriteOptions
from pykafka.utils.compression import compress

if TYPE_CHECKING:
    from pykafka.broker import Broker
    from pykafka.channel import PendingResponse
    from pykafka.protocol.messages import ProduceResponse

#: Requests that a broker may have unanswered, as in Kafka's Java client.
IN_FLIGHT = 5
#: Bytes that may wait for acknowledgements before more rows are taken.
MAX_QUEUED_BYTES = 16 * 1024 * 1024
RETRY_BACKOFF_S = 0.1
CODECS = {"none": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}
DUPLICATE_SEQUENCE = 46


@dataclass(eq=False, slots=True)
class Batch:
    """A record batch that is not acknowledged yet.

    :param tp: where it goes
    :param builder: its records
    :param payload: the same, compressed
    :param sequence: number of its first record in its partition
    :param deadline: when it must be acknowledged (s of the handler's clock)
    """

    tp: TopicPartition
    builder: RecordBatchBuilder
    payload: Any
    sequence: int
    deadline: float

    @property
    def size(self) -> int:
        """Bytes in a request."""
        return 61 + len(self.payload)


@dataclass(eq=False, slots=True)
class _Lane:
    # The batches of one partition in order. At most one is in a request, so that a retry keeps the order.
    waiting: deque[Batch] = field(default_factory=deque)
    busy: bool = False
    sequence: int = 0
    retry_at: float = 0.0


@dataclass(eq=False, slots=True)
class _Request:
    broker: Broker
    batches: list[Batch]
    answer: PendingResponse[ProduceResponse]


class BatchSender:
    """Send record batches; used by one task alone.

    Each task is an idempotent producer (KIP-98): a batch that is sent again because its answer was lost is stored once.

    :param client: the cluster
    :param options: of the write
    """

    def __init__(self, client: KafkaClient, options: WriteOptions) -> None:
        self._cluster = client.cluster
        self._handler = client.cluster.handler
        self._options = options
        self._codec = CODECS[options.compression]
        self._lanes: dict[TopicPartition, _Lane] = {}
        self._requests: deque[_Request] = deque()
        self._queued_bytes = 0
        self._last_error: KafkaException | None = None
        self._producer_id, self._producer_epoch = self._init_producer_id()
        #: Rows acknowledged so far, by topic.
        self.acknowledged: Counter[str] = Counter()

    def submit(self, topic: str, partition: int, builder: RecordBatchBuilder) -> None:
        """Queue a batch; wait while too much is queued.

        :raises SinkError: a batch could not be delivered
        """
        tp = TopicPartition(topic, partition)
        lane = self._lanes.get(tp)
        if lane is None:
            lane = self._lanes[tp] = _Lane()
        payload = compress(self._codec, builder.view()) if self._codec else builder.view()
        deadline = self._handler.now() + self._options.delivery_timeout_ms / 1000
        lane.waiting.append(Batch(tp, builder, payload, lane.sequence, deadline))
        lane.sequence += builder.count
        self._queued_bytes += builder.size
        self._send_waiting()
        while self._queued_bytes > MAX_QUEUED_BYTES:
            self._advance()

    def drain(self) -> None:
        """Wait until all that was submitted is acknowledged.

        :raises SinkError: a batch could not be delivered
        """
        while self._queued_bytes:
            self._advance()

    def _init_producer_id(self) -> tuple[int, int]:
        deadline = self._handler.now() + self._options.delivery_timeout_ms / 1000
        request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000)
        while True:
            try:
                answer = self._cluster.call(request)
            except UnsupportedVersion:
                return -1, -1  # before 0.11: a batch whose answer is lost may be stored twice
            error = error_for(answer.error_code, api="InitProducerId") if answer.error_code else None
            if error is None:
                return answer.producer_id, answer.producer_epoch
            if not error.retriable or self._handler.now() > deadline:
                raise error
            self._handler.sleep(RETRY_BACKOFF_S)

    def _advance(self) -> None:
        # One step: take an answer, or where nothing is under way, wait for what is to be tried again.
        self._send_waiting()
        if self._requests:
            self._take_answer(self._requests.popleft())
        elif self._queued_bytes:
            self._handler.sleep(RETRY_BACKOFF_S / 4)
        self._send_waiting()

    def _send_waiting(self) -> None:
        while self._requests and self._requests[0].answer.future.done:
            self._take_answer(self._requests.popleft())
        now = self._handler.now()
        chosen: dict[Broker, list[Batch]] = {}
        for tp, lane in self._lanes.items():
            if lane.busy or not lane.waiting or lane.retry_at > now:
                continue
            batch = lane.waiting[0]
            try:
                broker = self._cluster.leader(*tp)
            except KafkaException as error:
                self._try_again(batch, error)
                continue
            batches = chosen.setdefault(broker, [])
            if sum(other.size for other in batches) + batch.size <= self._options.max_request_bytes or not batches:
                batches.append(batch)
        for broker, batches in chosen.items():
            if sum(request.broker is broker for request in self._requests) < IN_FLIGHT:
                self._send(broker, batches)

    def _send(self, broker: Broker, batches: list[Batch]) -> None:
        try:
            version = broker.api_version(ProduceRequest)
            request = self._request(batches, version)
            answer = broker.send(request, channel="produce", version=version)
        except KafkaException as error:
            for batch in batches:
                self._try_again(batch, error)
            return
        for batch in batches:
            lane = self._lanes[batch.tp]
            lane.waiting.popleft()
            lane.busy = True
        self._requests.append(_Request(broker, batches, answer))

    def _request(self, batches: list[Batch], version: int) -> ProduceRequest:
        topics: dict[str, list[ProduceRequest.Topic.Partition]] = {}
        for batch in batches:
            if version >= 3:
                records: Any = batch.builder.seal(
                    self._codec,
                    payload=batch.payload,
                    producer_id=self._producer_id,
                    producer_epoch=self._producer_epoch,
                    base_sequence=batch.sequence if self._producer_id >= 0 else -1,
                )
            else:
                records = encode_message_set(batch.builder, 1 if version == 2 else 0, self._codec)
            partition = ProduceRequest.Topic.Partition(index=batch.tp.partition, records=records)
            topics.setdefault(batch.tp.topic, []).append(partition)
        return ProduceRequest(
            acks=-1,
            timeout_ms=self._options.client.timeout_ms,
            topic_data=[ProduceRequest.Topic(name=name, partition_data=parts) for name, parts in topics.items()],
        )

    def _take_answer(self, request: _Request) -> None:
        for batch in request.batches:
            self._lanes[batch.tp].busy = False
        try:
            answer = request.answer.get()
        except KafkaException as error:
            self._put_back(request.batches, error.with_context(broker=request.broker.address))
            return
        codes = {
            TopicPartition(topic.name, part.index): part.error_code
            for topic in answer.responses
            for part in topic.partition_responses
        }
        for batch in request.batches:
            code = codes.get(batch.tp, -1)
            if code in (0, DUPLICATE_SEQUENCE):
                self._queued_bytes -= batch.builder.size
                self.acknowledged[batch.tp.topic] += batch.builder.count
            else:
                self._put_back(
                    [batch],
                    error_for(code, broker=request.broker.address, topic=batch.tp.topic, partition=batch.tp.partition),
                )

    def _put_back(self, batches: list[Batch], error: KafkaException) -> None:
        for batch in batches:
            self._lanes[batch.tp].waiting.appendleft(batch)
            if isinstance(error, MessageSizeTooLarge) and batch.builder.count > 1:
                self._split(batch)
            else:
                self._try_again(batch, error)

    def _try_again(self, batch: Batch, error: KafkaException) -> None:
        now = self._handler.now()
        retriable = error.retriable if isinstance(error, ProtocolClientError) else True
        if not retriable or now > batch.deadline:
            waiting = sum(other.builder.count for lane in self._lanes.values() for other in lane.waiting)
            raise SinkError(
                f"{batch.builder.count} rows were not acknowledged"
                + (
                    ""
                    if not retriable
                    else f" within {self._options.delivery_timeout_ms} ms (kafka.delivery.timeout.ms)"
                )
                + f": {error}. Of this task's rows {sum(self.acknowledged.values())} are written and {waiting} "
                "waited; when "
                "Spark tries the task again, it writes all of them",
                topic=batch.tp.topic,
                partition=batch.tp.partition,
            ) from error
        self._lanes[batch.tp].retry_at = now + RETRY_BACKOFF_S
        if error is not self._last_error:
            self._last_error = error
            self._refresh(batch.tp.topic)

    def _refresh(self, topic: str) -> None:
        try:
            self._cluster.update([topic])
        except KafkaException as error:
            self._last_error = error  # the batch is tried again until its deadline, and that names what went wrong then

    def _split(self, batch: Batch) -> None:
        # The topic takes smaller batches than the brokers' default: halves keep order and sequence.
        lane = self._lanes[batch.tp]
        lane.waiting.popleft()
        self._queued_bytes -= batch.builder.size
        halves = [RecordBatchBuilder(), RecordBatchBuilder()]
        for index, record in enumerate(batch.builder.records()):
            halves[2 * index >= batch.builder.count].append(*record)
        sequence = batch.sequence
        parts = []
        for builder in halves:
            payload = compress(self._codec, builder.view()) if self._codec else builder.view()
            parts.append(Batch(batch.tp, builder, payload, sequence, batch.deadline))
            sequence += builder.count
            self._queued_bytes += builder.size
        lane.waiting.extendleft(reversed(parts))
