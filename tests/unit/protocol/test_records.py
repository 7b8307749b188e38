"""Record batches: the builder, the scan and the reader, on their own."""

from __future__ import annotations

import gc
import os
import struct
import subprocess
import sys
import tracemalloc
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from threading import Lock
from typing import Any

import pytest
from crc32c import crc32c

from pykafka.exceptions import CodecNotAvailableError, InvalidMessageError, MessageSizeTooLarge
from pykafka.protocol import records_read
from pykafka.protocol.message import Headers, Message
from pykafka.protocol.records import BatchReader, RawBatch, RecordBatchBuilder, record_size, scan

CODECS = [0, 1, 2, 3, 4]
Row = tuple[int, bytes | None, bytes | None, Headers | None]
ROWS: list[Row] = [
    (1000, b"k", b"v", None),
    (900, None, b"", [("a", b"1"), ("b", None)]),
    (2**40, b"", None, None),
    (1001, b"x" * 5000, b"y" * 70_000, [("größe", b"")]),
    (0, None, None, None),
]


def built(rows: list[Row] = ROWS) -> RecordBatchBuilder:
    builder = RecordBatchBuilder()
    for row in rows:
        builder.append(*row)
    return builder


def batch(rows: list[Row] = ROWS, codec: int = 0, base_offset: int = 0) -> bytes:
    data = bytearray(b"".join(built(rows).build(codec)))
    data[:8] = base_offset.to_bytes(8, "big")
    return bytes(data)


def resealed(data: bytes) -> bytes:
    """Make the checksum right again, so that what lies behind it is looked at."""
    return data[:17] + crc32c(data[21:]).to_bytes(4, "big") + data[21:]


def drain(reader: BatchReader) -> list[Message]:
    found = []
    while (message := reader.next()) is not None:
        found.append(message)
    return found


def fields(message: Message) -> Row:
    return message.timestamp or 0, message.partition_key, message.value, message.headers


# -- builder -----------------------------------------------------------------------------------------------------------


def test_append_numbers_the_messages_and_keeps_the_books() -> None:
    builder = RecordBatchBuilder()
    assert (builder.count, builder.size, builder.first_timestamp, builder.max_timestamp) == (0, 61, -1, -1)
    assert [builder.append(*row) for row in ROWS] == [0, 1, 2, 3, 4]
    assert builder.count == 5
    assert (builder.first_timestamp, builder.max_timestamp, builder.last_timestamp) == (1000, 2**40, 0)
    assert builder.with_headers == 2
    assert builder.size == len(b"".join(builder.build(0))) == 61 + len(builder.view())
    assert list(builder.records()) == ROWS


def test_golden_bytes() -> None:
    # Written out by hand from the specification of the format (KIP-98).
    builder = RecordBatchBuilder()
    builder.append(5, b"k", b"vv", [("h", None)])
    records = bytes([2 * 12, 0, 0, 0, 2, ord("k"), 4, ord("v"), ord("v"), 2, 2, ord("h"), 1])
    tail = struct.pack(">hiqqqhii", 0, 0, 5, 5, -1, -1, -1, 1)
    head = struct.pack(">qiibI", 0, 49 + len(records), -1, 2, crc32c(tail + records))
    assert b"".join(builder.build(0)) == head + tail + records


def test_time_of_an_injected_clock() -> None:
    times = iter([7, 9])
    builder = RecordBatchBuilder(lambda: next(times))
    builder.append(-1, None, b"a", None)
    builder.append(8, None, b"b", None)
    builder.append(-1, None, b"c", None)
    assert [row[0] for row in builder.records()] == [7, 8, 9]


def test_time_of_the_system_clock() -> None:
    builder = RecordBatchBuilder()
    builder.append(-1, None, b"", None)
    # Between the day this was written and the year 2200.
    assert 1_760_000_000_000 < builder.first_timestamp < 7_260_000_000_000


class Refusing:
    def __len__(self) -> int:
        return 1

    def __iter__(self) -> Any:
        raise ZeroDivisionError("refused")


