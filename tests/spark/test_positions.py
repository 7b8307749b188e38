"""Where a batch read starts and ends by time, how it is cut into tasks, and what filters leave of it."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from tests.support.spark.connector import pyspark_release
from tests.support.spark.topics import Record, Topics

Read = Callable[..., DataFrame]

FIRST = 1_700_000_000_000
HAS_TIMES = pytest.mark.needs("times")


@pytest.fixture(scope="module")
def timed(topics: Topics) -> str:
    """Return a topic: partition 0 has 10 records, 1 s apart; 1 the same from 5 s later; 2 none."""
    topic = topics.create(partitions=3)
    topics.produce(
        topic,
        [
            Record(f"{partition}:{n}".encode(), None, partition, None, FIRST + 1000 * n + 5000 * partition)
            for partition in (0, 1)
            for n in range(10)
        ],
    )
    return topic


def offsets(frame: DataFrame) -> dict[int, list[int]]:
    """Return the offsets read, by partition."""
    found: dict[int, list[int]] = {}
    for row in frame.select("partition", "offset").collect():
        found.setdefault(row.partition, []).append(row.offset)
    return {partition: sorted(numbers) for partition, numbers in sorted(found.items())}


def by_partition(topic: str, *values: int) -> str:
    """Return JSON of a number for each partition."""
    return json.dumps({topic: {str(partition): value for partition, value in enumerate(values)}})


@HAS_TIMES
def test_from_one_time_to_another(read: Read, timed: str) -> None:
    frame = read(assign=json.dumps({timed: [0, 1]}), startingTimestamp=FIRST + 6500, endingTimestamp=FIRST + 9000)
    assert offsets(frame) == {0: [7, 8], 1: [2, 3]}


@HAS_TIMES
def test_times_by_partition_win_over_offsets_and_ends_without_a_record_are_the_latest(read: Read, timed: str) -> None:
    frame = read(
        subscribe=timed,
        startingOffsets=by_partition(timed, 1, 1, 0),
        startingOffsetsByTimestamp=by_partition(timed, FIRST + 8000, FIRST + 14_000, FIRST),
        startingOffsetsByTimestampStrategy="latest",
        endingOffsetsByTimestamp=by_partition(timed, FIRST + 60_000, FIRST + 14_000, FIRST),
    )
    assert offsets(frame) == {0: [8, 9]}


@HAS_TIMES
def test_a_start_without_a_record_is_an_error_unless_asked_for(read: Read, timed: str) -> None:
    with pytest.raises(PySparkException, match=f"{timed}-. has no record of {FIRST + 12_000} ms or later") as caught:
        read(subscribe=timed, startingTimestamp=FIRST + 12_000).collect()
    assert "startingOffsetsByTimestampStrategy to latest" in str(caught.value)
    assert "option 'startingTimestamp': " in str(caught.value)
    frame = read(subscribe=timed, startingTimestamp=FIRST + 12_000, startingOffsetsByTimestampStrategy="latest")
    assert offsets(frame) == {1: [7, 8, 9]}


@HAS_TIMES
def test_minutes_before_now(read: Read, topics: Topics) -> None:
    topic = topics.create(partitions=2)
    now = int(time.time() * 1000)
    minutes = [600, 30, 14, 1]
    topics.produce(topic, [Record(b"x", timestamp=now - 60_000 * ago) for ago in minutes])
    assert offsets(read(subscribe=topic, startingOffsets="-15min")) == {0: [2, 3]}
    assert offsets(read(subscribe=topic, startingOffsets="-15min", endingOffsets="-300s")) == {0: [2]}
    assert offsets(read(subscribe=topic, startingOffsets="-30s")) == {}
    assert offsets(read(subscribe=topic, startingOffsets="-1d")) == {0: [0, 1, 2, 3]}


@pytest.mark.lacks("times")
def test_times_are_refused_where_brokers_have_none(read: Read, timed: str) -> None:
    with pytest.raises(PySparkException, match="older than 0.10.1.*give offsets"):
        read(subscribe=timed, startingTimestamp=FIRST).collect()


@HAS_TIMES
def test_times_name_every_partition(read: Read, timed: str) -> None:
    with pytest.raises(PySparkException, match=f"'startingOffsetsByTimestamp' must name exactly .* it lacks {timed}-2"):
        read(subscribe=timed, startingOffsetsByTimestamp=by_partition(timed, FIRST, FIRST)).collect()


@pytest.mark.parametrize(
    ("options", "tasks"),
    [
        ({}, 2),
        ({"minPartitions": "5"}, 6),  # half of five, rounded, for each of the two
        ({"minPartitions": "1"}, 2),
        ({"maxRecordsPerPartition": "3"}, 8),
        ({"maxRecordsPerPartition": "100"}, 2),
        ({"maxRecordsPerPartition": "5", "minPartitions": "20"}, 20),
    ],
)
def test_tasks(read: Read, timed: str, options: dict[str, str], tasks: int) -> None:
    frame = read(subscribe=timed, **options)
    assert frame.rdd.getNumPartitions() == tasks
    assert offsets(frame) == {0: list(range(10)), 1: list(range(10))}


@pytest.fixture
def pushing(spark: SparkSession) -> Iterator[None]:
    """Make Spark push filters down."""
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    yield
    spark.conf.unset("spark.sql.python.filterPushdown.enabled")


@pytest.mark.parametrize(
    ("condition", "expected", "tasks"),
    [
        ("partition = 1", {1: list(range(10))}, 1),
        ("partition IN (0, 7) AND offset >= 8", {0: [8, 9]}, 1),
        ("offset > 3 AND offset <= 5", {0: [4, 5], 1: [4, 5]}, 2),
        ("offset = 20", {}, 1),  # Spark makes a task of no partition
        ("topic = 'no'", {}, 1),
        ("partition + 1 = 2", {1: list(range(10))}, 2),
        ("partition = 1 OR offset = 0", {0: [0], 1: list(range(10))}, 2),
        ("offset < 2 AND value IS NOT NULL", {0: [0, 1], 1: [0, 1]}, 2),
        ("NOT offset < 9", {0: [9], 1: [9]}, 2),
        pytest.param(f"timestamp >= timestamp_millis({FIRST + 11_000})", {1: [6, 7, 8, 9]}, 1, marks=HAS_TIMES),
        pytest.param(f"timestamp < timestamp_millis({FIRST + 2000})", {0: [0, 1]}, 2, marks=HAS_TIMES),
        pytest.param(f"timestamp = timestamp_millis({FIRST + 9000})", {0: [9], 1: [4]}, 2, marks=HAS_TIMES),
    ],
)
@pytest.mark.usefixtures("pushing")
def test_filters(read: Read, timed: str, condition: str, expected: dict[int, list[int]], tasks: int) -> None:
    options: dict[str, Any] = {"subscribe": timed, "pushDownFilters": "true"}
    if pyspark_release() == "4.0":
        with pytest.raises(PySparkException, match=r"'pushDownFilters' needs PySpark 4\.1 or later"):
            read(**options).collect()
        return
    frame = read(**options).where(condition)
    assert offsets(frame) == expected
    assert frame.rdd.getNumPartitions() == tasks


def test_filters_are_not_pushed_down_unless_asked_for(read: Read, timed: str) -> None:
    assert offsets(read(subscribe=timed).where("offset = 3")) == {0: [3], 1: [3]}
