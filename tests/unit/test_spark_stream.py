"""What the streaming reader answers to Spark, call by call, with a cluster that is a dictionary."""

from __future__ import annotations

import json
from collections.abc import Collection

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxBytes, ReadMaxRows

from pykafka.spark.errors import DataLossError, OptionError
from pykafka.spark.offsets import Bounds, JsonOffsets, Offsets, TopicPartition
from pykafka.spark.options import Mode, read_options
from pykafka.spark.stream import KafkaStreamReader

A0, A1 = TopicPartition("a", 0), TopicPartition("a", 1)
ALL = ReadAllAvailable()


class FakeOffsets:
    """A cluster: {partition: (earliest, latest)}."""

    def __init__(self, bounds: dict[TopicPartition, tuple[int, int]]) -> None:
        self.held = {tp: Bounds(*at) for tp, at in bounds.items()}

    def partitions(self) -> set[TopicPartition]:
        return set(self.held)

    first_partitions = partitions

    def earliest(self, partitions: Collection[TopicPartition]) -> Offsets:
        return {tp: self.held[tp].earliest for tp in partitions}

    def latest(self, partitions: Collection[TopicPartition]) -> Offsets:
        return {tp: self.held[tp].latest for tp in partitions}

    def bounds(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, Bounds]:
        return {tp: self.held[tp] for tp in partitions}


def reader(cluster: FakeOffsets, **options: str) -> KafkaStreamReader:
    raw = {"kafka.bootstrap.servers": "h:1", "subscribe": "a", **options}
    made = KafkaStreamReader(read_options(raw, Mode.STREAM_READ), ("value",))
    made._offsets = cluster  # type: ignore[assignment]
    return made


def ranges(made: KafkaStreamReader, start: JsonOffsets, end: JsonOffsets) -> list[str]:
    return [repr(part) for part in made.partitions(start, end)]


def test_a_query_from_the_beginning() -> None:
    cluster = FakeOffsets({A0: (2, 10), A1: (0, 0)})
    made = reader(cluster, startingOffsets="earliest")
    start = made.initialOffset()
    assert start == {"a": {"0": 2, "1": 0}}
    end = made.latestOffset(start, ALL)
    assert end == {"a": {"0": 10, "1": 0}}
    assert made.initialOffset() == start
    assert ranges(made, start, end) == ["KafkaInputPartition(a-0 2..10)"]
    assert made.latestOffset(end, ALL) == end
    assert made.reportLatestOffset() == end


@pytest.mark.parametrize(
    "options",
    [{}, {"startingOffsets": "latest"}, {"startingOffsets": json.dumps({"a": {"0": 3, "1": -1}})}],
    ids=["default", "latest", "one-latest"],
)
def test_a_start_that_would_move_is_written_down_by_an_empty_first_batch(options: dict[str, str]) -> None:
    cluster = FakeOffsets({A0: (0, 5), A1: (0, 7)})
    made = reader(cluster, **options)
    start = made.initialOffset()
    cluster.held[A1] = Bounds(0, 9)
    assert made.latestOffset(start, ALL) == start
    assert made.initialOffset() == start
    assert made.partitions(start, start) == []
    # A restart after the first batch, crashed or not, starts from there: Spark asks for no initial offset then.
    restarted = reader(cluster, **options)
    assert restarted.latestOffset(start, ALL) == {"a": {"0": 5, "1": 9}}


def test_available_now_stops_at_what_was_there() -> None:
    cluster = FakeOffsets({A0: (0, 10), A1: (0, 10)})
    made = reader(cluster, startingOffsets="earliest", maxOffsetsPerTrigger="10")
    made.prepareForTriggerAvailableNow()
    cluster.held = {A0: Bounds(0, 99), A1: Bounds(0, 99), TopicPartition("a", 2): Bounds(0, 99)}
    limit = made.getDefaultReadLimit()
    assert limit == ReadMaxRows(10)
    at = made.initialOffset()
    seen = [at]
    while (following := made.latestOffset(at, limit)) != at:
        at = following
        seen.append(at)
    assert seen == [{"a": {"0": n, "1": n}} for n in (0, 5, 10)]
    assert made.reportLatestOffset() == {"a": {"0": 10, "1": 10}}


def test_limits_that_records_cannot_be_counted_by() -> None:
    made = reader(FakeOffsets({A0: (0, 10)}), startingOffsets="earliest")
    assert made.getDefaultReadLimit() == ALL
    with pytest.raises(OptionError, match="number of records, or all"):
        made.latestOffset(made.initialOffset(), ReadMaxBytes(5))


@pytest.mark.parametrize(
    ("now", "expected", "sentence"),
    [
        ({A0: (7, 10)}, ["KafkaInputPartition(a-0 7..10)"], "a-0 was to be read from offset 5, but its oldest"),
        ({A0: (10, 10)}, [], "its oldest record left is 10"),
        ({A1: (0, 1)}, [], "a-0 cannot be read any more"),
    ],
    ids=["start-gone", "all-gone", "partition-gone"],
)
def test_records_gone_since_they_were_planned(
    now: dict[TopicPartition, tuple[int, int]],
    expected: list[str],
    sentence: str,
    capfd: pytest.CaptureFixture[str],
) -> None:
    start, end = {"a": {"0": 5}}, {"a": {"0": 10}}
    with pytest.raises(DataLossError, match=sentence):
        reader(FakeOffsets(now)).partitions(start, end)
    assert ranges(reader(FakeOffsets(now), failOnDataLoss="false"), start, end) == expected


def test_a_topic_made_anew() -> None:
    start = {"a": {"0": 50}}
    cluster = FakeOffsets({A0: (0, 3)})
    with pytest.raises(DataLossError, match="read up to offset 50, but it ends at 3 now; was the topic made anew"):
        reader(cluster).latestOffset(start, ALL)
    made = reader(cluster, failOnDataLoss="false")
    end = made.latestOffset(start, ALL)
    assert end == {"a": {"0": 3}}
    assert ranges(made, start, end) == []
    cluster.held[A0] = Bounds(0, 8)
    assert ranges(made, end, made.latestOffset(end, ALL)) == ["KafkaInputPartition(a-0 3..8)"]


def test_a_partition_that_is_new() -> None:
    cluster = FakeOffsets({A0: (0, 3), A1: (0, 4)})
    made = reader(cluster)
    end = made.latestOffset({"a": {"0": 3}}, ALL)
    assert ranges(made, {"a": {"0": 3}}, end) == ["KafkaInputPartition(a-1 0..4)"]


def test_a_foreign_checkpoint_is_named() -> None:
    with pytest.raises(OptionError, match="checkpointLocation"):
        reader(FakeOffsets({A0: (0, 3)})).latestOffset({"offset": 5}, ALL)  # type: ignore[dict-item]
