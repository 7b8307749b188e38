# cython: initializedcheck=False, cdivision=True
"""Message sets: formats 0 (Kafka 0.8, 0.9) and 1 (0.10).

An entry is offset, size, checksum, format, attributes, timestamp (format 1 only), key and value. Compression puts a whole
set into the value of one message, its wrapper. Inside, entries of format 0 have offsets of the log; entries of format 1
count from 0, and the wrapper has the offset of the last one. Old clients nested sets deeper; the reader flattens them.
"""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING, Any
from zlib import crc32

from pykafka.exceptions import InvalidMessageError, UnpackedTooLargeError, UnsupportedForMessageFormat
from pykafka.protocol import message as oldformats
from pykafka.protocol.message import Message
from pykafka.protocol.records_read import BatchReader
from pykafka.utils.compression import MAX_UNPACKED, NAMES, compress, decompress

try:
    import cython
except ImportError:
    from pykafka.compiled import cython

if not cython.compiled:
    from pykafka.compiled.cython import PyBytes_AS_STRING, PyBytes_FromStringAndSize, memcpy
    from pykafka.protocol.records_read import parse_entry, parse_record

if TYPE_CHECKING:
    from pykafka.protocol.records_write import RecordBatchBuilder

_PLACE = Struct(">qi")
# The size of an entry counts neither offset nor size.
_UNCOUNTED = 12
# Checksum, format, attributes, two sizes; format 1 adds the timestamp.
_OVERHEADS = (14, 22)
_APPEND_TIME = 8
_DEEPEST = 4


