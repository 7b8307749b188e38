"""`Message`: one record, produced or consumed. Cython compiles this module if `message.pxd` was built."""

from __future__ import annotations

from datetime import datetime
from struct import Struct, error
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol
from zlib import crc32

from pykafka.exceptions import InvalidMessageError
from pykafka.protocol.snapshot import Snapshot
from pykafka.utils import as_datetime, milliseconds, old_names

if TYPE_CHECKING:
    from pykafka.exceptions import KafkaException


try:
    import cython
except ImportError:
    from pykafka.compiled import cython


if not TYPE_CHECKING:
    __getattr__ = old_names(__name__)

_SHOWN = 40

Headers = list[tuple[str, bytes | None]]

#: Attributes that are kept under their own names.
_STORED = [
    "compression_type",
    "partition_key",
    "value",
    "partition_id",
    "partition",
    "produce_attempt",
    "delivery_report_q",
    "protocol_version",
]
#: `Message.__slots__` of PyKafka 2, by which programs list a message's attributes.
_NAMES = [*_STORED[:3], "offset", *_STORED[3:], "timestamp"]

_TIME = Struct(">q")
_SIZE = Struct(">i")
#: Checksum, format, attributes.
_HEAD = Struct(">IBB")
_CODEC = 7
_APPEND_TIME = 8
#: Where a message has its attributes, counted from its checksum.
_ATTRIBUTES_AT = 5


class AcknowledgedBatch(Protocol):
    """The batch of a produced message: one store here acknowledges all its messages."""

    log_append_time: int  # ms; -1 unless the broker stamps the messages itself
    done: bool

    def error_of(self, index: int) -> KafkaException | None: ...

    def offset_of(self, index: int) -> int: ...


