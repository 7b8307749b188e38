"""The same topics through Spark's own Kafka connector and through ours: row for row the same.

A connector goes with one version of Spark: the part spark-4.2 of `make test` runs this, and others of the matrix; PySpark 4.3
has none (conftest.py).
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable

import pytest
from pyspark.sql import DataFrame, Row, SparkSession

from tests.support.spark.connector import connector_jars
from tests.support.spark.topics import Record, Topics

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(300),
]

Both = Callable[..., list[Row]]


@pytest.fixture(scope="module")
def both(spark: SparkSession, topics: Topics) -> Both:
    """Return `both(subscribe=..., ...)`: reads by both connectors, compares, and returns the rows by offset."""
    for jar in connector_jars():
        spark.sql(f"ADD JAR '{jar}'")

    def rows(kind: str, options: dict[str, str]) -> list[Row]:
        reader = spark.read.format(kind).option("kafka.bootstrap.servers", topics.hosts).options(**options)
        return as_rows(reader.load())

    def compare(**options: str) -> list[Row]:
        options = {"includeHeaders": "true", **options}
        theirs, ours = rows("kafka", options), rows("pykafka", options)
        assert ours == theirs
        return ours

    return compare


def as_rows(frame: DataFrame) -> list[Row]:
    """Return the rows in the order of topic, partition and offset; times as microseconds."""
    assert [field.simpleString() for field in frame.schema.fields]
    exact = frame.withColumn("timestamp", frame.timestamp.cast("double"))
    return sorted(exact.collect(), key=lambda row: (row.topic, row.partition, row.offset))


def test_codecs_nulls_headers_and_times(both: Both, topics: Topics) -> None:
    topic = topics.create(partitions=4)
    stamped = topics.create(message_timestamp_type="LogAppendTime")
    headers: list[tuple[str, bytes | None]] = [("a", b"1"), ("a", None), ("é", b""), ("", b"\x00\xff")]
    for codec in ("none", "gzip", "snappy", "lz4", "zstd"):
        records = [
            Record(
                None if n % 7 == 0 else f"{codec}-{n}".encode() * (n % 20),
                None if n % 5 == 0 else b"" if n % 5 == 1 else b"\xff\x00%d" % n,
                n % 3,  # partition 3 stays empty
                headers[: n % 5] or None,
                1_700_000_000_000 + 997 * n,
            )
            for n in range(500)
        ]
        topics.produce(topic, records, codec)
        topics.produce(stamped, [record._replace(partition=0) for record in records[:50]], codec)
    assert len(both(subscribe=f"{topic},{stamped}")) == 2750


def test_a_pattern_that_matches_nothing(both: Both) -> None:
    assert both(subscribePattern="no-such-.*") == []


@pytest.mark.parametrize("level", ["read_committed", "read_uncommitted"])
def test_transactions(both: Both, topics: Topics, level: str) -> None:
    topic = topics.create(partitions=2)
    for end in ("commit", "abort", "commit", "abort"):
        topics.transaction(topic, [Record(f"{end}{n}".encode(), None, n % 2) for n in range(30)], end, "lz4")
    waiting = topics.transaction(topic, [Record(b"open")], "open")
    topics.produce(topic, [Record(b"behind")])
    found = both(subscribe=topic, **{"kafka.isolation.level": level})
    waiting.abort_transaction(30)
    assert len(found) == (60 if level == "read_committed" else 122)


def test_gaps_of_compaction(both: Both, read: Callable[..., DataFrame], topics: Topics) -> None:
    topic = topics.compacting()
    deadline, before, count = time.monotonic() + 60, 0, 401
    while count == 401 or count != before:
        assert time.monotonic() < deadline, f"the broker does not get ready with compacting: {count} records"
        time.sleep(2.5)
        before, count = count, read(subscribe=topic).count()
    found = both(subscribe=topic)
    offsets = [row.offset for row in found]
    assert offsets[-1] - offsets[0] > len(offsets)
    # Ranges that begin and end in the gaps.
    assert len(both(subscribe=topic, minPartitions="13")) == len(found)


def test_times_and_limits(both: Both, topics: Topics) -> None:
    topic = topics.create(partitions=2)
    topics.produce(topic, [Record(b"x", None, n % 2, None, 1_700_000_000_000 + 1000 * n) for n in range(100)])
    first, last = 1_700_000_020_500, 1_700_000_080_000
    assert len(both(subscribe=topic, startingTimestamp=str(first), endingTimestamp=str(last))) == 59
    by_partition = json.dumps({topic: {"0": first, "1": last}})
    assert both(subscribe=topic, startingOffsetsByTimestamp=by_partition, maxRecordsPerPartition="7")
    offsets = {"startingOffsets": {"0": -2, "1": 7}, "endingOffsets": {"0": 9, "1": -1}}
    assert both(
        subscribePattern=f"{topic[:10]}.*{topic[10:]}", **{k: json.dumps({topic: v}) for k, v in offsets.items()}
    )
