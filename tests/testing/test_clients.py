"""Clients that write to a fake cluster and read from it: this one's, on each kind of concurrency, and others'."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from pykafka import KafkaClient
from pykafka.testing import FakeCluster

COUNT = 500
CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]


@pytest.fixture
def cluster() -> Iterator[FakeCluster]:
    """Yield a fake cluster of three brokers."""
    with FakeCluster(brokers=3, topics={"orders": 3}) as cluster:
        yield cluster


def expected() -> list[bytes]:
    return [b"%d" % number for number in range(COUNT)]


@pytest.mark.on_asyncio
def test_own_client(cluster: FakeCluster, concurrency: Callable[[], dict[str, Any]]) -> None:
    with KafkaClient(hosts=cluster.hosts, **concurrency()) as client:
        with client.producer() as producer:
            for value in expected():
                producer.produce("orders", value)
        consumer = client.topics[b"orders"].get_simple_consumer(consumer_timeout_ms=30_000)
        found: list[bytes | None] = []
        while len(found) < COUNT:
            message = consumer.consume()
            assert message is not None
            found.append(message.value)
        consumer.stop()
    assert sorted(value or b"" for value in found) == sorted(expected())


@pytest.mark.parametrize("codec", CODECS)
def test_confluent_kafka(cluster: FakeCluster, codec: str) -> None:
    confluent_kafka = pytest.importorskip("confluent_kafka")
    producer = confluent_kafka.Producer({"bootstrap.servers": cluster.hosts, "compression.type": codec})
    for value in expected():
        producer.produce("orders", value)
    assert producer.flush(60) == 0
    # Groups are another subject: no commits.
    settings = {"bootstrap.servers": cluster.hosts, "group.id": "none", "enable.auto.commit": False}
    consumer = confluent_kafka.Consumer(settings)
    consumer.assign([confluent_kafka.TopicPartition("orders", index, 0) for index in range(3)])
    found: list[bytes] = []
    while len(found) < COUNT:
        message = consumer.poll(30)
        assert message is not None
        assert message.error() is None
        found.append(message.value())
    consumer.close()
    assert sorted(found) == sorted(expected())


def test_kafka_python(cluster: FakeCluster) -> None:
    kafka = pytest.importorskip("kafka")
    producer = kafka.KafkaProducer(bootstrap_servers=cluster.hosts.split(","), enable_idempotence=False)
    for value in expected():
        producer.send("orders", value)
    producer.flush(60)
    producer.close()
    consumer = kafka.KafkaConsumer(bootstrap_servers=cluster.hosts.split(","), consumer_timeout_ms=30_000)
    consumer.assign([kafka.TopicPartition("orders", index) for index in range(3)])
    consumer.seek_to_beginning()
    found = [next(consumer).value for _ in range(COUNT)]
    consumer.close()
    assert sorted(found) == sorted(expected())


def test_aiokafka(cluster: FakeCluster) -> None:
    aiokafka = pytest.importorskip("aiokafka")

    async def both() -> list[bytes]:
        async with aiokafka.AIOKafkaProducer(bootstrap_servers=cluster.hosts) as producer:
            for value in expected():
                await producer.send("orders", value)
        consumer = aiokafka.AIOKafkaConsumer(bootstrap_servers=cluster.hosts)
        async with consumer:
            consumer.assign([aiokafka.TopicPartition("orders", index) for index in range(3)])
            await consumer.seek_to_beginning()
            return [(await consumer.getone()).value for _ in range(COUNT)]

    assert sorted(asyncio.run(asyncio.wait_for(both(), 60))) == sorted(expected())
