"""spark.read.format("pykafka") on a real broker."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from tests.support.spark.topics import Record, Topics

Read = Callable[..., DataFrame]

DELETES_RECORDS = pytest.mark.needs("deletion")


def values(frame: DataFrame) -> list[str]:
    """Return the values as text, sorted."""
    return sorted(row.value for row in frame.selectExpr("CAST(value AS STRING) AS value").collect())


@pytest.mark.needs("headers")
def test_every_column(read: Read, topics: Topics) -> None:
    topic = topics.create()
    headers: list[tuple[str, bytes | None]] = [("a", b"\x00\xff"), ("a", None), ("é", b"")]
    topics.produce(
        topic,
        [
            Record(b"v0", b"k0", 0, None, 1_700_000_000_123),
            Record(None, b"\xff\x00", 0, headers, 1_700_000_000_124),
            Record(b"", None, 0, None, 1),
            Record("ü€".encode(), b"", 0, [("only", b"one")], 1_700_000_000_999),
        ],
    )
    frame = read(subscribe=topic, includeHeaders="true")
    assert frame.schema.simpleString() == (
        "struct<key:binary,value:binary,topic:string,partition:int,offset:bigint,timestamp:timestamp,timestampType:int,"
        "headers:array<struct<key:string,value:binary>>>"
    )
    rows = frame.orderBy("offset").collect()
    assert [(row.key, row.value) for row in rows] == [
        (b"k0", b"v0"),
        (b"\xff\x00", None),
        (None, b""),
        (b"", "ü€".encode()),
    ]
    assert {(row.topic, row.partition, row.timestampType) for row in rows} == {(topic, 0, 0)}
    assert [row.offset for row in rows] == [0, 1, 2, 3]
    times = frame.orderBy("offset").selectExpr("unix_millis(timestamp) AS t").collect()
    assert [row.t for row in times] == [1_700_000_000_123, 1_700_000_000_124, 1, 1_700_000_000_999]
    found = [None if row.headers is None else [(header.key, header.value) for header in row.headers] for row in rows]
    assert found == [None, headers, None, [("only", b"one")]]


def test_no_headers_column_unless_asked_for(read: Read, topics: Topics) -> None:
    assert "headers" not in read(subscribe=topics.create()).columns


@pytest.mark.parametrize(
    "codec", ["none", "gzip", "snappy", "lz4", pytest.param("zstd", marks=pytest.mark.needs("zstd"))]
)
def test_codecs(read: Read, topics: Topics, codec: str) -> None:
    topic = topics.create(partitions=3)
    expected = [Record(f"value {n} ".encode() * (1 + n % 40), f"{n}".encode(), n % 3) for n in range(5000)]
    topics.produce(topic, expected, codec)
    rows = read(subscribe=topic).select("key", "value", "partition").collect()
    assert sorted((row.key, row.value, row.partition) for row in rows) == sorted(
        record[1::-1] + record[2:3] for record in expected
    )


@pytest.mark.needs("timestamps")
def test_append_time(read: Read, topics: Topics) -> None:
    topic = topics.create(message_timestamp_type="LogAppendTime")
    before = datetime.now(UTC).timestamp()
    topics.produce(topic, [Record(b"x", timestamp=1000)])
    row = read(subscribe=topic).selectExpr("timestampType", "unix_millis(timestamp) / 1000 AS t").first()
    assert row is not None
    assert row.timestampType == 1
    assert before - 60 < row.t < before + 60


def test_large_records_and_batches_cut(read: Read, topics: Topics) -> None:
    topic = topics.create(max_message_bytes="4000000")
    sizes = [1, 3_000_000, 10, 900_000] * 5
    topics.produce(topic, [Record(bytes([n]) * size) for n, size in enumerate(sizes)], "lz4")
    rows = read(subscribe=topic, **{"kafka.max.partition.fetch.bytes": "100000"}).selectExpr(
        "offset", "length(value) AS size", "hex(substr(value, -1)) AS last"
    )
    assert [tuple(row) for row in rows.orderBy("offset").collect()] == [
        (n, size, f"{n:02X}") for n, size in enumerate(sizes)
    ]


@pytest.mark.needs("headers")
@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        ("value binary, offset bigint", [(b"v0", 0), (b"v1", 1)]),
        ("offset bigint, key binary", [(0, b"k"), (1, None)]),
        ("headers array<struct<key:string,value:binary>>", [([("h", b"x")],), (None,)]),
        ("partition int", [(0,), (0,)]),
    ],
)
def test_only_the_columns_of_the_users_schema(
    read: Read, topics: Topics, schema: str, expected: list[tuple[object, ...]]
) -> None:
    topic = topics.create()
    topics.produce(topic, [Record(b"v0", b"k", headers=[("h", b"x")]), Record(b"v1")])
    assert [tuple(row) for row in read(schema, subscribe=topic).collect()] == expected


def test_offsets_by_partition(read: Read, topics: Topics) -> None:
    topic = topics.create(partitions=3)
    topics.numbered(topic, {0: 10, 1: 10, 2: 10})
    starting = {topic: {"0": 8, "1": -2, "2": 10}}
    ending = {topic: {"0": -1, "1": 2, "2": -1}}
    frame = read(subscribe=topic, startingOffsets=json.dumps(starting), endingOffsets=json.dumps(ending))
    assert values(frame) == ["0:8", "0:9", "1:0", "1:1"]


@DELETES_RECORDS
def test_a_start_that_turns_out_to_be_behind_the_end(read: Read, topics: Topics) -> None:
    topic = topics.create()
    topics.numbered(topic, {0: 10})
    topics.delete_before(topic, 0, 6)
    with pytest.raises(PySparkException, match=f"{topic}-0 is to be read from offset 6 to 3, which is before it"):
        read(subscribe=topic, endingOffsets=json.dumps({topic: {"0": 3}})).collect()


def test_subscribe_pattern_matches_whole_names(read: Read, topics: Topics) -> None:
    prefix = topics.create()
    first, second, other = (topics.create(prefix=f"{prefix}.{kind}") for kind in ("in", "in", "out"))
    for topic in (first, second, other):
        topics.produce(topic, [Record(topic.encode())])
    assert values(read(subscribePattern=f"{prefix}\\.in-.*")) == sorted([first, second])
    assert values(read(subscribe=f"{first},{other}")) == sorted([first, other])


def test_a_pattern_that_matches_nothing_reads_nothing(read: Read) -> None:
    # As Spark's own connector has it (test_jvm_connector.py).
    assert read(subscribePattern="no-such-.*").collect() == []


def test_assign(read: Read, topics: Topics) -> None:
    topic = topics.create(partitions=3)
    topics.numbered(topic, {0: 2, 1: 2, 2: 2})
    assert values(read(assign=json.dumps({topic: [0, 2]}))) == ["0:0", "0:1", "2:0", "2:1"]


def test_empty_topic(read: Read, topics: Topics) -> None:
    assert read(subscribe=topics.create(partitions=2)).count() == 0


def test_a_limit_leaves_the_worker_usable(read: Read, topics: Topics) -> None:
    topic = topics.create()
    topics.produce(topic, [Record(b"x" * 1000)] * 20_000)
    frame = read(subscribe=topic)
    assert len(frame.take(3)) == 3
    assert frame.count() == 20_000


def test_joined_with_itself(read: Read, topics: Topics) -> None:
    topic = topics.create(partitions=2)
    topics.numbered(topic, {0: 500, 1: 500})
    frame = read(subscribe=topic)
    assert frame.join(frame.withColumnRenamed("offset", "other"), "value").count() == 1000


@DELETES_RECORDS
@pytest.mark.parametrize("fail", ["true", "false"])
def test_records_that_are_gone(read: Read, topics: Topics, fail: str) -> None:
    topic = topics.create()
    topics.numbered(topic, {0: 10})
    topics.delete_before(topic, 0, 6)
    options = {"startingOffsets": json.dumps({topic: {"0": 3}}), "failOnDataLoss": fail}
    if fail == "true":
        with pytest.raises(PySparkException, match="from offset 3, but its oldest record left is 6") as caught:
            read(subscribe=topic, **options).collect()
        assert "failOnDataLoss" in str(caught.value)
    else:
        assert values(read(subscribe=topic, **options)) == ["0:6", "0:7", "0:8", "0:9"]


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"subscribe": "no-such-topic"}, "no-such-topic does not exist on"),
        ({"assign": '{"no-such-topic":[0]}'}, "no-such-topic-0 does not exist"),
        ({"subscribe": "a", "startingoffset": "earliest"}, "did you mean 'startingOffsets'"),
        ({"subscribe": "a", "startingOffsets": "latest"}, "'startingOffsets' cannot be 'latest'"),
        ({"subscribe": "a", "kafka.bootstrap.servers": "127.0.0.1:1", "fetchOffset.numRetries": "0"}, "127.0.0.1:1"),
        ({}, "'subscribe', 'subscribePattern' and 'assign'"),
    ],
)
def test_what_cannot_be_is_said_when_planning(read: Read, options: dict[str, str], sentence: str) -> None:
    with pytest.raises(PySparkException, match=sentence):
        read(**options).collect()


def test_offsets_must_name_every_partition(read: Read, topics: Topics) -> None:
    topic = topics.create(partitions=2)
    with pytest.raises(PySparkException, match=f"it lacks {topic}-1"):
        read(subscribe=topic, startingOffsets=json.dumps({topic: {"0": 0}})).collect()


@pytest.mark.parametrize(
    ("schema", "sentence"),
    [("value string", "only as binary"), ("valu binary", "no column 'valu'"), ("offset int", "only as bigint")],
)
def test_schemas_that_cannot_be(read: Read, schema: str, sentence: str) -> None:
    with pytest.raises(PySparkException, match=sentence):
        read(schema, subscribe="a").collect()


def test_sql_reads_with_options(spark: SparkSession, read: Read, topics: Topics) -> None:
    topic = topics.create()
    topics.numbered(topic, {0: 3})
    read(subscribe=topic).createOrReplaceTempView("numbers")
    assert spark.sql("SELECT count(*) AS n FROM numbers WHERE offset > 0").first().n == 2  # type: ignore[union-attr]
