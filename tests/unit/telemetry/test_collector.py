"""Which metrics a push has, with which values, in how many bytes."""

from __future__ import annotations

import logging
import math
from typing import Any

import pytest

from pykafka.handlers import Handler, ThreadingHandler
from pykafka.metrics.metric import COUNTER, GAUGE, HISTOGRAM, Buckets, Metric, MetricName
from pykafka.metrics.recorder import Recorder
from pykafka.telemetry import sources as telemetry_sources
from pykafka.telemetry.collector import Collector, Push
from pykafka.telemetry.sources import Source, Sources
from pykafka.utils.loglimit import LogLimiter

ALL = ("",)


def metric(name: str, value: Any, kind: str = GAUGE, group: str = "producer-metrics", **tags: str) -> Metric:
    named = MetricName(name, group, tuple((tag.replace("_", "-"), value) for tag, value in tags.items()))
    return Metric(named, value, kind, "", "")


def source(*metrics: Metric, name: str = "") -> Source:
    return Source(name, (), list(metrics))


@pytest.fixture
def collector() -> Collector:
    handler = ThreadingHandler()
    return Collector(handler, LogLimiter(handler))


def pushed(push: Push) -> dict[str, float]:
    return {sample.point.name.removeprefix("org.apache.kafka."): sample.point.value for sample in push.samples}


def collect(collector: Collector, *sources: Source, prefixes: tuple[str, ...] = ALL, is_delta: bool = True) -> Push:
    return collector.collect(sources, prefixes, is_delta, 2**20)


@pytest.mark.parametrize(
    ("prefixes", "wanted"),
    [
        (("",), {"producer.a.b", "consumer.c"}),
        (("org.apache.kafka.producer.",), {"producer.a.b"}),
        (("org.apache.kafka.producer.a", "org.apache.kafka.consumer.c"), {"producer.a.b", "consumer.c"}),
        (("org.apache.kafka.nothing",), set()),
        ((), set()),
    ],
)
def test_names_by_prefix(collector: Collector, prefixes: tuple[str, ...], wanted: set[str]) -> None:
    metrics = source(metric("a-b", 1), metric("c", 2, group="consumer-metrics"))
    assert pushed(collect(collector, metrics, prefixes=prefixes)).keys() == wanted


def test_values_that_are_no_number_are_left_out(collector: Collector) -> None:
    metrics = source(metric("a", math.nan), metric("b", math.inf), metric("version", "4.4.0"), metric("c", 0))
    assert pushed(collect(collector, metrics)) == {"producer.c": 0}


def test_deltas_begin_at_the_last_push_that_was_taken(collector: Collector) -> None:
    def at(total: float) -> Push:
        return collect(collector, source(metric("t", total, COUNTER), metric("g", total)))

    first = at(5)
    assert pushed(first) == {"producer.t": 5, "producer.g": 5}
    collector.taken(first)
    lost = at(7)
    assert pushed(lost) == {"producer.t": 2, "producer.g": 7}
    again = at(11)  # the push before was not taken
    assert pushed(again) == {"producer.t": 6, "producer.g": 11}
    assert again.samples[0].point.start_ns == first.samples[0].sent.at_ns
    collector.taken(again)
    assert pushed(at(3)) == {"producer.t": 3, "producer.g": 3}  # counted anew


def test_topics_that_a_source_has_left_are_forgotten(collector: Collector) -> None:
    """Those of a source that could not be read are not."""

    def push(metrics: dict[str, float]) -> dict[str, float]:
        by_topic = [metric(name, value, COUNTER, topic=name) for name, value in metrics.items()]
        named = [one._replace(value=value) for one, value in zip(by_topic, metrics.values(), strict=True)]
        sources = [source(*named)]
        made = collect(collector, *sources)
        collector.taken(made)
        collector.forget_gone(sources)
        return pushed(made)

    assert push({"a": 5, "b": 1}) == {"producer.a": 5, "producer.b": 1}
    assert push({}) == {}
    assert push({"b": 2}) == {"producer.b": 1}
    assert len(collector._sent) == 1
    assert push({"a": 7, "b": 2}) == {"producer.a": 7, "producer.b": 0}


def test_totals_are_pushed_as_they_are(collector: Collector) -> None:
    starts = set()
    for total in (5, 7):
        push = collect(collector, source(metric("t", total, COUNTER)), is_delta=False)
        assert pushed(push) == {"producer.t": total}
        collector.taken(push)
        starts.add(push.samples[0].point.start_ns)
    assert len(starts) == 1
    # A subscription that changes to deltas continues from there.
    assert pushed(collect(collector, source(metric("t", 8, COUNTER)))) == {"producer.t": 1}