@pytest.mark.parametrize(
    ("row", "error", "words"),
    [
        ((1, "text", b"", None), TypeError, "key must be bytes or None, not str"),
        ((1, None, bytearray(b"x"), None), TypeError, "value must be bytes or None, not bytearray"),
        ((1, None, 5, None), TypeError, "value must be bytes or None, not int"),
        ((1, None, b"", [(b"name", b"")]), TypeError, "header's name must be a str, not bytes"),
        ((1, None, b"", [("name", "text")]), TypeError, "value of header 'name' must be bytes or None, not str"),
        ((1, None, b"", [("name",)]), ValueError, "unpack"),
        ((1, None, b"", Refusing()), ZeroDivisionError, "refused"),
        ((-2, None, b"", None), ValueError, "timestamp"),
    ],
)
def test_what_is_refused_leaves_the_batch_alone(row: Any, error: type[Exception], words: str) -> None:
    builder = built()
    before = b"".join(builder.build(0))
    with pytest.raises(error, match=words):
        builder.append(*row)
    assert b"".join(builder.build(0)) == before
    builder.append(1, b"after", b"", None)
    assert builder.count == 6


def test_a_clock_that_fails_leaves_the_batch_alone() -> None:
    def broken() -> int:
        raise OSError("no time")

    builder = RecordBatchBuilder(broken)
    with pytest.raises(OSError, match="no time"):
        builder.append(-1, None, b"", None)
    assert builder.count == 0


def test_a_batch_does_not_outgrow_its_bound() -> None:
    builder = RecordBatchBuilder(max_size=200)
    builder.append(1, None, b"x" * 100, None)
    before = bytes(builder.view())
    with pytest.raises(MessageSizeTooLarge, match="200"):
        builder.append(1, None, b"x" * 40, None)
    assert (builder.count, bytes(builder.view())) == (1, before)
    builder.append(1, None, b"x" * 20, None)
    assert builder.size <= 200


def test_views_stay_as_they_are_while_the_builder_grows() -> None:
    builder = RecordBatchBuilder()
    views: list[tuple[memoryview, bytes]] = []
    for index in range(300):
        builder.append(index, b"k", b"v" * index, None)
        view = builder.view()
        views.append((view, bytes(view)))
    sealed = builder.build(0)
    copy = b"".join(sealed)
    for index in range(300):
        builder.append(index, None, b"z" * 999, None)
    assert all(bytes(view) == before for view, before in views)
    assert b"".join(sealed) == copy
    assert [row[2] for row in builder.records()][:300] == [b"v" * index for index in range(300)]


def test_sealing_again_with_another_sequence() -> None:
    builder = built()
    payload = builder.build(4)[1]
    for sequence in (0, 17):
        sealed = builder.build(4, payload, 5, 6, sequence, True)
        assert sealed[1] is payload
        (raw,), _ = scan(b"".join(sealed))
        assert (raw.producer_id, raw.producer_epoch, raw.base_sequence, raw.is_transactional) == (5, 6, sequence, True)
        assert len(drain(raw.open())) == 5


def test_nothing_cannot_be_sealed() -> None:
    with pytest.raises(ValueError, match="empty"):
        RecordBatchBuilder().build(0)


def test_record_size_is_a_bound() -> None:
    for row in ROWS:
        builder = built([(5, None, b"", None)])
        before = builder.size
        builder.append(*row)
        assert builder.size - before <= record_size(row[1], row[2], row[3])


# -- scan and reader ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_round_trip(codec: int, kind: Any) -> None:
    (raw,), needed = scan(kind(batch(codec=codec, base_offset=77)))
    assert needed == 0
    assert (raw.magic, raw.codec, raw.count, raw.base_offset, raw.next_offset) == (2, codec, 5, 77, 82)
    assert (raw.max_timestamp, raw.timestamp_type, raw.is_control, raw.control_type()) == (2**40, 0, False, -1)
    reader = raw.open()
    reader.partition_id = 3
    reader.partition = "the partition"
    assert (reader.offset, reader.remaining) == (77, 5)
    messages = drain(reader)
    assert [fields(message) for message in messages] == ROWS
    assert [message.offset for message in messages] == [77, 78, 79, 80, 81]
    assert {(message.partition_id, message.partition, message.protocol_version) for message in messages} == {
        (3, "the partition", 2)
    }
    assert {message.compression_type for message in messages} == {codec}
    assert (reader.offset, reader.remaining, reader.next()) == (82, 0, None)


