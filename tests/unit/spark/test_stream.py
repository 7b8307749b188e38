"""The streaming reader's answers to Spark, call by call, with a dictionary as the cluster."""

from __future__ import annotations

import json
from collections.abc import Collection
from uuid import UUID

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxBytes, ReadMaxRows, ReadMinRows

from pykafka.common import TopicPartition
from pykafka.spark import session
from pykafka.spark.errors import DataLossError, OptionError, RecreatedTopicError
from pykafka.spark.microbatch import NOTHING_READ
from pykafka.spark.offsets import LATEST, Bounds, ByTime, JsonOffsets, Offsets, Position
from pykafka.spark.options import read_options
from pykafka.spark.optiontable import Mode
from pykafka.spark.progress import Kept, Progress
from pykafka.spark.stream import KafkaStreamReader
from pykafka.spark.stream41 import SelfLimitingStreamReader

A0, A1, A2 = (TopicPartition("a", number) for number in range(3))
B0 = TopicPartition("b", 0)
TIME = {"startingTimestamp": "1700000000000", "startingOffsetsByTimestampStrategy": "latest"}
ALL = ReadAllAvailable()
#: What the end of an empty first micro-batch has beside its offsets.
NOTHING: JsonOffsets = {NOTHING_READ: {}}


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session.handler, "sleep", lambda seconds: None)


class FakeOffsets:
    """A cluster: {partition: (earliest, latest)}."""

    def __init__(self, bounds: dict[TopicPartition, tuple[int, int]]) -> None:
        self.held = {tp: Bounds(*at) for tp, at in bounds.items()}
        #: Ends without regard to transactions, where some are open.
        self.written: Offsets = {}
        #: What times stand for, where there is a record of them.
        self.found: Offsets = {}
        #: The topics' ids.
        self.ids: dict[str, UUID] = {}
        #: What the next responses make of them.
        self.told: list[dict[str, UUID]] = []

    def partitions(self) -> set[TopicPartition]:
        if self.told:
            self.ids = self.told.pop(0)
        return set(self.held)

    first_partitions = partitions

    def present(self, expected: Collection[TopicPartition]) -> set[TopicPartition]:
        return self.partitions()

    def earliest(self, partitions: Collection[TopicPartition]) -> Offsets:
        return {tp: self.held[tp].earliest for tp in partitions}

    def latest(self, partitions: Collection[TopicPartition]) -> Offsets:
        return {tp: self.held[tp].latest for tp in partitions}

    def located(self, position: Position, partitions: Collection[TopicPartition]) -> int | Offsets:
        if isinstance(position, ByTime):
            return {tp: self.found.get(tp, LATEST) for tp in partitions}
        return position

    def behind_transactions(self, offsets: Offsets, latest: Offsets) -> Offsets:
        return {tp: latest[tp] for tp, at in offsets.items() if latest[tp] < at <= self.written.get(tp, 0)}

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
    first = made.latestOffset(start, ALL)
    assert first == start | NOTHING
    assert made.initialOffset() == start
    assert made.partitions(start, first) == []
    # The text stays the same until there are records.
    ends = dict(cluster.held)
    cluster.held |= {A0: Bounds(0, start["a"]["0"]), A1: Bounds(0, start["a"]["1"])}
    assert made.latestOffset(first, ALL) == first
    cluster.held = ends
    # A restart after the first batch starts from there: Spark asks for no initial offset then.
    restarted = reader(cluster, **options)
    assert restarted.latestOffset(first, ALL) == {"a": {"0": 5, "1": 9}}
    # After a crash in the first batch Spark does ask, and runs it again up to the end that was written down.
    crashed = reader(cluster, **options)
    cluster.held[A0] = Bounds(0, 20)
    assert crashed.partitions(crashed.initialOffset(), first) == []
    assert crashed.latestOffset(first, ALL) == {"a": {"0": 20, "1": 9}}


