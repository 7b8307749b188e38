"""`PartitionLog`: transactions, deletion, truncation, retention, compaction."""

from __future__ import annotations

import pytest

from pykafka.protocol.records import scan
from pykafka.testing.log import PartitionLog
from pykafka.testing.topics import Partition
from tests.testing.datapath import TIME_MS, batch, old_batch


def log_of(*records: bytes) -> PartitionLog:
    log = PartitionLog()
    for one in records:
        log.append(one, TIME_MS, 0)
    return log


def values(log: PartitionLog) -> list[tuple[int, str | None]]:
    return [(message.offset, None if message.value is None else message.value.decode()) for message in log.records()]


def open_transaction(log: PartitionLog, producer: int, sequence: int = 0, epoch: int = 0) -> int:
    records = batch(
        "t", producer_id=producer, producer_epoch=epoch, base_sequence=sequence, transactional=True, keys=("k",)
    )
    return log.append(records, TIME_MS, 0)


@pytest.mark.parametrize(
    ("offset", "limit", "below", "expected"),
    [
        (0, 10**6, 6, [0, 2, 4]),
        (1, 10**6, 6, [0, 2, 4]),
        (2, 10**6, 6, [2, 4]),
        (5, 10**6, 6, [4]),
        (6, 10**6, 6, []),
        (0, 10**6, 4, [0, 2]),
        (0, 10**6, 5, [0, 2]),
        (4, 10**6, 4, []),
        (0, 1, 6, [0]),
        (0, 160, 6, [0, 2]),
    ],
)
def test_reads_of_whole_batches(offset: int, limit: int, below: int, expected: list[int]) -> None:
    log = log_of(batch("a", "b"), batch("c", "d"), batch("e", "f"))
    assert len(log.batches[0].data) == 77
    found = log.read(offset, limit, below)
    assert [scan(piece)[0][0].base_offset for piece in found] == expected
    everything = sum(map(len, log.read(offset, 10**6, below)))
    assert log.available(offset, below) == everything
    cut = log.read(offset, limit, below, whole=False)
    assert sum(map(len, cut)) == min(limit, everything)


def test_transactions() -> None:
    log = log_of(batch("x"))
    assert [open_transaction(log, producer) for producer in (1, 2, 3)] == [1, 2, 3]
    assert open_transaction(log, 1, 1) == 4
    assert (log.open_transactions, log.last_stable) == ({1: 1, 2: 2, 3: 3}, 1)
    assert log.append_marker(1, 0, False, TIME_MS, 0) == 5
    assert log.last_stable == 2
    assert log.append_marker(3, 0, True, TIME_MS, 0) == 6
    assert log.append_marker(2, 1, False, TIME_MS, 0, 7) == 7
    assert (log.last_stable, log.end) == (8, 8)
    assert log.aborted(0, 8) == [(1, 1), (2, 2)]
    assert log.aborted(0, 2) == [(1, 1)]
    assert log.aborted(6, 8) == [(2, 2)]
    assert log.aborted(8, 9) == []
    # An end that followers lack does not count.
    assert [log.stable_below(high_watermark) for high_watermark in (1, 3, 6, 7, 8)] == [1, 1, 2, 2, 8]
    assert (log.producers.by_id[2].epoch, log.producers.by_id[2].coordinator_epoch) == (1, 7)
    assert log.producers.by_id[2].last_sequence == -1
    raw = log.batches[-1].raw()
    assert (raw.is_control, raw.is_transactional, raw.control_type(), raw.producer_epoch) == (True, True, 0, 1)
    # A marker without a transaction is written, and ends none.
    assert log.append_marker(5, 0, False, TIME_MS, 0) == 8
    assert log.aborted(0, 9) == [(1, 1), (2, 2)]


def test_deletion_of_the_oldest_records() -> None:
    log = log_of(batch("a", "b", "c"), batch("d"))
    log.begin_epoch(4)
    log.delete_before(1)
    assert values(log) == [(1, "b"), (2, "c"), (3, "d")]
    assert (log.start, len(log.batches)) == (1, 2)
    log.delete_before(3)
    assert (log.start, len(log.batches), log.epochs) == (3, 1, [(0, 3), (4, 4)])
    log.delete_before(2)
    assert log.start == 3
    log.delete_before(4)
    assert (log.start, log.end, values(log), log.epochs) == (4, 4, [], [(4, 4)])
    with pytest.raises(ValueError, match="no offset 5"):
        log.delete_before(5)
    assert log.append(batch("e"), TIME_MS, 4) == 4


