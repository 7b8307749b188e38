"""`Request`: batches that share a Produce request, and the result of each in the response. No I/O."""

from __future__ import annotations

import struct
from collections import defaultdict
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Self
from uuid import UUID

from pykafka.common import CompressionType
from pykafka.exceptions import (
    CorruptResponseError,
    DuplicateSequenceNumber,
    KafkaException,
    ResponseTimeoutError,
    UnsupportedCompressionType,
    error_for,
)
from pykafka.protocol import wire
from pykafka.protocol.messagesets import encode_message_set
from pykafka.protocol.primitives import uvarint
from pykafka.utils.compression import compress

if TYPE_CHECKING:
    from pykafka.handlers import Handler
    from pykafka.network.in_flight import InFlightRequest
    from pykafka.producer.batch import ProducerBatch


NO_ID = UUID(int=0)
#: What became of a batch: None, or why it was not written.
BatchResult = tuple["ProducerBatch", KafkaException | None]

#: The first version with compact types, and the first one that names topics by id.
FLEXIBLE_FROM, IDS_FROM = 9, 13
_RequestTopic = wire.ProduceRequest.Topic
_ResponseTopic = wire.ProduceResponse.Topic
#: Records up to this size are copied into the request (bytes); a large copy would cost more than a piece.
JOINED_MAX = 2048
# What follows the name or id of the topic: partitions; index, error, offset, time, start of the log, errors of records, text,
# tags of the partition; tags of the topic; throttle time, tags.
_WRITTEN = struct.Struct(">BihqqqBBBBiB")
# Length of the frame; API and version; correlation id.
_START = struct.Struct(">I4sI")
#: The compact lengths of an array of one element, of an empty array, and of null.
_ONE, _EMPTY, _NULL = 2, 1, 0
#: From this size on a batch is compressed off the hub (bytes); below, the detour costs more than it saves.
OFFLOAD_FROM = 8 * 1024
#: Produce versions at which the form of messages changed.
PRODUCE_V1_MESSAGES = 2
PRODUCE_RECORD_BATCHES = 3
PRODUCE_ZSTD = 7
#: The `wire_form` of a batch that is compressed, and has no header yet.
COMPRESSED = (2,)


