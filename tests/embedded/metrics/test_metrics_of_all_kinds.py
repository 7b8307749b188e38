"""Metrics of parallel work, PyKafka 2's classes and forked children; and that the catalog has no row in vain."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from pykafka import EmbeddedCluster, KafkaClient
from pykafka.deadletters import DeadLetters
from pykafka.exceptions import MessageSizeTooLarge, MessagesNotDelivered, NotEnoughReplicas
from pykafka.metrics.catalog import catalog
from pykafka.metrics.metric import Metrics
from pykafka.parallel.retry import Retry
from tests.support.waiting import until

pytestmark = [pytest.mark.timeout(120)]

COUNT = 40


def fill(client: KafkaClient, topic: str, count: int = COUNT) -> None:
    with client.producer(linger_ms=0) as producer:
        for number in range(count):
            producer.produce(topic, b"%d" % number, partition=number % 2)


def test_parallel_work_counts_its_tasks(client: KafkaClient, topic: str) -> None:
    fill(client, topic)
    handler = client.cluster.handler
    go, held = handler.Event(), []

    def handle(record: Any) -> None:
        number = int(record.value)
        if number == 0:
            held.append(number)
            go.wait(60)
        if number == 1:
            raise ValueError("of no use")

    with client.consumer(topic, group=f"parallel {topic}", auto_offset_reset="earliest", auto_commit=False) as consumer:
        assert not [one for one in consumer.metrics() if one.group == "parallel-metrics"]
        retry = Retry(times=2, backoff=0.001)
        with client.producer(linger_ms=0) as producer:
            letters = DeadLetters(producer, f"{topic}-dead")
            with consumer.parallel(handle, workers=4, retry=retry, dead_letters=letters) as run:
                until(handler, lambda: bool(held) and run.stats().acknowledged == COUNT - 1)
                metrics = client.metrics()
                value = {
                    name: metrics.value(name, "parallel-metrics") for name in ("tasks-in-progress", "tasks-waiting")
                }
                assert value == {"tasks-in-progress": 1, "tasks-waiting": 0}
                assert metrics.value("oldest-task-seconds") > 0
                go.set()
                until(handler, lambda: run.stats().acknowledged == COUNT)
                metrics = consumer.metrics()
        assert metrics.value("tasks-done-total") == COUNT
        assert metrics.value("tasks-failed-total") == 3
        assert metrics.value("tasks-retried-total") == 2
        assert metrics.value("dead-letters-total") == 1
        assert metrics.value("handle-time", "parallel-metrics") == COUNT + 2
        assert metrics.value("handle-time-max") >= metrics.value("handle-time-avg") > 0
        assert metrics.value("oldest-task-seconds") == 0.0


def test_messages_given_up_at_the_end_are_counted(concurrency: Callable[[], dict[str, Any]]) -> None:
    with EmbeddedCluster(brokers=1) as cluster, KafkaClient(cluster.hosts, **concurrency()) as client:
        cluster.create_topic("t", 1)
        producer = client.producer(linger_ms=0, delivery_timeout_ms=60_000)
        producer.produce("t", b"v").get(timeout=30)
        assert producer.metrics().value("records-undelivered-total") == 0
        cluster.inject_errors("Produce", *[NotEnoughReplicas] * 100)
        for _ in range(3):
            producer.produce("t", b"v")
        with pytest.raises(MessagesNotDelivered):
            producer.close(timeout=0.1)
        assert producer.metrics().value("records-undelivered-total") == 3
        # By their last error: those that were tried by that of the broker, the others by that of the stop.
        assert sum(one.value for one in producer.metrics().find("record-error-total", "producer-error-metrics")) == 3


def test_the_classes_of_pykafka_2_have_metrics(client: KafkaClient, topic: str) -> None:
    with client.topics[topic].get_producer(linger_ms=0) as producer:
        for _ in range(COUNT):
            producer.produce(b"v")
        producer.flush()
        consumer = client.topics[topic].get_simple_consumer(consumer_timeout_ms=5000, auto_offset_reset="earliest")
        for _ in range(COUNT):
            assert consumer.consume() is not None
        metrics = client.metrics()
        assert metrics.value("record-send-total", "producer-metrics") == COUNT
        assert metrics.value("records-consumed-total", "consumer-fetch-manager-metrics", topic=topic) == COUNT
        assert {one.value for one in metrics.find("position")} == {COUNT / 2} or sum(
            one.value for one in metrics.find("position")
        ) == COUNT
        consumer.stop()


def test_a_balanced_consumer_keeps_its_counts_through_rebalances(client: KafkaClient, topic: str) -> None:
    fill(client, topic)
    name = f"balanced {topic}"
    make = client.topics[topic].get_balanced_consumer
    options: dict[str, Any] = {"managed": True, "consumer_timeout_ms": 10_000, "auto_offset_reset": "earliest"}
    first = make(name, **options)
    for _ in range(COUNT):
        assert first.consume() is not None
    group = "consumer-fetch-manager-metrics"

    def parts() -> dict[str, float]:
        found = [one for one in client.metrics().find("records-consumed-total", group) if len(one.name.tags) == 1]
        return {dict(one.name.tags)["client-id"]: one.value for one in found}

    assert parts() == {"pykafka-consumer-1": COUNT}
    partitions = list(first.partitions.values())
    for assigned in (partitions[:1], partitions):  # as rebalances do
        replaced = first._consumer
        assert first._setup_internal_consumer(assigned)
        assert first._consumer is not replaced
        del replaced
    fill(client, topic, 2)
    for _ in range(2):
        assert first.consume() is not None
    assert list(parts()) == ["pykafka-consumer-1"]
    assert parts()["pykafka-consumer-1"] >= COUNT + 2  # more: a partition that came back began at its start again
    first.stop()


def count_in_child(client: KafkaClient, producer: Any, topic: str, results: Any) -> None:
    before = client.metrics()
    producer.produce(topic, b"v", partition=0).get(timeout=30)
    after = producer.metrics()
    results.put(
        (
            before.value("record-send-total", "producer-metrics"),
            before.value("request-total", "admin-client-metrics"),
            after.value("record-send-total", "producer-metrics"),
            after.value("record-send-total", topic=topic),
        )
    )


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_forked_child_counts_from_zero(cluster: EmbeddedCluster, topic: str) -> None:
    with KafkaClient(cluster.hosts) as client, client.producer(linger_ms=0) as producer:
        for _ in range(5):
            producer.produce(topic, b"v", partition=0).get(timeout=30)
        forking = multiprocessing.get_context("fork")
        results = forking.SimpleQueue()
        child = forking.Process(target=count_in_child, args=(client, producer, topic, results))
        child.start()
        child.join(60)
        assert child.exitcode == 0
        assert results.get() == (0, 0, 1, 1)
        results.close()
        assert producer.metrics().value("record-send-total", "producer-metrics") == 5
        assert client.metrics().value("request-total", "admin-client-metrics") > 5


#: Groups of the catalog that only a real broker brings about: tests/integration/sharegroups/test_share_metrics.py.
OF_SHARE_GROUPS = "consumer-share-"
#: The tag of those that only a stall brings about: tests/embedded/health/test_watch.py.
OF_STALLS = "reason"


def all_kinds(cluster: EmbeddedCluster, topic: str) -> Iterator[Metrics]:
    """Yield the metrics of one client of all kinds, whose producer has failed, too."""
    with KafkaClient(cluster.hosts) as client, client.producer(linger_ms=0, retry_backoff_ms=1) as producer:
        cluster.inject_errors("Produce", NotEnoughReplicas, MessageSizeTooLarge)
        with pytest.raises(MessageSizeTooLarge):
            producer.produce(topic, b"0", partition=0).get(timeout=30)
        fill(client, topic)
        with client.consumer(topic, group=f"all {topic}", auto_offset_reset="earliest", auto_commit=False) as consumer:
            with consumer.parallel(lambda record: None, workers=2) as run:
                until(client.cluster.handler, lambda: run.stats().acknowledged == COUNT)
                yield client.metrics()


def test_each_row_of_the_catalog_is_shown(cluster: EmbeddedCluster, topic: str) -> None:
    shown = {
        (name.group, name.name, frozenset(tag for tag, _ in name.tags))
        for metrics in all_kinds(cluster, topic)
        for name in metrics
    }
    missing = {
        (entry.group, entry.name)
        for entry in catalog()
        if (entry.group, entry.name, frozenset(entry.tags)) not in shown
        and not entry.group.startswith(OF_SHARE_GROUPS)
        and OF_STALLS not in entry.tags
    }
    assert missing == set()
