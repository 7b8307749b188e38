"""Names of metrics for brokers, and the standard sets."""

from __future__ import annotations

import pytest

from pykafka.metrics.metric import MetricName
from pykafka.telemetry.names import STANDARD, is_standard, missing, telemetry_name, telemetry_tags


@pytest.mark.parametrize(
    ("group", "name", "wanted"),
    [
        ("producer-metrics", "record-queue-time-avg", "org.apache.kafka.producer.record.queue.time.avg"),
        ("producer-node-metrics", "request-latency-max", "org.apache.kafka.producer.node.request.latency.max"),
        (
            "consumer-fetch-manager-metrics",
            "records-lag-max",
            "org.apache.kafka.consumer.fetch.manager.records.lag.max",
        ),
        ("consumer-share-metrics", "poll-idle-ratio-avg", "org.apache.kafka.consumer.share.poll.idle.ratio.avg"),
        ("kafka-metrics-count", "count", "org.apache.kafka.kafka.metrics.count.count"),
        ("my-shop", "orders", "org.apache.kafka.my.shop.orders"),
    ],
)
def test_a_name_has_dots_for_hyphens(group: str, name: str, wanted: str) -> None:
    assert telemetry_name(MetricName(name, group)) == wanted


def test_tags_are_in_snake_case_and_the_broker_adds_the_client_id() -> None:
    name = MetricName("request-rate", "producer-node-metrics", (("client-id", "a"), ("node-id", "node-1")))
    assert telemetry_tags(name) == (("node_id", "node-1"),)


def of_java(kind: str) -> list[MetricName]:
    """Return the metrics of a standard set, as Java's clients name them."""
    groups = {
        "consumer.share.fetch.manager": "consumer-share-fetch-manager-metrics",
        "consumer.share.coordinator": "consumer-share-coordinator-metrics",
        "consumer.share": "consumer-share-metrics",
        "consumer.fetch.manager": "consumer-fetch-manager-metrics",
        "consumer.coordinator": "consumer-coordinator-metrics",
        "consumer.node": "consumer-node-metrics",
        "producer.node": "producer-node-metrics",
        "consumer": "consumer-metrics",
        "producer": "producer-metrics",
    }
    names = []
    for name in STANDARD[kind]:
        start = next(start for start in groups if name.startswith(f"{start}."))
        names.append(MetricName(name.removeprefix(f"{start}.").replace(".", "-"), groups[start]))
    return names


@pytest.mark.parametrize("kind", STANDARD)
def test_what_is_missing_of_a_standard_set_is_named(kind: str) -> None:
    names = of_java(kind)
    assert missing(kind, names) == []
    assert missing(kind, names[1:]) == [STANDARD[kind][0]]
    assert len(set(names)) == {"producer": 10, "consumer": 13, "share consumer": 17}[kind]
    assert all(is_standard(telemetry_name(name)) for name in names)
    assert not is_standard("org.apache.kafka.my.shop.orders")