class Request:
    """A Produce request in flight.

    :param batches: in it, one a partition
    :param ids: the ids of their topics, if they are known: they name the topics from version 13 on
    :param transactional_id: of a producer with transactions
    """

    def __init__(
        self, batches: list[ProducerBatch], ids: Mapping[str, UUID] | None = None, transactional_id: str | None = None
    ) -> None:
        self.batches = batches
        self.ids = ids or {}
        self.transactional_id = transactional_id
        #: Its answer, once it is sent.
        self.pending: InFlightRequest[wire.ProduceResponse] | None = None

    def message(self, acks: int, timeout_ms: int) -> wire.ProduceRequest:
        """Return the wire message.

        :param acks: how many replicas have to have it
        :param timeout_ms: how long the leader may wait for them
        """
        batch = self.batches[0]
        if len(self.batches) == 1 and batch.wire is not None and self.transactional_id is None:
            topic_id = self.ids.get(batch.topic, NO_ID)
            return ProduceRequest(batch.topic, topic_id, batch.partition_id, batch.wire, acks, timeout_ms)
        topics: dict[str, list[wire.ProduceRequest.Topic.Partition]] = defaultdict(list)
        for batch in self.batches:
            topics[batch.topic].append(
                wire.ProduceRequest.Topic.Partition(index=batch.partition_id, records=batch.wire)
            )
        return wire.ProduceRequest(
            transactional_id=self.transactional_id,
            acks=acks,
            timeout_ms=timeout_ms,
            topic_data=[
                wire.ProduceRequest.Topic(name=name, topic_id=self.ids.get(name, NO_ID), partition_data=parts)
                for name, parts in topics.items()
            ],
        )

    def results(self, response: wire.ProduceResponse, where: str) -> list[BatchResult]:
        """Return the result of each batch in a response, and store offsets and errors of single messages.

        :param where: the broker, for errors ("host:port")
        :raises CorruptResponseError: it has a partition that was not asked about, or one twice
        """
        if self.is_written(response):
            return [(self.batches[0], None)]
        waiting = {(batch.topic, batch.partition_id): batch for batch in self.batches}
        self._name_topics(response, where)
        _check_partitions(set(waiting), response, where)
        found: list[BatchResult] = []
        for topic in response.responses:
            for part in topic.partition_responses:
                batch = waiting.pop((topic.name, part.index))
                found.append((batch, _read(batch, part, where)))
        for batch in waiting.values():
            context: dict[str, Any] = {"broker": where, "topic": batch.topic, "partition": batch.partition_id}
            found.append((batch, ResponseTimeoutError("the broker's answer left this partition out", **context)))
        return found

    def is_written(self, response: wire.ProduceResponse) -> bool:
        """Return whether a response says in short that the only batch is written, and store its offset then."""
        written = response.written if type(response) is ProduceResponse else None
        if written is None:
            return False
        topic, partition, offset, time_ms = written
        batch = self.batches[0]
        if partition != batch.partition_id:
            return False
        id_ = self.ids.get(batch.topic)
        if (id_ is None or topic != id_.bytes) and topic != batch.topic.encode():
            return False
        batch.base_offset = offset
        batch.log_append_time = time_ms
        return True

    def leaders(self, response: wire.ProduceResponse) -> Iterator[tuple[ProducerBatch, int, int]]:
        """Yield (batch, leader's broker number, its epoch) of each batch for which a broker names the leader (KIP-951).

        :param response: that `results` has read
        """
        batches = {(batch.topic, batch.partition_id): batch for batch in self.batches}
        for topic in response.responses:
            for part in topic.partition_responses:
                if part.error_code and part.current_leader.leader_id >= 0:
                    batch = batches[topic.name, part.index]
                    yield batch, part.current_leader.leader_id, part.current_leader.leader_epoch

    def _name_topics(self, response: wire.ProduceResponse, where: str) -> None:
        """Give the topics of a response their names, if it has their ids alone."""
        names: dict[UUID, str] | None = None
        for topic in response.responses:
            if topic.topic_id == NO_ID:
                continue
            names = names or {id_: name for name, id_ in self.ids.items()}
            if topic.topic_id not in names:
                raise CorruptResponseError(
                    f"the answer names topic id {topic.topic_id}, which the request has nothing for",
                    broker=where,
                    api="Produce",
                )
            topic.name = names[topic.topic_id]


def divide(batches: Sequence[ProducerBatch], limit: int) -> list[list[ProducerBatch]]:
    """Return requests of at most `limit` bytes each; a larger batch has a request of its own."""
    requests: list[list[ProducerBatch]] = []
    size = 0
    for batch in batches:
        taken = batch.wire_size
        if not requests or size + taken > limit:
            requests.append([])
            size = 0
        requests[len(requests) - 1].append(batch)
        size += taken
    return requests


def _check_partitions(asked: set[tuple[str, int]], response: wire.ProduceResponse, where: str) -> None:
    for topic in response.responses:
        for part in topic.partition_responses:
            if (topic.name, part.index) not in asked:
                raise CorruptResponseError(
                    f"the answer names {topic.name}/{part.index}, which the request has nothing for, or names it twice",
                    broker=where,
                    api="Produce",
                )
            asked.remove((topic.name, part.index))


def _read(batch: ProducerBatch, part: wire.ProduceResponse.Topic.Partition, where: str) -> KafkaException | None:
    # some brokers report where a duplicate is
    if part.error_code in (0, DuplicateSequenceNumber.ERROR_CODE):
        batch.base_offset = part.base_offset
        batch.log_append_time = part.log_append_time_ms
    if part.error_code == 0:
        return None
    context: dict[str, Any] = {
        "broker": where,
        "topic": batch.topic,
        "partition": batch.partition_id,
        "api": "Produce",
    }
    for bad in part.record_errors:
        if batch.record_errors is None:
            batch.record_errors = {}
        text = bad.batch_index_error_message or part.error_message
        batch.record_errors[bad.batch_index] = error_for(part.error_code, text, **context)
    return error_for(part.error_code, part.error_message, **context)


