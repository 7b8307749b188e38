"""spark.readStream.format("pykafka") on a real broker."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from pykafka.spark.microbatch import NOTHING_READ
from tests.support.spark.topics import Record, Topics

Read = Callable[..., DataFrame]
TIMEOUT_S = 300
TIME = 1_700_000_000_000
#: PySpark 4.0 and 4.1 run one micro-batch where Trigger.AvailableNow asks for all there is.
SPARK_LIMITS = find_spec("pyspark.sql.streaming.datasource") is not None
TRIGGERS = (
    [{"availableNow": True}, {"processingTime": "0 seconds"}] if SPARK_LIMITS else [{"processingTime": "0 seconds"}]
)


class Landing:
    """Land a stream as files, in one run after another from the same checkpoint.

    :param spark: the session
    :param path: for files and checkpoint
    """

    def __init__(self, spark: SparkSession, path: Path) -> None:
        self._spark = spark
        self._path = path

    def start(
        self, frame: DataFrame, sink: Callable[[DataFrame, int], None] | None = None, **trigger: Any
    ) -> StreamingQuery:
        """Start a run; another sink than files takes each micro-batch."""
        writer = (
            frame.selectExpr("CAST(value AS STRING) AS value")
            .writeStream.option("checkpointLocation", str(self._path / "checkpoint"))
            .trigger(**trigger)
        )
        if sink is not None:
            return writer.foreachBatch(sink).start()
        return writer.format("parquet").start(str(self._path / "data"))

    def run(self, frame: DataFrame, sink: Callable[[DataFrame, int], None] | None = None, **trigger: Any) -> list[int]:
        """Read all there is now, and return how many rows each micro-batch had."""
        query = self.start(frame, sink, **(trigger or {"availableNow": True}))
        try:
            if "processingTime" in trigger:
                query.processAllAvailable()
            else:
                assert query.awaitTermination(TIMEOUT_S)
        finally:
            query.stop()
        return [progress["numInputRows"] for progress in query.recentProgress]

    def landed(self) -> list[str]:
        """Return the values that landed, sorted."""
        if not (self._path / "data").exists():
            return []
        return sorted(
            row.value for row in self._spark.read.schema("value string").parquet(str(self._path / "data")).collect()
        )

    def offsets(self, batch: int) -> Any:
        """Return the offsets that the checkpoint has as the end of a micro-batch."""
        lines = (self._path / "checkpoint" / "offsets" / str(batch)).read_text().splitlines()
        return json.loads(lines[-1])


@pytest.fixture
def landing(spark: SparkSession, tmp_path: Path) -> Landing:
    return Landing(spark, tmp_path)


def numbers(partition: int, first: int, last: int) -> list[str]:
    return [f"{partition}:{n}" for n in range(first, last)]


@pytest.mark.parametrize("trigger", TRIGGERS, ids=str)
def test_limited_batches_and_restart_from_checkpoint(
    read_stream: Read, topics: Topics, landing: Landing, trigger: dict[str, Any]
) -> None:
    topic = topics.create(partitions=2)
    topics.numbered(topic, {0: 30, 1: 10})
    options = {"subscribe": topic, "startingOffsets": "earliest", "maxOffsetsPerTrigger": "20"}
    assert landing.run(read_stream(**options), **trigger) == [20, 20]
    assert landing.offsets(0) == {topic: {"0": 15, "1": 5}}
    topics.numbered(topic, {0: 5}, first=30)
    assert landing.run(read_stream(**options), **trigger) == [5]
    assert landing.landed() == sorted(numbers(0, 0, 35) + numbers(1, 0, 10))


def test_latest_stays_where_it_was_first(read_stream: Read, topics: Topics, landing: Landing) -> None:
    topic = topics.create()
    topics.numbered(topic, {0: 5})
    assert landing.run(read_stream(subscribe=topic)) == [0]
    assert landing.offsets(0) == {topic: {"0": 5}, NOTHING_READ: {}}
    topics.numbered(topic, {0: 3}, first=5)
    assert sum(landing.run(read_stream(subscribe=topic))) == 3
    assert landing.landed() == numbers(0, 5, 8)


@pytest.mark.needs("times")
@pytest.mark.parametrize("strategy", ["error", "latest"])
def test_a_start_by_time_survives_a_failure_of_the_first_batch(
    read_stream: Read, topics: Topics, landing: Landing, strategy: str
) -> None:
    """Where every partition has a record of that time, records come at once; else the first one notes the places."""
    topic = topics.create(partitions=2)
    first = {0: 3, 1: 6 if strategy == "error" else 10}
    for partition in (0, 1):
        timed(topics, topic, partition, range(10), boundary=first[partition])
    options = {"subscribe": topic, "startingTimestamp": TIME, "startingOffsetsByTimestampStrategy": strategy}

    def fail(_frame: DataFrame, _batch: int) -> None:
        raise ValueError("the first micro-batch fails")

    with pytest.raises(PySparkException, match="the first micro-batch fails"):
        landing.run(read_stream(**options), sink=fail)
    ends = landing.offsets(0)
    if strategy == "error":
        assert ends == {topic: {"0": 10, "1": 10}}
    else:
        assert ends == {topic: {"0": 3, "1": 10}, NOTHING_READ: {}}
    for partition in (0, 1):
        timed(topics, topic, partition, range(10, 15), boundary=0)
    landing.run(read_stream(**options))
    landing.run(read_stream(**options))  # before PySpark 4.2 a run is one micro-batch
    assert landing.offsets(0) == ends
    assert landing.landed() == sorted(numbers(0, first[0], 15) + numbers(1, first[1], 15))


def timed(topics: Topics, topic: str, partition: int, span: range, boundary: int) -> None:
    """Produce numbers, those from `boundary` on with TIME or later."""
    records = (
        Record(f"{partition}:{n}".encode(), None, partition, None, TIME + 1000 * (n - boundary) + 500) for n in span
    )
    topics.produce(topic, records)


def test_starts_by_partition_and_headers(read_stream: Read, topics: Topics, landing: Landing) -> None:
    topic = topics.create(partitions=2)
    topics.produce(topic, [Record(b"a"), Record(b"b", headers=[("h", b"1")]), Record(b"c", partition=1)])
    starting = json.dumps({topic: {"0": 1, "1": -1}})
    frame = read_stream(subscribe=topic, startingOffsets=starting, includeHeaders="true")
    landing.run(frame.selectExpr("CAST(headers[0].value AS STRING) AS value"))
    topics.produce(topic, [Record(b"d", partition=1, headers=[("h", b"2")])])
    landing.run(frame.selectExpr("CAST(headers[0].value AS STRING) AS value"))
    assert landing.landed() == ["1", "2"]


def test_new_partitions_are_read_from_their_beginning(read_stream: Read, topics: Topics, landing: Landing) -> None:
    topic = topics.create()
    topics.numbered(topic, {0: 3})
    assert landing.run(read_stream(subscribe=topic, startingOffsets="earliest")) == [3]
    topics.grow(topic, 2)
    topics.numbered(topic, {1: 4})
    assert sum(landing.run(read_stream(subscribe=topic, startingOffsets="earliest"))) == 4
    assert landing.landed() == sorted(numbers(0, 0, 3) + numbers(1, 0, 4))


@pytest.mark.parametrize("fail", ["true", "false"])
def test_records_that_are_gone_after_a_restart(read_stream: Read, topics: Topics, landing: Landing, fail: str) -> None:
    topic = topics.create()
    topics.numbered(topic, {0: 10})
    options = {"subscribe": topic, "startingOffsets": "earliest", "failOnDataLoss": fail}
    assert landing.run(read_stream(**options)) == [10]
    topics.numbered(topic, {0: 10}, first=10)
    topics.delete_before(topic, 0, 15)
    if fail == "true":
        with pytest.raises(PySparkException, match="oldest record left is 15: offsets 10 to 14 are gone"):
            landing.run(read_stream(**options))
    else:
        assert landing.run(read_stream(**options)) == [5]
        assert landing.landed() == sorted(numbers(0, 0, 10) + numbers(0, 15, 20))


@pytest.mark.parametrize("fail", ["true", "false"])
def test_a_topic_that_is_gone(read_stream: Read, topics: Topics, landing: Landing, fail: str) -> None:
    prefix = topics.create()
    kept, gone = topics.create(prefix=f"{prefix}-kept"), topics.create(prefix=f"{prefix}-gone")
    topics.numbered(kept, {0: 2})
    topics.numbered(gone, {0: 2})
    options = {"subscribePattern": f"{prefix}-.*", "startingOffsets": "earliest", "failOnDataLoss": fail}
    assert landing.run(read_stream(**options)) == [4]
    topics.delete(gone)
    topics.numbered(kept, {0: 3}, first=2)
    if fail == "true":
        with pytest.raises(PySparkException, match=f"{gone}-0 cannot be read any more"):
            landing.run(read_stream(**options))
    else:
        assert sum(landing.run(read_stream(**options))) == 3


def test_a_topic_that_is_made_anew_with_more_records(read_stream: Read, topics: Topics, landing: Landing) -> None:
    topic = topics.create()
    topics.numbered(topic, {0: 10})
    options = {"startingOffsets": "earliest", "failOnDataLoss": "false"}
    query = landing.start(read_stream(subscribe=topic, **options), processingTime="100 milliseconds")
    try:
        query.processAllAvailable()
        topics.make_anew(topic)
        topics.numbered(topic, {0: 25}, first=100)
        deadline = time.monotonic() + TIMEOUT_S
        while len(found := landing.landed()) < 35:
            assert time.monotonic() < deadline, found
            query.processAllAvailable()
        assert found == sorted(numbers(0, 0, 10) + numbers(0, 100, 125))
    finally:
        query.stop()
    # Nothing about it needs to be remembered.
    topics.numbered(topic, {0: 5}, first=125)
    assert landing.run(read_stream(subscribe=topic, **options)) == [5]


@pytest.mark.parametrize("starting", ["earliest", "latest"])
def test_a_pattern_that_matches_nothing_yet(read_stream: Read, topics: Topics, landing: Landing, starting: str) -> None:
    # It failed at its start; Spark's own connector waits. A topic that comes is read from its beginning.
    prefix = topics.create()
    options = {"subscribePattern": f"{prefix}-.*", "startingOffsets": starting}
    query = landing.start(read_stream(**options), processingTime="100 milliseconds")
    try:
        query.processAllAvailable()
        assert landing.landed() == []
        topics.numbered(topics.create(prefix=prefix), {0: 3})
        query.processAllAvailable()
        assert landing.landed() == numbers(0, 0, 3)
    finally:
        query.stop()
    topics.numbered(topics.create(prefix=prefix), {0: 4})
    assert sum(landing.run(read_stream(**options))) == 4
    assert landing.landed() == sorted([*numbers(0, 0, 3), *numbers(0, 0, 4)])


def test_a_query_that_keeps_running(read_stream: Read, topics: Topics, landing: Landing) -> None:
    topic = topics.create()
    query = landing.start(read_stream(subscribe=topic, startingOffsets="earliest"), processingTime="100 milliseconds")
    try:
        for n in range(3):
            topics.numbered(topic, {0: 2}, first=2 * n)
            query.processAllAvailable()
            assert landing.landed() == numbers(0, 0, 2 * n + 2)
    finally:
        query.stop()


def test_a_micro_batch_waits_for_enough_records(read_stream: Read, topics: Topics, landing: Landing) -> None:
    topic = topics.create()
    topics.numbered(topic, {0: 3})
    options = {"minOffsetsPerTrigger": "5", "maxOffsetsPerTrigger": "6", "maxTriggerDelay": "1h"}
    frame = read_stream(subscribe=topic, startingOffsets="earliest", **options)
    query = landing.start(frame, processingTime="0 seconds")
    try:
        # The first of a run waits for nothing; the last one record has no company.
        for produced, there, landed in ((0, 3, 3), (3, 6, 3), (2, 8, 8), (13, 21, 20)):
            topics.numbered(topic, {0: produced}, first=there - produced)
            query.processAllAvailable()
            assert landing.landed() == sorted(numbers(0, 0, landed))
    finally:
        query.stop()


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"subscribe": "a", "endingOffsets": "latest"}, "'endingOffsets' is not valid in a streaming read"),
        ({"subscribe": "a", "maxOffsetsPerTrigger": "-1"}, "'maxOffsetsPerTrigger' must be at least 1"),
        ({"subscribe": "no-such-topic"}, "no-such-topic does not exist on"),
    ],
)
def test_what_cannot_be_is_said(read_stream: Read, landing: Landing, options: dict[str, str], sentence: str) -> None:
    with pytest.raises(PySparkException, match=sentence):
        landing.run(read_stream(**options))
