"""metrics() of clients, producers and consumers: values that can be known, on each kind of concurrency."""

from __future__ import annotations

import math
from typing import Any

import pytest

from pykafka import EmbeddedCluster, KafkaClient
from pykafka.common import TopicPartition
from pykafka.consumer import engine
from pykafka.exceptions import MessageSizeTooLarge, NotEnoughReplicas
from pykafka.metrics.listener import CONNECTED, DISCONNECTED
from tests.support.waiting import until

pytestmark = [pytest.mark.timeout(120), pytest.mark.on_asyncio]

COUNT, SIZE = 200, 50


def fill(client: KafkaClient, topic: str, count: int = COUNT) -> Any:
    producer = client.producer(linger_ms=0)
    for number in range(count):
        producer.produce(topic, b"v" * SIZE, partition=number % 2)
    producer.flush()
    return producer


def leader_of(client: KafkaClient, topic: str) -> int:
    """Return the leader of the partition 0."""
    leader = client.topics[topic].partitions[0].leader
    return next(id_ for id_, broker in client.brokers.items() if broker is leader)


def test_a_producer_counts_what_it_sends(client: KafkaClient, topic: str) -> None:
    producer = fill(client, topic)
    metrics = producer.metrics()
    assert metrics.value("record-send-total", "producer-metrics") == COUNT
    assert metrics.value("record-send-total", topic=topic) == COUNT
    assert metrics.value("record-error-total", "producer-metrics") == 0
    assert metrics.value("byte-total", topic=topic) >= COUNT * SIZE
    assert metrics.value("record-send-rate", topic=topic) == pytest.approx(COUNT / 30, rel=0.01)
    assert 0 < metrics.value("record-queue-time-avg") <= metrics.value("record-queue-time-max")
    assert metrics.value("record-delivery-time-avg") > metrics.value("record-queue-time-avg")
    (delivered,) = metrics.find("record-delivery-time")
    assert delivered.buckets is not None
    assert sum(delivered.buckets.counts) == metrics.value("records-acknowledged-batch-total") > 0
    assert metrics.value("buffer-available-bytes") == metrics.value("buffer-total-bytes")
    assert (metrics.value("queued-records"), metrics.value("oldest-record-seconds")) == (0, 0.0)
    assert metrics.value("compression-rate-avg") >= 1.0
    nodes = {dict(metric.name.tags)["node-id"] for metric in metrics.find("request-total", "producer-node-metrics")}
    assert nodes >= {"1", "2"}


def test_a_producer_that_waits_for_no_answer_counts_what_it_sends(client: KafkaClient, topic: str) -> None:
    with client.producer(acks=0, linger_ms=0) as producer:
        for number in range(10):
            producer.produce(topic, b"v" * SIZE, partition=number % 2)
        producer.flush()
        metrics = producer.metrics()
        assert metrics.value("record-send-total", topic=topic) == 10
        assert metrics.value("record-send-rate", topic=topic) == pytest.approx(10 / 30, rel=0.01)
        assert 0 < metrics.value("record-queue-time-avg") < 60_000


def test_a_producer_counts_failures_and_retries_by_error(
    client: KafkaClient, cluster: EmbeddedCluster, topic: str
) -> None:
    with client.producer(retry_backoff_ms=1) as producer:
        producer.produce(topic, b"v", partition=0).get(timeout=30)
        leader = leader_of(client, topic)
        cluster.inject_errors("Produce", NotEnoughReplicas, NotEnoughReplicas, broker=leader)
        producer.produce(topic, b"v", partition=0).get(timeout=30)
        cluster.inject_errors("Produce", MessageSizeTooLarge, broker=leader)
        with pytest.raises(MessageSizeTooLarge):
            producer.produce(topic, b"v", partition=0).get(timeout=30)
        metrics = producer.metrics()
        assert metrics.value("record-retry-total", topic=topic) == 2
        assert metrics.value("record-retry-total", error="NotEnoughReplicas") == 2
        assert metrics.value("record-error-total", topic=topic) == 1
        assert metrics.value("record-error-total", error="MessageSizeTooLarge") == 1


