"""A consumer fetches from a replica in its rack (KIP-392), and from the leader where that fails."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from pykafka import KafkaClient
from pykafka.common import TopicPartition
from pykafka.compat.simple_consumer import SimpleConsumer
from pykafka.handlers import Handler
from pykafka.spark.offsets import OffsetRange
from pykafka.spark.options import read_options
from pykafka.spark.optiontable import Mode
from pykafka.spark.reader import RangeReader
from pykafka.topic import Topic
from tests.brokers import KafkaCluster
from tests.support.features import KAFKA_VERSION
from tests.support.inside import engine_of
from tests.support.topics import create_topic, take
from tests.support.waiting import until

pytestmark = [pytest.mark.kafka, pytest.mark.slow, pytest.mark.timeout(300), pytest.mark.needs("alterations")]

SELECTOR = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
RACKS = {1: "red", 2: "green", 3: "blue"}


@pytest.fixture(scope="module")
def racks() -> Iterator[KafkaCluster]:
    """Yield three brokers, each in a rack of its own."""
    each = {number: {"broker.rack": rack} for number, rack in RACKS.items()}
    config = {"replica.selector.class": SELECTOR, "replica.lag.time.max.ms": 5000}
    with KafkaCluster(KAFKA_VERSION, brokers=3, config=config, each=each) as cluster:
        yield cluster


@pytest.fixture
def client(handler: Handler, racks: KafkaCluster) -> Iterator[KafkaClient]:
    with KafkaClient(hosts=racks.hosts, handler=handler) as client:
        yield client


def filled(client: KafkaClient, count: int = 200) -> tuple[Topic, list[bytes]]:
    """Return a topic on all brokers, with one partition, and its messages, which all replicas have."""
    topic = create_topic(client, replicas=3, config={"min.insync.replicas": "3"})
    values = [b"%d" % number for number in range(count)]
    send(topic, values)
    return topic, values


def send(topic: Topic, values: list[bytes]) -> None:
    with topic.get_producer(required_acks=-1, linger_ms=5, pending_timeout_ms=60_000) as producer:
        for value in values:
            producer.produce(value)


def elsewhere(topic: Topic) -> int:
    """Return a broker that has the topic and does not lead it."""
    leader = topic.partitions[0].leader
    assert leader is not None
    return next(id_ for id_ in RACKS if id_ != leader.id)


def source(consumer: SimpleConsumer) -> int | None:
    """Return the broker that fetches the partition now."""
    fetcher = next(iter(engine_of(consumer).partitions.values())).fetcher
    return None if fetcher is None else fetcher._broker.id


@pytest.mark.later("gevent")
def test_the_replica_of_the_rack_is_fetched_from(client: KafkaClient) -> None:
    topic, values = filled(client)
    replica = elsewhere(topic)
    with topic.get_simple_consumer(client_rack=RACKS[replica], consumer_timeout_ms=20_000) as consumer:
        assert take(consumer, len(values)) == values
        assert source(consumer) == replica
        send(topic, [b"more"])
        assert take(consumer, 1) == [b"more"]
        assert source(consumer) == replica


def test_the_rack_of_the_client_is_that_of_its_consumers(racks: KafkaCluster, handler: Handler) -> None:
    with KafkaClient(hosts=racks.hosts, handler=handler, client_rack="green") as client:
        topic, values = filled(client)
        with topic.get_simple_consumer(consumer_timeout_ms=20_000) as consumer:
            assert take(consumer, len(values)) == values
            assert source(consumer) == 2
        with topic.get_simple_consumer(client_rack="", consumer_timeout_ms=20_000) as consumer:
            assert take(consumer, len(values)) == values
            leader = topic.partitions[0].leader
            assert leader is not None
            assert source(consumer) == leader.id


def test_a_rack_without_a_replica_is_no_trouble(client: KafkaClient) -> None:
    topic, values = filled(client)
    with topic.get_simple_consumer(client_rack="mauve", consumer_timeout_ms=20_000) as consumer:
        assert take(consumer, len(values)) == values


def test_the_leader_is_asked_again_when_metadata_is_old(client: KafkaClient) -> None:
    topic, values = filled(client)
    replica = elsewhere(topic)
    with topic.get_simple_consumer(
        client_rack=RACKS[replica], consumer_timeout_ms=20_000, metadata_max_age_ms=1000
    ) as consumer:
        assert take(consumer, len(values)) == values
        seen = set()

        def was_at_both() -> bool:
            seen.add(source(consumer))
            return len(seen - {None}) == 2

        until(client.cluster.handler, was_at_both)
        send(topic, [b"%d" % number for number in range(200, 400)])
        assert take(consumer, 200) == [b"%d" % number for number in range(200, 400)]


@pytest.mark.later("threads")
def test_the_leader_takes_over_when_the_replica_dies(client: KafkaClient, racks: KafkaCluster) -> None:
    topic = create_topic(client, replicas=3, config={"min.insync.replicas": "2"})
    values = [b"%d" % number for number in range(200)]
    send(topic, values)
    replica = elsewhere(topic)
    with topic.get_simple_consumer(client_rack=RACKS[replica], consumer_timeout_ms=20_000) as consumer:
        assert take(consumer, 200) == values
        until(client.cluster.handler, lambda: source(consumer) == replica)
        racks.kill(replica)
        try:
            send(topic, values)
            began = time.monotonic()
            assert take(consumer, 200) == values
            assert time.monotonic() - began < 30
            assert source(consumer) != replica
        finally:
            racks.start(replica)
        # and back to it, when it is in sync again
        until(client.cluster.handler, lambda: source(consumer) == replica, 90)
        send(topic, values)
        assert take(consumer, 200) == values


@pytest.mark.parametrize("written", ["by name", "by the executor's file"])
def test_a_task_of_spark_reads_from_the_replica_of_its_rack(
    client: KafkaClient, racks: KafkaCluster, tmp_path: Path, written: str
) -> None:
    topic, values = filled(client)
    replica = elsewhere(topic)
    (tmp_path / "rack").write_text(f"{RACKS[replica]}\n")
    raw = {
        "kafka.bootstrap.servers": racks.hosts,
        "subscribe": topic.name,
        "kafka.client.rack": RACKS[replica] if written == "by name" else f"${{file:{tmp_path}/rack}}",
    }
    wanted = OffsetRange(TopicPartition(topic.name, 0), 0, len(values))
    reader = RangeReader(client.cluster, wanted, read_options(raw, Mode.BATCH_READ), ("value",))
    found = [value for batch in reader.batches() for value in batch.column(0).to_pylist()]
    assert found == values
    assert reader._broker.id == replica
