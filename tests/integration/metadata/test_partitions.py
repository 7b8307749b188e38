"""Partitions that a topic gets while a producer writes to it."""

from __future__ import annotations

import time

import pytest

from pykafka import KafkaClient
from pykafka.protocol import wire
from tests.brokers import KafkaCluster
from tests.support.loops import Concurrency
from tests.support.topics import create_topic


@pytest.mark.needs("partitions")
@pytest.mark.later("greenlets")
def test_a_producer_notices_new_partitions_when_its_metadata_is_old(
    kafka: KafkaCluster, concurrency: Concurrency
) -> None:
    with KafkaClient(kafka.hosts, **concurrency()) as client:
        topic = create_topic(client, 1)
        with topic.get_producer(linger_ms=0, delivery_reports=True) as producer:
            producer.produce(b"x")
            assert producer.get_delivery_report(timeout=60)[1] is None
            wanted = wire.CreatePartitionsRequest.Topic(name=topic.name, count=3, assignments=None)
            controller = client.cluster.controller_broker
            assert controller is not None
            answer = controller.call(wire.CreatePartitionsRequest(topics=[wanted], timeout_ms=10_000))
            assert [result.error_code for result in answer.results] == [0]
            client.cluster.refresh_schedule.updated_at -= client.cluster.refresh_schedule.max_age_s
            deadline = time.monotonic() + 20
            while len(topic.partitions) < 3 and time.monotonic() < deadline:
                producer.produce(b"x")
                assert producer.get_delivery_report(timeout=60)[1] is None
                client.cluster.refresh_schedule.updated_at -= client.cluster.refresh_schedule.max_age_s
            places = set()
            for _ in range(30):
                producer.produce(b"y")
            for _ in range(30):
                message, error = producer.get_delivery_report(timeout=60)
                assert error is None
                places.add(message.partition_id)
        assert places == {0, 1, 2}
