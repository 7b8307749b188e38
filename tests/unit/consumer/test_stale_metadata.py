"""Metadata that omits a partition for a while, as a broker that lags behind gives it: consumers wait, and do not fail."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

from pykafka import KafkaClient
from pykafka.common import OffsetType, TopicPartition
from pykafka.consumer import assignment, partition_discovery
from pykafka.exceptions import UnknownTopicOrPartition
from tests.support.scripted import TOPIC, ManyPartitions, batch
from tests.support.waiting import until

LAST = TopicPartition(TOPIC, 2)


@pytest.fixture
def broker() -> Any:
    """Yield a broker whose metadata omits the last partition, where it hides it."""
    with ManyPartitions(3) as broker:
        broker.logs = {id_: batch([b"%d" % id_]) for id_ in range(3)}
        yield broker


def hide(broker: ManyPartitions, answers: int) -> None:
    """Omit the last partition from so many answers."""
    broker.hidden, broker.hides = frozenset({2}), answers


@pytest.mark.parametrize("answers", [1, 3])
@pytest.mark.on_asyncio
def test_a_partition_that_is_assigned(
    broker: ManyPartitions, concurrency: Callable[[], dict[str, Any]], answers: int
) -> None:
    hide(broker, answers)
    with KafkaClient(hosts=broker.hosts, **concurrency()) as client, client.consumer() as consumer:
        consumer.assign([LAST])
        record = consumer.one(10)
        assert record is not None
        assert (record.partition, record.value) == (2, b"2")


def test_a_partition_that_is_never_there(
    broker: ManyPartitions, concurrency: Callable[[], dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pykafka.kafkaconsumer.KNOWN_WITHIN_S", 0.5)
    assert assignment.KNOWN_WITHIN_S == partition_discovery.DELETED_AFTER_S
    with KafkaClient(hosts=broker.hosts, **concurrency()) as client, client.consumer() as consumer:
        began = time.monotonic()
        with pytest.raises(UnknownTopicOrPartition, match="3 partitions") as caught:
            consumer.assign([TopicPartition(TOPIC, 0), TopicPartition(TOPIC, 7)])
        assert caught.value.partition == 7
        assert time.monotonic() - began < 10
        assert consumer.assignment() == []


@pytest.mark.parametrize("whole", [True, False], ids=["whole", "named"])
def test_a_simple_consumer(broker: ManyPartitions, concurrency: Callable[[], dict[str, Any]], whole: bool) -> None:
    with KafkaClient(hosts=broker.hosts, **concurrency()) as client:
        topic = client.topics[TOPIC]
        partitions = None if whole else list(topic.partitions.values())
        hide(broker, 2)
        client.update_cluster()
        assert sorted(topic.partitions) == [0, 1]
        with topic.get_simple_consumer(
            partitions=partitions,
            auto_offset_reset=OffsetType.EARLIEST,
            consumer_timeout_ms=200,
            metadata_max_age_ms=300,
        ) as consumer:
            values: set[Any] = set()

            def all_came() -> bool:
                values.update(message.value for message in consumer.consume_batch())
                return len(values) == 3

            until(client.cluster.handler, all_came)


@pytest.mark.parametrize("call", ["seek", "seek_to_beginning", "position"])
def test_a_partition_that_is_read(broker: ManyPartitions, concurrency: Callable[[], dict[str, Any]], call: str) -> None:
    """It is omitted while it is read, and moved meanwhile."""
    with KafkaClient(hosts=broker.hosts, **concurrency()) as client, client.consumer() as consumer:
        consumer.assign([LAST])
        assert consumer.one(10) is not None
        hide(broker, 2)
        client.update_cluster()
        if call == "seek":
            consumer.seek(LAST, 0)
        elif call == "seek_to_beginning":
            consumer.seek_to_beginning(LAST)
        else:
            assert consumer.position(LAST, 5) == 1
            return
        record = consumer.one(10)
        assert record is not None
        assert record.offset == 0
