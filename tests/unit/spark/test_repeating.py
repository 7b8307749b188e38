"""How long a pipeline repeats a query where Spark ends it after one micro-batch."""

from __future__ import annotations

import json

from pykafka.common import TopicPartition
from pykafka.spark.pipeline.events import Progress
from pykafka.spark.pipeline.model import Source
from pykafka.spark.pipeline.running import Goal, without_limits

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)


def ends(**offsets: int) -> str:
    """Return the end of a source as Spark reports it: a0=3 is partition 0 of topic a."""
    found: dict[str, dict[str, int]] = {}
    for name, offset in offsets.items():
        found.setdefault(name[0], {})[name[1:]] = offset
    return json.dumps(found)


def test_until_each_partition_is_there() -> None:
    goal = Goal({A0: 10, A1: 5})
    assert goal.needs_more([ends(a0=0, a1=0)])
    assert goal.needs_more([ends(a0=10, a1=4)])
    assert not goal.needs_more([ends(a0=12, a1=5)])


def test_what_does_not_move_is_not_waited_for() -> None:
    """A partition behind an open transaction, or one that was deleted."""
    goal = Goal({A0: 10, A1: 5})
    assert goal.needs_more([ends(a0=10)])
    assert not goal.needs_more([ends(a0=10)])


def test_nothing_at_all() -> None:
    assert not Goal({A0: 0}).needs_more([])
    assert not Goal({A0: 0}).needs_more([ends()])
    assert not Goal({B0: 4}).needs_more([ends(a0=4)])


def test_each_source_counts() -> None:
    """A topic that is read twice, as in a join with itself, and two topics."""
    assert Goal({A0: 4}).needs_more([ends(a0=4), ends(a0=3)])
    assert Goal({A0: 4, B0: 2}).needs_more([ends(a0=4), ends(b0=1)])
    assert not Goal({A0: 4, B0: 2}).needs_more([ends(a0=4), ends(b0=2)])


def test_the_ends_of_other_queries() -> None:
    goal = Goal.of_queries([ends(a0=7, a1=1), ends(a0=6), ends(b0=8)])
    assert goal.needs_more([ends(a0=5, a1=1)])
    assert not goal.needs_more([ends(a0=7, a1=1)])


def test_a_micro_batch_that_is_reported_twice_counts_once() -> None:
    report = {"batchId": 3, "numInputRows": 5, "processedRowsPerSecond": 1.0}
    progress = Progress("q").after(report, None)
    assert progress.after(report, None) == progress
    assert progress.after(report | {"batchId": 4}, None).records == 10


def test_once_has_no_limits() -> None:
    source = Source({"subscribe": "a", "MaxOffsetsPerTrigger": "3", "minoffsetspertrigger": "1"}, ("value",))
    assert without_limits(source) == Source({"subscribe": "a"}, ("value",))
