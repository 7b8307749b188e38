"""The lag of a partition, in records and in seconds, from what fetch answers and the buffers have."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from pykafka.consumer.buffers import Buffers, OwnedPartition
from pykafka.consumer.lag import Lag, lag_of
from pykafka.handlers import Handler
from pykafka.protocol.records import BatchReader, RecordBatchBuilder, scan

NOW_MS = 1_000_000


def reader(*timestamps: int, start: int = 0, is_control: bool = False) -> BatchReader:
    """Make a cursor over one batch as a fetcher puts it in."""
    builder = RecordBatchBuilder()
    for timestamp in timestamps:
        builder.append(timestamp, None, b"v", None)
    data = bytearray(b"".join(builder.build(0)))
    data[:8] = start.to_bytes(8, "big")
    (raw,), _ = scan(bytes(data))
    cursor = raw.open()
    cursor.max_timestamp = -1 if is_control else raw.max_timestamp
    return cursor


@pytest.fixture
def owned(handler: Handler) -> OwnedPartition:
    """A partition at offset 0 of 9."""
    buffers = Buffers(handler, 1 << 30)
    buffers.closed = False
    partition = OwnedPartition(SimpleNamespace(id=0, topic_name="t"), buffers, 2000, 1024)  # type: ignore[arg-type]
    buffers.move(partition, 0, -1)
    partition.high_watermark, partition.last_stable_offset = 9, 6
    return partition


def put(owned: OwnedPartition, *cursors: BatchReader) -> None:
    assert owned.buffers.put(owned, owned.epoch, list(cursors))


def lag(owned: OwnedPartition, read_committed: bool = False) -> Lag:
    return lag_of(owned, read_committed, NOW_MS)


def test_before_the_first_answer_and_the_first_record_it_is_unknown(owned: OwnedPartition) -> None:
    assert lag(owned) == Lag(9, 9, None)
    owned.high_watermark = -1
    assert lag(owned) == Lag(None, None, None)
    owned.high_watermark, owned.position = 9, -1
    assert lag(owned) == Lag(9, None, None)


def test_seconds_are_the_age_of_the_last_record_handed_out(owned: OwnedPartition) -> None:
    """Also in the middle of a batch whose records are far apart, and behind it."""
    put(owned, reader(NOW_MS - 90_000, NOW_MS - 60_000, NOW_MS - 30_000))
    ages = []
    for _ in range(3):
        owned.buffers.take(1)
        ages.append(lag(owned))
    assert ages == [Lag(9, 8, 90.0), Lag(9, 7, 60.0), Lag(9, 6, 30.0)]
    assert lag(owned, read_committed=True) == Lag(6, 3, 30.0)
    assert owned.buffers.take(1) == []
    assert lag(owned) == Lag(9, 6, 30.0)


def test_records_close_to_each_other_stand_for_each_other(owned: OwnedPartition) -> None:
    put(owned, reader(NOW_MS - 2_500, NOW_MS - 2_000))
    owned.buffers.take(1)
    assert lag(owned).seconds == 2.0


def test_at_the_end_there_is_none_however_old_the_last_record_is(owned: OwnedPartition) -> None:
    owned.high_watermark = 1
    put(owned, reader(NOW_MS - 90_000))
    owned.buffers.take(1)
    assert lag(owned) == Lag(1, 0, 0.0)


def test_a_clock_behind_the_producer_s_gives_no_negative_lag(owned: OwnedPartition) -> None:
    put(owned, reader(NOW_MS + 5_000))
    owned.buffers.take(1)
    assert lag(owned).seconds == 0.0


def test_markers_of_transactions_are_no_records_handed_out(owned: OwnedPartition) -> None:
    put(owned, reader(NOW_MS - 5_000), reader(NOW_MS, start=1, is_control=True))
    owned.buffers.take(1)
    owned.buffers.take(1)
    assert lag(owned).seconds == 5.0


def test_after_a_move_the_age_is_unknown(owned: OwnedPartition) -> None:
    put(owned, reader(NOW_MS - 5_000))
    owned.buffers.take(1)
    owned.buffers.move(owned, 3, 2)
    assert lag(owned) == Lag(9, 6, None)


def test_borrowed_cursors_count_when_they_are_returned(owned: OwnedPartition) -> None:
    put(owned, reader(NOW_MS - 50_000), reader(NOW_MS - 40_000, NOW_MS - 20_000, start=1))
    borrow = owned.buffers.borrow(10, 10)
    assert borrow is not None
    for cursor, count in zip(borrow.readers, (2, 1), strict=True):
        for _ in range(count):
            cursor.next()
    assert owned.buffers.return_borrowed(borrow, 1)
    assert lag(owned) == Lag(9, 7, 40.0)
