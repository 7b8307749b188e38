"""A checkpoint that changes hands between Spark's own Kafka connector and ours, in the middle of a stream.

As test_jvm_connector.py it needs a release of Spark whose connector can be had: the part spark-4.2 of `make test` runs it, and
those of the matrix run all of it on 4.0, 4.1 and 4.2.

The judge is the multiset of rows that landed: it is what the topic has.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pyspark
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

from pykafka.spark.pythons import limits_micro_batches
from tests.support.spark.connector import connector_jars
from tests.support.spark.topics import Record, Topics

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]
ORDERS = [("kafka", "pykafka", "kafka"), ("pykafka", "kafka", "pykafka")]
LONG_AGO, SINCE = 1_600_000_000_000, 1_700_000_000_000
#: Options for the start of a stream. Records of LONG_AGO come before all but the first of them.
STARTS = {
    "earliest": {"startingOffsets": "earliest"},
    "latest": {"startingOffsets": "latest"},
    "timestamp": {"startingTimestamp": str(SINCE)},
}

Stream = Callable[..., DataFrame]


@pytest.fixture(scope="module")
def stream(spark: SparkSession, topics: Topics) -> Stream:
    """Return `stream(format, subscribe=..., ...)`: a streaming DataFrame by either connector."""
    for jar in connector_jars():
        spark.sql(f"ADD JAR '{jar}'")

    def load(kind: str, **options: str) -> DataFrame:
        reader = spark.readStream.format(kind).option("kafka.bootstrap.servers", topics.hosts).options(**options)
        return reader.load().selectExpr("CAST(value AS STRING) AS value")

    return load


def land(frame: DataFrame, directory: Path) -> None:
    """Write what there is as Parquet, in as many micro-batches as its limit makes."""
    while True:
        query = (
            frame.writeStream.format("parquet")
            .option("checkpointLocation", f"{directory}/checkpoint")
            .trigger(availableNow=True)
            .start(f"{directory}/landed")
        )
        try:
            assert query.awaitTermination(240)
        except StreamingQueryException as error:
            # Spark 4.1's connector ends so behind a micro-batch that it has repeated, over its own checkpoints, too.
            if not pyspark.__version__.startswith("4.1.") or "IterableOps.map" not in str(error):
                raise
            continue
        # Before PySpark 4.2, ours reads a single micro-batch with this trigger.
        if limits_micro_batches() or not sum(progress.numInputRows for progress in query.recentProgress):
            return


def numbers(topics: Topics, topic: str, span: range, at: int = 0) -> None:
    """Produce numbers to two partitions, with a time (ms since 1970), or now."""
    topics.produce(topic, [Record(b"%d" % n, None, n % 2, None, at) for n in span])


def landed(spark: SparkSession, directory: Path) -> list[int]:
    """Return the numbers that landed."""
    return sorted(int(row.value) for row in spark.read.parquet(f"{directory}/landed").collect())


def undo_last(folder: Path) -> int:
    """Remove the newest entry of one of Spark's logs, as if the driver had been killed before it; return its number."""
    last = max(int(path.name) for path in folder.glob("[0-9]*") if path.name.isdecimal())
    (folder / str(last)).unlink()
    (folder / f".{last}.crc").unlink(missing_ok=True)
    return last


@pytest.fixture
def log_version(spark: SparkSession, request: pytest.FixtureRequest) -> Iterator[str]:
    """Set the version of the log of offsets in new checkpoints; return it as the log has it."""
    setting = "spark.sql.streaming.offsetLog.formatVersion"
    spark.conf.set(setting, request.param)
    yield f"v{request.param}" if limits_micro_batches() else "v1"
    spark.conf.unset(setting)


@pytest.mark.parametrize("log_version", ["1", pytest.param("2", marks=pytest.mark.matrix)], indirect=True)
@pytest.mark.parametrize("order", ORDERS, ids="-".join)
def test_between_micro_batches(
    spark: SparkSession, stream: Stream, topics: Topics, tmp_path: Path, order: tuple[str, ...], log_version: str
) -> None:
    """Each record lands once, whoever continues; offsets in the checkpoint are the same text."""
    topic = topics.create(2)
    for turn, kind in enumerate(order):
        numbers(topics, topic, range(turn * 50, turn * 50 + 50))
        land(stream(kind, subscribe=topic, startingOffsets="earliest", maxOffsetsPerTrigger="20"), tmp_path)
        assert landed(spark, tmp_path) == list(range(turn * 50 + 50))
    for path in (tmp_path / "checkpoint" / "offsets").glob("[0-9]*"):
        version, _, offsets, *_ = path.read_text().splitlines()
        assert version == log_version
        # The second version has the name of the source before the offsets.
        assert set(json.loads(offsets.removeprefix("0:"))[topic]) == {"0", "1"}


