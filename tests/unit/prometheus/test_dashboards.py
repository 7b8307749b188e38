"""The dashboards in examples/: their queries name metrics and labels that there are; so do those that people have."""

from __future__ import annotations

from pathlib import Path

import pytest
from prometheus_client.core import Metric as PrometheusMetric

from pykafka.prometheus import KafkaCollector
from tests.support.all_metrics import full_client
from tests.support.promql import Query, labels_of, queries

#: Java's client metrics on the boards kafka-producer.json and kafka-consumer.json of confluentinc/jmx-monitoring-stacks.
ON_BOARDS = {
    "kafka_producer_producer_metrics": (
        "record_send_rate record_error_rate record_retry_rate record_queue_time_avg request_latency_avg requests_in_flight "
        "batch_size_avg compression_rate_avg buffer_available_bytes metadata_age "
        "produce_throttle_time_avg connection_count "
        "outgoing_byte_rate incoming_byte_rate failed_authentication_rate"
    ),
    "kafka_producer_producer_topic_metrics": "byte_rate record_send_rate record_error_rate record_retry_rate",
    "kafka_consumer_consumer_fetch_manager_metrics": (
        "records_consumed_rate bytes_consumed_rate fetch_rate fetch_latency_avg fetch_latency_max fetch_size_avg "
        "fetch_throttle_time_avg records_lag_max"
    ),
    "kafka_consumer_consumer_coordinator_metrics": (
        "commit_rate commit_latency_avg commit_latency_max rebalance_rate_per_hour failed_rebalance_rate_per_hour"
    ),
    "kafka_consumer_consumer_metrics": (
        "time_between_poll_avg time_between_poll_max poll_idle_ratio_avg last_poll_seconds_ago connection_count "
        "failed_authentication_rate"
    ),
}
#: Those that stay empty: docs/metrics.md says why.
EMPTY = (
    "kafka_producer_producer_metrics_bufferpool_wait_ratio kafka_producer_producer_metrics_io_ratio "
    "kafka_producer_producer_metrics_io_wait_ratio kafka_producer_producer_metrics_io_time_ns_avg "
    "kafka_producer_producer_metrics_io_wait_time_ns_avg"
)


@pytest.fixture
def scrape() -> list[PrometheusMetric]:
    client = full_client()
    return list(KafkaCollector(client, directory="").collect())


def test_queries_name_what_there_is(tmp_path: Path) -> None:
    client = full_client()
    collector = KafkaCollector(client, directory=tmp_path)
    labels = labels_of(collector.collect())
    collector.close()
    found = list(queries())
    assert len(found) > 40
    assert [mistake for query in found for mistake in query.mistakes(labels)] == []


@pytest.mark.parametrize(
    ("text", "legend", "mistake"),
    [
        ("rate(kafka_client_produser_request_total[5m])", "", "no metric kafka_client_produser_request_total"),
        ('kafka_client_producer_request_total{topik="a"}', "", "has no label topik"),
        ("sum by (clientid) (kafka_client_producer_request_total)", "", "no label clientid"),
        ("kafka_client_producer_request_total", "{{broker}}", "no label broker"),
        (
            "kafka_client_producer_request_total / on (job) kafka_client_producer_nothing",
            "",
            "no metric kafka_client_producer_n",
        ),
    ],
    ids=["metric", "selector", "group", "legend", "second"],
)
def test_mistakes_of_queries_are_noticed(scrape: list[PrometheusMetric], text: str, legend: str, mistake: str) -> None:
    found = Query("board", text, legend).mistakes(labels_of(scrape))
    assert len(found) == 1
    assert mistake in found[0]


def test_boards_that_people_have_find_their_series() -> None:
    client = full_client()
    labels = labels_of(KafkaCollector(client, names="jmx", partition_labels=True).collect())
    for group, names in ON_BOARDS.items():
        kind = group.split("_")[1]
        for name in names.split():
            query = f'topk(10, {group}_{name}{{client_type="{kind}",client_id=~".*"}})'
            assert Query("a board", query, "{{client_id}}").mistakes(labels) == []
    assert labels["kafka_consumer_consumer_fetch_manager_metrics_records_lag_max"] == {
        *("client_id", "client_type", "topic", "partition"),
    }
    assert {*EMPTY.split()} & labels.keys() == set()
    for kind in ("producer", "consumer"):
        assert labels[f"kafka_{kind}_app_info"] >= {"client_id", "client_type", "version"}