class ProduceResponse(wire.ProduceResponse, api_key=0, versions="0-13", flexible="9+", early="6+"):
    """A response about one batch.

    `written` is (name or id of the topic, partition, offset, time) if the broker wrote the batch and reported no error. It
    is None once something has asked for `responses`.
    """

    written: tuple[bytes, int, int, int] | None = None
    _start = -1
    _by_id = False

    @classmethod
    def read_written(cls, version: int, frame: memoryview) -> Self | None:
        """Read the frame of a response if it says in the usual form that the batch is written; None: decode it.

        :param frame: from the correlation id on
        """
        found = _written(version, frame)
        if found is None:
            return None
        response = cls.__new__(cls)
        response.__dict__ = {
            "written": found[:4],
            "throttle_time_ms": found[5],
            "_start": found[4],
            "_by_id": version >= IDS_FROM,
        }
        return response

    @property  # type: ignore[misc]  # made when something asks for it
    def responses(self) -> list[_ResponseTopic]:  # type: ignore[override]
        """The topic, as for `wire.ProduceResponse`."""
        found: list[_ResponseTopic] | None = self.__dict__.get("responses")
        if found is None:
            found = self.__dict__["responses"] = [] if self.written is None else [self._topic_of(*self.written)]
            self.__dict__["written"] = None  # who has it may change it
        return found

    def _topic_of(self, topic: bytes, index: int, offset: int, time_ms: int) -> _ResponseTopic:
        part = _ResponseTopic.Partition(
            index=index, base_offset=offset, log_append_time_ms=time_ms, log_start_offset=self._start, record_errors=[]
        )
        if self._by_id:
            return _ResponseTopic(topic_id=UUID(bytes=topic), partition_responses=[part])
        return _ResponseTopic(name=topic.decode(), partition_responses=[part])


def _written(version: int, frame: memoryview) -> tuple[bytes, int, int, int, int, int] | None:
    """Return topic, partition, offset, time, start of the log and throttling of a batch that is written; None: decode it."""
    end, name, size = len(frame), 6, 16
    if version < FLEXIBLE_FROM or end < name + size or frame[4] or frame[5] != _ONE:
        return None
    if version < IDS_FROM:
        size = frame[name] - 1
        name += 1
    stop = name + size
    if not 0 < size < 0x7F or stop + _WRITTEN.size > end:
        return None
    count, index, error, offset, time_ms, start, bad, text, tags, topic_tags, throttle_ms, last = _WRITTEN.unpack_from(
        frame, stop
    )
    if error or count != _ONE or bad != _EMPTY or text != _NULL or tags or topic_tags or last:
        return None
    return bytes(frame[name:stop]), index, offset, time_ms, start, throttle_ms


class ProduceRequest(wire.ProduceRequest, api_key=0, versions="0-13", flexible="9+"):
    """A request with one batch.

    :param topic: its name
    :param topic_id: its id, or zeros
    :param partition: its number
    :param records: bytes-likes
    :param acks: how many replicas have to have it
    :param timeout_ms: how long the leader may wait for them
    """

    response = ProduceResponse
    quick_response = ProduceResponse.read_written
    _place: tuple[str, UUID, int] = ("", NO_ID, 0)
    _records: Any = None

    def __init__(
        self, topic: str, topic_id: UUID, partition: int, records: list[Any], acks: int, timeout_ms: int
    ) -> None:
        self.__dict__ = {
            "acks": acks,
            "timeout_ms": timeout_ms,
            "_place": (topic, topic_id, partition),
            "_records": records,
        }

    @property  # type: ignore[misc]  # as `responses`
    def topic_data(self) -> list[_RequestTopic]:  # type: ignore[override]
        """The topic, as for `wire.ProduceRequest`."""
        topic, topic_id, partition = self._place
        part = _RequestTopic.Partition(index=partition, records=self._records)
        return [_RequestTopic(name=topic, topic_id=topic_id, partition_data=[part])]

    def frame(self, version: int, correlation_id: int, client_id: str | None) -> list[bytes | memoryview]:
        """Return the request as sent over the wire. As `Request.frame`."""
        if version < FLEXIBLE_FROM:
            return super().frame(version, correlation_id, client_id)
        return _framed(version, client_id, self._place, self._records, self.acks, self.timeout_ms, correlation_id)


