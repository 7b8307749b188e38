"""Metadata: brokers, leaders, topics that are created, and what is said of broken ones."""

from __future__ import annotations

from uuid import UUID

import pytest

from pykafka.exceptions import (
    InvalidReplicationFactor,
    InvalidRequest,
    InvalidTopic,
    LeaderNotAvailable,
    ReplicaNotAvailable,
    UnknownTopicId,
    UnknownTopicOrPartition,
)
from pykafka.protocol import wire
from tests.testing.datapath import Brokers

_Asked = wire.MetadataRequest.Topic
VERSIONS = range(14)
NEWEST = 13


def asked(brokers: Brokers, version: int = NEWEST, *names: str, create: bool = True) -> wire.MetadataResponse:
    request = wire.MetadataRequest(topics=[_Asked(name=name) for name in names] or None)
    request.allow_auto_topic_creation = create or version < 4
    return brokers.ask(request.prepared(version), version)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("names", [("orders",), ()])
def test_a_topic(version: int, names: tuple[str, ...]) -> None:
    brokers = Brokers(3, partitions=2)
    brokers.partition.isr = [1, 3]
    found = asked(brokers, version, *names)
    assert [node.node_id for node in found.brokers] == [1, 2, 3]
    assert found.brokers[0].rack == ("rack-1" if version else None)
    (topic,) = found.topics
    assert (topic.error_code, topic.name, topic.is_internal) == (0, "orders", False)
    assert topic.topic_id == (brokers.topic.id if version >= 10 else UUID(int=0))
    shown = [
        (part.error_code, part.partition_index, part.leader_id, part.replica_nodes, part.isr_nodes)
        for part in topic.partitions
    ]
    assert shown == [(0, 0, 1, [1, 2, 3], [1, 3]), (0, 1, 2, [2, 3, 1], [2, 3, 1])]


@pytest.mark.parametrize("version", VERSIONS)
def test_topics_are_created_by_asking(version: int) -> None:
    brokers = Brokers(2)
    first = asked(brokers, version, "new").topics[0]
    assert (first.error_code, first.name) == (UnknownTopicOrPartition.ERROR_CODE, "new")
    second = asked(brokers, version, "new").topics[0]
    assert second.error_code == 0
    assert [part.leader_id for part in second.partitions] == [1, 2, 1, 2]


@pytest.mark.parametrize(
    ("name", "allowed", "enabled", "code"),
    [
        ("new", False, True, UnknownTopicOrPartition.ERROR_CODE),
        ("new", True, False, UnknownTopicOrPartition.ERROR_CODE),
        ("__consumer_offsets", True, True, UnknownTopicOrPartition.ERROR_CODE),
        ("a/b", True, True, InvalidTopic.ERROR_CODE),
        ("..", True, True, InvalidTopic.ERROR_CODE),
        ("x" * 250, False, True, InvalidTopic.ERROR_CODE),
        ("", True, True, InvalidTopic.ERROR_CODE),
    ],
)
def test_topics_that_are_not_created(name: str, allowed: bool, enabled: bool, code: int) -> None:
    brokers = Brokers()
    brokers.state.auto_create = enabled
    for _ in range(2):
        assert asked(brokers, NEWEST, name, create=allowed).topics[0].error_code == code
    assert list(brokers.state.topics) == ["orders"]


def test_created_topics_have_the_defaults_of_the_cluster() -> None:
    brokers = Brokers(2)
    brokers.state.default_partitions, brokers.state.default_replication = 3, 2
    asked(brokers, NEWEST, "new")
    assert [partition.replicas for partition in brokers.state.topics["new"].partitions] == [[1, 2], [2, 1], [1, 2]]
    brokers.state.nodes[2].is_up = False
    assert asked(brokers, NEWEST, "more").topics[0].error_code == InvalidReplicationFactor.ERROR_CODE


def test_internal_topics() -> None:
    brokers = Brokers()
    brokers.state.add_topic("__consumer_offsets", brokers.state.place(1))
    brokers.state.add_topic("__mine", brokers.state.place(1))
    assert [topic.is_internal for topic in asked(brokers).topics] == [False, True, False]


def test_topics_by_id() -> None:
    brokers = Brokers()
    unknown = brokers.state.new_uuid()

    def by_id(topic_id: UUID, version: int = NEWEST, name: str | None = None) -> tuple[int, str | None]:
        request = wire.MetadataRequest(topics=[_Asked(topic_id=topic_id, name=name)])
        (topic,) = brokers.ask(request, version).topics
        return topic.error_code, topic.name

    assert by_id(brokers.topic.id) == (0, "orders")
    assert by_id(unknown) == (UnknownTopicId.ERROR_CODE, None)
    assert by_id(UUID(int=0)) == (InvalidRequest.ERROR_CODE, "")
    assert by_id(brokers.topic.id, 10, "orders")[0] == InvalidRequest.ERROR_CODE


@pytest.mark.parametrize("version", range(8, 14))
def test_authorized_operations(version: int) -> None:
    brokers = Brokers()
    request = wire.MetadataRequest(topics=[_Asked(name="orders"), _Asked(name="a/b")])
    request.include_topic_authorized_operations = True
    request.include_cluster_authorized_operations = version <= 10
    found = brokers.ask(request, version)
    assert [topic.topic_authorized_operations for topic in found.topics] == [3576, 3576]
    assert found.cluster_authorized_operations == (8096 if version <= 10 else -(2**31))
    plain = asked(brokers, version, "orders")
    assert plain.topics[0].topic_authorized_operations == -(2**31)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_leader_that_is_down(version: int) -> None:
    brokers = Brokers(2)
    brokers.state.nodes[1].is_up = False
    found = asked(brokers, version, "orders")
    assert [node.node_id for node in found.brokers] == [2]
    assert found.controller_id == (2 if version else -1)
    (part,) = found.topics[0].partitions
    assert part.error_code == LeaderNotAvailable.ERROR_CODE
    assert part.leader_id == -1
    assert part.offline_replicas == ([1] if version >= 5 else [])
    brokers.state.replicas.on_stop(1)
    (part,) = asked(brokers, version, "orders").topics[0].partitions
    assert part.error_code == (ReplicaNotAvailable.ERROR_CODE if version == 0 else 0)
    assert (part.leader_id, part.leader_epoch) == (2, 1 if version >= 7 else -1)
    assert part.replica_nodes == ([2] if version == 0 else [1, 2])
    assert part.isr_nodes == [2]


def test_no_leader_without_a_replica_in_sync() -> None:
    brokers = Brokers(2)
    brokers.partition.isr = [1]
    brokers.state.nodes[1].is_up = False
    brokers.state.replicas.on_stop(1)
    assert (brokers.partition.leader, brokers.partition.isr) == (-1, [1])
    brokers.state.nodes[1].is_up = True
    brokers.state.replicas.on_start(1)
    assert (brokers.partition.leader, brokers.partition.leader_epoch) == (1, 2)
