"""A topic that is deleted and made anew while it is consumed: its position is of the old topic (KIP-516)."""

from __future__ import annotations

import logging
import time
from typing import Any
from uuid import UUID

import pytest

from pykafka import KafkaClient
from pykafka.consumer import offset_reset
from pykafka.exceptions import KafkaException, TopicRecreatedError
from pykafka.protocol import wire
from pykafka.topic import Topic
from tests.brokers import KafkaCluster
from tests.support.features import kafka_since
from tests.support.inside import engine_of
from tests.support.topics import create_topic, take
from tests.support.waiting import until

pytestmark = [pytest.mark.timeout(200), pytest.mark.needs("topic ids")]

OPTIONS: dict[str, Any] = {"consumer_timeout_ms": 1000, "metadata_max_age_ms": 1000, "fetch_error_backoff_ms": 100}


def fill(topic: Topic, mark: bytes, count: int) -> list[bytes]:
    values = [mark + b"%d" % number for number in range(count)]
    with topic.get_producer(required_acks=-1, linger_ms=5, pending_timeout_ms=60_000) as producer:
        for value in values:
            producer.produce(value)
    return values


def recreate(hosts: str, name: str, count: int) -> list[bytes]:
    """Delete a topic, make it anew and fill it beyond where it was, by another client."""
    with KafkaClient(hosts=hosts) as other:
        controller = other.cluster.controller_broker
        assert controller is not None
        old = other.cluster.ask_metadata([name]).topics[0].topic_id
        named = wire.DeleteTopicsRequest.Topic(name=name)
        request = wire.DeleteTopicsRequest(topics=[named], topic_names=[name], timeout_ms=10_000)
        controller.call(request)

        def is_gone() -> bool:
            return other.cluster.ask_metadata([name]).topics[0].error_code != 0

        until(other.cluster.handler, is_gone)

        def is_made() -> bool:
            try:
                create_topic(other, name=name)
            except KafkaException:
                return False
            return True

        until(other.cluster.handler, is_made)
        assert other.cluster.ask_metadata([name]).topics[0].topic_id != old
        return fill(other.topics[name], b"new", count)


@pytest.mark.parametrize("reset", ["earliest", "latest"])
def test_the_new_topic_is_read_from_its_start(
    client: KafkaClient, kafka: KafkaCluster, reset: Any, caplog: pytest.LogCaptureFixture
) -> None:
    topic = create_topic(client)
    values = fill(topic, b"old", 50)
    with topic.get_simple_consumer(auto_offset_reset="earliest", **OPTIONS) as consumer:
        assert take(consumer, 50) == values
        object.__setattr__(engine_of(consumer).options, "auto_offset_reset", {"earliest": -2, "latest": -1}[reset])
        with caplog.at_level(logging.WARNING, logger=offset_reset.__name__):
            new = recreate(kafka.hosts, topic.name, 120)
            assert take(consumer, 120) == new
        assert consumer.held_offsets == {0: 119}
    told = [record.getMessage() for record in caplog.records if "recreated" in record.getMessage()]
    assert len([one for one in told if "from offset 50 of partition 0 to the start" in one]) == 1, told


def test_without_a_reset_consume_raises_until_told_where_to_go_on(client: KafkaClient, kafka: KafkaCluster) -> None:
    topic = create_topic(client)
    fill(topic, b"old", 50)
    consumer = topic.get_simple_consumer(auto_offset_reset="none", auto_start=False, **OPTIONS)
    consumer.seek(topic.partitions[0], 0)
    with consumer:
        assert len(take(consumer, 50)) == 50
        new = recreate(kafka.hosts, topic.name, 120)
        for _ in range(2):
            with pytest.raises(TopicRecreatedError, match="deleted and recreated") as caught:
                deadline = time.monotonic() + 60
                while time.monotonic() < deadline:
                    assert consumer.consume() is None
        error = caught.value
        assert (error.topic, error.partition) == (topic.name, 0)
        assert error.old_id is not None
        assert error.new_id not in (None, error.old_id)
        consumer.seek(topic.partitions[0], 20)
        engine_of(consumer).errors.clear()
        assert take(consumer, 100) == new[20:]


def test_a_consumer_that_was_stopped_meanwhile_notices(client: KafkaClient, kafka: KafkaCluster) -> None:
    topic = create_topic(client)
    fill(topic, b"old", 50)
    consumer = topic.get_simple_consumer(**OPTIONS)
    try:
        assert len(take(consumer, 50)) == 50
        consumer.stop()
        new = recreate(kafka.hosts, topic.name, 120)
        consumer.start()
        assert take(consumer, 120) == new
    finally:
        consumer.stop()


def test_topics_are_fetched_by_id_where_brokers_can(client: KafkaClient, monkeypatch: pytest.MonkeyPatch) -> None:
    topic = create_topic(client)
    fill(topic, b"", 5)
    seen = []
    broker = next(iter(client.brokers.values()))
    send = broker.send

    def noted(request: Any, *args: Any, **kwargs: Any) -> Any:
        if isinstance(request, wire.FetchRequest):
            seen.append((kwargs["version"], request.topics[0].topic_id))
        return send(request, *args, **kwargs)

    monkeypatch.setattr(broker, "send", noted)
    with topic.get_simple_consumer(**OPTIONS) as consumer:
        assert len(take(consumer, 5)) == 5
    version, id_ = seen[0]
    assert (version >= 13) == kafka_since(3, 1)
    assert id_ == (client.cluster.topic_id(topic.name) if version >= 13 else UUID(int=0))