def test_batches_one_after_another_and_the_one_that_was_cut_off() -> None:
    data = batch(base_offset=0) + batch(codec=1, base_offset=5) + batch(codec=3, base_offset=10)
    whole, needed = scan(data)
    assert [(raw.start, raw.base_offset) for raw in whole] == [(0, 0), (whole[0].end, 5), (whole[1].end, 10)]
    assert (whole[2].end, needed) == (len(data), 0)
    last = whole[2].size
    for missing in (1, 20, last - 17):
        raws, needed = scan(data[:-missing])
        assert (len(raws), needed) == (2, last)
    raws, needed = scan(data[: whole[2].start + 16])
    assert (len(raws), needed) == (2, 61)  # the size itself was cut off
    assert scan(b"") == ([], 0)


@pytest.mark.parametrize("offset", [0, 76, 77, 78, 80, 81, 82, 200])
def test_skip_to(offset: int) -> None:
    (raw,), _ = scan(batch(base_offset=77))
    reader = raw.open()
    reader.skip_to(offset)
    assert reader.offset == max(offset, 77)
    assert [message.offset for message in drain(reader)] == list(range(max(offset, 77), 82))
    assert reader.offset == max(offset, 82)


def test_offsets_that_compaction_took_away() -> None:
    data = bytearray(batch([(1, None, b"a", None), (2, None, b"b", None)], base_offset=10))
    data[23:27] = (9).to_bytes(4, "big")
    (raw,), _ = scan(resealed(bytes(data)))
    reader = raw.open()
    assert [message.offset for message in drain(reader)] == [10, 11]
    assert reader.offset == raw.next_offset == 20


def test_a_batch_emptied_by_compaction() -> None:
    data = bytearray(batch([(1, None, b"a", None)], base_offset=10)[:61])
    data[8:12] = (49).to_bytes(4, "big")
    data[57:61] = bytes(4)
    (raw,), _ = scan(resealed(bytes(data)))
    reader = raw.open()
    assert (reader.remaining, reader.next(), reader.offset) == (0, None, 11)


def test_append_time_goes_for_every_message() -> None:
    data = bytearray(batch(base_offset=0))
    data[22] |= 8
    data[35:43] = (123_456).to_bytes(8, "big")
    (raw,), _ = scan(resealed(bytes(data)))
    assert raw.timestamp_type == 1
    assert {message.timestamp for message in drain(raw.open())} == {123_456}


@pytest.mark.parametrize(("kind", "key"), [(0, b"\0\0\0\0"), (1, b"\0\0\0\1")])
def test_a_control_batch_is_nobody_s_message(kind: int, key: bytes) -> None:
    data = bytearray(batch([(1, key, b"\0\0\0\0\0\5", None)], base_offset=10))
    data[22] |= 16 | 32
    (raw,), _ = scan(resealed(bytes(data)))
    assert (raw.is_control, raw.is_transactional, raw.control_type()) == (True, True, kind)
    reader = raw.open()
    assert (reader.remaining, reader.next(), reader.offset) == (0, None, 11)


def test_a_reader_outlives_what_it_reads_from() -> None:
    buffer = bytearray(batch())
    (raw,), _ = scan(memoryview(buffer))
    reader = raw.open()
    del raw, buffer
    gc.collect()
    assert len(drain(reader)) == 5


def test_next_called_from_within_next() -> None:
    # Allocating a message can collect garbage, and a finalizer can ask the same reader for the next message.
    rows: list[Row] = [(index, None, b"%d" % index, None) for index in range(20_000)]
    (raw,), _ = scan(batch(rows))
    reader = raw.open()
    taken: list[Message] = []

    class Nosy:
        def __init__(self) -> None:
            self.self = self

        def __del__(self) -> None:
            message = reader.next()
            if message is not None:
                taken.append(message)

    threshold = gc.get_threshold()
    gc.set_threshold(3)
    try:
        while (message := reader.next()) is not None:
            taken.append(message)
            Nosy()
    finally:
        gc.set_threshold(*threshold)
    assert sorted(message.offset for message in taken) == list(range(20_000))
    assert all(message.value == b"%d" % message.offset for message in taken)


