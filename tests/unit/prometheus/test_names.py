"""The names, units and labels of series."""

from __future__ import annotations

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.openmetrics import exposition

from pykafka.metrics.catalog import catalog
from pykafka.metrics.metric import COUNTER, HISTOGRAM, Buckets, Metric
from pykafka.prometheus import KafkaCollector
from tests.support.all_metrics import full_client
from tests.support.some_metrics import FETCH, HasSome, metric


def shown(*metrics: Metric, **options: object) -> dict[str, float]:
    """Return the lines of a scrape without the collector's own: {series with labels: value}."""
    registry = CollectorRegistry()
    client = HasSome(*metrics)
    KafkaCollector(client, registry=registry, **options)  # type: ignore[arg-type]
    lines = generate_latest(registry).decode().splitlines()
    pairs = [line.rsplit(" ", 1) for line in lines if not line.startswith("#") and "_collector_" not in line]
    return {series: float(value) for series, value in pairs if "_info" not in series}


@pytest.mark.parametrize(
    ("given", "series", "value"),
    [
        (metric("producer-metrics", "record-send-total", 5, COUNTER), "producer_record_send_total", 5),
        (metric("producer-metrics", "record-send-rate", 5, unit="1/s"), "producer_record_send_rate", 5),
        (
            metric("producer-metrics", "request-latency-avg", 12, unit="ms"),
            "producer_request_latency_avg_seconds",
            0.012,
        ),
        (metric("producer-metrics", "flush-time-ns-total", 5e9, COUNTER, "ns"), "producer_flush_time_seconds_total", 5),
        (metric("producer-metrics", "outgoing-byte-total", 7, COUNTER, "bytes"), "producer_outgoing_bytes_total", 7),
        (metric("producer-metrics", "outgoing-byte-rate", 7, unit="bytes/s"), "producer_outgoing_byte_rate", 7),
        (metric("producer-metrics", "buffer-total-bytes", 7, unit="bytes"), "producer_buffer_total_bytes", 7),
        (metric("producer-metrics", "batch-size-avg", 7, unit="bytes"), "producer_batch_size_avg_bytes", 7),
        (metric("producer-metrics", "compression-rate-avg", 0.5, unit="ratio"), "producer_compression_rate_avg", 0.5),
        (metric("producer-metrics", "io-wait-ratio", 0.5, unit="ratio"), "producer_io_wait_ratio", 0.5),
        (metric("consumer-metrics", "last-poll-seconds-ago", 3, unit="s"), "consumer_last_poll_ago_seconds", 3),
        (
            metric("consumer-coordinator-metrics", "rebalance-latency-total", 1500, COUNTER, "ms"),
            "consumer_coordinator_rebalance_latency_seconds_total",
            1.5,
        ),
        (metric("admin-client-metrics", "connection-count", 2), "admin_connections", 2),
        (metric("admin-client-node-metrics", "request-rate", 2), "admin_node_request_rate", 2),
        (metric("client-metrics", "hold-time-max", 250, unit="ms"), "hold_time_max_seconds", 0.25),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_name_has_group_name_and_base_unit(given: Metric, series: str, value: float) -> None:
    assert shown(given) == {f'kafka_client_{series}{{client_id="c"}}': value}


def test_a_histogram_is_one() -> None:
    buckets = Buckets((5.0, 10.0), (1, 2, 1), 40.0)
    found = shown(metric("producer-metrics", "request-latency", 4, HISTOGRAM, "ms", buckets))
    name = "kafka_client_producer_request_latency_seconds"
    assert found == {
        f'{name}_bucket{{client_id="c",le="0.005"}}': 1,
        f'{name}_bucket{{client_id="c",le="0.01"}}': 3,
        f'{name}_bucket{{client_id="c",le="+Inf"}}': 4,
        f'{name}_count{{client_id="c"}}': 4,
        f'{name}_sum{{client_id="c"}}': 0.04,
    }


LAG = [
    metric(FETCH, "records-lag-max", 9),
    *(
        metric(FETCH, "records-lag-max", lag, topic=topic, partition=of)
        for topic, of, lag in (("a", "0", 3), ("a", "1", 7))
    ),
    metric(FETCH, "records-lag-max", 2, topic="b", partition="0"),
    metric(FETCH, "records-lag-avg", 2, topic="a", partition="0"),
    metric(FETCH, "records-lag-avg", 4, topic="a", partition="1"),
    metric(FETCH, "records-lead-min", 2, topic="a", partition="0"),
    metric(FETCH, "records-lead-min", 4, topic="a", partition="1"),
    metric(FETCH, "preferred-read-replica", 4, topic="a", partition="1"),
    metric(FETCH, "records-consumed-total", 30, COUNTER),
    metric(FETCH, "records-consumed-total", 10, COUNTER, topic="a"),
    metric(FETCH, "records-consumed-total", 20, COUNTER, topic="b"),
]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (
            {},
            {
                'records_lag_max{client_id="c",topic="a"}': 7,
                'records_lag_max{client_id="c",topic="b"}': 2,
                'records_lag_avg{client_id="c",topic="a"}': 3,
                'records_lead_min{client_id="c",topic="a"}': 2,
                'records_consumed_total{client_id="c",topic="a"}': 10,
                'records_consumed_total{client_id="c",topic="b"}': 20,
            },
        ),
        (
            {"topic_labels": False},
            {
                'records_lag_max{client_id="c"}': 9,  # the client's own, in place of one of its partitions'
                'records_lag_avg{client_id="c"}': 3,
                'records_lead_min{client_id="c"}': 2,
                'records_consumed_total{client_id="c"}': 30,
            },
        ),
        (
            {"partition_labels": True},
            {
                'records_lag_max{client_id="c",partition="0",topic="a"}': 3,
                'records_lag_max{client_id="c",partition="1",topic="a"}': 7,
                'records_lag_max{client_id="c",partition="0",topic="b"}': 2,
                'records_lag_avg{client_id="c",partition="0",topic="a"}': 2,
                'records_lag_avg{client_id="c",partition="1",topic="a"}': 4,
                'records_lead_min{client_id="c",partition="0",topic="a"}': 2,
                'records_lead_min{client_id="c",partition="1",topic="a"}': 4,
                'preferred_read_replica{client_id="c",partition="1",topic="a"}': 4,
                'records_consumed_total{client_id="c",topic="a"}': 10,
                'records_consumed_total{client_id="c",topic="b"}': 20,
            },
        ),
    ],
    ids=["topics", "none", "partitions"],
)
def test_a_name_has_series_of_one_level_of_labels(options: dict[str, bool], expected: dict[str, float]) -> None:
    """So a sum over a name counts nothing twice, although clients count by client, by topic and by partition."""
    prefix = "kafka_client_consumer_fetch_manager_"
    assert shown(*LAG, **options) == {prefix + series: value for series, value in expected.items()}


