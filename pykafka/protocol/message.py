"""`Message`: one record as the user sees it, produced or consumed. Compiled by Cython where `message.pxd` was built."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Protocol

from pykafka.protocol import oldformats
from pykafka.utils import milliseconds

try:
    import cython
except ImportError:
    from pykafka.compiled import cython

if TYPE_CHECKING:
    from pykafka.exceptions import KafkaException

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_SHOWN = 40

Headers = list[tuple[str, bytes | None]]


class AcknowledgedBatch(Protocol):
    """What a produced message is read through: one store here acknowledges a whole batch."""

    log_append_time: int  # ms; -1 unless the broker stamps the messages itself
    done: bool

    def error_of(self, index: int) -> KafkaException | None: ...

    def offset_of(self, index: int) -> int: ...


class Message:
    """Hold one Kafka record.

    A consumed message carries what the broker sent. A produced message is read through the batch it went into, so that
    `offset` and `timestamp` are known as soon as the batch was acknowledged.

    :param value: the content (bytes); None is a tombstone
    :param partition_key: the key (bytes) or None
    :param compression_type: the codec it came in (:class:`pykafka.common.CompressionType`)
    :param offset: place in the partition's log; -1 while unknown
    :param partition_id: number of the partition; -1 while unknown
    :param produce_attempt: how often it was sent
    :param protocol_version: the message format: 0, 1 or 2
    :param timestamp: ms since 1970 or a datetime (a naive one is UTC); None where the format has none
    :param delivery_report_q: kept for the caller; not sent
    :param headers: list of (str, bytes or None), or None
    """

    __slots__ = (
        "_batch",
        "_index",
        "_offset",
        "_timestamp",
        "compression_type",
        "delivery_report_q",
        "headers",
        "partition",
        "partition_id",
        "partition_key",
        "produce_attempt",
        "protocol_version",
        "value",
    )

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
        # What makes many messages (the reader, the accumulator) skips __init__ and sets only what differs from this.
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
        timestamp: int | datetime | None = None,
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
        self._timestamp = -1 if timestamp is None else milliseconds(timestamp)

    @property
    def offset(self) -> int:
        """Say where in the partition's log the message stands; -1 while that is unknown.

        It stays -1 for a produced message that was delivered (`error` is None) where no broker said its place: with
        `required_acks=0`, and where an idempotent producer lost the answer, later answers prove the message stored once, and
        other producers' messages may stand between.
        """
        if self._offset < 0 and self._batch is not None:
            return self._batch.offset_of(self._index)
        return self._offset

    @offset.setter
    def offset(self, value: int) -> None:
        self._offset = value

    @property
    def timestamp(self) -> int | None:
        """Say when the message was made, or appended where the topic wants that (ms since 1970); None if unknown."""
        if self._batch is not None and self._batch.log_append_time >= 0:
            return self._batch.log_append_time
        return None if self._timestamp == -1 else self._timestamp

    @timestamp.setter
    def timestamp(self, value: int | datetime | None) -> None:
        self._timestamp = -1 if value is None else milliseconds(value)

    @property
    def timestamp_dt(self) -> datetime | None:
        """Give the timestamp as an aware datetime (UTC), or None; OverflowError where datetime cannot express it."""
        found = self.timestamp
        return None if found is None else _EPOCH + timedelta(milliseconds=found)

    @timestamp_dt.setter
    def timestamp_dt(self, value: datetime | None) -> None:
        self._timestamp = -1 if value is None else milliseconds(value)

    def set_timestamp(self, ts: int | datetime | None) -> None:
        """Set the timestamp.

        :param ts: ms since 1970 or a datetime (a naive one is UTC); None for none
        """
        self.timestamp = ts

    @property
    def payload(self) -> bytes | None:
        """Give the value, by the name the reference documentation has for it."""
        return self.value

    @property
    def key(self) -> bytes | None:
        """Give the partition key, by the name the reference documentation has for it."""
        return self.partition_key

    @property
    def topic(self) -> Any:
        """Give the topic of the message's partition, or None while it has none."""
        return None if self.partition is None else self.partition.topic

    @property
    def error(self) -> KafkaException | None:
        """Say why a produced message was not delivered; None while it is under way and when it arrived."""
        return None if self._batch is None else self._batch.error_of(self._index)

    @property
    def response_code(self) -> int:
        """Give Kafka's error code for a produced message; 0 where there is none."""
        error = self.error
        return 0 if error is None else int(getattr(error, "ERROR_CODE", -1))

    def pack_into(self, buff: Any, offset: int) -> None:
        """Write the message in its format 0 or 1, without offset and size, into a writable buffer.

        :param buff: any writable buffer with `len(message)` bytes from `offset` on
        :param offset: where to begin (bytes)
        """
        timestamp = -1 if self.timestamp is None else self.timestamp
        magic = 1 if self.protocol_version else 0
        content = oldformats.pack(magic, self.compression_type, timestamp, self.partition_key, self.value)
        memoryview(buff).cast("B")[offset : offset + len(content)] = content

    @classmethod
    def decode(cls, buff: Any, msg_offset: int = -1, partition_id: int = -1) -> Message:
        """Read a message of format 0 or 1, without offset and size.

        :param buff: the message's bytes, from its checksum on
        :param msg_offset: the offset that it is to carry
        :param partition_id: the partition that it is to carry
        :raises InvalidMessageError: if the checksum is wrong or the bytes are no message
        """
        found = oldformats.unpack(buff, msg_offset)
        return cls(
            found.value,
            partition_key=found.key,
            compression_type=found.codec,
            offset=msg_offset,
            partition_id=partition_id,
            protocol_version=found.magic,
            timestamp=found.timestamp,
        )

    def __len__(self) -> int:
        """Count the bytes that `pack_into` writes."""
        head = 22 if self.protocol_version else 14
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
        # The partition, the batch and the report queue belong to this process: their facts travel, they do not.
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
        return type(self), fields


def _blank(cls: type[Message], *_args: Any, **_fields: Any) -> Message:
    message: Message = object.__new__(cls)
    message.__cinit__()
    return message


if not cython.compiled:
    setattr(Message, "__new__", _blank)  # noqa: B010 - a checker minds the plain assignment; classes call
    # __cinit__ of their own accord


def _shortened(data: bytes | None) -> str:
    if data is None or len(data) <= _SHOWN:
        return repr(data)
    return f"{data[:_SHOWN]!r}... ({len(data)} bytes)"
