"""Brokers as objects: versions found out, forgotten and found again; connections by role."""

from __future__ import annotations

import time

import pytest

from pykafka import KafkaClient
from pykafka.embedded import EmbeddedCluster
from pykafka.exceptions import ClientClosedError, UnknownTopicOrPartition
from pykafka.metadata.freshness import METADATA_MAX_AGE_S
from pykafka.protocol import wire
from tests.brokers import KafkaCluster
from tests.support.topics import create_topic


@pytest.fixture(params=[False, True], ids=["threads", "greenlets"])
def greenlets(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


def test_versions_that_were_forgotten_are_asked_for_again(embedded: EmbeddedCluster, greenlets: bool) -> None:
    with KafkaClient(embedded.hosts, use_greenlets=greenlets) as client:
        broker = next(iter(client.brokers.values()))
        broker.connect()
        known = broker.api_ranges()
        broker.forget_versions()
        assert broker.connected
        assert broker.call(wire.MetadataRequest(topics=None)).brokers
        assert broker.api_ranges() == known


def test_each_role_has_a_connection_of_its_own(embedded: EmbeddedCluster, greenlets: bool) -> None:
    with KafkaClient(embedded.hosts, use_greenlets=greenlets) as client:
        broker = next(iter(client.brokers.values()))
        assert [broker.connected, broker.offsets_channel_connected] == [False, False]
        broker.connect_offsets_channel()
        assert [broker.connected, broker.offsets_channel_connected] == [False, True]
        broker.connect()
        assert [broker.connected, broker.offsets_channel_connected] == [True, True]
        assert broker.handler is not broker.offsets_channel_handler
        assert broker._get_unique_req_handler("a") is broker._get_unique_req_handler("a")
        assert broker._get_unique_req_handler("a") is not broker._get_unique_req_handler("b")


def test_a_closed_client_says_so(embedded: EmbeddedCluster, greenlets: bool) -> None:
    client = KafkaClient(embedded.hosts, use_greenlets=greenlets)
    broker = next(iter(client.brokers.values()))
    client.close()
    client.close()
    with pytest.raises(ClientClosedError, match="make a new KafkaClient"):
        client.update_cluster()
    with pytest.raises(ClientClosedError, match="make a new KafkaClient"):
        broker.call(wire.MetadataRequest(topics=None))


def test_topics_are_held_weakly_and_found_by_str_and_bytes(embedded: EmbeddedCluster, greenlets: bool) -> None:
    embedded.create_topic("weak", 2)
    with KafkaClient(embedded.hosts.encode(), use_greenlets=greenlets) as client:
        assert client.topics[b"weak"] is not None
        topic = client.topics["weak"]
        assert client.topics[b"weak"] is topic
        assert b"weak" in client.topics
        partition = topic.partitions[0]
        client.update_cluster()
        assert topic.partitions[0] is partition
        with pytest.raises(KeyError, match="internal"):
            client.topics["__consumer_offsets"]


def test_a_partition_that_is_not_there_is_named(embedded: EmbeddedCluster, greenlets: bool) -> None:
    embedded.create_topic("small", 1)
    with KafkaClient(embedded.hosts, use_greenlets=greenlets) as client:
        with pytest.raises(UnknownTopicOrPartition, match="small"):
            client.cluster.leader("small", 7)


@pytest.mark.needs("partitions")
def test_a_producer_notices_new_partitions_when_its_metadata_is_old(kafka: KafkaCluster, greenlets: bool) -> None:
    with KafkaClient(kafka.hosts, use_greenlets=greenlets) as client:
        topic = create_topic(client, 1)
        with topic.get_producer(linger_ms=0, delivery_reports=True) as producer:
            producer.produce(b"x")
            assert producer.get_delivery_report(timeout=60)[1] is None
            wanted = wire.CreatePartitionsRequest.Topic(name=topic.name, count=3, assignments=None)
            controller = client.cluster.controller_broker
            assert controller is not None
            answer = controller.call(wire.CreatePartitionsRequest(topics=[wanted], timeout_ms=10_000))
            assert [result.error_code for result in answer.results] == [0]
            client.cluster._freshness.updated_at -= METADATA_MAX_AGE_S
            deadline = time.monotonic() + 20
            while len(topic.partitions) < 3 and time.monotonic() < deadline:
                producer.produce(b"x")
                assert producer.get_delivery_report(timeout=60)[1] is None
                client.cluster._freshness.updated_at -= METADATA_MAX_AGE_S
            places = set()
            for _ in range(30):
                producer.produce(b"y")
            for _ in range(30):
                message, error = producer.get_delivery_report(timeout=60)
                assert error is None
                places.add(message.partition_id)
        assert places == {0, 1, 2}
