"""Producers with sequence numbers on a cluster that fails on demand: what may have been written is told."""

from __future__ import annotations

from typing import Any

import pytest

from pykafka import Delivery, KafkaClient
from pykafka.admin import NewTopic
from pykafka.embedded import EmbeddedCluster
from pykafka.exceptions import (
    DeliveryUnknownError,
    InvalidRecord,
    ResponseTimeoutError,
)
from tests.support.waiting import until


@pytest.fixture(params=[False, True], ids=["threads", "greenlets"])
def greenlets(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


def test_what_may_have_been_written_is_told_by_name(greenlets: bool) -> None:
    with EmbeddedCluster(brokers=1, topics={"t": 1}) as cluster:
        with KafkaClient(hosts=cluster.hosts, use_greenlets=greenlets) as client:
            options: dict[str, Any] = {"delivery_timeout_ms": 500, "retry_backoff_ms": 10}
            with client.topics["t"].get_sync_producer(required_acks=-1, **options) as producer:
                producer.produce(b"fine")
                cluster.inject_errors("Produce", *["REQUEST_TIMED_OUT"] * 200)
                with pytest.raises(DeliveryUnknownError, match="the broker may have it.*REQUEST_TIMED_OUT"):
                    producer.produce(b"who knows")
                cluster.clear_errors("Produce")
                cluster.inject_errors("Produce", "INVALID_RECORD")
                with pytest.raises(InvalidRecord):
                    producer.produce(b"refused")
                assert producer.produce(b"fine again").offset >= 0


def test_what_a_topic_refuses_was_not_stored_by_an_earlier_try(greenlets: bool) -> None:
    """A good record beside a refused one was of unknown outcome if the leader had moved before."""
    with EmbeddedCluster(brokers=1) as cluster, KafkaClient(hosts=cluster.hosts, use_greenlets=greenlets) as client:
        client.admin.create_topics([NewTopic("t", 1, configs={"cleanup.policy": "compact"})])
        with client.producer(linger_ms=200, retry_backoff_ms=10) as producer:
            cluster.inject_errors("Produce", "NOT_LEADER_OR_FOLLOWER")
            for delivery in (producer.produce("t", b"good", key=b"k"), producer.produce("t", b"without a key")):
                with pytest.raises(InvalidRecord):
                    delivery.get(10)
            cluster.inject_errors("Produce", "NOT_LEADER_OR_FOLLOWER", "INVALID_RECORD")  # which names no record
            with pytest.raises(DeliveryUnknownError):
                producer.produce("t", b"good", key=b"k").get(10)


@pytest.mark.parametrize("sync", [True, False])
def test_a_cluster_that_gives_ids_only_later(greenlets: bool, sync: bool) -> None:
    with EmbeddedCluster(brokers=1, topics={"t": 1}) as cluster:
        cluster.inject_errors("InitProducerId", *["COORDINATOR_LOAD_IN_PROGRESS"] * 3)
        with KafkaClient(hosts=cluster.hosts, use_greenlets=greenlets) as client:
            with client.topics["t"].get_producer(required_acks=-1, sync=sync, retry_backoff_ms=1) as producer:
                messages = [producer.produce(b"v") for _ in range(3)]
            assert [message.offset for message in messages] == [0, 1, 2]


def test_no_message_is_told_as_delivered_that_the_log_has_no_room_for(greenlets: bool) -> None:
    # A leader that moves away and back refuses the first of two batches under way, and so the second one by its number.
    with EmbeddedCluster(brokers=2, topics={"t": 1}) as cluster:
        cluster.set_leader("t", 0, 2)
        with KafkaClient(hosts=cluster.hosts, use_greenlets=greenlets) as client:
            handler = client.cluster.handler
            with client.producer(linger_ms=0, retry_backoff_ms=10) as producer:
                producer.produce("t", b"first").get(10)
                cluster.track_requests()
                cluster.set_latency(2, 1000)

                def sent_when_led_by(leader: int) -> Delivery:
                    before = len(cluster.requests("Produce"))
                    cluster.set_leader("t", 0, leader)
                    delivery = producer.produce("t", b"%d" % leader)
                    with pytest.raises(ResponseTimeoutError):
                        delivery.get(0.01)  # sends it, though another one is under way
                    until(handler, lambda: len(cluster.requests("Produce")) > before, 10)
                    return delivery

                made = [sent_when_led_by(1), sent_when_led_by(2)]
                cluster.set_latency(2, 0)
                producer.flush()
            with client.topics["t"].get_simple_consumer(consumer_timeout_ms=500) as consumer:
                assert [message.value for message in consumer] == [b"first", b"1", b"2"]
            assert [one.offset for one in made] == [1, 2]