@pytest.mark.parametrize(
    "start", ["earliest", *(pytest.param(one, marks=pytest.mark.matrix) for one in STARTS if one != "earliest")]
)
@pytest.mark.parametrize("order", [pair[:2] for pair in ORDERS], ids="-".join)
def test_a_micro_batch_under_way(
    spark: SparkSession, stream: Stream, topics: Topics, tmp_path: Path, order: tuple[str, ...], start: str
) -> None:
    """One was planned and not committed, when its driver was killed: the other connector does it as planned."""
    topic, options = topics.create(2), {**STARTS[start], "maxOffsetsPerTrigger": "20"}
    numbers(topics, topic, range(-10, 0), LONG_AGO)
    if start == "latest":
        land(stream(order[0], subscribe=topic, **options), tmp_path)
    numbers(topics, topic, range(50))
    land(stream(order[0], subscribe=topic, **options), tmp_path)
    number = undo_last(tmp_path / "checkpoint" / "commits")
    assert undo_last(tmp_path / "landed" / "_spark_metadata") == number
    planned = (tmp_path / "checkpoint" / "offsets" / str(number)).read_text()
    numbers(topics, topic, range(50, 60))
    land(stream(order[1], subscribe=topic, **options), tmp_path)
    first = -10 if start == "earliest" else 0
    assert landed(spark, tmp_path) == list(range(first, 60))
    assert (tmp_path / "checkpoint" / "offsets" / str(number)).read_text() == planned


@pytest.mark.matrix
@pytest.mark.parametrize("order", ORDERS, ids="-".join)
def test_topics_and_partitions_added_in_between(
    spark: SparkSession, stream: Stream, topics: Topics, tmp_path: Path, order: tuple[str, ...]
) -> None:
    """The source that continues reads a new partition and a new topic from their first records."""
    first = topics.create(1)
    pattern = {"subscribePattern": f"{first}.*", "startingOffsets": "earliest"}
    numbers(topics, first, range(0, 20, 2))
    land(stream(order[0], **pattern), tmp_path)
    topics.grow(first, 2)
    second = topics.create(2, prefix=first)
    numbers(topics, first, range(20, 40))
    numbers(topics, second, range(100, 120))
    expected = [*range(0, 20, 2), *range(20, 40), *range(100, 120)]
    for turn, kind in enumerate(order[1:]):
        land(stream(kind, **pattern), tmp_path)
        assert landed(spark, tmp_path) == expected
        numbers(topics, second, range(200 + turn * 10, 210 + turn * 10))
        expected += range(200 + turn * 10, 210 + turn * 10)
    land(stream(order[0], **pattern), tmp_path)
    assert landed(spark, tmp_path) == expected


def test_an_empty_first_micro_batch(spark: SparkSession, stream: Stream, topics: Topics, tmp_path: Path) -> None:
    """Ours notes a start that moves in an empty one; the connector continues from there."""
    topic, options = topics.create(2), {"startingOffsets": "latest"}
    numbers(topics, topic, range(10))
    land(stream("pykafka", subscribe=topic, **options), tmp_path)
    numbers(topics, topic, range(10, 20))
    land(stream("kafka", subscribe=topic, **options), tmp_path)
    assert landed(spark, tmp_path) == list(range(10, 20))


def test_a_first_micro_batch_whose_start_only_the_connector_knows(
    spark: SparkSession, stream: Stream, topics: Topics, tmp_path: Path
) -> None:
    """Planned with records from a start that moves, and not done: ours says so, and does it when it is told the start."""
    topic = topics.create(2)
    numbers(topics, topic, range(10))
    # As if these ten had come between two requests of a connector that starts at `latest`.
    land(stream("kafka", subscribe=topic, startingOffsets="earliest"), tmp_path)
    assert undo_last(tmp_path / "checkpoint" / "commits") == undo_last(tmp_path / "landed" / "_spark_metadata") == 0
    numbers(topics, topic, range(10, 20))
    with pytest.raises(StreamingQueryException, match="planned and not done"):
        land(stream("pykafka", subscribe=topic, startingOffsets="latest"), tmp_path)
    noted = (tmp_path / "checkpoint" / "sources" / "0" / "0").read_text().splitlines()[-1]
    land(stream("pykafka", subscribe=topic, startingOffsets=noted), tmp_path)
    assert landed(spark, tmp_path) == list(range(20))


@pytest.mark.parametrize("order", [pair[:2] for pair in ORDERS], ids="-".join)
def test_state(spark: SparkSession, stream: Stream, topics: Topics, tmp_path: Path, order: tuple[str, ...]) -> None:
    """Counts continue from where the other one left them."""
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
