"""The catalog of metrics, beside the list of those that Java's clients have."""

from __future__ import annotations

import math

import pytest

from pykafka.metrics.catalog import catalog
from pykafka.metrics.metric import COUNTER, GAUGE, HISTOGRAM, Metric, MetricName, Metrics
from pykafka.metrics.reading import Reading


def test_each_entry_has_a_unit_a_text_and_a_kind_of_its_name() -> None:
    for entry in catalog():
        assert entry.description
        assert entry.kind in (GAUGE, COUNTER, HISTOGRAM)
        assert entry.name.endswith("-total") == (entry.kind == COUNTER), entry
        assert entry.tags[0] == "client-id"
    assert len({(entry.group, entry.name, entry.tags) for entry in catalog()}) == len(catalog())


def test_a_metric_that_is_not_in_the_catalog_is_refused() -> None:
    with pytest.raises(KeyError):
        Reading("c", 0.0).add("producer-metrics", "record-sent-total", 1)


def metrics() -> Metrics:
    names = [MetricName("records-lag", "fetch", (("partition", str(number)), ("topic", "a"))) for number in range(2)]
    return Metrics(Metric(name, number, GAUGE, "records", "lag") for number, name in enumerate(names))


def test_metrics_are_found_by_name_and_tags() -> None:
    assert [metric.value for metric in metrics().find("records-lag")] == [0, 1]
    assert metrics().value("records-lag", partition="1") == 1
    assert metrics().value("records-lag", "fetch", partition="0", topic="a") == 0
    assert metrics().by_group() == {
        "fetch": {"records-lag{partition=0,topic=a}": 0, "records-lag{partition=1,topic=a}": 1}
    }
    assert math.isnan(Metrics([metrics().find("records-lag")[0]._replace(value=math.nan)]).value("records-lag"))


@pytest.mark.parametrize(
    ("name", "tags", "text"),
    [
        ("record-lag", {}, "no metric 'record-lag'; similar: records-lag"),
        ("records-lag", {"topics": "a"}, "no tag 'topics'; its tags: partition, topic"),
        ("records-lag", {"topic": "a"}, "2 metrics 'records-lag' fit"),
        ("records-lag", {"topic": "b"}, "0 metrics 'records-lag' fit"),
    ],
)
def test_what_does_not_exist_is_named(name: str, tags: dict[str, str], text: str) -> None:
    with pytest.raises(KeyError, match=text):
        metrics().value(name, **tags)
