"""Clients on librdkafka whose brokers are down."""

from __future__ import annotations

import pytest

from pykafka import KafkaClient
from pykafka.compat.rdkafka import settings
from pykafka.embedded import EmbeddedCluster
from pykafka.exceptions import NoBrokersAvailableError


def test_a_broker_that_is_down_keeps_nobody_from_the_others() -> None:
    """Nor does it matter which one of those that were told is down."""
    with EmbeddedCluster(brokers=2, topics={"t": 1}) as cluster:
        cluster.set_leader("t", 0, 2)
        with KafkaClient(hosts=cluster.hosts.split(",")[1]) as client:
            topic = client.topics["t"]
            cluster.broker_down(next(iter(client.brokers)))
            cluster.set_leader("t", 0, list(client.brokers)[1])
            with topic.get_sync_producer(use_rdkafka=True, linger_ms=0) as producer:
                assert producer.produce(b"v").offset == 0
            with topic.get_simple_consumer(use_rdkafka=True, consumer_timeout_ms=10_000) as consumer:
                message = consumer.consume()
            assert message is not None
            assert message.value == b"v"


def test_none_of_the_brokers_is_up() -> None:
    with EmbeddedCluster(brokers=2) as cluster, KafkaClient(hosts=cluster.hosts, socket_timeout_ms=1000) as client:
        for broker in client.brokers.values():
            cluster.broker_down(broker.id)
            broker.close()
        with pytest.raises(NoBrokersAvailableError, match="that the brokers are up"):
            settings.common_settings(client.cluster)