# -- threads -----------------------------------------------------------------------------------------------------------

COMPILED = not (records_read.__file__ or "").endswith(".py")


@pytest.fixture
def crowd() -> Iterator[Callable[[Callable[[int], None]], None]]:
    """Run something in eight threads at once that are switched every 10 microseconds."""

    def together(work: Callable[[int], None]) -> None:
        with ThreadPoolExecutor(8) as pool:
            for done in [pool.submit(work, number) for number in range(8)]:
                done.result(timeout=60)

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield together
    sys.setswitchinterval(interval)


def owner_s_lock() -> AbstractContextManager[Any]:
    """Return what the owner takes around a call: nothing when compiled, as a compiled call is atomic."""
    return nullcontext() if COMPILED else Lock()


def test_eight_threads_append(crowd: Callable[[Callable[[int], None]], None]) -> None:
    builder = RecordBatchBuilder()
    lock = owner_s_lock()

    def work(number: int) -> None:
        for index in range(2000):
            with lock:
                builder.append(-1, b"%d" % number, b"%d" % index, [("h", b"")] if index % 50 == 0 else None)

    crowd(work)
    content = [(int(key or b""), int(value or b"")) for _, key, value, _ in builder.records()]
    assert builder.count == len(content) == 16_000
    for number in range(8):
        assert [index for who, index in content if who == number] == list(range(2000))


def test_eight_threads_read(crowd: Callable[[Callable[[int], None]], None]) -> None:
    rows: list[Row] = [(index, b"%d" % index, b"%d" % index, [("h", b"x")]) for index in range(16_000)]
    (raw,), _ = scan(batch(rows, 4))
    reader = raw.open()
    lock = owner_s_lock()
    taken: list[list[Message]] = [[] for _ in range(8)]

    def work(number: int) -> None:
        while True:
            with lock:
                message = reader.next()
            if message is None:
                return
            taken[number].append(message)

    crowd(work)
    assert sorted(message.offset for found in taken for message in found) == list(range(16_000))
    for found in taken:
        assert all(message.value == message.partition_key == b"%d" % message.offset for message in found)


# -- memory ------------------------------------------------------------------------------------------------------------


def test_nothing_is_kept() -> None:
    def once() -> None:
        for codec in CODECS:
            drain(scan(batch(codec=codec))[0][0].open())

    once()
    gc.collect()
    tracemalloc.start()
    try:
        once()
        gc.collect()
        before = tracemalloc.get_traced_memory()[0]
        for _ in range(30):
            once()
        gc.collect()
        assert tracemalloc.get_traced_memory()[0] - before < 20_000  # one of these batches has more
    finally:
        tracemalloc.stop()


def test_messages_as_they_come_are_no_work_for_the_garbage_collector() -> None:
    message = drain(scan(batch())[0][0].open())[0]
    assert gc.is_tracked(message) is not COMPILED


def test_without_cython_the_source_runs_as_it_is() -> None:
    program = """
import sys
sys.modules["cython"] = None
from pykafka.protocol.records import RecordBatchBuilder, scan
from pykafka.protocol.messagesets import encode_message_set
import pykafka.consumer.arrow
builder = RecordBatchBuilder()
builder.append(-1, b"k", b"v", None)
for data in (b"".join(builder.build(4)), encode_message_set(builder, 1, 3)):
    print(scan(data)[0][0].open().next().value)
"""
    environment = {**os.environ, "PYKAFKA_PURE_PYTHON": "1"}
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=False, timeout=60
    )
    assert (done.stdout.split(), done.stderr) == (["b'v'", "b'v'"], "")


# -- hostile input -----------------------------------------------------------------------------------------------------


