"""DataFrames of records without a Kafka: they are as those of a topic."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from pykafka import KafkaClient
from pykafka.spark.errors import OptionError
from pykafka.spark.testing import records_frame, records_stream
from tests.support.spark.topics import Topics

RECORDS: list[dict[str, Any]] = [
    {"key": "k", "value": b"\0one", "timestamp": 1_700_000_000_123, "headers": [("trace", "7"), ("empty", None)]},
    {"value": "", "timestamp": datetime(2024, 1, 2, 3, 4, 5, 678_000, UTC)},
    {"key": b"deleted", "timestamp": 0},
]


def produced(topics: Topics) -> str:
    """Write the records to a topic of one partition."""
    name = topics.create(1)
    with KafkaClient(topics.hosts) as client, client.producer() as producer:
        for record in RECORDS:
            key, value = (one.encode() if isinstance(one, str) else one for one in map(record.get, ("key", "value")))
            headers = [(name, text and text.encode()) for name, text in record.get("headers", ())]
            moment = record["timestamp"]
            timestamp = moment if isinstance(moment, int) else int(moment.timestamp() * 1000)
            producer.produce(name, value, key=key, headers=headers, timestamp=timestamp)
    return name


@pytest.mark.kafka
@pytest.mark.parametrize("include_headers", [False, True])
def test_a_frame_is_as_a_read(
    spark: SparkSession, topics: Topics, read: Callable[..., DataFrame], include_headers: bool
) -> None:
    topic = produced(topics)
    wanted = read(subscribe=topic, includeHeaders=str(include_headers).lower())
    made = records_frame(spark, [{**record, "topic": topic} for record in RECORDS], include_headers)
    assert made.schema == wanted.schema
    assert made.orderBy("offset").collect() == wanted.orderBy("offset").collect()


@pytest.mark.parametrize("include_headers", [False, True])
def test_a_stream_has_a_micro_batch_for_each_list(spark: SparkSession, tmp_path: Path, include_headers: bool) -> None:
    name = f"frames_{include_headers}"
    batches = [RECORDS[:2], [], RECORDS[2:]]

    def run(batches: list[list[dict[str, Any]]]) -> tuple[list[int], list[Any]]:
        stream = records_stream(spark, batches, tmp_path / "batches", include_headers)
        assert stream.isStreaming
        assert stream.schema == records_frame(spark, [], include_headers).schema
        writer = stream.writeStream.format("parquet").queryName(name).trigger(availableNow=True)
        query = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start(str(tmp_path / "rows"))
        query.awaitTermination()
        rows = spark.read.schema(stream.schema).parquet(str(tmp_path / "rows")).orderBy("offset").collect()
        return [progress.numInputRows for progress in query.recentProgress], rows

    assert run(batches) == ([2, 0, 1], records_frame(spark, RECORDS, include_headers).orderBy("offset").collect())
    counts, rows = run([*batches, [{"value": "four"}]])
    assert [count for count in counts if count] == [1]
    assert [row.offset for row in rows] == [0, 1, 2, 3]
    assert bytes(rows[3].value) == b"four"


def test_offsets_count_by_partition(spark: SparkSession) -> None:
    records: list[dict[str, Any]] = [
        {"partition": 1},
        {},
        {"partition": 1, "offset": 10},
        {"partition": 1},
        {"topic": "other"},
    ]
    rows = records_frame(spark, records).collect()
    assert [(row.topic, row.partition, row.offset) for row in rows] == [
        *(("topic", 1, 0), ("topic", 0, 0), ("topic", 1, 10), ("topic", 1, 11), ("other", 0, 0)),
    ]
    assert {row.timestampType for row in rows} == {0}


@pytest.mark.parametrize(
    ("record", "words"),
    [({"val": b"x"}, "no column 'val'"), ({"timestamp": datetime(2024, 1, 1)}, "has no zone")],
)
def test_what_is_no_record_is_refused(spark: SparkSession, tmp_path: Path, record: dict[str, Any], words: str) -> None:
    with pytest.raises(OptionError, match=words):
        records_frame(spark, [record])
    with pytest.raises(OptionError, match=words):
        records_stream(spark, [[record]], tmp_path)
