"""A checkpoint that changes hands between Spark's own Kafka connector and ours, in the middle of a stream.

As test_jvm_connector.py it needs the connector of one version of Spark: the part spark-4.2 runs it.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from tests.brokers import maven_jar
from tests.spark.test_jvm_connector import CONNECTOR
from tests.support.spark.topics import Record, Topics

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]
ORDERS = [("kafka", "pykafka", "kafka"), ("pykafka", "kafka", "pykafka")]

Stream = Callable[..., DataFrame]


@pytest.fixture(scope="module")
def stream(spark: SparkSession, topics: Topics) -> Stream:
    """Return `stream(format, subscribe=..., ...)`: a streaming DataFrame by either connector."""
    for coordinate in CONNECTOR:
        spark.sql(f"ADD JAR '{maven_jar(coordinate)}'")

    def load(kind: str, **options: str) -> DataFrame:
        reader = spark.readStream.format(kind).option("kafka.bootstrap.servers", topics.hosts).options(**options)
        return reader.load().selectExpr("CAST(value AS STRING) AS value")

    return load


def land(frame: DataFrame, directory: Path) -> None:
    """Write what there is as Parquet, in as many micro-batches as its limit makes."""
    query = (
        frame.writeStream.format("parquet")
        .option("checkpointLocation", f"{directory}/checkpoint")
        .trigger(availableNow=True)
        .start(f"{directory}/landed")
    )
    assert query.awaitTermination(240)


def numbers(topics: Topics, topic: str, span: range) -> None:
    """Produce numbers to two partitions."""
    topics.produce(topic, [Record(b"%d" % n, None, n % 2) for n in span])


def landed(spark: SparkSession, directory: Path) -> list[int]:
    """Return the numbers that landed."""
    return sorted(int(row.value) for row in spark.read.parquet(f"{directory}/landed").collect())


def undo_last(folder: Path) -> int:
    """Remove the newest entry of one of Spark's logs, as if the driver had been killed before it; return its number."""
    last = max(int(path.name) for path in folder.glob("[0-9]*") if path.name.isdecimal())
    (folder / str(last)).unlink()
    (folder / f".{last}.crc").unlink(missing_ok=True)
    return last


@pytest.mark.parametrize("order", ORDERS, ids="-".join)
def test_between_micro_batches(
    spark: SparkSession, stream: Stream, topics: Topics, tmp_path: Path, order: tuple[str, ...]
) -> None:
    """Each record lands once, whoever goes on; offsets in the checkpoint are the same text."""
    topic = topics.create(2)
    for turn, kind in enumerate(order):
        numbers(topics, topic, range(turn * 50, turn * 50 + 50))
        land(stream(kind, subscribe=topic, startingOffsets="earliest", maxOffsetsPerTrigger="20"), tmp_path)
        assert landed(spark, tmp_path) == list(range(turn * 50 + 50))
    for path in (tmp_path / "checkpoint" / "offsets").glob("[0-9]*"):
        version, _, offsets = path.read_text().splitlines()
        assert version == "v1"
        assert set(json.loads(offsets)[topic]) == {"0", "1"}


@pytest.mark.parametrize("order", [pair[:2] for pair in ORDERS], ids="-".join)
def test_a_micro_batch_under_way(
    spark: SparkSession, stream: Stream, topics: Topics, tmp_path: Path, order: tuple[str, ...]
) -> None:
    """One was planned and not committed, when its driver was killed: the other connector does it as planned."""
    topic, options = topics.create(2), {"startingOffsets": "earliest", "maxOffsetsPerTrigger": "20"}
    numbers(topics, topic, range(50))
    land(stream(order[0], subscribe=topic, **options), tmp_path)
    number = undo_last(tmp_path / "checkpoint" / "commits")
    assert undo_last(tmp_path / "landed" / "_spark_metadata") == number
    planned = (tmp_path / "checkpoint" / "offsets" / str(number)).read_text()
    numbers(topics, topic, range(50, 60))
    land(stream(order[1], subscribe=topic, **options), tmp_path)
    assert landed(spark, tmp_path) == list(range(60))
    assert (tmp_path / "checkpoint" / "offsets" / str(number)).read_text() == planned


@pytest.mark.parametrize("order", [pair[:2] for pair in ORDERS], ids="-".join)
def test_state(spark: SparkSession, stream: Stream, topics: Topics, tmp_path: Path, order: tuple[str, ...]) -> None:
    """Counts go on from where the other one left them."""
    topic = topics.create(2)
    found: dict[bool, int] = {}

    def keep(frame: DataFrame, _: int) -> None:
        found.update({row.odd: row["count"] for row in frame.collect()})

    for turn, kind in enumerate(order):
        numbers(topics, topic, range(turn * 50, turn * 50 + 50))
        counts = stream(kind, subscribe=topic, startingOffsets="earliest").selectExpr("value % 2 = 1 AS odd")
        query = (
            counts.groupBy("odd")
            .count()
            .writeStream.outputMode("complete")
            .option("checkpointLocation", f"{tmp_path}/checkpoint")
            .trigger(availableNow=True)
            .foreachBatch(keep)
            .start()
        )
        assert query.awaitTermination(240)
        assert found == {True: turn * 25 + 25, False: turn * 25 + 25}
