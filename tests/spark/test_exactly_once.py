"""Batches and streams in transactions, from Spark to a real broker: transactionalIdPrefix."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from pykafka import KafkaClient
from tests.support.spark.topics import Topics

pytestmark = [pytest.mark.needs("listed transactions")]
Read = Callable[..., DataFrame]


def seen(topics: Topics, topic: str, level: str = "read_committed") -> list[str]:
    """Return the values that a reader sees."""
    with (
        KafkaClient(topics.hosts) as client,
        client.consumer(topic, isolation_level=level, consumer_timeout_ms=1500) as consumer,
    ):
        return sorted((message.value or b"").decode() for message in consumer)


def numbers(count: int, partitions: int = 2) -> list[str]:
    return sorted(f"{partition}:{number}" for partition in range(partitions) for number in range(count))


class Query:
    """A query from a topic to another in transactions."""

    def __init__(self, frame: DataFrame, topics: Topics, topic: str, path: Path, **more: Any) -> None:
        self._frame = frame
        self.path = path
        self._options = {
            "kafka.bootstrap.servers": topics.hosts,
            "topic": topic,
            "transactionalIdPrefix": topic,
            "checkpointLocation": str(path),
            **more,
        }

    def run(self) -> None:
        """Do all that there is."""
        rows = self._frame.select("value")
        query = rows.writeStream.format("pykafka").options(**self._options).trigger(availableNow=True).start()
        assert query.awaitTermination(120)

    def run_by_foreach_batch(self) -> None:
        """Do the same by batch writes."""
        options = {name: text for name, text in self._options.items() if name != "checkpointLocation"}

        def write(rows: DataFrame, _: int) -> None:
            rows.write.format("pykafka").mode("append").options(**options, foreachBatch="true").save()

        writer = self._frame.select("value").writeStream.foreachBatch(write)
        query = writer.option("checkpointLocation", str(self.path)).trigger(availableNow=True).start()
        assert query.awaitTermination(120)

    def forget_last_commit(self) -> None:
        """Take Spark's log of the last micro-batch away, as a crash before it was written does."""
        last = max((file for file in (self.path / "commits").glob("[0-9]*")), key=lambda file: int(file.name))
        last.unlink()
        (last.parent / f".{last.name}.crc").unlink(missing_ok=True)


@pytest.mark.parametrize("by", [Query.run, Query.run_by_foreach_batch])
def test_a_micro_batch_that_spark_repeats(
    read_stream: Read, topics: Topics, tmp_path: Path, by: Callable[[Query], None]
) -> None:
    source, target = topics.create(partitions=2), topics.create(partitions=3)
    topics.numbered(source, {0: 100, 1: 100})
    frame = read_stream(subscribe=source, startingOffsets="earliest")
    query = Query(frame, topics, target, tmp_path / "checkpoint")
    by(query)
    query.forget_last_commit()
    topics.numbered(source, {0: 100, 1: 100}, first=100)
    by(query)
    by(query)  # PySpark 4.0 and 4.1 do no more than the micro-batch that they repeat
    assert seen(topics, target) == seen(topics, target, "read_uncommitted") == numbers(200)


def test_refusals(read_stream: Read, topics: Topics, tmp_path: Path) -> None:
    source, target = topics.create(partitions=2), topics.create(partitions=1)
    topics.numbered(source, {0: 10, 1: 10})
    frame = read_stream(subscribe=source, startingOffsets="earliest")
    Query(frame, topics, target, tmp_path / "one").run()
    with pytest.raises(PySparkException, match=r"PrefixInUseError: the query [-0-9a-f]+ uses"):
        Query(frame, topics, target, tmp_path / "two").run()
    topics.numbered(source, {0: 10, 1: 10}, first=10)
    old = tmp_path / "old"
    shutil.copytree(tmp_path / "one", old)
    Query(frame, topics, target, tmp_path / "one").run()
    topics.numbered(source, {0: 10, 1: 10}, first=20)
    Query(frame, topics, target, tmp_path / "one").run()
    with pytest.raises(PySparkException, match="StaleCheckpointError: the checkpoint is at micro-batch 1, and"):
        Query(frame, topics, target, old).run()
    with pytest.raises(PySparkException, match="EpochRecordMissingError.*Set 'transactionsFrom' = 1"):
        Query(frame, topics, target, old, transactionalIdPrefix=f"{target}-2").run()
    assert seen(topics, target) == numbers(30)


def test_a_batch_write_is_all_or_nothing(spark: SparkSession, topics: Topics) -> None:
    target = topics.create(partitions=2)

    def write(expression: str) -> None:
        writer = spark.range(0, 100, 1, 2).selectExpr(f"{expression} AS value").write.format("pykafka").mode("append")
        options = {"kafka.bootstrap.servers": topics.hosts, "topic": target, "transactionalIdPrefix": target}
        writer.options(**options).save()

    with pytest.raises(PySparkException, match="(?s)of the query"):
        write("IF(id = 99, raise_error('of the query'), CAST(id AS STRING))")
    assert seen(topics, target) == []
    write("CAST(id AS STRING)")
    assert seen(topics, target) == sorted(map(str, range(100)))