def _framed(
    version: int,
    client_id: str | None,
    place: tuple[str, UUID, int],
    records: list[Any],
    acks: int,
    timeout_ms: int,
    correlation_id: int,
) -> list[bytes | memoryview]:
    """Return a whole request about one batch: in one piece if it is small."""
    topic, topic_id, partition = place
    head, before, behind = _around(version, client_id, topic, topic_id.int, partition, acks, timeout_ms)
    size = 1
    for piece in records:
        size += len(piece)
    length = bytes((size & 0x7F | 0x80, size >> 7)) if 0x80 <= size < 0x4000 else uvarint(size)
    whole = len(head) + 3 + len(before) + len(length) + size + len(behind)
    start = _START.pack(whole, head, correlation_id)
    if size <= JOINED_MAX:
        return [b"".join((start, before, length, *records, behind))]
    views = [piece if type(piece) is bytes else memoryview(piece) for piece in records]
    return [b"".join((start, before, length)), *views, behind]


@lru_cache(maxsize=4096)
def _around(
    version: int, client_id: str | None, topic: str, topic_id: int, partition: int, acks: int, timeout_ms: int
) -> tuple[bytes, bytes, bytes]:
    """Return what is between the length and the correlation id, from there to the length of the records, and behind them."""
    part = _RequestTopic.Partition(index=partition, records=b"")
    asked = _RequestTopic(name=topic, topic_id=UUID(int=topic_id), partition_data=[part])
    message = wire.ProduceRequest(acks=acks, timeout_ms=timeout_ms, topic_data=[asked])
    frame = b"".join(message.frame(version, 0, client_id))
    stop = len(frame) - 3  # the tags of partition, topic and request, all empty; before them the length
    return frame[4:8], frame[12 : stop - 1], frame[stop:]


def magic_of(version: int) -> int:
    """Return the message format of a version of Produce: record batches (2), or message sets (1, 0)."""
    return 2 if version >= PRODUCE_RECORD_BATCHES else 1 if version >= PRODUCE_V1_MESSAGES else 0


def close_batch(
    batch: ProducerBatch,
    version: int,
    codec: int,
    handler: Handler,
    level: int | None = None,
    transactional: bool = False,
) -> None:
    """Bring a batch into the wire format, with the sequence numbers; leave a closed one unchanged.

    :param version: of Produce
    :param codec: a `CompressionType`
    :param handler: compresses off the hub
    :param level: of the compression; None: the codec's own
    :param transactional: whether it is part of a transaction
    :raises KafkaException: it cannot be brought into that form
    """
    magic = 2 if version >= PRODUCE_RECORD_BATCHES else magic_of(version)
    in_flight = batch.in_flight
    form = (magic, in_flight.producer_id, in_flight.epoch, in_flight.sequence)
    if batch.wire is not None and batch.wire_form == form:
        return
    if codec == CompressionType.ZSTD and version < PRODUCE_ZSTD:
        raise UnsupportedCompressionType(
            "this broker is older than Kafka 2.1 and knows no zstd; produce with another compression"
        )
    if magic < 2:
        batch.wire = [encode_message_set(batch.builder, magic, codec, level)]
    else:
        if batch.wire is not None and batch.wire_form[0] == 2:
            payload = batch.wire[1]  # only its numbers are new
        else:
            payload = _compressed(batch, codec, handler, level) if codec else None
        numbers = (in_flight.producer_id, in_flight.epoch, in_flight.sequence)
        batch.wire = batch.builder.build(codec, payload, *numbers, transactional)
    batch.wire_form = form
    if handler.cooperative:
        handler.breathe()  # a checksum over a large batch takes its time


def has_traces_alone(batch: ProducerBatch, names: Container[str]) -> bool:
    """Return whether all headers of a batch are those of traces: brokers that know none get its messages without.

    :param names: of the headers into which traces are written
    """
    return all(name in names for *_, headers in batch.builder.records() for name, _ in headers or ())


def compress_ahead(batch: ProducerBatch, codec: int, handler: Handler, level: int | None = None) -> None:
    """Compress a batch before it is sent, to know its size in a request; parameters as for `close_batch`."""
    if codec:
        batch.wire, batch.wire_form = [b"", _compressed(batch, codec, handler, level)], COMPRESSED


def _compressed(batch: ProducerBatch, codec: int, handler: Handler, level: int | None) -> Any:
    offload = handler.offload if batch.builder.size >= OFFLOAD_FROM else _inline
    return offload(compress, codec, batch.builder.view(), 2, level)


def _inline(fn: Callable[..., Any], *args: Any) -> Any:
    return fn(*args)
