"""Rows of the Spark sink on their way into record batches: partitions, sizes and what is refused."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pykafka.protocol.records import RecordBatchBuilder
from pykafka.spark.errors import SinkError
from pykafka.spark.rows import STICKY_BYTES, BytesColumn, TopicBatches
from pykafka.utils.murmur2 import partition_for

# Printed by org.apache.kafka.common.utils.Utils of kafka-clients 4.3.1: key (hex), murmur2(key) as an unsigned number.
JAVA_MURMUR2 = [
    ("", 275646681),
    ("61", 2731586172),
    ("6162", 316155434),
    ("616263", 479470107),
    ("61626364", 2971317748),
    ("6162636465", 461995741),
    ("666c696768742d31353435", 3845322681),
    ("554131353435", 2293389670),
    ("612d6c6f6e6765722d6b65792d6f662d6d6f72652d7468616e2d7369787465656e2d6279746573", 2852927141),
    ("c3a9e4b8adf09f9880", 1824111047),
    ("00", 375494588),
    ("00000000", 850957120),
    ("ffffffffff", 3931128674),
    ("807ffe03fc05fa", 373305218),
]


@pytest.mark.parametrize(("key", "java"), JAVA_MURMUR2)
@pytest.mark.parametrize("partitions", [1, 3, 12, 2**31 - 1])
def test_partitions_are_those_of_javas_producer(key: str, java: int, partitions: int) -> None:
    assert partition_for(bytes.fromhex(key), partitions) == (java & 0x7FFFFFFF) % partitions


def column(values: list[bytes | None] | list[bytes]) -> BytesColumn:
    array = pa.array(values, pa.binary())
    return BytesColumn(array.buffers(), array.offset)


class Emitted:
    def __init__(self) -> None:
        self.batches: list[tuple[str, int, list[Any], int]] = []

    def __call__(self, topic: str, partition: int, builder: RecordBatchBuilder) -> None:
        self.batches.append((topic, partition, [record[1:] for record in builder.records()], builder.size))

    def by_partition(self) -> dict[int, list[Any]]:
        found: dict[int, list[Any]] = {}
        for _, partition, records, _ in self.batches:
            found.setdefault(partition, []).extend(records)
        return found


@settings(deadline=None)
@given(st.lists(st.none() | st.binary(max_size=20)), st.integers(0, 5), st.integers(0, 5))
def test_bytes_column_reads_what_arrow_holds(values: list[bytes | None], skip_front: int, skip_back: int) -> None:
    array = pa.array(values, pa.binary())
    array = array.slice(skip_front, max(0, len(values) - skip_front - skip_back))
    found = BytesColumn(array.buffers(), array.offset)
    assert [found.get(row) for row in range(len(array))] == array.to_pylist()


def test_rows_go_to_the_partitions_of_their_keys_and_of_the_column() -> None:
    emitted = Emitted()
    batches = TopicBatches("t", 5, 1 << 20, emitted)
    keys: list[bytes | None] = [b"a", b"b", None, b"a", None]
    values: list[bytes | None] = [b"1", b"2", b"3", None, b""]
    headers: list[Any] = [None, [("h", b"x"), ("h", None)], None, None, None]
    batches.append(range(5), 1234, column(keys), column(values), headers, [None, 3, 0, None, 2])
    assert batches.flush() == 0
    a = partition_for(b"a", 5)
    expected: dict[int, list[Any]] = {
        3: [(b"b", b"2", [("h", b"x"), ("h", None)])],
        0: [(None, b"3", None)],
        2: [(None, b"", None)],
    }
    expected.setdefault(a, [])
    expected[a] += [(b"a", b"1", None), (b"a", None, None)]
    assert emitted.by_partition() == expected


def test_only_the_rows_asked_for() -> None:
    emitted = Emitted()
    batches = TopicBatches("t", 1, 1 << 20, emitted)
    batches.append([0, 2], 0, None, column([b"x", b"y", b"z"]), None, None)
    batches.flush()
    assert emitted.by_partition() == {0: [(None, b"x", None), (None, b"z", None)]}


@pytest.mark.parametrize("size", [10, 1000, 30_000])
def test_batches_stay_below_the_limit(size: int) -> None:
    emitted = Emitted()
    batches = TopicBatches("t", 2, 65_536, emitted)
    values = [bytes([row % 256]) * size for row in range(300)]
    batches.append(range(300), 0, None, column(values), None, [row % 2 for row in range(300)])
    batches.flush()
    assert all(batch_size <= 65_536 for _, _, _, batch_size in emitted.batches)
    found = emitted.by_partition()
    assert [record[1] for record in found[0]] == values[::2]
    assert [record[1] for record in found[1]] == values[1::2]


def test_rows_without_keys_are_spread_in_stretches() -> None:
    emitted = Emitted()
    batches = TopicBatches("t", 3, 1 << 20, emitted, sticky=2)
    batches.append(range(40), 0, None, column([bytes(STICKY_BYTES // 10)] * 40), None, None)
    batches.flush()
    assert sorted(emitted.by_partition()) == [0, 1, 2]
    assert len(emitted.batches) == 3


def test_flush_keeps_small_batches_open() -> None:
    emitted = Emitted()
    batches = TopicBatches("t", 2, 1 << 20, emitted)
    batches.append([0, 1], 0, None, column([b"x" * 5000, b"y"]), None, [0, 1])
    assert 0 < batches.flush(1000) < 1000
    assert list(emitted.by_partition()) == [0]


@pytest.mark.parametrize("partition", [-1, 2, 2**31 - 1])
def test_partitions_that_do_not_exist_are_refused(partition: int) -> None:
    batches = TopicBatches("t", 2, 1 << 20, Emitted())
    with pytest.raises(SinkError, match=f"'partition' has {partition}, but the topic has partitions 0 to 1"):
        batches.append([0], 0, None, column([b"x"]), None, [partition])


def test_rows_that_no_batch_can_hold_are_refused() -> None:
    batches = TopicBatches("t", 2, 2000, Emitted())
    with pytest.raises(SinkError, match="more than the 2000 of option"):
        batches.append([0], 0, None, column([b"x" * 3000]), None, None)


def test_strings_are_written_as_utf8() -> None:
    emitted = Emitted()
    batches = TopicBatches("t", 1, 1 << 20, emitted)
    array = pa.array(["é中😀"]).cast(pa.binary())
    batches.append([0], 0, None, BytesColumn(array.buffers(), array.offset), None, None)
    batches.flush()
    assert emitted.by_partition() == {0: [(None, "é中😀".encode(), None)]}
