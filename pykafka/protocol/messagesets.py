# cython: initializedcheck=False, cdivision=True
"""Message sets: formats 0 (Kafka 0.8, 0.9) and 1 (0.10), and `MessageSet`, the documented class for them.

An entry is offset, size, checksum, format, attributes, timestamp (format 1 only), key and value. Compression makes of a
whole set the value of one message, its wrapper. Inside, format 0 has the offsets of the log, format 1 offsets counted
from the first one, the wrapper then having the last one's. Old clients nested sets more than once: these are laid flat.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from struct import Struct
from typing import TYPE_CHECKING, Any
from zlib import crc32

from pykafka.exceptions import InvalidMessageError, UnsupportedForMessageFormat
from pykafka.protocol.message import Message
from pykafka.protocol.records_read import BatchReader
from pykafka.utils.compression import MAX_UNPACKED, compress, decompress

try:
    import cython
except ImportError:
    from pykafka.compiled import cython

if not cython.compiled:
    from pykafka.compiled.cython import PyBytes_AS_STRING, PyBytes_FromStringAndSize, memcpy
    from pykafka.protocol.records_read import parse_entry, parse_record

if TYPE_CHECKING:
    from pykafka.protocol.records_write import RecordBatchBuilder

_TIME = Struct(">q")
_SIZE = Struct(">i")
_PLACE = Struct(">qi")
# What an entry's size does not count: offset and size.
_UNCOUNTED = 12
# Checksum, format, attributes, two sizes; and the timestamp in format 1.
_OVERHEADS = (14, 22)
_APPEND_TIME = 8
_DEEPEST = 4


def encode_message_set(builder: RecordBatchBuilder, magic: int, codec: int) -> bytes:
    """Rewrite a batch for brokers before 0.11.

    :param builder: what was appended; format 0 drops the timestamps
    :param magic: the message format: 0 or 1
    :param codec: 0 none, 1 gzip, 2 snappy, 3 lz4; zstd came later than these formats
    :raises UnsupportedForMessageFormat: if a message has headers
    :raises ValueError: if the batch is empty, or the codec or format is none of these
    :raises CodecNotAvailableError: if the codec's package is missing
    """
    if builder.count == 0:
        raise ValueError("an empty batch cannot be sent: append a message first")
    if magic not in (0, 1) or codec not in (0, 1, 2, 3):
        raise ValueError(f"message sets have format 0 or 1 and codec 0 to 3, not format {magic} and codec {codec}")
    if builder.with_headers:
        raise UnsupportedForMessageFormat(
            f"{builder.with_headers} messages have headers, which message format {magic} cannot carry: send them "
            "without, or to Kafka 0.11 or later"
        )
    entries = write_entries(builder.view(), builder.count, builder.first_timestamp, magic)
    if not codec:
        return bytes(entries)
    return wrap(compress(codec, entries, magic), builder.count - 1, builder.max_timestamp, magic, codec)


def wrap(compressed: Any, offset: int, timestamp: int, magic: int, codec: int) -> bytes:
    """Make the message that carries a compressed set.

    :param compressed: the set
    :param offset: of its last message, counted from its first
    :param timestamp: the greatest in it (ms)
    :param magic: the message format: 0 or 1
    :param codec: how it was compressed
    """
    message = Message(compressed, compression_type=codec, protocol_version=magic, timestamp=timestamp)
    return pack_entry(message, offset, codec)


def write_entries(records: Any, count: int, first_timestamp: int, magic: int) -> Any:
    # Records of format 2, as a builder holds them, become entries numbered from 0.
    end = len(records)
    # What an entry has more than a record is less than this; sizes of messages dominate.
    size = end + count * (_UNCOUNTED + _OVERHEADS[magic])
    if cython.compiled:
        held = records
        source = cython.address(held[0])
        entries = PyBytes_FromStringAndSize(cython.NULL, size)
        data = cython.cast("unsigned char*", PyBytes_AS_STRING(entries))
    else:
        source = bytes(records)
        entries = bytearray(size)
        data = entries
    view = memoryview(entries)
    at = target = index = 0
    while index < count:
        following, timestamp, _, key, key_size, value, value_size, _ = parse_record(source, at, end)
        start = target
        put_i64(data, start, index)
        data[start + 16] = magic
        data[start + 17] = 0
        target += 18
        if magic == 1:
            put_i64(data, target, first_timestamp + timestamp)
            target += 8
        put_i32(data, target, key_size)
        target += 4
        if key_size > 0:
            if cython.compiled:
                memcpy(data + target, source + key, key_size)
            else:
                data[target : target + key_size] = source[key : key + key_size]
            target += key_size
        put_i32(data, target, value_size)
        target += 4
        if value_size > 0:
            if cython.compiled:
                memcpy(data + target, source + value, value_size)
            else:
                data[target : target + value_size] = source[value : value + value_size]
            target += value_size
        put_i32(data, start + 8, target - start - _UNCOUNTED)
        put_i32(data, start + 12, crc32(view[start + 16 : target]))
        at = following
        index += 1
    return view[:target]


def put_i32(data: Any, at: int, value: int) -> None:
    if cython.compiled:
        data[at] = cython.cast(cython.uchar, value >> 24)
        data[at + 1] = cython.cast(cython.uchar, value >> 16)
        data[at + 2] = cython.cast(cython.uchar, value >> 8)
        data[at + 3] = cython.cast(cython.uchar, value)
    else:
        data[at : at + 4] = (value & 0xFFFFFFFF).to_bytes(4, "big")


def put_i64(data: Any, at: int, value: int) -> None:
    if cython.compiled:
        put_i32(data, at, value >> 32)
        put_i32(data, at + 4, value)
    else:
        data[at : at + 8] = value.to_bytes(8, "big", signed=True)


def open_entries(
    data: memoryview, magic: int, codec: int, timestamp_type: int, next_offset: int, check_crc: bool
) -> BatchReader:
    """Make a reader for a run of entries, or for what one compressed message holds.

    :param data: the entries
    :param magic: their message format: 0 or 1
    :param codec: how the message is compressed; 0 for a run of plain ones
    :param timestamp_type: 0 create time, 1 append time
    :param next_offset: the first offset after them
    :param check_crc: whether to compare checksums: a wrapper's here, those of the messages as they are read
    :raises InvalidMessageError: if a checksum is wrong or the set inside is corrupt
    :raises CodecNotAvailableError: if a package for its codec is missing
    """
    shift, append_time, entries = 0, -1, data
    if codec:
        shift, append_time, entries = _unwrap(data, check_crc)
    count, first, _, _ = count_entries(entries)
    first = max(first + shift, 0)
    reader = BatchReader(entries, magic, count, shift, next_offset, -1, append_time, codec, timestamp_type, first)
    reader.check_entries = check_crc
    return reader


def count_entries(entries: Any) -> tuple[int, int, int, int]:
    # How many, the first offset, the last one, and all their codecs or-ed.
    end = len(entries)
    at = count = codecs = 0
    first = last = -1
    if cython.compiled:
        held = entries
        data = cython.address(held[0])
    else:
        data = bytes(entries)
    while at < end:
        following, _, offset, _, _, _, _, attributes = parse_entry(data, at, end)
        if following < 0:
            raise InvalidMessageError(
                f"message {count} of a set of formats 0 or 1, at byte {at} of {end}, is none; fetch it again, or have "
                "the broker's log checked"
            )
        if count == 0:
            first = offset
        last = offset
        codecs |= attributes & 7
        count += 1
        at = following
    return count, first, last, codecs


def _unwrap(wrapper: memoryview, check_crc: bool, depth: int = 1) -> tuple[int, int, Any]:
    # What a compressed message holds: what to add to its offsets, the append time or -1, and the entries.
    raw = bytes(wrapper)
    following, timestamp, offset, _, _, value, value_size, attributes = parse_entry(raw, 0, len(raw))
    if following != len(raw) or value_size < 0:
        raise InvalidMessageError(f"the compressed message of {len(raw)} bytes is none; fetch it again")
    magic = raw[16]
    if check_crc:
        check_entry(raw, offset)
    entries = decompress(attributes & 7, memoryview(raw)[value : value + value_size], magic)
    count, _, last, codecs = count_entries(entries)
    if count == 0:
        raise InvalidMessageError(f"the compressed message at offset {offset} holds no message; skip it")
    if codecs:
        entries = _flatten(memoryview(entries), check_crc, depth)
    shift = offset - last if magic == 1 else 0
    return shift, timestamp if attributes & _APPEND_TIME and magic == 1 else -1, entries


def _flatten(entries: memoryview, check_crc: bool, depth: int) -> bytes:
    # Sets within sets, as some old clients made them: plain entries with the offsets that they have in the outer set.
    if depth >= _DEEPEST:
        raise InvalidMessageError(f"a message holds sets within sets more than {_DEEPEST} deep; skip it")
    flat = bytearray()
    raw = bytes(entries)
    at = 0
    while at < len(raw):
        following, _, _, _, _, _, _, attributes = parse_entry(raw, at, len(raw))
        entry = memoryview(raw)[at:following]
        at = following
        if not attributes & 7:
            flat += entry
        else:
            shift, _, inner = _unwrap(entry, check_crc, depth + 1)
            flat += _shifted(memoryview(inner), shift)
        if len(flat) > MAX_UNPACKED:
            raise InvalidMessageError(f"a message holds sets that unpack to more than {MAX_UNPACKED} bytes; skip it")
    return bytes(flat)


def _shifted(entries: memoryview, shift: int) -> bytes:
    moved = bytearray(entries)
    raw = bytes(entries)
    at = 0
    while at < len(raw):
        following, _, offset, _, _, _, _, _ = parse_entry(raw, at, len(raw))
        # Out of Kafka's range the reader refuses it; here it must only fit.
        moved[at : at + 8] = (offset + shift & 0xFFFFFFFFFFFFFFFF).to_bytes(8, "big")
        at = following
    return bytes(moved)


def check_entry(entry: Any, offset: int) -> None:
    """Compare the checksum of one entry of format 0 or 1 with its bytes.

    :raises InvalidMessageError: if they differ
    """
    view = memoryview(entry)
    said = int.from_bytes(view[12:16], "big")
    found = crc32(view[16:])
    if said != found:
        raise InvalidMessageError(
            f"the message at offset {offset} is corrupt: its checksum is {found:#010x}, not {said:#010x} as it says; "
            "fetch it again, or skip it"
        )


def pack_message(message: Message, codec: int) -> bytes:
    """Write a message in its format, 0 or 1, without offset and size.

    :param message: what to write
    :param codec: how its value is compressed
    """
    magic = 1 if message.protocol_version else 0
    parts: list[Any] = [bytes((magic, codec))]
    if magic:
        parts.append(_TIME.pack(-1 if message.timestamp is None else message.timestamp))
    for part in (message.partition_key, message.value):
        parts += (_SIZE.pack(-1),) if part is None else (_SIZE.pack(len(part)), part)
    content = b"".join(parts)
    return crc32(content).to_bytes(4, "big") + content


def pack_entry(message: Message, offset: int, codec: int) -> bytes:
    """Write a message as it stands in a set, after its offset and size."""
    content = pack_message(message, codec)
    return _PLACE.pack(offset, len(content)) + content


def pack_message_into(message: Message, buff: Any, offset: int) -> None:
    """Do the work of `Message.pack_into`."""
    content = pack_message(message, message.compression_type)
    memoryview(buff).cast("B")[offset : offset + len(content)] = content


def unpack_message(buff: Any, msg_offset: int = -1, partition_id: int = -1) -> Message:
    """Do the work of `Message.decode`."""
    raw = bytes(8) + len(buff).to_bytes(4, "big") + bytes(buff)
    following, timestamp, _, key, key_size, value, value_size, attributes = parse_entry(raw, 0, len(raw))
    if following != len(raw):
        raise InvalidMessageError(f"{len(buff)} bytes are no message of format 0 or 1; fetch them again")
    check_entry(raw, msg_offset)
    return Message(
        raw[value : value + value_size] if value_size >= 0 else None,
        partition_key=raw[key : key + key_size] if key_size >= 0 else None,
        compression_type=attributes & 7,
        offset=msg_offset,
        partition_id=partition_id,
        protocol_version=raw[16],
        timestamp=timestamp,
    )


class MessageSet:
    """Hold messages in the form that Kafka had before 0.11.

    :param compression_type: the codec: 0 none, 1 gzip, 2 snappy, 3 lz4
    :param messages: what it holds; all are written in format 1 if one of them says so
    :param broker_version: accepted for old code; messages say which format they want
    """

    def __init__(
        self, compression_type: int = 0, messages: Iterable[Message] | None = None, broker_version: str = "0.9.0"
    ) -> None:
        self.compression_type = compression_type
        self._messages = list(messages or ())

    @property
    def messages(self) -> list[Message]:
        """Give the messages, in order."""
        return self._messages

    def add_message(self, message: Message) -> None:
        """Put a message behind the others."""
        self._messages.append(message)

    def __iter__(self) -> Iterator[Message]:
        return iter(self._messages)

    def __len__(self) -> int:
        """Count the bytes that `pack_into` writes."""
        return len(self.get_bytes())

    def __bool__(self) -> bool:
        return bool(self._messages)

    def get_bytes(self) -> bytes:
        """Write the set.

        :raises CodecNotAvailableError: if the codec's package is missing
        """
        if not self.compression_type or not self._messages:
            return self._plain()
        magic = self._magic()
        newest = max(-1 if message.timestamp is None else message.timestamp for message in self._messages)
        return wrap(self._get_compressed(), len(self._messages) - 1, newest, magic, self.compression_type)

    def pack_into(self, buff: Any, offset: int) -> None:
        """Write the set into a writable buffer.

        :param buff: any writable buffer with `len(message_set)` bytes from `offset` on
        :param offset: where to begin (bytes)
        """
        content = self.get_bytes()
        memoryview(buff).cast("B")[offset : offset + len(content)] = content

    @classmethod
    def decode(cls, buff: Any, partition_id: int = -1) -> MessageSet:
        """Read a set, of any format and codec; what is cut off at its end is left out, as brokers cut their answers.

        :param buff: the set's bytes
        :param partition_id: the partition that the messages are to carry
        :raises InvalidMessageError: if something in it is no message, or a checksum is wrong
        """
        from pykafka.protocol.records_scan import scan

        messages = []
        codec = 0
        for raw in scan(buff)[0]:
            codec = raw.codec
            reader = raw.open()
            reader.partition_id = partition_id
            while (message := reader.next()) is not None:
                messages.append(message)
        return cls(codec, messages)

    def _magic(self) -> int:
        return 1 if any(message.protocol_version for message in self._messages) else 0

    def _plain(self) -> bytes:
        magic = self._magic()
        parts = []
        for index, message in enumerate(self._messages):
            plain = Message(message.value, message.partition_key, protocol_version=magic, timestamp=message.timestamp)
            parts.append(pack_entry(plain, index, 0))
        return b"".join(parts)

    def _get_compressed(self) -> Any:
        return compress(self.compression_type, self._plain(), self._magic())