@pytest.mark.parametrize("options", [{}, TIME], ids=["latest", "time"])
def test_a_first_micro_batch_of_the_other_connector(options: dict[str, str], caplog: pytest.LogCaptureFixture) -> None:
    """It has records from a start that moves; a driver that did not do it leaves their end, and ours cannot know the start."""
    cluster = FakeOffsets({A0: (0, 9), A1: (7, 7)})
    planned = {"a": {"0": 5, "1": 7}}
    mine = reader(cluster, **options)
    with pytest.raises(DataLossError, match=r"^a-0: the first micro-batch .* was planned and not done.*sources/0/0"):
        mine.partitions(mine.initialOffset(), planned)
    careless = reader(cluster, **options, failOnDataLoss="false")
    with caplog.at_level("WARNING", logger="pykafka.spark"):
        assert careless.partitions(careless.initialOffset(), planned) == []
    assert "Records of it may be missed" in caplog.text
    # The start that it had noted is given, as the error says.
    told = reader(cluster, startingOffsets=json.dumps({"a": {"0": 2, "1": 7}}))
    assert ranges(told, told.initialOffset(), planned) == ["KafkaInputPartition(a-0 2..5)"]
    # There may be none that are missed.
    cluster.held[A0] = Bounds(5, 9)
    empty = reader(cluster, **options)
    assert empty.partitions(empty.initialOffset(), planned) == []


def test_a_start_by_time_is_found_again() -> None:
    """The first micro-batch has records, and after a crash in it the same ones, whatever came meanwhile."""
    cluster = FakeOffsets({A0: (0, 5), A1: (0, 7)})
    cluster.found = {A0: 2, A1: 4}
    made = reader(cluster, **TIME)
    start = made.initialOffset()
    cluster.held[A2] = Bounds(0, 9)
    end = made.latestOffset(start, ALL)
    planned = ["KafkaInputPartition(a-0 2..5)", "KafkaInputPartition(a-1 4..7)"]
    assert ranges(made, start, end) == planned
    crashed = reader(cluster, **TIME)
    cluster.held |= {A0: Bounds(0, 8), A1: Bounds(0, 8)}
    cluster.found[A2] = 3
    assert ranges(crashed, crashed.initialOffset(), end) == planned
    # The partition that came in between is new: it is read from its beginning by the second one, crash or not.
    after = {"a": {"0": 8, "1": 8, "2": 9}}
    assert made.latestOffset(end, ALL) == crashed.latestOffset(end, ALL) == after
    assert ranges(crashed, end, after)[-1] == "KafkaInputPartition(a-2 0..9)"


def test_a_time_without_a_record_yet() -> None:
    """The first micro-batch is empty, and stays so where a record of that time has come before it is run again."""
    cluster = FakeOffsets({A0: (0, 5), A1: (0, 7)})
    cluster.found = {A0: 2}
    made = reader(cluster, **TIME)
    start = made.initialOffset()
    assert start == {"a": {"0": 2, "1": 7}}
    first = made.latestOffset(start, ALL)
    assert first == start | NOTHING
    crashed = reader(cluster, **TIME)
    cluster.held[A1] = Bounds(0, 12)
    cluster.found[A1] = 10
    assert ranges(crashed, crashed.initialOffset(), first) == []
    assert crashed.latestOffset(start, ALL) == {"a": {"0": 5, "1": 12}}


def test_a_time_without_a_partition_yet() -> None:
    """The first micro-batch is empty; after a crash in one with records their start would be looked for again."""
    cluster = FakeOffsets({})
    made = reader(cluster, **TIME)
    start = made.initialOffset()
    first = made.latestOffset(start, ALL)
    assert first == NOTHING
    cluster.held = {A0: Bounds(0, 5)}
    crashed = reader(cluster, **TIME)
    assert crashed.partitions(crashed.initialOffset(), first) == []
    assert ranges(crashed, first, crashed.latestOffset(first, ALL)) == ["KafkaInputPartition(a-0 0..5)"]


def test_records_of_a_time_gone_before_the_first_batch_is_run_again() -> None:
    """A partition that has none left of that time does not keep the others' from being read."""
    cluster = FakeOffsets({A0: (0, 5), A1: (0, 7)})
    cluster.found = {A0: 2, A1: 4}
    made = reader(cluster, **TIME)
    end = made.latestOffset(made.initialOffset(), ALL)
    crashed = reader(cluster, **TIME)
    cluster.held[A1], cluster.found = Bounds(7, 7), {A0: 2}
    assert ranges(crashed, crashed.initialOffset(), end) == ["KafkaInputPartition(a-0 2..5)"]
    assert crashed.latestOffset(end, ALL) == end


