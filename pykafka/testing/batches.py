"""`StoredBatch`: one batch as a log keeps it; and how batches of the three message formats get their offsets."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple
from zlib import crc32

from crc32c import crc32c

from pykafka.protocol.message import Message
from pykafka.protocol.messagesets import pack_entry, wrap
from pykafka.protocol.records import RawBatch, RecordBatchBuilder, scan
from pykafka.utils.compression import ZSTD, compress, decompress

#: Where the parts of a batch of format 2 are (bytes from its start), and of what its checksum counts from.
_EPOCH_AT, _MAGIC_AT, _CHECKED_FROM, _MAX_TIME_AT = 12, 16, 21, 35
#: Where the checksum of an entry of formats 0 and 1 is, and what it counts from; its attributes and time.
_CRC_AT, _ENTRY_FROM, _ATTRIBUTES_AT, _TIME_AT = 12, 16, 17, 18
_APPEND_TIME = 8
#: The size of a batch's header, which ends with the count of its records.
_COUNT_AT, _HEADER = 57, 61
#: Offset and size of an entry, which its size does not count.
_UNCOUNTED = 12


class StoredBatch:
    """One batch in a log. Of formats 0 and 1 each message that stands alone, and each compressed one, is a batch.

    :param data: its bytes, with the offsets of the log
    :param raw: what its header says; of formats 0 and 1, what it said when it came
    :param base_offset: of its first record
    :param next_offset: the offset behind its last record
    :param max_timestamp: its highest timestamp (ms)
    :param leader_epoch: of the leader that appended it
    :param position: how many bytes of the log are before it
    """

    __slots__ = (
        "base_offset",
        "codec",
        "data",
        "is_control",
        "is_transactional",
        "leader_epoch",
        "magic",
        "max_timestamp",
        "next_offset",
        "position",
        "producer_id",
    )

    def __init__(
        self,
        data: bytes,
        raw: RawBatch,
        base_offset: int,
        next_offset: int,
        max_timestamp: int,
        leader_epoch: int,
        position: int = 0,
    ) -> None:
        self.data = data
        self.magic = raw.magic
        self.codec = raw.codec
        self.base_offset = base_offset
        self.next_offset = next_offset
        self.max_timestamp = max_timestamp
        self.leader_epoch = leader_epoch
        self.position = position
        self.producer_id = raw.producer_id
        self.is_control = raw.is_control
        self.is_transactional = raw.is_transactional

    def __repr__(self) -> str:
        offsets = f"offsets {self.base_offset} to {self.next_offset - 1}"
        return f"<StoredBatch format {self.magic}, {offsets}, {len(self.data)} bytes>"

    def raw(self) -> RawBatch:
        """Return what its header says."""
        return scan(self.data)[0][0]

    def messages(self) -> Iterator[Message]:
        """Yield its records; none of a control batch."""
        return messages_of(self.raw())


def messages_of(raw: RawBatch) -> Iterator[Message]:
    """Yield the records of a batch, which checks all checksums; none of a control batch."""
    reader = raw.open()
    while (message := reader.next()) is not None:
        yield message


class Numbering(NamedTuple):
    """The numbers that a log writes into batches.

    :param base_offset: of the first record
    :param leader_epoch: of the leader
    :param append_time: the time of all records (ms); -1: they keep their own
    """

    base_offset: int
    leader_epoch: int
    append_time: int = -1


def number(raws: Iterable[RawBatch], numbering: Numbering) -> list[StoredBatch]:
    """Return batches with the offsets of a log; their bytes are copied once.

    :param raws: as they came, of any formats
    :param numbering: what to write
    """
    base, epoch, append_time = numbering
    stored: list[StoredBatch] = []
    for raw in raws:
        if raw.magic == 2:
            following = base + raw.next_offset - raw.base_offset
            time = raw.max_timestamp if append_time < 0 else append_time
            stored.append(StoredBatch(_stamped(raw, numbering, base), raw, base, following, time, epoch))
        else:
            entries = _number_plain if not raw.codec else _number_wrapper
            stored += entries(raw, Numbering(base, epoch, append_time))
        base = stored[-1].next_offset
    return stored


def _stamped(raw: RawBatch, numbering: Numbering, base: int) -> bytes:
    data = raw.data
    head = base.to_bytes(8, "big"), data[8:_EPOCH_AT], numbering.leader_epoch.to_bytes(4, "big", signed=True)
    if numbering.append_time < 0:
        return b"".join((*head, data[_MAGIC_AT:]))
    body = bytearray(data[_CHECKED_FROM:])
    body[1] |= _APPEND_TIME
    at = _MAX_TIME_AT - _CHECKED_FROM
    body[at : at + 8] = numbering.append_time.to_bytes(8, "big")
    return b"".join((*head, b"\x02", crc32c(body).to_bytes(4, "big"), body))


def _number_plain(raw: RawBatch, numbering: Numbering) -> list[StoredBatch]:
    # Messages of formats 0 and 1 that stand alone.
    data, at, base = bytes(raw.data), 0, numbering.base_offset
    stored = []
    while at < len(data):
        end = at + _UNCOUNTED + int.from_bytes(data[at + 8 : at + _UNCOUNTED], "big")
        entry = base.to_bytes(8, "big") + data[at + 8 : end]
        stored.append(_entry(entry, raw, Numbering(base, *numbering[1:]), base + 1))
        at, base = end, base + 1
    return stored


def _entry(entry: bytes, raw: RawBatch, numbering: Numbering, following: int) -> StoredBatch:
    time = -1
    if raw.magic == 1:
        if numbering.append_time >= 0:
            entry = with_append_time(entry, numbering.append_time)
        time = int.from_bytes(entry[_TIME_AT : _TIME_AT + 8], "big", signed=True)
    return StoredBatch(entry, raw, numbering.base_offset, following, time, numbering.leader_epoch)


def with_append_time(entry: bytes, time_ms: int) -> bytes:
    """Return a message of format 1 with the broker's time."""
    changed = bytearray(entry)
    changed[_ATTRIBUTES_AT] |= _APPEND_TIME
    changed[_TIME_AT : _TIME_AT + 8] = time_ms.to_bytes(8, "big")
    changed[_CRC_AT:_ENTRY_FROM] = crc32(memoryview(changed)[_ENTRY_FROM:]).to_bytes(4, "big")
    return bytes(changed)