class Message:
    """One Kafka record.

    A consumed message has what the broker sent. A produced message reads from its batch, so `offset` and `timestamp` are
    known as soon as the broker acknowledges the batch.

    :param value: the content (bytes); None is a tombstone
    :param partition_key: the key (bytes) or None
    :param compression_type: the codec it came in (:class:`pykafka.common.CompressionType`)
    :param offset: place in the partition's log; -1 while unknown
    :param partition_id: number of the partition; -1 while unknown
    :param produce_attempt: how many times the producer sent it
    :param protocol_version: the message format: 0, 1 or 2
    :param timestamp: ms since 1970 or a datetime (a naive one is UTC); None where the format has none. Fractions of a
        millisecond are dropped
    :param delivery_report_q: stored for the caller; not sent
    :param headers: list of (str, bytes or None), or None
    """

    __slots__ = _NAMES if cython.compiled else (*_STORED, "_batch", "_index", "_offset", "_timestamp", "headers")

    #: The types that a timestamp may have besides datetime.
    VALID_TS_TYPES = (int, float, type(None))

    value: bytes | None
    partition_key: bytes | None
    headers: Headers | None
    partition: Any
    delivery_report_q: Any
    _batch: AcknowledgedBatch | None
    _index: int
    _offset: int
    _timestamp: int
    partition_id: int
    compression_type: int
    produce_attempt: int
    protocol_version: int

    def __cinit__(self) -> None:
        # Code that makes many messages (the reader, the accumulator) skips __init__ and sets only what differs from this.
        self._offset = -1
        self._timestamp = -1
        self.partition_id = -1
        if not cython.compiled:
            self.value = self.partition_key = self.headers = None
            self._batch = self.partition = self.delivery_report_q = None
            self._index = self.compression_type = self.produce_attempt = self.protocol_version = 0

    def __init__(
        self,
        value: bytes | None,
        partition_key: bytes | None = None,
        compression_type: int = 0,
        offset: int = -1,
        partition_id: int = -1,
        produce_attempt: int = 0,
        protocol_version: int = 0,
        timestamp: float | datetime | None = None,
        delivery_report_q: Any = None,
        headers: Headers | None = None,
    ) -> None:
        self.value = value
        self.partition_key = partition_key
        self.compression_type = compression_type
        self.partition_id = partition_id
        self.produce_attempt = produce_attempt
        self.protocol_version = protocol_version
        self.delivery_report_q = delivery_report_q
        self.headers = headers
        self._offset = offset
        self._timestamp = _whole(timestamp)

    @property
    def offset(self) -> int:
        """The message's offset in its partition; -1 while it is unknown.

        It stays -1 for a delivered message (`error` is None) if no broker reported its offset: with `required_acks=0`, and
        if an idempotent producer lost the response. Later responses then prove that the broker stored the message once, but
        other producers' messages may stand in between.
        """
        if self._offset < 0 and self._batch is not None:
            return self._batch.offset_of(self._index)
        return self._offset

    @offset.setter
    def offset(self, value: int) -> None:
        self._offset = value

    @property
    def timestamp(self) -> int | None:
        """The message's time (ms since 1970): its creation, or its append if the topic is set so; None if unknown."""
        if self._batch is not None and self._batch.log_append_time >= 0:
            return self._batch.log_append_time
        return None if self._timestamp == -1 else self._timestamp

    @timestamp.setter
    def timestamp(self, value: float | datetime | None) -> None:
        self._timestamp = _whole(value)

    @property
    def timestamp_dt(self) -> datetime | None:
        """The timestamp as a naive datetime in UTC, as in PyKafka 2; None if it is unknown or 0.

        It raises OverflowError if datetime cannot express the timestamp.
        """
        found = self.timestamp
        return None if found is None or found <= 0 else as_datetime(found).replace(tzinfo=None)

    @timestamp_dt.setter
    def timestamp_dt(self, value: datetime | None) -> None:
        self._timestamp = _whole(value)

    def set_timestamp(self, ts: float | datetime | None) -> None:
        """Set the timestamp.

        :param ts: ms since 1970 or a datetime (a naive one is UTC); None for none
        """
        self.timestamp = ts

    @property
    def payload(self) -> bytes | None:
        """The value, under its name in the reference documentation."""
        return self.value

    @property
    def key(self) -> bytes | None:
        """The partition key, under its name in the reference documentation."""
        return self.partition_key

    @property
    def topic(self) -> Any:
        """The topic of the message's partition, or None."""
        return None if self.partition is None else self.partition.topic

    @property
    def error(self) -> KafkaException | None:
        """The error of a produced message that was not delivered; None while it is in flight and after its delivery."""
        return None if self._batch is None else self._batch.error_of(self._index)

    @property
    def response_code(self) -> int:
        """Kafka's error code for a produced message; 0 for none."""
        error = self.error
        return 0 if error is None else int(getattr(error, "ERROR_CODE", -1))

    def pack_into(self, buff: Any, offset: int) -> None:
        """Write the message in format 0 or 1, without offset and size, into a writable buffer.

        As in PyKafka 2, a message without a timestamp, or with timestamp 0, is written in format 0.

        :param buff: any writable buffer with `len(message)` bytes from `offset` on
        :param offset: index of the first byte to write
        """
        timestamp = self.timestamp or 0
        magic = 1 if self.protocol_version and timestamp else 0
        content = pack(magic, self.compression_type, timestamp, self.partition_key, self.value)
        memoryview(buff).cast("B")[offset : offset + len(content)] = content

    @classmethod
    def decode(cls, buff: Any, msg_offset: int = -1, partition_id: int = -1) -> Message:
        """Return the message of format 0 or 1 in a buffer, without offset and size.

        :param buff: the message's bytes, from its checksum on
        :param msg_offset: the offset of the new message
        :param partition_id: the partition of the new message
        :return: as in PyKafka 2, its timestamp is 0 in format 0
        :raises InvalidMessageError: the checksum is wrong, or the bytes are not a message
        """
        found = unpack(buff, msg_offset)
        return cls(
            found.value,
            partition_key=found.key,
            compression_type=found.codec,
            offset=msg_offset,
            partition_id=partition_id,
            protocol_version=found.magic,
            timestamp=found.timestamp if found.magic else 0,
        )

    def __len__(self) -> int:
        """Return the number of bytes that `pack_into` writes."""
        head = 22 if self.protocol_version and self.timestamp else 14
        return head + len(self.partition_key or b"") + len(self.value or b"")

    def __bool__(self) -> bool:
        return True

    def __repr__(self) -> str:
        where = f"partition={self.partition_id}, offset={self.offset}"
        if self.topic is not None:
            where = f"topic={getattr(self.topic, 'name', self.topic)!r}, {where}"
        more = "" if self.headers is None else f", headers={self.headers!r}"
        return (
            f"<Message {where}, timestamp={self.timestamp}, "
            f"key={_shortened(self.partition_key)}, value={_shortened(self.value)}{more}>"
        )

    def __reduce__(self) -> tuple[Any, ...]:
        # The partition, the batch and the report queue belong to this process: pickles have the outcome that is known now.
        fields = (
            self.value,
            self.partition_key,
            self.compression_type,
            self.offset,
            self.partition_id,
            self.produce_attempt,
            self.protocol_version,
            self.timestamp,
            None,
            self.headers,
        )
        return type(self), fields, (None if self._batch is None else Snapshot.of(self._batch, self._index))

    def __setstate__(self, state: Snapshot | tuple[None, dict[str, Any]]) -> None:
        if isinstance(state, tuple):  # what PyKafka 2 has pickled: all attributes
            for name, value in state[1].items():
                setattr(self, name, value)
        else:
            self._batch = state