def test_a_partition_that_appears_after_the_first_batch_has_failed() -> None:
    """It is left to the second micro-batch; it was taken for one that is gone."""
    cluster = FakeOffsets({A0: (0, 10)})
    first = reader(cluster, startingOffsets="earliest")
    end = first.latestOffset(first.initialOffset(), ALL)
    cluster.held[A1] = Bounds(0, 5)
    again = reader(cluster, startingOffsets="earliest")
    planned = again.partitions(again.initialOffset(), end)
    assert [(part.partition, part.end) for part in planned] == [(0, 10)]  # type: ignore[attr-defined]
    assert json.loads(json.dumps(again.latestOffset(end, ALL))) == {"a": {"0": 10, "1": 5}}


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
    with pytest.raises(DataLossError, match="read up to offset 50, but it ends at 3 now; was the topic recreated"):
        reader(cluster).latestOffset(start, ALL)
    made = reader(cluster, failOnDataLoss="false")
    end = made.latestOffset(start, ALL)
    assert end == {"a": {"0": 3}}
    assert ranges(made, start, end) == []
    cluster.held[A0] = Bounds(0, 8)
    assert ranges(made, end, made.latestOffset(end, ALL)) == ["KafkaInputPartition(a-0 3..8)"]


def test_a_start_behind_a_transaction_that_is_open() -> None:
    """Nothing is lost: the partition waits there, in a new query and in one that read uncommitted records before."""
    cluster = FakeOffsets({A0: (0, 10), A1: (0, 3)})
    cluster.written = {A0: 15}
    made = reader(cluster, startingOffsets=json.dumps({"a": {"0": 12, "1": 0}}))
    start = made.initialOffset()
    assert start == {"a": {"0": 12, "1": 0}}
    end = made.latestOffset(start, ALL)
    assert end == {"a": {"0": 12, "1": 3}}
    assert ranges(made, start, end) == ["KafkaInputPartition(a-1 0..3)"]
    resumed = reader(cluster)
    assert resumed.latestOffset(end, ALL) == end
    cluster.held[A0] = Bounds(0, 16)
    assert ranges(resumed, end, resumed.latestOffset(end, ALL)) == ["KafkaInputPartition(a-0 12..16)"]
    with pytest.raises(DataLossError, match="ends at 16 now"):
        resumed.latestOffset({"a": {"0": 17, "1": 3}}, ALL)


def test_a_partition_that_is_new() -> None:
    cluster = FakeOffsets({A0: (0, 3), A1: (0, 4)})
    made = reader(cluster)
    end = made.latestOffset({"a": {"0": 3}}, ALL)
    assert ranges(made, {"a": {"0": 3}}, end) == ["KafkaInputPartition(a-1 0..4)"]


def test_a_foreign_checkpoint_is_named() -> None:
    with pytest.raises(OptionError, match="checkpointLocation"):
        reader(FakeOffsets({A0: (0, 3)})).latestOffset({"offset": 5}, ALL)  # type: ignore[dict-item]


def test_a_micro_batch_waits_for_records_but_not_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = FakeOffsets({A0: (0, 3)})
    made = reader(cluster, startingOffsets="earliest", minOffsetsPerTrigger="5", maxTriggerDelay="10s")
    now = 100.0
    monkeypatch.setattr(session.handler, "now", lambda: now)
    limit = made.getDefaultReadLimit()
    assert limit == ReadMinRows(5)
    first = made.latestOffset(made.initialOffset(), limit)
    assert first == {"a": {"0": 3}}  # the first of a run waits for nothing
    cluster.held[A0] = Bounds(0, 7)
    assert made.latestOffset(first, limit) == first
    assert made.reportLatestOffset() == {"a": {"0": 7}}
    cluster.held[A0] = Bounds(0, 8)
    second = made.latestOffset(first, limit)
    assert second == {"a": {"0": 8}}
    cluster.held[A0] = Bounds(0, 9)
    now = 109.9
    assert made.latestOffset(second, limit) == second
    now = 110.0
    assert made.latestOffset(second, limit) == {"a": {"0": 9}}


