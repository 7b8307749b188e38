"""Brokers as objects: versions found out, forgotten and found again; connections by role."""

from __future__ import annotations

import pytest

from pykafka import KafkaClient
from pykafka.embedded import EmbeddedCluster
from pykafka.exceptions import ClientClosedError, UnknownTopicOrPartition
from pykafka.protocol import wire


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
