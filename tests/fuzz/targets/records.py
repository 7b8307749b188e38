"""Record batches and message sets, as the engine, the Arrow decoder and PyKafka 2's messages read them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from crc32c import crc32c

from pykafka.compat.messages.produce_fetch import MessageSet
from pykafka.consumer.arrow import ArrowDecoder
from pykafka.exceptions import KafkaException
from pykafka.protocol.message import Message
from pykafka.protocol.messagesets import encode_message_set, wrap
from pykafka.protocol.records import RecordBatchBuilder, scan
from pykafka.utils.compression import compress
from tests.fuzz.judge import UNPACKED_MAX, Target, UnstableError

_HEADER, _CRC_AT, _CHECKED_FROM = 61, 17, 21


def read_all(data: Any, check_crc: bool) -> list[Message]:
    """Return the messages of all batches."""
    found: list[Message] = []
    for raw in scan(data)[0]:
        reader = raw.open(check_crc, UNPACKED_MAX)
        while (message := reader.next()) is not None:
            found.append(message)
    return found


def _resealed(data: bytes) -> bytes:
    """Make the checksum of the first batch right."""
    end = 12 + int.from_bytes(data[8:12], "big")
    if len(data) < _HEADER or not _HEADER <= end <= len(data):
        return data
    return data[:_CRC_AT] + crc32c(data[_CHECKED_FROM:end]).to_bytes(4, "big") + data[_CHECKED_FROM:]


def _row(message: Message) -> tuple[Any, ...]:
    return message.offset, message.timestamp, message.partition_key, message.value, message.headers


def records(data: bytes) -> object:
    """Read what a Fetch response has; the first byte says whether checksums are made right, and verified."""
    if not data:
        return None
    body = _resealed(data[1:]) if data[0] & 2 else data[1:]
    raws, cut_off = scan(body)
    kinds = [(repr(raw), raw.control_type()) for raw in raws]
    found = read_all(body, bool(data[0] & 1))
    _check_written_again(found)
    return cut_off, kinds, [_row(message) for message in found]


def _check_written_again(found: list[Message]) -> None:
    """Write messages into a batch, and read that: keys, values, headers and times stay.

    :raises UnstableError: they do not
    """
    rows = [(max(one.timestamp or 0, 0), one.partition_key, one.value, one.headers or None) for one in found]
    if not rows or any(time >= 2**62 for time, *_ in rows):
        return
    builder = RecordBatchBuilder()
    for row in rows:
        builder.append(*row)
    again = read_all(b"".join(builder.build(0)), True)
    if [(one.timestamp, one.partition_key, one.value, one.headers or None) for one in again] != rows:
        raise UnstableError(f"{rows!r:.300} reads as {again!r:.300}")


def columns(data: bytes) -> object:
    """Read batches of format 2 into columns, and compare their number with that of messages."""
    body = _resealed(data)
    try:
        count: int | None = len(read_all(body, True))
    except KafkaException:
        count = None
    rows: int | None = None
    failure: KafkaException | None = None
    try:
        rows = 0
        for raw in scan(body)[0]:  # one by one, as of a batch that goes back the decoder leaves out what it has had
            for batch in ArrowDecoder("t", 0).decode([raw], max_rows=3):
                batch.validate(full=True)
                rows += batch.num_rows
    except KafkaException as error:
        rows, failure = None, error
    if rows != count:
        raise UnstableError(f"{count} messages, and {rows} rows")
    if failure is not None:
        raise failure
    return rows


def packed(data: bytes) -> object:
    """Read what is inside compressed batches: the first two bytes have codec, format and depth; the rest is compressed."""
    if len(data) < 4:
        return None
    codec, magic = 1 + data[0] % 4, data[1] % 3
    if magic == 2:
        inner = compress(codec, data[4:])
        body = bytearray(_HEADER) + inner
        body[8:12] = (len(body) - 12).to_bytes(4, "big")
        body[16], body[22] = 2, codec
        body[23:27] = data[2].to_bytes(4, "big")
        body[57:61] = data[3].to_bytes(4, "big")
        return [_row(message) for message in read_all(_resealed(bytes(body)), True)]
    codec = 1 + data[0] % 3
    whole = data[4:]
    for _ in range(1 + data[2] % 4):
        whole = wrap(compress(codec, whole, magic), data[3], 1000, magic, codec)
    return [_row(message) for message in read_all(whole, bool(data[0] & 0x80))]


def old(data: bytes) -> object:
    """Read a set as PyKafka 2's `MessageSet` does."""
    return [(one.offset, one.partition_key, one.value) for one in MessageSet.decode(data).messages]


def _batch(codec: int) -> bytes:
    builder = RecordBatchBuilder()
    builder.append(1000, b"key", b"value", [("name", b"header"), ("null", None)])
    builder.append(1005, None, None, None)
    return b"".join(builder.build(codec))


def _set(magic: int, codec: int) -> bytes:
    builder = RecordBatchBuilder()
    for number in range(3):
        builder.append(1000 + number, b"key", b"value %d" % number, None)
    return encode_message_set(builder, magic, codec)


def _control(kind: int) -> bytes:
    builder = RecordBatchBuilder()
    builder.append(1000, kind.to_bytes(4, "big"), bytes(6), None)
    whole = bytearray(b"".join(builder.build(0)))
    whole[22] |= 0x30
    return _resealed(bytes(whole))


def _records() -> Iterator[bytes]:
    for flag in (b"\0", b"\1", b"\3"):
        yield from (flag + _batch(codec) for codec in range(5))
        yield from (flag + _set(magic, codec) for magic in (0, 1) for codec in range(4))
        yield from (flag + _control(kind) for kind in (0, 1))


def _packed() -> Iterator[bytes]:
    for codec in range(4):
        for magic in (0, 1):
            yield bytes([codec, magic, 0, 7]) + _set(magic, 0)
            yield bytes([codec, magic, 2, 7]) + _set(magic, 1)
        yield bytes([codec, 2, 1, 2]) + _batch(0)[_HEADER:]


def _sets() -> Iterator[bytes]:
    yield from (_set(magic, codec) for magic in (0, 1) for codec in range(4))
    yield from (_batch(codec) for codec in range(5))


TARGETS = [
    Target("records", records, _records, weight=3.0),
    Target("columns", columns, lambda: [_batch(codec) for codec in range(5)]),
    Target("packed", packed, _packed, weight=3.0),
    Target("message-sets", old, _sets),
]