def test_least_and_most_together() -> None:
    cluster = FakeOffsets({A0: (0, 100)})
    made = reader(cluster, startingOffsets="earliest", minOffsetsPerTrigger="5", maxOffsetsPerTrigger="40")
    limit = made.getDefaultReadLimit()
    assert limit == ReadMaxRows(40)
    seen = [made.initialOffset()]
    for _ in range(3):
        seen.append(made.latestOffset(seen[-1], limit))
    assert [at["a"]["0"] for at in seen] == [0, 40, 80, 100]
    cluster.held[A0] = Bounds(0, 104)
    assert made.latestOffset(seen[-1], limit) == seen[-1]
    # Trigger.Once knows no limits.
    assert made.latestOffset(seen[-1], ALL) == {"a": {"0": 104}}


def test_available_now_does_not_wait_for_what_will_not_come() -> None:
    cluster = FakeOffsets({A0: (0, 12)})
    made = reader(cluster, startingOffsets="earliest", minOffsetsPerTrigger="5", maxOffsetsPerTrigger="5")
    made.prepareForTriggerAvailableNow()
    at = made.initialOffset()
    seen = []
    while (following := made.latestOffset(at, ReadMaxRows(5))) != at:
        at = following
        seen.append(at["a"]["0"])
    assert seen == [5, 10, 12]


def earlier(cluster: FakeOffsets, **options: str) -> SelfLimitingStreamReader:
    raw = {"kafka.bootstrap.servers": "h:1", "subscribe": "a", **options}
    made = SelfLimitingStreamReader(read_options(raw, Mode.STREAM_READ), ("value",))
    made._offsets = cluster  # type: ignore[assignment]
    return made


def test_pyspark_before_4_2_asks_for_the_end_first() -> None:
    cluster = FakeOffsets({A0: (2, 10)})
    made = earlier(cluster, startingOffsets="earliest", maxOffsetsPerTrigger="5")
    end = made.latestOffset()
    assert (made.initialOffset(), end) == ({"a": {"0": 2}}, {"a": {"0": 7}})
    made.partitions(made.initialOffset(), end)
    assert made.latestOffset() == {"a": {"0": 10}}
    resumed = earlier(cluster, startingOffsets="latest", maxOffsetsPerTrigger="2")
    assert resumed.partitions(end, end) == []
    assert resumed.latestOffset() == {"a": {"0": 9}}
    cluster.held[A0] = Bounds(2, 12)
    crashed = earlier(cluster, startingOffsets="latest")
    end = end | NOTHING
    assert crashed.partitions(end, end) == crashed.partitions(crashed.initialOffset(), end) == []
    assert crashed.latestOffset() == {"a": {"0": 12}}
    cluster.held[A0] = Bounds(2, 10)
    fresh = earlier(cluster, startingOffsets="latest")
    end = fresh.latestOffset()
    cluster.held[A0] = Bounds(2, 11)
    assert fresh.initialOffset() == {"a": {"0": 10}}
    assert end == fresh.initialOffset() | NOTHING
    assert fresh.latestOffset() == {"a": {"0": 11}}


@pytest.mark.parametrize("options", [{"startingOffsets": "-1min"}, TIME], ids=["ago", "time"])
def test_a_time_that_is_reached_after_available_now_has_looked(options: dict[str, str]) -> None:
    cluster = FakeOffsets({A0: (0, 10)})
    cluster.found = {A0: 15}
    made = reader(cluster, **options)
    assert isinstance(made, KafkaStreamReader)
    made.prepareForTriggerAvailableNow()
    cluster.held[A0] = Bounds(0, 20)
    start = made.initialOffset()
    assert start == {"a": {"0": 10}}
    first = made.latestOffset(start, ALL)
    assert first == start | NOTHING
    crashed = reader(cluster, **options)
    assert isinstance(crashed, KafkaStreamReader)
    crashed.prepareForTriggerAvailableNow()
    assert ranges(crashed, crashed.initialOffset(), first) == []
    assert crashed.latestOffset(first, ALL) == {"a": {"0": 20}}


