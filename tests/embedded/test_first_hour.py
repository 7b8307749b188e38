"""The first hour of a newcomer, on both handlers."""

from __future__ import annotations

import queue
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from pykafka import (
    EmbeddedCluster,
    KafkaClient,
    KafkaException,
    Murmur2Partitioner,
    Producer,
    RandomPartitioner,
    Topic,
)
from pykafka.handlers import Handler
from tests.support.waiting import until

SOON = {"consumer_timeout_ms": 10_000}


@pytest.fixture
def topic(handler: Handler) -> Iterator[Topic]:
    with (
        EmbeddedCluster(brokers=1, topics={"greetings": 1}) as cluster,
        KafkaClient(cluster.hosts, handler=handler) as client,
    ):
        topic = client.topics["greetings"]
        with topic.get_sync_producer() as producer:
            producer.produce(b"old")
        yield topic


CONSUMERS: dict[str, Callable[..., Any]] = {
    "simple": lambda topic, **options: topic.get_simple_consumer(**SOON, **options),
    "group": lambda topic, **options: topic.get_simple_consumer("simple", **SOON, **options),
    "managed": lambda topic, **options: topic.get_balanced_consumer(
        "managed", managed=True, heartbeat_interval_ms=100, **SOON, **options
    ),
    "rdkafka": lambda topic, **options: topic.get_simple_consumer(use_rdkafka=True, **SOON, **options),
}


@pytest.mark.parametrize("kind", list(CONSUMERS))
@pytest.mark.parametrize(("reset", "first"), [("earliest", b"old"), ("latest", b"new")])
def test_where_to_begin_by_name(handler: Handler, topic: Topic, kind: str, reset: str, first: bytes) -> None:
    found: list[bytes | None] = []

    def receive() -> bool:
        producer.produce(b"new")  # again and again: "latest" is where the end is when the consumer gets there
        message = consumer.consume(block=False)
        if message is not None:
            found.append(message.value)
        return bool(found)

    with CONSUMERS[kind](topic, auto_offset_reset=reset) as consumer, topic.get_sync_producer() as producer:
        until(handler, receive)
    assert found == [first]


def test_another_name_is_refused_with_those_that_there_are(topic: Topic) -> None:
    """A checker refuses it, too: without the comment, mypy fails here."""
    with pytest.raises(ValueError, match='"earliest".*"latest".*"none", not \'EARLIEST\''):
        topic.get_simple_consumer(auto_offset_reset="EARLIEST")  # type: ignore[arg-type]


@pytest.mark.parametrize("use_rdkafka", [False, True])
def test_a_report_that_is_not_there_yet_raises_empty(topic: Topic, use_rdkafka: bool) -> None:
    with topic.get_producer(use_rdkafka, delivery_reports=True, linger_ms=60_000) as producer:
        producer.produce(b"it lingers")
        with pytest.raises(queue.Empty):
            producer.get_delivery_report(block=False)
        for seconds in (0, 0.05):
            with pytest.raises(queue.Empty):
                producer.get_delivery_report(timeout=seconds)
        with pytest.raises(ValueError, match="non-negative"):
            producer.get_delivery_report(timeout=-1)
        producer.flush()
        message, error = producer.get_delivery_report(timeout=30)
        assert (message.value, error) == (b"it lingers", None)
        with pytest.raises(queue.Empty):  # each is given once
            producer.get_delivery_report(block=False)
    with topic.get_producer(use_rdkafka) as producer, pytest.raises(KafkaException, match="delivery_reports=True"):
        producer.get_delivery_report(timeout=0)


def test_keys_and_partitions(handler: Handler) -> None:
    """The default spreads one key over all partitions, as documented; the partitioner that its documents name does not."""
    with (
        EmbeddedCluster(brokers=1, topics={"keyed": 3}) as cluster,
        KafkaClient(cluster.hosts, handler=handler) as client,
    ):
        topic = client.topics["keyed"]
        for partitioner, used in ((None, 3), (Murmur2Partitioner(), 1)):
            before = ends(topic)
            with topic.get_producer(partitioner=partitioner) as producer:
                for _ in range(9):
                    producer.produce(b"value", partition_key=b"one key")
            assert len([id_ for id_, end in ends(topic).items() if end > before[id_]]) == used
    for documented in (Producer, Topic.get_producer, RandomPartitioner):
        assert "Murmur2Partitioner" in (documented.__doc__ or "")


def ends(topic: Topic) -> dict[int, int]:
    return {id_: found.offset[0] for id_, found in topic.latest_available_offsets().items()}