def test_names_of_the_jmx_exporter() -> None:
    found = shown(
        *LAG,
        metric("producer-metrics", "record-send-total", 5, COUNTER),
        metric("producer-metrics", "request-latency-avg", 12, unit="ms"),
        metric(FETCH, "records-lag", 8, topic="a", partition="5"),
        metric("producer-topic-metrics", "byte-rate", 3, topic="a"),
        metric("producer-node-metrics", "request-latency-avg", 12, unit="ms", node_id="node-1"),
        names="jmx",
        partition_labels=True,
    )
    consumer, producer = 'client_id="c",client_type="consumer"', 'client_id="c",client_type="producer"'
    fetch = "kafka_consumer_consumer_fetch_manager_metrics"
    # Java's levels, all of them: the dashboards are made for that
    assert found[f"{fetch}_records_lag_max{{{consumer}}}"] == 9
    assert found[f'{fetch}_records_lag_max{{{consumer},partition="1",topic="a"}}'] == 7
    # the client keeps no maximum of a window by partition: the value of the moment, under Java's name
    assert found[f'{fetch}_records_lag_max{{{consumer},partition="5",topic="a"}}'] == 8
    assert found[f"kafka_producer_producer_metrics_record_send_total{{{producer}}}"] == 5
    assert found[f"kafka_producer_producer_metrics_request_latency_avg{{{producer}}}"] == 12  # in Java's units
    assert found[f'kafka_producer_producer_topic_metrics_byte_rate{{{producer},topic="a"}}'] == 3
    assert found[f'kafka_producer_producer_node_metrics_request_latency_avg{{{producer},node_id="node-1"}}'] == 12


def test_without_partition_labels_the_jmx_names_leave_partitions_out() -> None:
    found = shown(*LAG, names="jmx")
    assert [series for series in found if "records_lag_max" in series] == [
        'kafka_consumer_consumer_fetch_manager_metrics_records_lag_max{client_id="c",client_type="consumer"}'
    ]


@pytest.mark.parametrize("kind", ["producer", "consumer"])
def test_the_version_is_a_label(kind: str) -> None:
    client = HasSome(
        metric(f"{kind}-metrics", "connection-count", 1), metric("app-info", "start-time-ms", 5, unit="ms")
    )
    for names, series in (("base", "kafka_client_info"), ("jmx", f"kafka_{kind}_app_info")):
        found = {one.name: one.samples for one in KafkaCollector(client, names=names).collect()}
        assert found[series][0].labels["version"].startswith("3.")
        assert not [name for name in found if "start_time" in name]


def test_all_names_are_apart_and_described() -> None:
    client = full_client()
    for names in ("base", "jmx"):
        registry = CollectorRegistry()
        collector = KafkaCollector(client, registry=registry, names=names, partition_labels=True)
        found = {one.name: (one.type, one.documentation) for one in collector.collect()}
        described = {one.name: (one.type, one.documentation) for one in collector.describe()}
        assert set(found) == set(described)
        assert {name: kind for name, (kind, _) in found.items()} == {
            name: kind for name, (kind, _) in described.items()
        }
        assert b"# EOF" in exposition.generate_latest(registry)  # type: ignore[no-untyped-call]
        registry.unregister(collector)
    groups = {(entry.group, entry.name) for entry in catalog() if entry.group != "app-info"}
    base = [
        one.name
        for one in KafkaCollector().describe()
        if "_collector_" not in one.name and one.name != "kafka_client_info"
    ]
    assert len(base) == len(set(base)) == len(groups)


def test_a_registry_can_be_asked_for_one_name() -> None:
    client, registry = full_client(), CollectorRegistry()
    KafkaCollector(client, registry=registry)
    found = registry.restricted_registry(["kafka_client_producer_record_send_total"]).collect()
    assert [one.name for one in found] == ["kafka_client_producer_record_send"]