def test_truncation_forgets_producers_and_transactions_of_what_is_lost() -> None:
    log = log_of(batch("a"))
    open_transaction(log, 1)
    log.append_marker(1, 0, False, TIME_MS, 0)
    open_transaction(log, 2)
    log.append(batch("b"), TIME_MS, 3)
    open_transaction(log, 1, 1)
    assert log.epochs == [(0, 0), (3, 4)]
    log.truncate(9)
    assert log.end == 6
    log.truncate(4)
    assert (log.end, log.epochs, log.open_transactions) == (4, [(0, 0)], {2: 3})
    assert log.aborted(0, 9) == [(1, 1)]
    assert log.producers.by_id[1].last_sequence == 0
    log.truncate(2)
    assert (log.open_transactions, log.aborted(0, 9), sorted(log.producers.by_id)) == ({1: 1}, [], [1])
    log.truncate(0)
    assert (log.start, log.end, log.size, log.batches) == (0, 0, 0, [])


@pytest.mark.parametrize("codec", [0, 1])
@pytest.mark.parametrize("magic", [0, 1, 2])
def test_compaction_leaves_gaps(magic: int, codec: int) -> None:
    def records(*rows: str | None, keys: tuple[str, ...]) -> bytes:
        if magic == 2:
            return batch(*rows, keys=keys, codec=codec, headers=True)
        return old_batch(*rows, keys=keys, codec=codec, magic=magic)

    log = log_of(
        records("a", "b", "c", "d", keys=("x", "y", "x", "z")),
        records("e", keys=("x",)),
        records("f", None, keys=("y", "z")),
    )
    log.compact()
    assert values(log) == [(4, "e"), (5, "f"), (6, None)]
    log = log_of(records("a", "b", "c", "d", keys=("x", "y", "x", "z")), records("e", None, keys=("y", "w")))
    log.compact(tombstones=False)
    assert (values(log), log.end) == ([(2, "c"), (3, "d"), (4, "e")], 6)
    assert log.append(records("g", keys=("q",)), TIME_MS, 0) == 6
    for piece in log.read(0, 10**6, log.end):
        for raw in scan(piece)[0]:
            assert raw.open(check_crc=True).next() is not None
    assert [message.headers for message in log.records()] == [[("h", b"1")] if magic == 2 else None] * 4


def test_compaction_and_transactions() -> None:
    log = log_of(batch("a", keys=("k",)))
    open_transaction(log, 1)
    log.append_marker(1, 0, False, TIME_MS, 0)
    open_transaction(log, 2)
    log.append(batch("b", "c", keys=("k", "k")), TIME_MS, 0)
    log.compact()
    # The aborted one goes; what is behind the open one stays as it is.
    assert values(log) == [(0, "a"), (3, "t"), (4, "b"), (5, "c")]
    assert (log.open_transactions, log.producers.by_id[1].last_sequence) == ({2: 3}, 0)
    log.append_marker(2, 0, True, TIME_MS, 0)
    log.compact()
    assert values(log) == [(5, "c")]
    assert [one.is_control for one in log.batches] == [True, False, True]


def test_records_without_a_key_do_not_survive_compaction() -> None:
    log = log_of(batch("a", "b", keys=("k", None)))
    log.compact()
    assert values(log) == [(0, "a")]


def test_an_election_loses_what_the_new_leader_lacks() -> None:
    partition = Partition("orders", 0, [1, 2, 3])
    for value in "abc":
        partition.log.append(batch(value), TIME_MS, 0)
    partition.copied_to = {2: 2, 3: 1}
    partition.isr = [1, 2]
    assert (partition.high_watermark, partition.copied_by(1), partition.copied_by(3)) == (2, 3, 1)
    partition.elect(3)
    assert values(partition.log) == [(0, "a")]
    assert (partition.leader, partition.leader_epoch, partition.isr, partition.copied_to) == (3, 1, [3], {})
    assert partition.end_of_epoch(0) == (0, 1)
    partition.elect(-1)
    assert (partition.leader, partition.leader_epoch) == (-1, 2)
