"""The collector over real clients: on threads, greenlets and asyncio, while they work, and after they are closed."""

from __future__ import annotations

import gc
import uuid
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from pykafka import EmbeddedCluster, KafkaClient
from pykafka.prometheus import KafkaCollector
from tests.support.promql import labels_of, queries

pytestmark = [pytest.mark.timeout(120), pytest.mark.on_asyncio]

COUNT = 100


@pytest.fixture(scope="module")
def cluster() -> Iterator[EmbeddedCluster]:
    with EmbeddedCluster(brokers=2, topics={"orders": 2, "payments": 2}) as cluster:
        yield cluster


def work(client: KafkaClient, cluster: EmbeddedCluster) -> tuple[Any, Any]:
    """Produce and consume, such that all metrics of a producer and of a member of a group are there."""
    name = uuid.uuid4().hex
    topics = f"orders-{name}", f"payments-{name}"
    for topic in topics:
        cluster.create_topic(topic, 2)
    producer = client.producer(linger_ms=0)
    for number in range(COUNT):
        producer.produce(topics[number % 2], b"v" * 20)
    producer.flush()
    consumer = client.consumer(*topics, group=name, auto_offset_reset="earliest")
    read = 0
    while read < COUNT:
        read += len(consumer.poll(timeout=30))
    consumer.commit()
    return producer, consumer


def values(collector: KafkaCollector) -> dict[str, float]:
    """Return {name of a series: the sum of its values}."""
    found: dict[str, float] = {}
    for family in collector.collect():
        for sample in family.samples:
            found[sample.name] = found.get(sample.name, 0) + sample.value
    return found


def test_queries_of_the_dashboards_name_what_a_client_has(
    client: KafkaClient, cluster: EmbeddedCluster, tmp_path: Path
) -> None:
    registry = CollectorRegistry()
    KafkaCollector(client, registry=registry, directory=tmp_path)
    parts = work(client, cluster)
    labels = labels_of(registry.collect())
    assert labels["kafka_client_producer_topic_record_send_total"] == {"client_id", "topic"}
    # Errors and stalls that have not happened have no name yet.
    known = {
        **{key: {"client_id", "error"} for key in ERRORS},
        **{key: {"client_id", "reason"} for key in STALLS},
        **labels,
    }
    assert [mistake for query in queries() for mistake in query.mistakes(known)] == []
    assert b"# EOF" not in generate_latest(registry)
    del parts


STALLS = tuple(
    f"kafka_client_{kind}_{name}"
    for kind in ("producer", "consumer")
    for name in ("stalled_partitions", "stalls_total")
)
ERRORS = ("kafka_client_producer_error_record_error_total", "kafka_client_producer_error_record_retry_total")


def test_values_are_those_of_the_client(client: KafkaClient, cluster: EmbeddedCluster) -> None:
    collector = KafkaCollector(client)
    producer, consumer = work(client, cluster)
    found = values(collector)
    assert found["kafka_client_producer_record_send_total"] == COUNT
    assert found["kafka_client_producer_topic_record_send_total"] == COUNT
    assert found["kafka_client_consumer_fetch_manager_records_consumed_total"] >= COUNT
    assert found["kafka_client_consumer_fetch_manager_records_lag"] == 0
    assert found["kafka_client_consumer_coordinator_assigned_partitions"] == 4
    sent = producer.metrics()
    assert found["kafka_client_producer_record_queue_time_avg_seconds"] == pytest.approx(
        sent.value("record-queue-time-avg") / 1000
    )
    only = values(KafkaCollector(consumer))
    assert "kafka_client_producer_record_send_total" not in only
    assert only["kafka_client_consumer_fetch_manager_records_lag"] == 0


def test_totals_stay_when_producers_end_and_begin(client: KafkaClient, cluster: EmbeddedCluster) -> None:
    collector = KafkaCollector(client)
    total = 0
    for count in (3, 2, 1):
        with client.producer(linger_ms=0) as producer:
            for _ in range(count):
                producer.produce("orders", b"v").get(timeout=30)
            total += count
            assert values(collector)["kafka_client_producer_record_send_total"] == total
        del producer
        gc.collect()
        assert values(collector)["kafka_client_producer_record_send_total"] == total


def test_the_last_figures_of_a_client_are_those_after_its_close(client: KafkaClient, tmp_path: Path) -> None:
    collector = KafkaCollector(client, directory=tmp_path, write_interval_ms=60_000)
    reading = KafkaCollector(directory=tmp_path)
    producer = client.producer(linger_ms=10_000)  # close() delivers
    for _ in range(10):
        producer.produce("orders", b"v")
    assert values(reading).get("kafka_client_producer_record_send_total", 0) == 0
    client.close()
    found = values(reading)
    assert found["kafka_client_producer_record_send_total"] == 10
    assert "kafka_client_producer_queued_records" not in found
    again = values(collector)
    assert again["kafka_client_producer_record_send_total"] == 10
    reading.close()
    collector.close()


def test_a_client_is_not_kept_alive(client: KafkaClient, cluster: EmbeddedCluster) -> None:
    other = KafkaClient(cluster.hosts, handler=client.cluster.handler)
    collector = KafkaCollector(other)
    values(collector)
    other.close()
    reference = weakref.ref(other)
    del other
    gc.collect()
    assert reference() is None
    assert values(collector)["kafka_client_admin_request_total"] > 0
