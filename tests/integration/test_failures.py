"""Brokers that die, hang or move in the middle of produce and consume: nothing acknowledged is lost, nothing hangs."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator

import pytest

from pykafka import KafkaClient
from pykafka.exceptions import KafkaException, MessagesNotDelivered, NoBrokersAvailableError, SocketDisconnectedError
from pykafka.topic import Topic
from tests.brokers import KafkaCluster
from tests.support.features import KAFKA_VERSION
from tests.support.loops import Concurrency
from tests.support.topics import create_topic

pytestmark = [pytest.mark.kafka, pytest.mark.slow, pytest.mark.timeout(400)]


def broker_of(cluster: KafkaCluster, topic: Topic, partition: int = 0) -> int:
    leader = topic.partitions[partition].leader
    assert leader is not None
    return leader.id


@pytest.mark.on_asyncio
@pytest.mark.later("greenlets")
def test_a_leader_killed_while_producing_loses_nothing_acknowledged(
    kafka3: KafkaCluster, concurrency: Concurrency
) -> None:
    with KafkaClient(hosts=kafka3.hosts, **concurrency()) as client:
        topic = create_topic(client, partitions=3, replicas=3, config={"min.insync.replicas": "2"})
        victim = broker_of(kafka3, topic)
        producer = topic.get_producer(
            required_acks=-1, linger_ms=5, delivery_reports=True, max_retries=20, pending_timeout_ms=60_000
        )
        handler = client.cluster.handler
        count = 2000
        try:
            for number in range(count):
                producer.produce(b"%d" % number)
                if number == 500:
                    kafka3.kill(victim)
                if number % 20 == 0:
                    handler.sleep(0.002)
            producer.stop()
        finally:
            kafka3.start(victim)
        reports = [producer.get_delivery_report(timeout=1) for _ in range(count)]
        acknowledged = {message.value for message, error in reports if error is None}
        assert len(acknowledged) == count
        client.update_cluster()
        found: set[bytes | None] = set()
        deadline = time.monotonic() + 60
        with topic.get_simple_consumer(consumer_timeout_ms=500) as consumer:
            while not acknowledged <= found:
                assert time.monotonic() < deadline, acknowledged - found
                found |= {message.value for message in consumer}


@pytest.mark.later("threads")
def test_a_leader_killed_while_consuming_is_followed(kafka3: KafkaCluster, concurrency: Concurrency) -> None:
    with KafkaClient(hosts=kafka3.hosts, **concurrency()) as client:
        topic = create_topic(client, partitions=3, replicas=3)
        wanted = [b"%d" % number for number in range(3000)]
        with topic.get_producer(required_acks=-1) as producer:
            for value in wanted:
                producer.produce(value)
        victim = broker_of(kafka3, topic)
        with topic.get_simple_consumer(
            consumer_timeout_ms=60_000, queued_max_messages=50, fetch_message_max_bytes=2000, fetch_error_backoff_ms=100
        ) as consumer:
            seen = [message.value for message in itertools.islice(consumer, 300)]
            kafka3.kill(victim)
            try:
                seen += [message.value for message in itertools.islice(consumer, 2700)]
            finally:
                kafka3.start(victim)
        assert sorted(seen, key=str) == sorted(wanted, key=str)


@pytest.mark.later("greenlets")
def test_a_dead_cluster_is_reported_by_stop_in_bounded_time(concurrency: Concurrency) -> None:
    with KafkaCluster(KAFKA_VERSION) as cluster, KafkaClient(hosts=cluster.hosts, **concurrency()) as client:
        topic = create_topic(client)
        producer = topic.get_producer(linger_ms=0, pending_timeout_ms=1500)
        producer.produce(b"delivered")
        producer.flush(20_000)
        cluster.kill(1)
        for number in range(5):
            producer.produce(b"%d" % number)
        start = time.monotonic()
        with pytest.raises(MessagesNotDelivered) as caught:
            producer.stop()
        assert time.monotonic() - start < 15
        assert [message.value for message, _ in caught.value.failures] == [b"0", b"1", b"2", b"3", b"4"]


@pytest.mark.later("threads")
def test_a_consumer_of_a_dead_cluster_hears_of_it(concurrency: Concurrency) -> None:
    with (
        KafkaCluster(KAFKA_VERSION) as cluster,
        KafkaClient(hosts=cluster.hosts, **concurrency(), socket_timeout_ms=2000) as client,
    ):
        topic = create_topic(client)
        with topic.get_sync_producer() as producer:
            producer.produce(b"one")
        with topic.get_simple_consumer(fetch_error_backoff_ms=100) as consumer:
            first = consumer.consume()
            assert first is not None
            assert first.value == b"one"
            cluster.kill(1)
            with pytest.raises((SocketDisconnectedError, NoBrokersAvailableError), match="127.0.0.1"):
                consumer.consume()
            cluster.start(1)
            with topic.get_sync_producer(max_retries=50) as producer:
                producer.produce(b"two")
            while True:
                try:
                    message = consumer.consume()
                    break
                except KafkaException:
                    continue
            assert message is not None
            assert message.value == b"two"


@pytest.mark.later("threads")
def test_a_broker_that_hangs_is_given_up_within_the_timeout(concurrency: Concurrency) -> None:
    with (
        KafkaCluster(KAFKA_VERSION) as cluster,
        KafkaClient(hosts=cluster.hosts, **concurrency(), socket_timeout_ms=2000) as client,
    ):
        topic = create_topic(client)
        producer = topic.get_producer(linger_ms=0, ack_timeout_ms=1000, max_retries=1, pending_timeout_ms=6000)
        cluster.pause(1)
        try:
            producer.produce(b"x")
            start = time.monotonic()
            with pytest.raises(MessagesNotDelivered, match="did not answer|in time|timed out|reached"):
                producer.stop()
            assert time.monotonic() - start < 60
            with pytest.raises(NoBrokersAvailableError):
                client.update_cluster()
        finally:
            cluster.resume(1)


def test_a_broker_that_is_not_there_is_named(concurrency: Concurrency) -> None:
    start = time.monotonic()
    with pytest.raises(NoBrokersAvailableError, match="127.0.0.1:1") as caught:
        KafkaClient(hosts="127.0.0.1:1", **concurrency())
    assert time.monotonic() - start < 20
    assert caught.value.ledger


def test_an_unknown_topic_is_named(kafka3: KafkaCluster, concurrency: Concurrency) -> None:
    with KafkaClient(hosts=kafka3.hosts, **concurrency()) as client, pytest.raises(KeyError, match="no topic!"):
        client.topics["no topic!"]


@pytest.fixture(autouse=True)
def _brokers_up(request: pytest.FixtureRequest) -> Iterator[None]:
    yield
    if "kafka3" in request.fixturenames:
        cluster: KafkaCluster = request.getfixturevalue("kafka3")
        for broker in cluster.broker_ids:
            if cluster.pid(broker) is None:
                cluster.start(broker)