def test_a_wrong_checksum_says_where() -> None:
    data = bytearray(batch(base_offset=500))
    data[len(data) // 2] ^= 1
    (raw,), _ = scan(bytes(data))
    with pytest.raises(InvalidMessageError, match=r"offsets 500 to 504.*checksum"):
        raw.open()
    assert len(drain(raw.open(check_crc=False))) == 5


@pytest.mark.parametrize(
    ("place", "value"),
    [
        (slice(8, 12), 48),  # shorter than a header
        (slice(8, 12), -5),
        (slice(16, 17), 3),  # no such format
        (slice(16, 17), -1),
        (slice(0, 8), -1),
        (slice(0, 8), 2**63 - 1),
        (slice(23, 27), -2),
        (slice(57, 61), -1),
    ],
)
def test_a_header_that_makes_no_sense(place: slice, value: int) -> None:
    data = bytearray(batch())
    data[place] = value.to_bytes(place.stop - place.start, "big", signed=True)
    with pytest.raises(InvalidMessageError):
        scan(bytes(data))


def opened(data: bytes) -> RawBatch:
    (raw,), _ = scan(resealed(data))
    return raw


def with_records(records: bytes, count: int = 1, last: int = 0) -> bytes:
    data = bytearray(batch([(1, None, b"", None)])[:61] + records)
    data[8:12] = (49 + len(records)).to_bytes(4, "big")
    data[23:27] = last.to_bytes(4, "big")
    data[57:61] = count.to_bytes(4, "big")
    return bytes(data)


@pytest.mark.parametrize(
    "records",
    [
        bytes([2 * 60, 0, 0, 0, 1, 1, 0]),  # longer than what is there
        bytes([1, 0, 0, 0, 1, 1, 0]),  # of negative length
        bytes([2 * 6, 0, 0, 0, 3, 1, 0]),  # a key of length -2
        bytes([2 * 6, 0, 0, 0, 1, 40, 0]),  # a value longer than the record
        bytes([2 * 6, 0, 0, 0, 1, 1, 2]),  # a header that is not there
        bytes([2 * 6, 0, 0, 0, 1, 1, 1]),  # -1 headers
        bytes([2 * 7, 0, 0, 0, 1, 1, 0, 0]),  # a byte too many
        bytes([2 * 6, 0, 0, 2, 1, 1, 0]),  # an offset outside of the batch
        bytes([2 * 6, 0, 0, 1, 1, 1, 0]),  # a negative one
        bytes([0xFF] * 12),  # a number without end
        bytes([2 * 6, 0, 0, 0, 1, 1, 0, 9]),  # something behind the last record
    ],
)
def test_a_record_that_is_none(records: bytes) -> None:
    reader = opened(with_records(records)).open()
    with pytest.raises(InvalidMessageError, match="offset"):
        drain(reader)
    with pytest.raises(InvalidMessageError):  # and it stays so
        drain(reader)


def test_offsets_that_run_backwards() -> None:
    twice = bytes([2 * 6, 0, 0, 2, 1, 1, 0]) + bytes([2 * 6, 0, 0, 0, 1, 1, 0])
    reader = opened(with_records(twice, 2, 5)).open()
    with pytest.raises(InvalidMessageError):
        drain(reader)


def test_more_records_said_than_bytes_can_hold() -> None:
    with pytest.raises(InvalidMessageError, match="1000 records"):
        opened(with_records(bytes([2 * 6, 0, 0, 0, 1, 1, 0]), 1000, 999)).open()


def test_no_such_codec() -> None:
    data = bytearray(batch())
    data[22] |= 6
    with pytest.raises(CodecNotAvailableError, match="codec 6"):
        opened(bytes(data)).open()


@pytest.mark.parametrize("codec", CODECS[1:])
def test_compressed_garbage_says_where(codec: int) -> None:
    data = bytearray(batch(base_offset=500, codec=codec))
    data[61:] = b"\x55" * (len(data) - 61)
    with pytest.raises(InvalidMessageError, match="offsets 500 to 504"):
        opened(bytes(data)).open()


def test_a_header_name_that_is_not_utf_8() -> None:
    record = bytes([2 * 9, 0, 0, 0, 1, 1, 2, 2, 0xFF, 1])
    (message,) = drain(opened(with_records(record)).open())
    assert message.headers == [("\ufffd", None)]