def _number_wrapper(raw: RawBatch, numbering: Numbering) -> list[StoredBatch]:
    # Brokers of 0.8 and 0.9 unpack compressed messages to give those inside their offsets. Since 0.10 (format 1) these
    # count from 0, and the wrapper gets the offset of the last: the bytes inside stay as they are.
    messages = list(messages_of(raw))
    base, count = numbering.base_offset, len(messages)
    if raw.magic == 1 and [message.offset for message in messages] == list(
        range(raw.next_offset - count, raw.next_offset)
    ):
        entry = (base + count - 1).to_bytes(8, "big") + raw.data[8:]
    else:
        entry = entries_of(messages, range(base, base + count), raw.magic, raw.codec)
    return [_entry(entry, raw, numbering, base + count)]


def entries_of(
    messages: list[Message], offsets: Iterable[int], magic: int, codec: int, timestamp_type: int = 0
) -> bytes:
    """Return messages in format 0 or 1, with offsets of a log; compressed ones in one wrapper.

    :param messages: one at least
    :param offsets: of each
    :param magic: the format
    :param codec: 0 none, 1 gzip, 2 snappy, 3 lz4
    :param timestamp_type: 0 create time, 1 append time
    """
    has_append_time = timestamp_type and magic == 1
    numbers = list(offsets)
    # In a wrapper of format 1 they count from its first record.
    first = numbers[0] if codec and magic == 1 else 0
    parts = []
    for message, offset in zip(messages, numbers, strict=True):
        message.protocol_version = magic
        entry = pack_entry(message, offset - first, 0)
        parts.append(with_append_time(entry, message._timestamp) if has_append_time and not codec else entry)
    if not codec:
        return b"".join(parts)
    newest = max(message._timestamp for message in messages)
    wrapper = wrap(compress(codec, b"".join(parts), magic), numbers[-1], newest, magic, codec)
    return with_append_time(wrapper, newest) if has_append_time else wrapper


