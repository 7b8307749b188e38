"""Records into Arrow columns: the same rows that the reader gives one by one, in the types that Spark takes."""

from __future__ import annotations

import random
import sys
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest
from crc32c import crc32c

from pykafka.consumer.arrow import COLUMNS, ArrowDecoder
from pykafka.exceptions import InvalidMessageError
from pykafka.protocol.messagesets import encode_message_set
from pykafka.protocol.records import RawBatch, RecordBatchBuilder, scan

PAIR = pa.struct([("key", pa.string()), ("value", pa.binary())])
TYPES = {
    "key": pa.binary(),
    "value": pa.binary(),
    "topic": pa.string(),
    "partition": pa.int32(),
    "offset": pa.int64(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "timestampType": pa.int32(),
    "headers": pa.list_(PAIR),
}


def placed(data: bytes, offset: int, append_time: int | None = None) -> bytes:
    """Return a batch the offset that a broker would, and the time where the topic wants that."""
    moved = bytearray(data)
    moved[:8] = offset.to_bytes(8, "big")
    if append_time is not None:
        moved[22] |= 8
        moved[35:43] = append_time.to_bytes(8, "big")
    moved[17:21] = crc32c(bytes(moved[21:])).to_bytes(4, "big")
    return bytes(moved)


def log(seed: int = 1, batches: int = 12) -> list[RawBatch]:
    """Make a stretch of log: batches of format 2 in all codecs, with nulls and headers."""
    chance = random.Random(seed)
    data, offset = b"", 0
    for number in range(batches):
        builder = RecordBatchBuilder()
        for index in range(chance.randrange(1, 40)):
            builder.append(
                chance.randrange(10**12),
                chance.choice([None, b"", b"key%d" % index]),
                chance.choice([None, b"", chance.randbytes(chance.randrange(30))]),
                chance.choice([None, [], [("a", b"1"), ("größe", None), ("", b"")]]),
            )
        stamp = 777_000 if number % 4 == 3 else None
        data += placed(b"".join(builder.build(number % 5)), offset, stamp)
        offset += builder.count + number % 3  # compaction leaves holes
    return scan(data)[0]


def expected(raws: Sequence[RawBatch], start: int = 0, end: int = 2**62) -> list[dict[str, Any]]:
    rows = []
    for raw in raws:
        reader = raw.open()
        while (message := reader.next()) is not None:
            if not start <= message.offset < end:
                continue
            headers = [{"key": key, "value": value} for key, value in message.headers or []]
            rows.append(
                {
                    "key": message.partition_key,
                    "value": message.value,
                    "topic": "flights",
                    "partition": 7,
                    "offset": message.offset,
                    "timestamp": None if message.timestamp is None else 1000 * message.timestamp,
                    "timestampType": raw.timestamp_type if raw.magic else -1,
                    "headers": headers or None,
                }
            )
    return rows


def rows_of(batches: Sequence[pa.RecordBatch]) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for batch in batches:
        batch.validate(full=True)
        assert batch.num_rows > 0
        if "timestamp" in batch.schema.names:
            place = batch.schema.names.index("timestamp")
            batch = batch.set_column(place, "timestamp", batch.column(place).cast(pa.int64()))  # noqa: PLW2901
        rows += batch.to_pylist()
    return rows


def test_types_are_the_ones_that_spark_takes() -> None:
    decoder = ArrowDecoder("flights", 7)
    assert decoder.schema == pa.schema([(name, TYPES[name]) for name in COLUMNS])
    (batch,) = decoder.decode(log(batches=1))
    assert batch.schema.equals(decoder.schema)


@pytest.mark.parametrize("max_rows", [1, 7, 65_536])
@pytest.mark.parametrize("max_bytes", [1, 300, 2**23])
@pytest.mark.parametrize(("start", "end"), [(0, 2**62), (33, 140), (50, 51), (60, 60), (10**6, 2**62)])
def test_rows_are_those_of_the_reader(max_rows: int, max_bytes: int, start: int, end: int) -> None:
    raws = log()
    batches = list(ArrowDecoder("flights", 7).decode(raws, start, end, max_rows, max_bytes))
    assert rows_of(batches) == expected(raws, start, end)
    assert all(batch.num_rows <= max_rows for batch in batches)


def test_batches_are_cut_by_rows_and_by_bytes() -> None:
    builder = RecordBatchBuilder()
    for index in range(100):
        builder.append(index, None, b"x" * 10, None)
    sealed = b"".join(builder.build(0))
    raws, _ = scan(sealed)
    behind, _ = scan((100).to_bytes(8, "big") + sealed[8:])
    decoder = ArrowDecoder("flights", 7, ["value"])
    assert [batch.num_rows for batch in decoder.decode(raws, max_rows=40)] == [40, 40, 20]
    assert [batch.num_rows for batch in decoder.decode(raws, max_bytes=250)] == [25] * 4
    assert [batch.num_rows for batch in decoder.decode([*raws, *behind], max_rows=200)] == [200]


@pytest.mark.parametrize(
    "columns", [["value"], ["offset", "key"], ["headers", "topic"], ["timestamp"], list(COLUMNS)[::-1]]
)
def test_any_columns_in_any_order(columns: list[str]) -> None:
    raws = log()
    rows = rows_of(list(ArrowDecoder("flights", 7, columns).decode(raws)))
    assert rows == [{name: row[name] for name in columns} for row in expected(raws)]


def test_unknown_columns_are_refused() -> None:
    with pytest.raises(ValueError, match="no column colour"):
        ArrowDecoder("flights", 7, ["value", "colour"])


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", [0, 1, 2, 3])
def test_old_formats(magic: int, codec: int) -> None:
    builder = RecordBatchBuilder()
    for index in range(50):
        builder.append(10**9 + index, None if index % 3 else b"k%d" % index, b"v%d" % index, None)
    data = encode_message_set(builder, magic, codec)
    raws, _ = scan(data)
    assert rows_of(list(ArrowDecoder("flights", 7).decode(raws, 5, 45, 9))) == expected(raws, 5, 45)
    broken = bytearray(data)
    broken[-1] ^= 1
    with pytest.raises(InvalidMessageError):
        list(ArrowDecoder("flights", 7).decode(scan(bytes(broken))[0]))


def test_readers_are_left_behind_what_was_yielded() -> None:
    raws = log(batches=3)
    readers = [raw.open() for raw in raws]
    rows = rows_of(list(ArrowDecoder("flights", 7).decode(readers, end=raws[1].base_offset + 1)))
    assert rows == expected(raws, 0, raws[1].base_offset + 1)
    assert [reader.offset for reader in readers] == [
        raws[0].next_offset,
        raws[1].base_offset + 1,
        raws[2].base_offset,
    ]


def test_what_was_yielded_outlives_everything() -> None:
    decoder = ArrowDecoder("flights", 7)
    raws = log()
    wanted = expected(raws)
    batches = list(decoder.decode(raws, max_rows=50))
    del decoder, raws
    assert rows_of(batches) == wanted


def test_times_that_microseconds_cannot_express_are_null() -> None:
    builder = RecordBatchBuilder()
    for timestamp in (5, 2**62, 9_223_372_036_854_775, 9_223_372_036_854_776):
        builder.append(timestamp, None, b"", None)
    raws, _ = scan(b"".join(builder.build(0)))
    times = [row["timestamp"] for row in rows_of(list(ArrowDecoder("flights", 7, ["timestamp"]).decode(raws)))]
    assert times == [5000, None, 9_223_372_036_854_775_000, None]


def test_a_header_name_that_is_not_utf_8() -> None:
    builder = RecordBatchBuilder()
    builder.append(1, None, b"", [("ab", b"x")])
    data = b"".join(builder.build(0)).replace(b"ab", b"a\xff")
    (batch,) = ArrowDecoder("flights", 7, ["headers"]).decode(scan(placed(data, 0))[0])
    batch.validate(full=True)
    assert batch.to_pylist() == [{"headers": [{"key": "a\ufffd", "value": b"x"}]}]


def test_corrupt_records_are_refused_by_name() -> None:
    builder = RecordBatchBuilder()
    for index in range(20):
        builder.append(index, None, b"0123456789", None)
    data = bytearray(b"".join(builder.build(0)))
    data[61 + 10 * 17] = 0x7E  # the length of the eleventh
    raws, _ = scan(placed(bytes(data), 100))
    with pytest.raises(InvalidMessageError, match="offset 110"):
        list(ArrowDecoder("flights", 7).decode(raws))
    trailing = bytearray(b"".join(builder.build(0)) + b"\0\0")
    trailing[8:12] = (len(trailing) - 12).to_bytes(4, "big")
    with pytest.raises(InvalidMessageError, match="2 bytes follow"):
        list(ArrowDecoder("flights", 7).decode(scan(placed(bytes(trailing), 100))[0]))


def test_without_pyarrow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ImportError, match="pip install pyarrow"):
        ArrowDecoder("flights", 7)
