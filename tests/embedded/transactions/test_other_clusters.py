"""A transaction is of one cluster: the consumer of another one is refused, before its group has an offset that never ends."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from pykafka import KafkaClient, ProducerRecord, exactly_once
from pykafka.common import OffsetType, TopicPartition
from pykafka.kafkaconsumer import KafkaConsumer
from pykafka.kafkaproducer import KafkaProducer
from pykafka.testing import FakeCluster

ORDERS = TopicPartition("orders", 0)
OPTIONS: dict[str, Any] = {
    "group": "copiers",
    "auto_commit": False,
    "auto_offset_reset": OffsetType.EARLIEST,
    "isolation_level": "read_committed",
    "consumer_timeout_ms": 1_000,
}
#: Group coordinators before 3.6 take offsets of a transaction that they know nothing of.
Release = pytest.mark.parametrize("release", ["2.8", "4.3"])
Producer = KafkaProducer[Any, Any]
Consumer = KafkaConsumer[Any, Any]


@pytest.fixture
def cluster(release: str) -> Iterator[FakeCluster]:
    with FakeCluster(brokers=1, topics={"orders": 1, "copies": 1}, as_version=release) as cluster:
        yield cluster


@pytest.fixture
def consumer(cluster: FakeCluster) -> Iterator[Consumer]:
    with KafkaClient(cluster.hosts) as client:
        with client.producer() as plain:
            plain.produce("orders", b"first").get(10)
        with client.consumer("orders", **OPTIONS) as consumer:
            yield consumer


def init(producer: Producer, consumer: Consumer) -> None:
    producer.init_transactions(consumer=consumer)


def begin(producer: Producer, consumer: Consumer) -> None:
    with producer.transaction(consumer):
        pass


def send(producer: Producer, consumer: Consumer) -> None:
    with producer.transaction():
        consumer.poll(1, timeout=5)
        producer.send_offsets(consumer)


def copy(producer: Producer, consumer: Consumer) -> None:
    exactly_once(consumer, producer, lambda record: ProducerRecord(record.value, topic="copies"))


CALLS = pytest.mark.parametrize("call", [init, begin, send, copy])


@Release
@CALLS
def test_a_consumer_of_another_cluster_is_refused(
    release: str, consumer: Consumer, call: Callable[[Producer, Consumer], None]
) -> None:
    """Its group's readers wait for no transaction afterwards, and the producer goes on."""
    with (
        FakeCluster(brokers=1, topics={"copies": 1}, as_version=release) as other,
        KafkaClient(other.hosts) as client,
        client.producer(transactional_id="billing") as producer,
    ):
        with pytest.raises(ValueError, match="needs a consumer of the producer's cluster"):
            call(producer, consumer)
        with producer.transaction():
            producer.produce("copies", b"next")
    assert consumer.committed(ORDERS) == {ORDERS: None}


@Release
@CALLS
def test_a_consumer_of_another_client_of_the_cluster_fits(
    cluster: FakeCluster, consumer: Consumer, call: Callable[[Producer, Consumer], None]
) -> None:
    with KafkaClient(cluster.hosts) as client, client.producer(transactional_id="billing") as producer:
        call(producer, consumer)
