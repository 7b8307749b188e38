"""df.write and df.writeStream with format("pykafka") on a real broker, read back by another client."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from pykafka.utils.murmur2 import partition_for
from tests.support.spark.topics import Record, Topics

Read = Callable[..., DataFrame]


def write(frame: DataFrame, topics: Topics, mode: str = "append", **options: Any) -> None:
    """Write a batch."""
    writer = frame.write.format("pykafka").mode(mode).option("kafka.bootstrap.servers", topics.hosts)
    writer.options(**options).save()


def test_keys_values_headers_and_partitions(spark: SparkSession, topics: Topics) -> None:
    topic = topics.create(partitions=5)
    frame = spark.createDataFrame(
        [
            ("k1", b"v1", None, [("h", b"x"), ("n", None)]),
            ("k2", None, None, None),
            (None, b"", 3, []),
            ("é", b"\x00\xff", 0, [("", b"")]),
            ("k1", b"v2", None, None),
        ],
        "key string, value binary, partition int, headers array<struct<key:string,value:binary>>",
    )
    write(frame.coalesce(1), topics, topic=topic)
    found = sorted(topics.read(topic, 5), key=repr)
    expected = [
        Record(b"v1", b"k1", partition_for(b"k1", 5), [("h", b"x"), ("n", None)]),
        Record(None, b"k2", partition_for(b"k2", 5)),
        Record(b"", None, 3),
        Record(b"\x00\xff", "é".encode(), 0, [("", b"")]),
        Record(b"v2", b"k1", partition_for(b"k1", 5)),
    ]
    assert [record._replace(timestamp=0) for record in found] == sorted(expected, key=repr)
    assert [record.value for record in found if record.key == b"k1"] == [b"v1", b"v2"]
    assert all(record.timestamp > 1_700_000_000_000 for record in found)


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_codecs(spark: SparkSession, topics: Topics, codec: str) -> None:
    topic = topics.create(partitions=3)
    frame = spark.range(20_000).selectExpr("CAST(id AS STRING) AS key", "concat('value ', id) AS value")
    write(frame, topics, topic=topic, **{"kafka.compression.type": codec})
    found = topics.read(topic, 20_000)
    assert {(record.key, record.value) for record in found} == {
        (f"{n}".encode(), f"value {n}".encode()) for n in range(20_000)
    }
    assert all(record.partition == partition_for(record.key or b"", 3) for record in found)


def test_topics_by_column(spark: SparkSession, topics: Topics) -> None:
    names = [topics.create(), topics.create(partitions=2)]
    rows = [(names[n % 2], f"{n}") for n in range(100)]
    write(spark.createDataFrame(rows, "topic string, value string"), topics)
    for number, name in enumerate(names):
        assert sorted(int(record.value or b"-1") for record in topics.read(name, 50)) == list(range(number, 100, 2))


def test_the_option_overrides_the_column(spark: SparkSession, topics: Topics) -> None:
    topic = topics.create()
    write(spark.createDataFrame([("elsewhere", "x", 7)], "topic string, value string, offset int"), topics, topic=topic)
    assert topics.read(topic, 1)[0].value == b"x"


def test_rows_without_keys_are_spread(spark: SparkSession, topics: Topics) -> None:
    topic = topics.create(partitions=3)
    write(spark.range(3000).selectExpr("repeat('x', 1000) AS value"), topics, topic=topic)
    assert {record.partition for record in topics.read(topic, 3000)} == {0, 1, 2}


def test_batches_are_cut_to_what_the_topic_takes(spark: SparkSession, topics: Topics) -> None:
    topic = topics.create(max_message_bytes="20000")
    frame = spark.range(1000).selectExpr("CAST(id AS STRING) AS key", "repeat('x', 500) AS value").coalesce(1)
    write(frame, topics, topic=topic)
    assert [record.key for record in topics.read(topic, 1000)] == [f"{n}".encode() for n in range(1000)]


def test_a_dataframe_without_rows(spark: SparkSession, topics: Topics) -> None:
    topic = topics.create()
    write(spark.range(0).selectExpr("CAST(id AS STRING) AS value"), topics, topic=topic)
    assert topics.read(topic, 0) == []


def test_stream_from_topic_to_topic(spark: SparkSession, read_stream: Read, topics: Topics, tmp_path: Path) -> None:
    source, target = topics.create(partitions=2), topics.create(partitions=4)
    topics.numbered(source, {0: 400, 1: 400})
    for expected in (800, 900):
        frame = read_stream(subscribe=source, startingOffsets="earliest", maxOffsetsPerTrigger="500")
        query = (
            frame.selectExpr("value", "value AS key")
            .writeStream.format("pykafka")
            .option("kafka.bootstrap.servers", topics.hosts)
            .option("topic", target)
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .queryName("mirror")
            .trigger(processingTime="0 seconds")
            .start()
        )
        try:
            query.processAllAvailable()
        finally:
            query.stop()
        found = topics.read(target, expected)
        assert len({record.value for record in found}) == expected
        assert all(record.key == record.value for record in found)
        topics.numbered(source, {0: 100}, first=400)


@pytest.mark.parametrize(
    ("columns", "options", "sentence"),
    [
        ("'x' AS v", {"topic": "t"}, "no column 'value' \\(it has 'v'\\)"),
        ("1 AS value", {"topic": "t"}, "column 'value' must be string or binary, not int"),
        ("'x' AS value", {}, "neither the option 'topic' nor a column 'topic'"),
        ("'x' AS value, 1.5D AS key", {"topic": "t"}, "column 'key' must be string or binary, not double"),
        ("'x' AS value, 1L AS partition", {"topic": "t"}, "column 'partition' must be int, not bigint"),
        ("'x' AS value, array('h') AS headers", {"topic": "t"}, "column 'headers' must be array<struct<"),
        ("'x' AS value", {"topic": "t", "kafka.acks": "2"}, "'kafka.acks' must be all or -1"),
    ],
)
def test_what_cannot_be_written_is_said_when_planning(
    spark: SparkSession, topics: Topics, columns: str, options: dict[str, str], sentence: str
) -> None:
    with pytest.raises(PySparkException, match=sentence):
        write(spark.sql(f"SELECT {columns}"), topics, **options)


def test_overwriting_is_refused(spark: SparkSession, topics: Topics) -> None:
    with pytest.raises(PySparkException, match="only be appended to"):
        write(spark.sql("SELECT 'x' AS value"), topics, mode="overwrite", topic="t")


@pytest.mark.parametrize(
    ("columns", "sentence"),
    [
        ("'x' AS value, CAST(NULL AS STRING) AS topic", "a null in the column 'topic'"),
        ("'x' AS value, 'no topic' AS topic", "'no topic' in the column 'topic', which cannot be a topic"),
        ("'x' AS value, '{topic}' AS topic, 9 AS partition", "'partition' has 9, but the topic has partitions 0 to 1"),
        ("repeat('x', 2000000) AS value, '{topic}' AS topic", "more than the 1048576 of option"),
    ],
)
def test_rows_that_cannot_be_written_fail_their_task(
    spark: SparkSession, topics: Topics, columns: str, sentence: str
) -> None:
    with pytest.raises(PySparkException, match=sentence):
        write(spark.sql(f"SELECT {columns.format(topic=topics.create(partitions=2))}"), topics)


@pytest.mark.needs("latest")  # before 2.4, brokers did not say more than a number
def test_what_the_broker_says_of_a_record_is_passed_on(spark: SparkSession, topics: Topics) -> None:
    topic = topics.create(cleanup_policy="compact")
    with pytest.raises(PySparkException, match="(?i)compacted topic cannot accept message without key"):
        write(spark.sql("SELECT 'x' AS value"), topics, topic=topic)