def test_a_batch_that_is_split_counts_as_sent_again(client: KafkaClient, cluster: EmbeddedCluster, topic: str) -> None:
    with client.producer(linger_ms=10_000) as producer:
        cluster.inject_errors("Produce", MessageSizeTooLarge, broker=leader_of(client, topic))
        for _ in range(4):
            producer.produce(topic, b"v", partition=0)
        producer.flush()
        metrics = producer.metrics()
        assert metrics.value("record-retry-total", error="MessageSizeTooLarge") == 4
        assert metrics.value("record-send-total", topic=topic) == 8
        assert metrics.value("record-error-total", topic=topic) == 0


def test_requests_count_before_their_answers(client: KafkaClient, cluster: EmbeddedCluster, topic: str) -> None:
    """So those of a broker that hangs count, too."""
    with client.producer(linger_ms=0) as producer:
        producer.produce(topic, b"v", partition=0).get(timeout=30)
        for broker in client.brokers:
            cluster.set_latency(broker, 700)
        before = {
            name: client.metrics().value(name, "admin-client-metrics") for name in ("request-total", "response-total")
        }
        delivery = producer.produce(topic, b"v", partition=0)
        until(
            client.cluster.handler,
            lambda: client.metrics().value("request-total", "admin-client-metrics") > before["request-total"],
        )
        assert not delivery.done
        for broker in client.brokers:
            cluster.set_latency(broker, 0)
        delivery.get(timeout=30)
        after = client.metrics()
        assert after.value("response-total", "admin-client-metrics") > before["response-total"]
        until(client.cluster.handler, lambda: _counted(client, "request-total") == _counted(client, "response-total"))


def _counted(client: KafkaClient, name: str) -> float:
    return client.metrics().value(name, "admin-client-metrics")


@pytest.mark.parametrize("way", ["iteration", "one", "poll"])
def test_reading_what_is_buffered_counts_as_polls(client: KafkaClient, topic: str, way: str) -> None:
    handler = client.cluster.handler
    for _ in range(4):  # as many batches a partition
        fill(client, topic, 20).close()
    with client.consumer(topic, auto_offset_reset="earliest") as consumer:
        records = iter(consumer)
        for _ in range(21):  # more than a batch of each: before that no call is known if the records were there first
            next(records)
        until(handler, lambda: consumer.metrics().value("buffered-records") == 59)

        def ago() -> float:
            return consumer.metrics().value("last-poll-seconds-ago")

        handler.sleep(0.3)
        waited = ago()
        assert waited >= 0.3
        if way == "poll":
            consumer.poll(40)
        for _ in range(40):
            if way == "iteration":
                next(records)
            elif way == "one":
                consumer.one()
        assert 0 <= ago() < waited