def converted(raw: RawBatch, magic: int, unpack: bool = False) -> bytes:
    """Return the records of a batch in another format; older ones have no headers and no producers.

    :param raw: not compressed by zstd if the format is before 2
    :param magic: the format: 0, 1 or 2; format 2 counts from 0
    :param unpack: whether the messages are not compressed again, in formats before 2
    :raises ValueError: zstd, which formats before 2 do not have
    """
    if raw.codec == ZSTD and magic < 2:
        raise ValueError(f"{raw!r} is compressed by zstd, which format {magic} does not have")
    messages = list(messages_of(raw))
    if not messages:
        return b""
    if magic < 2:
        codec = 0 if unpack else raw.codec
        return entries_of(messages, [message.offset for message in messages], magic, codec, raw.timestamp_type)
    builder = RecordBatchBuilder(clock=_no_time)
    for message in messages:
        builder.append(message._timestamp, message.partition_key, message.value, message.headers)
    return b"".join(builder.build(raw.codec))


def rebuilt(raw: RawBatch, records: Any, count: int, max_timestamp: int, codec: int) -> bytes:
    """Return a batch of format 2 with other records, or compressed otherwise; its offsets stay.

    :param raw: the batch
    :param records: its records, not compressed
    :param count: how many
    :param max_timestamp: the highest timestamp of these (ms)
    :param codec: of the compression
    """
    payload = compress(codec, records)
    head = bytearray(raw.data[:_HEADER])
    head[8:_EPOCH_AT] = (_HEADER - _UNCOUNTED + len(payload)).to_bytes(4, "big")
    head[22] = head[22] & ~7 | codec
    head[_MAX_TIME_AT : _MAX_TIME_AT + 8] = max_timestamp.to_bytes(8, "big", signed=True)
    head[_COUNT_AT:_HEADER] = count.to_bytes(4, "big")
    head[17:_CHECKED_FROM] = crc32c(payload, crc32c(bytes(head[_CHECKED_FROM:]))).to_bytes(4, "big")
    return bytes(head) + bytes(payload)


def recompressed(raw: RawBatch, codec: int) -> RawBatch:
    """Return a batch of format 2 with another compression."""
    records = decompress(raw.codec, raw.data[_HEADER:])
    return scan(rebuilt(raw, records, raw.count, raw.max_timestamp, codec))[0][0]


def _no_time() -> int:
    # Messages of format 0 have none.
    return -1


def marker(producer_id: int, producer_epoch: int, is_commit: bool, now_ms: int, coordinator_epoch: int) -> Any:
    """Return the control batch that ends a transaction, with offset 0.

    :param producer_id: whose transaction
    :param producer_epoch: of that producer
    :param is_commit: or it is aborted
    :param now_ms: the time of the end (ms)
    :param coordinator_epoch: of the transaction coordinator
    """
    builder = RecordBatchBuilder()
    key = (0).to_bytes(2, "big") + int(is_commit).to_bytes(2, "big")
    builder.append(now_ms, key, (0).to_bytes(2, "big") + coordinator_epoch.to_bytes(4, "big"), None)
    batch = bytearray(b"".join(builder.build(0, None, producer_id, producer_epoch, -1, True)))
    batch[22] |= 0x20
    batch[17:21] = crc32c(memoryview(batch)[_CHECKED_FROM:]).to_bytes(4, "big")
    return bytes(batch)