OLD, NEW = UUID(int=1), UUID(int=2)


def test_a_topic_made_anew_is_refused() -> None:
    """Its end is beyond the old offset, so that only its id tells."""
    cluster = FakeOffsets({A0: (0, 1000)})
    cluster.ids = {"a": OLD}
    made = reader(cluster, startingOffsets="earliest")
    end = made.latestOffset(made.initialOffset(), ALL)
    assert [part.topic_id for part in made.partitions(made.initialOffset(), end)] == [OLD]  # type: ignore[attr-defined]
    cluster.held[A0], cluster.ids = Bounds(0, 2000), {"a": NEW}
    sentence = (
        f"topic a was deleted and recreated: its id was {OLD} and is {NEW} now. It was read up to a-0 at 1000; .*"
    )
    for act in (lambda: made.latestOffset(end, ALL), lambda: made.partitions(end, {"a": {"0": 2000}})):
        with pytest.raises(RecreatedTopicError, match=sentence + "startingOffsets = earliest") as caught:
            act()
        assert (caught.value.old_id, caught.value.new_id, caught.value.topic) == (OLD, NEW, "a")
        assert isinstance(caught.value, DataLossError)


@pytest.mark.parametrize("available_now", [False, True])
def test_a_topic_made_anew_is_read_from_its_start(available_now: bool, caplog: pytest.LogCaptureFixture) -> None:
    cluster = FakeOffsets({A0: (0, 1000), B0: (0, 5)})
    cluster.ids = {"a": OLD, "b": OLD}
    made = reader(cluster, startingOffsets="earliest", failOnDataLoss="false", subscribe="a,b")
    if available_now:
        made.prepareForTriggerAvailableNow()
    end = made.latestOffset(made.initialOffset(), ALL)
    assert end == {"a": {"0": 1000}, "b": {"0": 5}}
    if not available_now:
        cluster.held[B0] = Bounds(0, 6)
    cluster.held |= {A0: Bounds(0, 2000), A1: Bounds(0, 3)}
    cluster.ids = {"a": NEW, "b": OLD}
    # What was planned before it was noticed reads nothing of it.
    assert ranges(made, end, end | {"a": {"0": 1500}}) == []
    reset = made.latestOffset(end, ALL)
    assert reset == {"a": {"0": 0, "1": 0}, "b": {"0": 5}}
    assert ranges(made, end, reset) == []
    after = made.latestOffset(reset, ReadMaxRows(10_000))
    assert after == {"a": {"0": 2000, "1": 3}, "b": {"0": 5 if available_now else 6}}
    planned = made.partitions(reset, after)
    assert [repr(part) for part in planned][:2] == [
        "KafkaInputPartition(a-0 0..2000)",
        "KafkaInputPartition(a-1 0..3)",
    ]
    assert planned[0].topic_id == NEW  # type: ignore[attr-defined]
    assert made.latestOffset(after, ALL) == after
    told = [one.message for one in caplog.records if "recreated" in one.message]
    assert len(told) == 1
    assert "Continuing from the start of the new topic" in told[0]


def test_a_broker_that_has_not_heard_of_the_topic_a_query_began_with(caplog: pytest.LogCaptureFixture) -> None:
    """It tells the former id; taken for news, no record of the topic would be read any more."""
    cluster = FakeOffsets({A0: (0, 10)})
    cluster.ids = {"a": NEW}
    made = reader(cluster, startingOffsets="earliest", failOnDataLoss="false")
    start = made.initialOffset()
    cluster.told = [{"a": OLD}, {"a": OLD}, {"a": NEW}]
    end = made.latestOffset(start, ALL)
    planned = made.partitions(start, end)
    assert [(part.end, part.topic_id) for part in planned] == [(10, NEW)]  # type: ignore[attr-defined]
    assert "recreated" not in caplog.text