def test_a_call_that_waits_is_a_poll(client: KafkaClient, topic: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A consumer of a quiet topic polls all the time: an alert must not take it for one that does not."""
    monkeypatch.setattr(engine, "REVIVE_S", 0.2)
    handler = client.cluster.handler
    with client.consumer(topic) as consumer:
        worker = handler.spawn(lambda: next(iter(consumer), None))
        until(handler, lambda: consumer.metrics().value("last-poll-seconds-ago") >= 0)
        for _ in range(10):
            handler.sleep(0.2)
            assert consumer.metrics().value("last-poll-seconds-ago") < 1
        fill(client, topic, 2).close()
        worker.join()
        handler.sleep(1)
        assert consumer.metrics().value("last-poll-seconds-ago") >= 1


def test_connections_of_heartbeats_are_counted(client: KafkaClient, cluster: EmbeddedCluster, topic: str) -> None:
    handler = client.cluster.handler
    fill(client, topic, 2).close()

    def standing() -> bool:
        made, ended = _counted(client, "connection-creation-total"), _counted(client, "connection-close-total")
        return made - ended == _counted(client, "connection-count")

    def of_heartbeats(name: str) -> int:
        parts: Any = client.cluster.listener
        beats = [part.events for about, part in list(parts.connections.items()) if about[1] == "heartbeat"]
        counts: list[int] = [events[name].count for events in beats if name in events]
        return sum(counts)

    options: dict[str, Any] = {"auto_offset_reset": "earliest", "heartbeat_interval_ms": 100}
    with client.consumer(topic, group=f"beats {topic}", **options) as consumer:
        assert consumer.poll(timeout=30)
        until(handler, lambda: consumer.metrics().value("heartbeat-total") > 0)
        assert of_heartbeats(CONNECTED) == 1
        until(handler, standing)
    until(handler, lambda: of_heartbeats(DISCONNECTED) == 1)
    until(handler, standing)


def test_a_consumer_knows_its_lag_from_the_answers(client: KafkaClient, topic: str) -> None:
    fill(client, topic)
    with client.consumer(auto_offset_reset="earliest") as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        read = 0
        while read < 40:
            read += len(consumer.poll(10, timeout=30))
        metrics = consumer.metrics()
        assert metrics.value("records-lag", partition="0") == COUNT / 2 - read
        assert metrics.value("records-lag-max") == metrics.value("records-lag-sum") == COUNT / 2 - read
        assert 0 <= metrics.value("records-lag-seconds", partition="0") < 60
        assert metrics.value("records-lead", partition="0") == read
        assert metrics.value("end-offset", partition="0") == COUNT / 2
        assert metrics.value("position", partition="0") == read
        assert metrics.value("records-consumed-total", topic=topic) >= read
        assert 0 < metrics.value("buffered-bytes") <= metrics.value("buffered-limit-bytes")
        assert metrics.value("fetch-total") >= 1
        while read < COUNT / 2:
            read += len(consumer.poll(100, timeout=30))
        metrics = consumer.metrics()
        assert metrics.value("records-lag", partition="0") == metrics.value("records-lag-seconds", partition="0") == 0
        assert metrics.value("records-lag-seconds-max") == 0.0
        assert metrics.value("buffered-records") == 0


def test_a_client_has_the_metrics_of_its_parts(client: KafkaClient, topic: str) -> None:
    producer = fill(client, topic, 10)
    with client.consumer(topic, auto_offset_reset="earliest"), client.consumer(topic, auto_offset_reset="earliest"):
        metrics = client.metrics()
        names = {dict(metric.name.tags)["client-id"] for metric in metrics.find("start-time-ms")}
        assert names == {
            *("pykafka", "pykafka-producer-1", "pykafka-consumer-1", "pykafka-consumer-2"),
        }
        assert metrics.value("record-send-total", "producer-metrics") == 10
        assert metrics.value("request-total", "admin-client-metrics") > 0
        assert metrics.value("request-latency", api="Produce") >= 1
        assert metrics.value("connection-count", "admin-client-metrics") >= 2
    producer.close()


def test_a_client_that_counts_nothing_knows_its_state(
    client: KafkaClient, cluster: EmbeddedCluster, topic: str
) -> None:
    with KafkaClient(cluster.hosts, record_metrics=False) as silent:
        producer = fill(silent, topic, 10)
        metrics = producer.metrics()
        assert metrics.value("buffer-total-bytes") > 0
        assert metrics.value("request-total", "producer-metrics") == 0
        with pytest.raises(KeyError):
            metrics.value("record-send-total")
        assert silent.metrics().value("connection-count", "admin-client-metrics") >= 1
        assert silent.cluster.listener is None


def test_connections_that_end_are_counted(client: KafkaClient, topic: str) -> None:
    fill(client, topic, 2).close()
    before = client.metrics().value("connection-close-total", "admin-client-metrics")
    for broker in client.brokers.values():
        broker.drop_connections()
    until(
        client.cluster.handler,
        lambda: client.metrics().value("connection-close-total", "admin-client-metrics") >= before + 2,
    )
    assert not math.isnan(client.metrics().value("request-size-avg", "admin-client-metrics"))