def _blank(cls: type[Message], *_args: Any, **_fields: Any) -> Message:
    message: Message = object.__new__(cls)
    message.__cinit__()
    return message


if not cython.compiled:
    setattr(Message, "__new__", _blank)  # noqa: B010 - a checker minds the plain assignment; classes call
    # __cinit__ of their own accord
    setattr(Message, "__slots__", _NAMES)  # noqa: B010 - the class has its slots; from now on this is a list of names


def _whole(timestamp: float | datetime | None) -> int:
    if timestamp is None:
        return -1
    return int(timestamp) if isinstance(timestamp, float) else milliseconds(timestamp)


def _shortened(data: bytes | None) -> str:
    if data is None or len(data) <= _SHOWN:
        return repr(data)
    return f"{data[:_SHOWN]!r}... ({len(data)} bytes)"


class Unpacked(NamedTuple):
    """The content of a message; `timestamp` is -1 for none (ms since 1970)."""

    magic: int
    codec: int
    timestamp: int
    key: bytes | None
    value: bytes | None


def pack(magic: int, codec: int, timestamp: int, key: bytes | None, value: Any) -> bytes:
    """Return a message as bytes.

    :param magic: its format: 0 or 1
    :param codec: the codec that compressed its value
    :param timestamp: ms since 1970; -1 for none; format 0 drops it
    :param value: bytes-like, or None
    """
    parts: list[Any] = [bytes((magic, codec))]
    if magic:
        parts.append(_TIME.pack(timestamp))
    for part in (key, value):
        parts += (_SIZE.pack(-1),) if part is None else (_SIZE.pack(len(part)), part)
    content = b"".join(parts)
    return crc32(content).to_bytes(4, "big") + content


def unpack(buffer: Any, offset: int) -> Unpacked:
    """Return the content of a message.

    :param buffer: its bytes
    :param offset: its offset, for errors
    :raises InvalidMessageError: the bytes are no message, or the checksum is wrong
    """
    raw = bytes(buffer)
    try:
        _, magic, attributes = _HEAD.unpack_from(raw)
        at = _HEAD.size
        timestamp = -1
        if magic == 1:
            (timestamp,) = _TIME.unpack_from(raw, at)
            at += _TIME.size
        key, at = _part(raw, at)
        value, at = _part(raw, at)
    except error:
        magic = -1
    if magic not in (0, 1) or at != len(raw):
        raise InvalidMessageError(f"{len(raw)} bytes are no message of format 0 or 1; fetch them again")
    check_crc(raw, offset)
    return Unpacked(magic, attributes & _CODEC, timestamp, key, value)


def is_appended(buffer: Any) -> bool:
    """Return whether a message's time is that of its append to the log.

    :param buffer: its bytes, which `unpack` has read
    """
    return bool(buffer[_ATTRIBUTES_AT] & _APPEND_TIME)


def _part(raw: bytes, at: int) -> tuple[bytes | None, int]:
    (size,) = _SIZE.unpack_from(raw, at)
    at += _SIZE.size
    if size < 0:
        return None, at
    return raw[at : at + size], at + size


def check_crc(content: Any, offset: int) -> None:
    """Verify the checksum of a message.

    :param content: bytes-like, from the checksum on
    :param offset: its offset, for errors
    :raises InvalidMessageError: they differ
    """
    view = memoryview(content)
    said = int.from_bytes(view[:4], "big")
    found = crc32(view[4:])
    if said != found:
        raise InvalidMessageError(
            f"the message at offset {offset} is corrupt: its checksum is {found:#010x}, not {said:#010x} as it says; "
            "fetch it again, or skip it"
        )