def test_deltas_of_histograms(collector: Collector) -> None:
    def at(*counts: int) -> Any:
        name = MetricName("h", "producer-metrics")
        buckets = Buckets((1.0,), counts, float(sum(counts)))
        push = collect(collector, source(Metric(name, sum(counts), HISTOGRAM, "", "", buckets)))
        collector.taken(push)
        (sample,) = push.samples
        return sample.point.value, sample.point.buckets

    assert at(1, 2) == (3, Buckets((1.0,), (1, 2), 3.0))
    assert at(1, 4) == (2, Buckets((1.0,), (0, 2), 2.0))
    assert at(0, 1) == (1, Buckets((1.0,), (0, 1), 1.0))


def test_sources_count_by_themselves(collector: Collector) -> None:
    def at(one: float, two: float) -> list[float]:
        push = collect(
            collector, source(metric("t", one, COUNTER), name="a"), source(metric("t", two, COUNTER), name="b")
        )
        collector.taken(push)
        return [sample.point.value for sample in push.samples]

    assert at(5, 7) == [5, 7]
    assert at(6, 9) == [1, 2]
    collector.forget_gone([source(name="a")])
    assert at(6, 9) == [0, 9]


def test_a_push_that_is_too_large_loses_details(collector: Collector, caplog: pytest.LogCaptureFixture) -> None:
    partitions = [
        metric("records-lag", number * 0.1, group="consumer-fetch-manager-metrics", topic="t", partition=str(number))
        for number in range(2000)
    ]
    nodes = [metric("request-rate", 1.0, group="consumer-node-metrics", node_id=str(number)) for number in range(3)]
    own = [metric("odd", 1.0), metric("connection-creation-total", 1.0, COUNTER)]
    push = collector.collect([source(*partitions, *nodes, *own)], ALL, True, 4000)
    assert 2000 < len(push.data) <= 4000
    names = [sample.point.name.rpartition("kafka.")[2] for sample in push.samples]
    assert names[:5] == ["producer.connection.creation.total", "producer.odd", *["consumer.node.request.rate"] * 3]
    assert set(names[5:]) == {"consumer.fetch.manager.records.lag"}
    assert "metrics that the broker wants are not pushed" in caplog.text
    assert len(caplog.records) == 1
    collector.collect([source(*partitions)], ALL, True, 4000)
    assert [record.levelno for record in caplog.records].count(logging.WARNING) == 1


def test_no_room_at_all(collector: Collector) -> None:
    push = collector.collect([source(metric("a", 1))], ALL, True, 5)
    assert push == Push(b"", [])


class Part:
    """A producer, as far as sources see it."""

    def __init__(self, read: Any, labels: Any = dict) -> None:
        self.read_metrics = read
        self.metric_labels = labels


class Owner:
    """A cluster, as far as sources see it."""

    client_rack = "r1"

    def __init__(self, **parts: Any) -> None:
        self.listener = Recorder(ThreadingHandler())
        self._parts = parts  # which the recorder holds weakly
        for name, part in parts.items():
            self.listener.parts[name] = part


def test_sources_have_labels_and_a_broken_one_hides_no_other(
    handler: Handler, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken() -> Any:
        raise ValueError("oops")

    one = metric("a", 1)
    owner: Any = Owner(
        p1=Part(lambda: [one], lambda: {"group_id": "g", "group_member_id": ""}), p2=Part(broken, broken)
    )
    monkeypatch.setattr(telemetry_sources, "read_own", lambda cluster: [one, metric("b", 2)])
    sources = Sources(LogLimiter(handler))
    for _ in range(2):
        found = sources.read(owner)
        assert [[each.name.name for each in one.metrics] for one in found] == [["a"], [], ["b"]]
        assert dict(found[0].labels) == {"client_rack": "r1", "client_component": "p1", "group_id": "g"}
        assert dict(found[-1].labels) == {"client_rack": "r1"}
    assert caplog.text.count("oops") == 1
    assert {name.name for name in sources.names(owner)} == {"a", "b"}


def test_a_histogram_that_has_begun_anew_is_sent_whole(collector: Collector) -> None:
    """Also if it has measured as much as before: no bucket may fall."""
    bounds = (1.0, 2.0)
    for counts in ((0, 10, 0), (12, 0, 0)):
        buckets = Buckets(bounds, counts, float(sum(counts)))
        histogram = metric("h", sum(counts))._replace(kind=HISTOGRAM, buckets=buckets)
        push = collector.collect([source(histogram)], ALL, True, 10_000)
        collector.taken(push)
    assert push.data
