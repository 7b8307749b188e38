"""Producing, fetching and `MessageSet`, the format before Kafka 0.11: the documented classes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from struct import Struct
from typing import Any, ClassVar, NamedTuple

from pykafka.compat.messages.base import PartitionFetchRequest, Request, Response
from pykafka.exceptions import InvalidMessageError, MessageSetDecodeFailure
from pykafka.protocol import message as oldformats
from pykafka.protocol import wire
from pykafka.protocol.message import Message
from pykafka.protocol.messagesets import pack_entry, wrap
from pykafka.protocol.records import RecordBatchBuilder
from pykafka.protocol.records_scan import scan
from pykafka.utils import Serializable, get_string, msg_protocol_version
from pykafka.utils.compression import MAX_UNPACKED, SNAPPY, compress, decompress, encode_snappy
from pykafka.utils.name import Name

# The first versions with message sets of format 1, and with record batches.
_FORMAT_1 = 2
_BATCHES = 3
_PLACE = Struct(">qi")
#: Where an entry has its format, counted from its offset; record batches have theirs there, too.
_MAGIC_AT = 16
_BATCH_MAGIC = 2
_DEEPEST = 4
#: The offset that PyKafka 2 writes: brokers assign the offsets.
_UNASSIGNED = -1


class FetchPartitionResponse(NamedTuple):
    """The high watermark of a partition, its messages, and an error code."""

    max_offset: int
    messages: list[Message]
    err: int


class FetchRequest(Request, versions=(0, 1)):
    """A request for messages of any number of partitions.

    :param partition_requests: the partitions and offsets to fetch
    :param timeout: how long the broker may wait for `min_bytes` (ms)
    :param min_bytes: the broker responds when it has so much (bytes)
    :param api_version: the version that `get_bytes` writes; a `Broker` chooses the version itself
    """

    API_KEY = 1

    def __init__(
        self,
        partition_requests: Iterable[PartitionFetchRequest] = (),
        timeout: int = 1000,
        min_bytes: int = 1024,
        api_version: int = 0,
    ) -> None:
        self.api_version = api_version
        self.timeout = timeout
        self.min_bytes = min_bytes
        self._reqs: dict[str, dict[int, PartitionFetchRequest]] = {}
        for partition_request in partition_requests:
            self.add_request(partition_request)

    def _own_version(self) -> int:
        return self.api_version

    def add_request(self, partition_request: PartitionFetchRequest) -> None:
        """Add a partition.

        :param partition_request: topic, partition, offset to start at, and bytes at most
        """
        partitions = self._reqs.setdefault(get_string(partition_request.topic_name), {})
        partitions[partition_request.partition_id] = partition_request

    def wire(self, version: int) -> wire.FetchRequest:
        """Return this as a wire message."""
        topics = []
        for name, partitions in self._reqs.items():
            wanted = [
                wire.FetchRequest.Topic.Partition(
                    partition=id_, fetch_offset=asked.offset, partition_max_bytes=asked.max_bytes
                )
                for id_, asked in partitions.items()
            ]
            topics.append(wire.FetchRequest.Topic(topic=name, partitions=wanted))
        return wire.FetchRequest(max_wait_ms=self.timeout, min_bytes=self.min_bytes, topics=topics)


class FetchResponse(Response[wire.FetchResponse], versions=(0,)):
    """The fetched messages: `.topics[name][partition id]`.

    :param buff: the response's body, version 0
    :param offset: index of the body's first byte in `buff`
    :param broker_version: accepted for old code; each message names its own format
    :raises InvalidMessageError: a message is corrupt
    :raises MessageSetDecodeFailure: the first message of a partition is cut off

    `.throttle_time` is how long the broker delayed the response, or will not read requests (ms).
    """

    WIRE = wire.FetchResponse
    API_KEY: ClassVar[int] = 1

    def __init__(self, buff: bytes | bytearray | memoryview, offset: int = 0, broker_version: str = "0.9.0") -> None:
        super().__init__(memoryview(buff)[offset:])

    def _take(self, message: wire.FetchResponse) -> None:
        self.throttle_time = message.throttle_time_ms
        self.topics: defaultdict[str, dict[int, FetchPartitionResponse]] = defaultdict(dict)
        for topic in message.responses:
            for part in topic.partitions:
                messages = self._unpack_message_set(part.records, part.partition_index)
                self.topics[Name.of(topic.topic)][part.partition_index] = FetchPartitionResponse(
                    part.high_watermark, messages, part.error_code
                )

    def _unpack_message_set(self, buff: Any, partition_id: int = -1, broker_version: str = "0.9.0") -> list[Message]:
        """Return the messages of a message set or of record batches, also of nested sets.

        :param buff: their bytes; None means none
        :param partition_id: the partition of the new messages
        :param broker_version: accepted for old code
        """
        return [] if buff is None else unpacked(buff, partition_id)


class FetchResponseV1(FetchResponse, versions=(1,)):
    """The fetched messages; the body is of version 1."""


class FetchResponseV2(FetchResponseV1, versions=(2,)):
    """The fetched messages; the body is of version 2."""


class ProducePartitionResponse(NamedTuple):
    """An error code, and the offset of the first message."""

    err: int
    offset: int


class ProduceRequest(Request):
    """A request that produces messages to any number of partitions.

    :param compression_type: a `pykafka.common.CompressionType`
    :param required_acks: -1 waits for all in-sync replicas, 1 for the leader; with 0 the broker sends no response
    :param timeout: how long the broker may wait for acknowledgements (ms)
    :param broker_version: for the `MessageSet` of each partition

    `get_bytes` writes each message in its own format, as PyKafka 2 does; a `Broker` chooses the format itself.
    """

    API_KEY = 0

    def __init__(
        self,
        compression_type: int = 0,
        required_acks: int = 1,
        timeout: int = 10000,
        broker_version: str = "0.9.0",
    ) -> None:
        self.compression_type = compression_type
        self.required_acks = required_acks
        self.timeout = timeout
        #: A `MessageSet` for each topic and partition.
        self.msets: defaultdict[str | bytes, defaultdict[int, MessageSet]] = defaultdict(
            lambda: defaultdict(lambda: MessageSet(compression_type, broker_version=broker_version))
        )

    def add_message(self, message: Message, topic_name: str | bytes, partition_id: int) -> None:
        """Add a message.

        :param message: to produce
        :param topic_name: name of the topic
        :param partition_id: number of the partition
        """
        if topic_name not in self.msets:
            # One topic, whether it is named by text or bytes.
            name = get_string(topic_name)
            topic_name = next((known for known in self.msets if get_string(known) == name), topic_name)
        self.msets[topic_name][partition_id].add_message(message)

    @property
    def messages(self) -> Iterator[Message]:
        """Iterate over all messages."""
        for partitions in self.msets.values():
            for message_set in partitions.values():
                yield from message_set

    def message_count(self) -> int:
        """Return the number of messages."""
        return sum(len(found.messages) for partitions in self.msets.values() for found in partitions.values())

    def get_bytes(self, correlation_id: int = 0) -> bytearray:
        """Return the whole request, length prefix and header included, with each message in its own format.

        :param correlation_id: the broker returns it with the response
        """
        message = self._filled(lambda message_set: message_set.get_bytes())
        return self._framed(message, 0, correlation_id)

    def wire(self, version: int) -> wire.ProduceRequest:
        """Return this as a wire message, with records in the format of the version."""
        message: wire.ProduceRequest = self._filled(lambda message_set: self._records(message_set, version))
        return message

    def _filled(self, records: Callable[[MessageSet], Any]) -> Any:
        topic_data = []
        for name, partitions in self.msets.items():
            data = [
                wire.ProduceRequest.Topic.Partition(index=id_, records=records(message_set))
                for id_, message_set in partitions.items()
            ]
            topic_data.append(wire.ProduceRequest.Topic(name=get_string(name), partition_data=data))
        return wire.ProduceRequest(acks=self.required_acks, timeout_ms=self.timeout, topic_data=topic_data)

    def _records(self, message_set: MessageSet, version: int) -> Any:
        if version >= _BATCHES:
            builder = RecordBatchBuilder()
            for message in message_set:
                # As in PyKafka 2, 0 is none: messages of format 0 have it.
                builder.append(message.timestamp or -1, message.partition_key, message.value, message.headers)
            return list(builder.build(message_set.compression_type))
        return numbered(message_set.compression_type, message_set, 1 if version >= _FORMAT_1 else 0)


class ProduceResponse(Response[wire.ProduceResponse]):
    """The result for each partition's messages: `.topics[name][partition id]`.

    :param buff: the response's body, version 0
    """

    WIRE = wire.ProduceResponse

    def _take(self, message: wire.ProduceResponse) -> None:
        self.topics = {
            Name.of(topic.name): {
                part.index: ProducePartitionResponse(part.error_code, part.base_offset)
                for part in topic.partition_responses
            }
            for topic in message.responses
        }


class MessageSet(Serializable):
    """Messages in the format before Kafka 0.11.

    :param compression_type: the codec: 0 none, 1 gzip, 2 snappy, 3 lz4
    :param messages: the messages; each is written in its own format
    :param broker_version: below 0.10, lz4 frames have the header's checksum that Kafka 0.8 and 0.9 expect
    """

    def __init__(
        self, compression_type: int = 0, messages: Iterable[Message] | None = None, broker_version: str = "0.9.0"
    ) -> None:
        self.compression_type = compression_type
        self._messages = messages if messages and isinstance(messages, list) else list(messages or ())
        self._broker_version = broker_version

    @property
    def messages(self) -> list[Message]:
        """The messages, in order."""
        return self._messages

    def add_message(self, message: Message) -> None:
        """Append a message."""
        self._messages.append(message)

    def __iter__(self) -> Iterator[Message]:
        return iter(self._messages)

    def __len__(self) -> int:
        """Return the number of bytes that `pack_into` writes."""
        return len(self.get_bytes())

    def __bool__(self) -> bool:
        return bool(self._messages)

    def get_bytes(self) -> bytes:
        """Return the set as bytes. All offsets are -1: brokers assign them.

        :raises CodecNotAvailableError: the codec's package is missing
        """
        if not self.compression_type or not self._messages:
            return _written(self._messages)
        newest = max(-1 if message.timestamp is None else message.timestamp for message in self._messages)
        wrapper = Message(
            self._get_compressed(),
            compression_type=self.compression_type,
            protocol_version=max(message.protocol_version for message in self._messages),
            timestamp=newest,
        )
        return _written([wrapper])

    def pack_into(self, buff: Any, offset: int) -> None:
        """Write the set into a writable buffer. All offsets are -1: brokers assign them.

        :param buff: any writable buffer with `len(message_set)` bytes from `offset` on
        :param offset: index of the first byte to write
        """
        content = self.get_bytes()
        memoryview(buff).cast("B")[offset : offset + len(content)] = content

    @classmethod
    def decode(cls, buff: Any, partition_id: int = -1) -> MessageSet:
        """Return the messages of a set; leave out what is cut off at its end, as brokers cut responses.

        A compressed message stays as it is: its value holds another set. Of record batches (Kafka 0.11 and later), all
        records are returned.

        :param buff: the set's bytes
        :param partition_id: the partition of the new messages
        :raises MessageSetDecodeFailure: even the first message is cut off
        :raises InvalidMessageError: some bytes are not a message, or a checksum is wrong
        """
        messages = []
        for found in _entries(memoryview(buff).cast("B"), partition_id):
            messages += [found.message] if isinstance(found, _Entry) else found
        return cls(messages=messages)

    def _get_compressed(self) -> Any:
        content = _written(self._messages)
        if self.compression_type == SNAPPY:
            return encode_snappy(content)  # without the framing of Java's streams, which brokers do not insist on
        return compress(self.compression_type, content, msg_protocol_version(self._broker_version))


class _Entry:
    """A message of a set, and whether its time is that of its append."""

    def __init__(self, content: memoryview, offset: int, partition_id: int) -> None:
        self.message = Message.decode(content, offset, partition_id)
        self.is_appended = oldformats.is_appended(content)


def _written(messages: Iterable[Message]) -> bytes:
    parts = bytearray()
    for message in messages:
        size = len(message)
        parts += _PLACE.pack(_UNASSIGNED, size) + bytes(size)
        message.pack_into(parts, len(parts) - size)
    return bytes(parts)


def numbered(codec: int, messages: Iterable[Message], magic: int) -> bytes:
    """Return messages as a set that brokers store as it is: the offsets count from 0.

    :param codec: the codec: 0 none, 1 gzip, 2 snappy, 3 lz4
    :param magic: the format of all messages: 0 or 1
    """
    copies = [
        Message(message.value, message.partition_key, protocol_version=magic, timestamp=message.timestamp or None)
        for message in messages
    ]
    plain = b"".join(pack_entry(copy, index, 0) for index, copy in enumerate(copies))
    if not codec or not copies:
        return plain
    newest = max(-1 if copy.timestamp is None else copy.timestamp for copy in copies)
    return wrap(compress(codec, plain, magic), len(copies) - 1, newest, magic, codec)


def unpacked(buff: Any, partition_id: int) -> list[Message]:
    """Return the messages of a set of any format, those of compressed and nested sets included.

    :param buff: the set's bytes; what is cut off at its end is left out
    :param partition_id: the partition of the new messages
    :raises MessageSetDecodeFailure: even the first message is cut off
    :raises InvalidMessageError: some bytes are not a message, or a checksum is wrong
    """
    return _unpacked(memoryview(buff).cast("B"), partition_id, MAX_UNPACKED, 1)


def _unpacked(view: memoryview, partition_id: int, room: int, depth: int) -> list[Message]:
    messages: list[Message] = []
    for found in _entries(view, partition_id):
        if not isinstance(found, _Entry):
            messages += found
        elif not found.message.compression_type:
            messages.append(found.message)
        else:
            if depth > _DEEPEST:
                raise InvalidMessageError(f"a message holds sets within sets more than {_DEEPEST} deep; skip it")
            messages += _inner(found, partition_id, room, depth)
    return messages


def _inner(wrapper: _Entry, partition_id: int, room: int, depth: int) -> list[Message]:
    outer = wrapper.message
    if outer.value is None:
        raise InvalidMessageError(f"the compressed message at offset {outer.offset} has no value; skip it")
    content = decompress(outer.compression_type, outer.value, 0, room)  # with either checksum in an lz4 header
    try:
        messages = _unpacked(memoryview(content), partition_id, room - len(content), depth + 1)
    except MessageSetDecodeFailure as error:
        raise InvalidMessageError(f"the set inside the message at offset {outer.offset} is cut off; skip it") from error
    if not messages:
        raise InvalidMessageError(f"the compressed message at offset {outer.offset} holds no message; skip it")
    if outer.protocol_version:
        # Format 1 counts from 0 inside; the outer message has the offset of the last one.
        shift = outer.offset - max(message.offset for message in messages)
        for message in messages:
            message.offset += shift
            if wrapper.is_appended:
                message.timestamp = outer.timestamp
    return messages


def _entries(view: memoryview, partition_id: int) -> Iterator[_Entry | list[Message]]:
    # Messages of formats 0 and 1 one by one; the records of batches at once.
    at = 0
    while len(view) - at >= _PLACE.size:
        offset, size = _PLACE.unpack_from(view, at)
        start = at + _PLACE.size
        if not at and size > len(view) - start:
            raise MessageSetDecodeFailure(
                f"the first message or batch has {size} bytes, and {len(view) - start} are there; fetch more bytes"
            )
        if len(view) - at > _MAGIC_AT and view[at + _MAGIC_AT] == _BATCH_MAGIC:
            yield _records(view[at:], partition_id)
            return
        if size > len(view) - start:
            return
        yield _Entry(view[start : start + max(size, 0)], offset, partition_id)
        at = start + size


def _records(view: memoryview, partition_id: int) -> list[Message]:
    messages = []
    for raw in scan(view)[0]:
        reader = raw.open()
        reader.partition_id = partition_id
        while (message := reader.next()) is not None:
            message.compression_type = 0
            messages.append(message)
    return messages