def encode_message_set(builder: RecordBatchBuilder, magic: int, codec: int, level: int | None = None) -> bytes:
    """Rewrite a batch for brokers before 0.11.

    :param builder: the messages; format 0 drops the timestamps
    :param magic: the message format: 0 or 1
    :param codec: 0 none, 1 gzip, 2 snappy, 3 lz4; these formats do not have zstd
    :param level: of the compression; None: the codec's own
    :raises UnsupportedForMessageFormat: a message has headers
    :raises ValueError: the batch is empty, or the codec or format is none of these
    :raises CodecNotAvailableError: the codec's package is missing
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
    return wrap(compress(codec, entries, magic, level), builder.count - 1, builder.max_timestamp, magic, codec)


def wrap(compressed: Any, offset: int, timestamp: int, magic: int, codec: int) -> bytes:
    """Return the message that wraps a compressed set.

    :param compressed: the compressed set
    :param offset: offset of its last message, counted from its first
    :param timestamp: its highest timestamp (ms)
    :param magic: the message format: 0 or 1
    :param codec: the codec of the compression
    """
    message = Message(compressed, compression_type=codec, protocol_version=magic, timestamp=timestamp)
    return pack_entry(message, offset, codec)


def write_entries(records: Any, count: int, first_timestamp: int, magic: int) -> Any:
    # Records of format 2, as a builder has them, become entries that count from 0.
    end = len(records)
    # An entry exceeds a record by less than this; the messages' bytes dominate.
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
    data: memoryview,
    magic: int,
    codec: int,
    timestamp_type: int,
    next_offset: int,
    check_crc: bool,
    max_unpacked: int = MAX_UNPACKED,
) -> BatchReader:
    """Return a reader for a run of entries, or for the content of one compressed message.

    :param data: the entries
    :param magic: their message format: 0 or 1
    :param codec: the compression of the message; 0 for a run of uncompressed ones
    :param timestamp_type: 0 create time, 1 append time
    :param next_offset: the first offset after them
    :param check_crc: whether to verify checksums: a wrapper's now, those of messages on reading
    :param max_unpacked: what the content of a compressed message may unpack to, with the sets in it (bytes)
    :raises UnpackedTooLargeError: it unpacks to more
    :raises InvalidMessageError: a checksum is wrong, or the inner set is corrupt
    :raises CodecNotAvailableError: the codec's package is missing
    """
    entries: Any = data
    shift, append_time = 0, -1
    if codec:
        shift, append_time, entries = _unwrap(data, check_crc, max_unpacked)
    count, first, _, _, is_ascending = count_entries(entries)
    if not is_ascending:
        entries = _ascending(entries)
        count = count_entries(entries)[0]
    first = max(first + shift, 0)
    reader = BatchReader(entries, magic, count, shift, next_offset, -1, append_time, codec, timestamp_type, first)
    reader.check_entries = check_crc
    return reader


def count_entries(entries: Any) -> tuple[int, int, int, int, bool]:
    # Count, first offset, highest offset, the bitwise or of all codecs, and whether each offset is above the one before.
    end = len(entries)
    at = count = codecs = 0
    first = highest = -1
    is_ascending = True
    if cython.compiled:
        held = entries
        data = cython.address(held[0])
    else:
        data = bytes(entries)
    while at < end:
        following, _, offset, _, _, _, _, attributes = parse_entry(data, at, end)
        if following < 0:
            raise InvalidMessageError(
                f"message {count} of a set of formats 0 or 1, at byte {at} of {end}, is corrupt; fetch it again, or have "
                "the broker's log checked"
            )
        if count == 0:
            first = highest = offset
        elif offset > highest:
            highest = offset
        else:
            is_ascending = False
        codecs |= attributes & 7
        count += 1
        at = following
    return count, first, highest, codecs, is_ascending


def _ascending(entries: Any) -> bytes:
    # The entries without those whose offset is not above all before: below the next offset nothing is handed out.
    raw = bytes(entries)
    found = bytearray()
    at, highest = 0, None
    while at < len(raw):
        following, _, offset, _, _, _, _, _ = parse_entry(raw, at, len(raw))
        if highest is None or offset > highest:
            highest = offset
            found += raw[at:following]
        at = following
    return bytes(found)


def _unwrap(wrapper: memoryview, check_crc: bool, max_unpacked: int, depth: int = 1) -> tuple[int, int, Any]:
    # The content of a compressed message: what to add to its offsets, the append time or -1, and the entries.
    raw = bytes(wrapper)
    following, timestamp, offset, _, _, value, value_size, attributes = parse_entry(raw, 0, len(raw))
    if following != len(raw) or value_size < 0:
        raise InvalidMessageError(f"the compressed message of {len(raw)} bytes is corrupt; fetch it again")
    magic = raw[16]
    if check_crc:
        oldformats.check_crc(memoryview(raw)[_UNCOUNTED:], offset)
    entries = decompress(attributes & 7, memoryview(raw)[value : value + value_size], magic, max_unpacked)
    count, _, highest, codecs, _ = count_entries(entries)
    if count == 0:
        raise InvalidMessageError(f"the compressed message at offset {offset} holds no message; skip it")
    if codecs:
        entries = _flatten(memoryview(entries), check_crc, max_unpacked, depth)
    shift = offset - highest if magic == 1 else 0
    return shift, timestamp if attributes & _APPEND_TIME and magic == 1 else -1, entries


def _flatten(entries: memoryview, check_crc: bool, max_unpacked: int, depth: int) -> bytes:
    # Some old clients nested sets: return plain entries with the offsets of the outer set.
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
            shift, _, inner = _unwrap(entry, check_crc, max_unpacked - len(flat), depth + 1)
            flat += _shifted(memoryview(inner), shift)
        if len(flat) > max_unpacked:
            raise UnpackedTooLargeError(NAMES[attributes & 7], max_unpacked)
    return bytes(flat)


def _shifted(entries: memoryview, shift: int) -> bytes:
    moved = bytearray(entries)
    raw = bytes(entries)
    at = 0
    while at < len(raw):
        following, _, offset, _, _, _, _, _ = parse_entry(raw, at, len(raw))
        # The reader refuses offsets outside of Kafka's range; here the number must only fit.
        moved[at : at + 8] = (offset + shift & 0xFFFFFFFFFFFFFFFF).to_bytes(8, "big")
        at = following
    return bytes(moved)


def pack_entry(message: Message, offset: int, codec: int) -> bytes:
    """Return a message as bytes of a set, without its offset and size.

    :param codec: the codec that compressed its value
    """
    timestamp = -1 if message.timestamp is None else message.timestamp
    content = oldformats.pack(
        1 if message.protocol_version else 0, codec, timestamp, message.partition_key, message.value
    )
    return _PLACE.pack(offset, len(content)) + content
