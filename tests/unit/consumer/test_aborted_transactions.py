"""Which batches of a fetch answer a consumer of committed messages leaves out."""

from __future__ import annotations

import pytest
from crc32c import crc32c

from pykafka.consumer.fetch_response import AbortedTransactions
from pykafka.consumer.options import isolation_number
from pykafka.exceptions import InvalidMessageError
from pykafka.protocol import wire
from pykafka.protocol.records import RawBatch, RecordBatchBuilder, scan

ABORT, COMMIT = 0, 1
Aborted = wire.FetchResponse.Topic.Partition.AbortedTransaction


def batch(producer: int, base_offset: int, count: int = 2, *, transactional: bool = True) -> bytes:
    builder = RecordBatchBuilder()
    for number in range(count):
        builder.append(1, None, b"%d" % number, None)
    data = bytearray(b"".join(builder.build(0, producer_id=producer, transactional=transactional)))
    data[:8] = base_offset.to_bytes(8, "big")
    return bytes(data)


def marker(producer: int, base_offset: int, kind: int, key: bytes = b"\0\0") -> bytes:
    builder = RecordBatchBuilder()
    builder.append(1, key + kind.to_bytes(2, "big"), b"\0\0\0\0\0\0", None)
    data = bytearray(b"".join(builder.build(0, producer_id=producer, transactional=True)))
    data[:8] = base_offset.to_bytes(8, "big")
    data[22] |= 32
    data[17:21] = crc32c(bytes(data[21:])).to_bytes(4, "big")
    return bytes(data)


def kept(aborted: list[tuple[int, int]] | None, *batches: bytes) -> list[int]:
    found: list[RawBatch] = scan(b"".join(batches))[0]
    entries = None if aborted is None else [Aborted(producer_id=p, first_offset=o) for p, o in aborted]
    transactions = AbortedTransactions(entries)
    return [raw.base_offset for raw in found if not transactions.drops(raw)]


def test_nothing_is_left_out_where_nothing_was_aborted_but_markers() -> None:
    data = batch(-1, 0, transactional=False), batch(7, 2), marker(7, 4, COMMIT)
    assert kept(None, *data) == [0, 2]
    assert kept([], *data) == [0, 2]


def test_an_aborted_transaction_goes_and_the_next_of_the_same_producer_stays() -> None:
    data = batch(7, 0), batch(7, 2), marker(7, 4, ABORT), batch(7, 5), marker(7, 7, COMMIT)
    assert kept([(7, 0)], *data) == [5]


def test_what_others_wrote_in_between_stays() -> None:
    data = (
        batch(7, 0),
        batch(8, 2),
        batch(-1, 4, transactional=False),
        batch(7, 6, transactional=False),
        marker(8, 8, COMMIT),
        batch(7, 9),
        marker(7, 11, ABORT),
    )
    assert kept([(7, 0)], *data) == [2, 4, 6]


def test_two_aborted_transactions_of_one_producer_and_two_at_a_time() -> None:
    data = (
        batch(7, 0),
        batch(8, 2),
        marker(7, 4, ABORT),
        batch(7, 5),
        marker(7, 7, COMMIT),
        batch(8, 8),
        batch(7, 10),
        marker(8, 12, ABORT),
        batch(8, 13),
        marker(7, 15, ABORT),
        marker(8, 16, COMMIT),
    )
    assert kept([(7, 10), (8, 2), (7, 0)], *data) == [5, 13]  # in any order


def test_a_fetch_may_begin_within_an_aborted_transaction() -> None:
    assert kept([(7, 3)], batch(7, 90), marker(7, 92, ABORT), batch(7, 93)) == [93]


def test_the_first_offset_may_lie_within_a_batch() -> None:
    assert kept([(7, 1)], batch(7, 0, 5), marker(7, 5, ABORT)) == []


def test_a_marker_that_cannot_be_read_is_an_error() -> None:
    with pytest.raises(InvalidMessageError, match="ends a transaction"):
        kept([(7, 0)], batch(7, 0), marker(7, 2, ABORT, key=b""))


def test_an_isolation_level_is_one_of_kafkas() -> None:
    assert [isolation_number(name) for name in ("read_uncommitted", "read_committed")] == [0, 1]
    for wrong in ("committed", "", 1, None, ["read_committed"]):
        with pytest.raises(ValueError, match="read_uncommitted or read_committed"):
            isolation_number(wrong)  # type: ignore[arg-type]
