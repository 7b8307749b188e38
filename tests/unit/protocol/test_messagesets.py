"""Message sets, formats 0 and 1: written from a builder, read by the common reader, and the documented class."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from zlib import crc32

import pytest

from pykafka.compat.messages.produce_fetch import numbered, unpacked
from pykafka.exceptions import InvalidMessageError, UnpackedTooLargeError, UnsupportedForMessageFormat
from pykafka.protocol import MessageSet
from pykafka.protocol.message import Message
from pykafka.protocol.messagesets import encode_message_set
from pykafka.protocol.records import RawBatch, RecordBatchBuilder, scan
from pykafka.utils.compression import compress

FORMATS = [(magic, codec) for magic in (0, 1) for codec in (0, 1, 2, 3)]
ROWS: list[tuple[int, bytes | None, bytes | None]] = [
    (1000, b"k", b"v"),
    (900, None, b""),
    (2000, b"", None),
    (1001, b"x" * 500, b"y" * 70_000),
    (0, None, None),
]


def built(rows: Sequence[tuple[int, bytes | None, bytes | None]] = ROWS) -> RecordBatchBuilder:
    builder = RecordBatchBuilder()
    for timestamp, key, value in rows:
        builder.append(timestamp, key, value, None)
    return builder


def entry(
    offset: int, value: bytes | None, magic: int = 0, attributes: int = 0, timestamp: int = -1, key: bytes | None = None
) -> bytes:
    """Write an entry by the book, not by the code under test."""
    content = bytes((magic, attributes)) + (struct.pack(">q", timestamp) if magic else b"")
    for part in (key, value):
        content += struct.pack(">i", -1) if part is None else struct.pack(">i", len(part)) + part
    return struct.pack(">qiI", offset, 4 + len(content), crc32(content)) + content


def drain(raws: Sequence[RawBatch], check_crc: bool = True) -> list[Message]:
    found = []
    for raw in raws:
        reader = raw.open(check_crc)
        while (message := reader.next()) is not None:
            found.append(message)
        assert reader.offset == raw.next_offset
    return found


@pytest.mark.parametrize(("magic", "codec"), FORMATS)
def test_round_trip(magic: int, codec: int) -> None:
    data = encode_message_set(built(), magic, codec)
    (raw,), needed = scan(data)
    assert needed == 0
    assert (raw.magic, raw.codec, raw.next_offset, raw.end) == (magic, codec, 5, len(data))
    assert raw.count == (-1 if codec else 5)
    assert raw.max_timestamp == (2000 if magic else -1)
    messages = drain([raw])
    assert [message.offset for message in messages] == [0, 1, 2, 3, 4]
    for message, (timestamp, key, value) in zip(messages, ROWS, strict=True):
        assert (message.partition_key, message.value) == (key, value)
        assert message.timestamp == (timestamp if magic else None)
        assert (message.protocol_version, message.compression_type, message.headers) == (magic, codec, None)


@pytest.mark.parametrize("magic", [0, 1])
def test_golden_bytes(magic: int) -> None:
    expected = b"".join(
        entry(index, value, magic, 0, timestamp, key) for index, (timestamp, key, value) in enumerate(ROWS)
    )
    assert encode_message_set(built(), magic, 0) == expected
    wrapped = encode_message_set(built(), magic, 1)
    assert wrapped == entry(4, bytes(compress(1, expected)), magic, 1, 2000)


def test_what_these_formats_cannot_carry() -> None:
    builder = built()
    builder.append(1, None, b"", [("h", b"")])
    with pytest.raises(UnsupportedForMessageFormat, match="1 messages have headers"):
        encode_message_set(builder, 1, 0)
    with pytest.raises(ValueError, match="empty"):
        encode_message_set(RecordBatchBuilder(), 1, 0)
    for magic, codec in ((2, 0), (1, 4), (-1, 0), (0, 7)):
        with pytest.raises(ValueError, match="format"):
            encode_message_set(built(), magic, codec)


@pytest.mark.parametrize("first", [0, 90])
def test_offsets_inside_a_wrapper_of_format_1_are_relative(first: int) -> None:
    inner = b"".join(entry(first + index, b"%d" % index, 1, 0, 50 + index) for index in range(10))
    data = entry(1009, bytes(compress(1, inner)), 1, 1, 59)
    (raw,), _ = scan(data)
    reader = raw.open()
    assert (reader.offset, reader.remaining) == (1000, 10)
    reader.skip_to(1003)
    messages = []
    while (message := reader.next()) is not None:
        messages.append((message.offset, message.value, message.timestamp))
    assert messages == [(1000 + index, b"%d" % index, 50 + index) for index in range(3, 10)]


def test_offsets_inside_a_wrapper_of_format_0_are_the_logs() -> None:
    inner = b"".join(entry(offset, b"%d" % offset) for offset in (1000, 1004, 1009))
    (raw,), _ = scan(entry(1009, bytes(compress(2, inner)), 0, 2))
    assert [(message.offset, message.value) for message in drain([raw])] == [
        (1000, b"1000"),
        (1004, b"1004"),
        (1009, b"1009"),
    ]


def test_append_time_of_a_wrapper_goes_for_what_it_holds() -> None:
    inner = b"".join(entry(index, b"", 1, 0, 50 + index) for index in range(3))
    raws, _ = scan(entry(12, bytes(compress(1, inner)), 1, 1 | 8, 777))
    assert raws[0].timestamp_type == 1
    assert [message.timestamp for message in drain(raws)] == [777, 777, 777]


@pytest.mark.parametrize("magic", [0, 1])
def test_sets_within_sets(magic: int) -> None:
    def wrapper(offset: int, inside: bytes, codec: int) -> bytes:
        return entry(offset, bytes(compress(codec, inside, magic)), magic, codec, 5)

    # Format 0 counts as the log does, format 1 from the start of each set.
    inner = b"".join(entry((102 if magic == 0 else 0) + index, b"inner%d" % index, magic) for index in range(3))
    middle = (
        entry(100 if magic == 0 else 0, b"a", magic)
        + entry(101 if magic == 0 else 1, b"b", magic)
        + wrapper(104 if magic == 0 else 4, inner, 3)
        + entry(105 if magic == 0 else 5, b"c", magic)
    )
    raws, _ = scan(wrapper(105, middle, 1))
    messages = drain(raws)
    assert [(message.offset, message.value) for message in messages] == [
        (100, b"a"),
        (101, b"b"),
        (102, b"inner0"),
        (103, b"inner1"),
        (104, b"inner2"),
        (105, b"c"),
    ]


def test_sets_within_sets_have_an_end() -> None:
    data = entry(0, b"deep")
    for _ in range(6):
        data = entry(0, bytes(compress(1, data)), 0, 1)
    raws, _ = scan(data)
    with pytest.raises(InvalidMessageError, match="deep"):
        raws[0].open()


def test_a_log_of_mixed_formats() -> None:
    builder = built()
    modern = bytearray(b"".join(builder.build(1)))
    modern[:8] = (20).to_bytes(8, "big")
    data = (
        entry(3, b"old")
        + entry(4, b"old")
        + entry(5, b"newer", 1, 0, 7)
        + entry(6, b"stamped", 1, 8, 8)
        + entry(9, bytes(compress(1, entry(0, b"wrapped", 1))), 1, 1)
        + bytes(modern)
    )
    raws, needed = scan(data + entry(30, b"cut off")[:-3])
    assert [(raw.magic, raw.codec, raw.base_offset, raw.next_offset) for raw in raws] == [
        (0, 0, 3, 5),
        (1, 0, 5, 6),
        (1, 0, 6, 7),
        (1, 1, 9, 10),
        (2, 1, 20, 25),
    ]
    assert needed == len(entry(30, b"cut off"))
    assert [message.offset for message in drain(raws)] == [3, 4, 5, 6, 9, 20, 21, 22, 23, 24]


@pytest.mark.parametrize(("magic", "codec"), FORMATS)
def test_checksums_are_compared(magic: int, codec: int) -> None:
    data = bytearray(encode_message_set(built(), magic, codec))
    data[-1] ^= 0x10
    raws, _ = scan(bytes(data))
    with pytest.raises(InvalidMessageError):
        drain(raws)


def test_the_checksum_of_one_message_does_not_cost_those_before_it() -> None:
    data = bytearray(encode_message_set(built([(1, None, b"%d" % index) for index in range(10)]), 1, 0))
    data[-1] ^= 1
    (raw,), _ = scan(bytes(data))
    reader = raw.open()
    assert [reader.next().value for _ in range(9)] == [b"%d" % index for index in range(9)]  # type: ignore[union-attr]
    with pytest.raises(InvalidMessageError, match="offset 9"):
        reader.next()
    assert len(drain([raw], check_crc=False)) == 10


@pytest.mark.parametrize(
    "data",
    [
        entry(0, b"x")[:8] + struct.pack(">i", 13) + entry(0, b"x")[12:],  # too short for a message
        entry(-7, b"x"),
        entry(0, b"x", 1)[:8] + struct.pack(">i", 20) + entry(0, b"x", 1)[12:32],  # too short for one of format 1
        entry(0, None, 0, 1),  # a wrapper of nothing
        entry(0, bytes(compress(1, b"")), 0, 1),  # a wrapper of an empty set
        entry(0, bytes(compress(1, b"no set at all, but long enough")), 0, 1),
        entry(0, bytes(compress(1, entry(0, b"x")[:-1])), 0, 1),  # a set that was cut off inside
    ],
)
def test_what_is_no_message(data: bytes) -> None:
    with pytest.raises(InvalidMessageError):
        drain(scan(data)[0])


@pytest.mark.parametrize(("magic", "codec"), FORMATS)
def test_documented_class(magic: int, codec: int) -> None:
    rows = [(timestamp or 1, key, value) for timestamp, key, value in ROWS]
    made = [Message(value, key, protocol_version=magic, timestamp=timestamp) for timestamp, key, value in rows]
    message_set = MessageSet(codec, made[:4])
    message_set.add_message(made[4])
    assert message_set.messages == list(message_set) == made
    assert numbered(codec, made, magic) == encode_message_set(built(rows), magic, codec)
    buffer = bytearray(len(message_set) + 4)
    message_set.pack_into(buffer, 2)
    assert bytes(buffer[:2] + buffer[-2:]) == bytes(4)
    content = bytes(buffer[2:-2]) + entry(7, b"cut off")[:-1]
    copy = MessageSet.decode(content, partition_id=5)
    assert copy.compression_type == 0
    assert {message.compression_type for message in copy} == {codec}
    inside = unpacked(content, 5)
    assert [(message.value, message.partition_id) for message in inside] == [(row[2], 5) for row in rows]
    assert {message.offset for message in inside} == {-1}
    assert [message.offset for message in unpacked(numbered(codec, made, magic), 5)] == list(range(len(rows)))


def test_an_empty_set() -> None:
    message_set = MessageSet(1)
    assert (len(message_set), message_set.get_bytes(), bool(message_set)) == (0, b"", False)
    assert MessageSet.decode(b"").messages == []


def test_documented_sets_within_sets() -> None:
    content = entry(7, b"v") + entry(8, b"w")
    for _ in range(4):
        content = entry(8, bytes(compress(1, content)), 0, 1)
    assert [message.offset for message in unpacked(content, 0)] == [7, 8]
    with pytest.raises(InvalidMessageError, match="more than 4 deep"):
        unpacked(entry(8, bytes(compress(1, content)), 0, 1), 0)


@pytest.mark.parametrize("size", [30, 3000])
def test_documented_sets_unpack_to_a_limit(monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    monkeypatch.setattr("pykafka.compat.messages.produce_fetch.MAX_UNPACKED", 2000)
    inner = entry(8, bytes(compress(1, entry(8, bytes(size)))), 0, 1)
    content = entry(8, bytes(compress(1, inner)), 0, 1)
    if size == 30:
        assert unpacked(content, 0)[0].value == bytes(size)
    else:
        with pytest.raises(UnpackedTooLargeError):
            unpacked(content, 0)


def test_documented_sets_with_the_time_of_their_append() -> None:
    inner = entry(0, b"v", 1, 0, 5) + entry(1, b"w", 1, 0, 6)
    content = entry(20, bytes(compress(1, inner)), 1, 9, 77)
    assert [(message.offset, message.timestamp) for message in unpacked(content, 0)] == [(19, 77), (20, 77)]