class FakeGroup:
    """A group that tells the ids of topics that were committed last, as a committer and as what a restarted query asks."""

    def __init__(self) -> None:
        self.ids: dict[str, UUID] = {}

    def __call__(self, *_: object) -> FakeGroup:
        return self

    def anchor(self, progress: Progress) -> None:
        self.ids |= progress.ids

    offer = anchor

    def read(self, client: object, group: str, start: Offsets) -> Kept:
        return Kept(dict(self.ids), [])

    def close(self) -> None:
        """Do nothing: all is committed."""


def test_a_run_that_ends_after_a_reset(monkeypatch: pytest.MonkeyPatch) -> None:
    """The group knows the new topic by then; the next run took it for one that was recreated since."""
    group = FakeGroup()
    monkeypatch.setattr("pykafka.spark.progress.ProgressCommitter", group)
    monkeypatch.setattr("pykafka.spark.progress.read_anchors", group.read)
    cluster = FakeOffsets({A0: (0, 1000)})
    cluster.ids = {"a": OLD}
    options = {"startingOffsets": "earliest", "commitProgressTo": "g"}
    first = earlier(cluster, **options)
    end = first.latestOffset()
    first.partitions(first.initialOffset(), end)
    cluster.held[A0], cluster.ids = Bounds(0, 2000), {"a": NEW}
    careless = earlier(cluster, **options, failOnDataLoss="false")
    assert careless.partitions(end, end) == []
    reset = careless.latestOffset()
    assert reset == {"a": {"0": 0}}
    # Not before Spark's checkpoint has the new offsets: after a crash here the old ones would look like those of the new topic.
    assert group.ids == {"a": OLD}
    assert careless.partitions(end, reset) == []
    last = earlier(cluster, **options)
    assert last.partitions(reset, reset) == []
    assert last.latestOffset() == {"a": {"0": 2000}}


def test_a_topic_made_anew_that_was_not_read_yet() -> None:
    """Its start is the old offset: nothing to reset, and no micro-batch without rows."""
    cluster = FakeOffsets({A0: (0, 0)})
    cluster.ids = {"a": OLD}
    made = reader(cluster, startingOffsets="earliest", failOnDataLoss="false")
    start = made.initialOffset()
    cluster.held[A0], cluster.ids = Bounds(0, 7), {"a": NEW}
    assert made.latestOffset(start, ALL) == {"a": {"0": 7}}


def test_a_topic_that_is_gone_and_comes_back_as_another() -> None:
    cluster = FakeOffsets({A0: (0, 10)})
    cluster.ids = {"a": OLD}
    made = reader(cluster, startingOffsets="earliest", failOnDataLoss="false")
    end = made.latestOffset(made.initialOffset(), ALL)
    held, cluster.held, cluster.ids = cluster.held, {}, {}
    assert made.latestOffset(end, ALL) == {}
    cluster.held, cluster.ids = held, {"a": NEW}
    after = made.latestOffset({}, ALL)
    planned = made.partitions({}, after)
    assert [repr(part) for part in planned] == ["KafkaInputPartition(a-0 0..10)"]
    assert planned[0].topic_id == NEW  # type: ignore[attr-defined]
    cluster.ids = {"a": OLD}  # a broker that has not heard the news
    assert made.latestOffset(after, ALL) == after


def test_brokers_without_ids_tell_nothing() -> None:
    cluster = FakeOffsets({A0: (0, 10)})
    made = reader(cluster, startingOffsets="earliest")
    end = made.latestOffset(made.initialOffset(), ALL)
    cluster.held[A0] = Bounds(0, 20)
    assert ranges(made, end, made.latestOffset(end, ALL)) == ["KafkaInputPartition(a-0 10..20)"]


def test_losses_of_all_partitions_are_told_at_once() -> None:
    cluster = FakeOffsets({A0: (0, 10), A1: (0, 10)})
    made = reader(cluster, startingOffsets="earliest")
    end = made.latestOffset(made.initialOffset(), ALL)
    cluster.held = {A0: Bounds(15, 20), A1: Bounds(11, 20)}
    with pytest.raises(
        DataLossError, match=r"a-0 .* offsets 10 to 14 are gone \(5 offsets\); a-1 .* offset 10 is gone"
    ):
        made.partitions(end, made.latestOffset(end, ALL))
