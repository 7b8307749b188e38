"""Moves, elections, directories, quorum, features, brokers."""

from __future__ import annotations

import uuid

import pytest

from pykafka import KafkaClient
from pykafka.admin import Admin, ElectionType, Endpoint, NewTopic, OffsetSpec, Replica
from pykafka.common import TopicPartition
from pykafka.exceptions import (
    BrokerIdNotRegistered,
    BrokerNotAvailable,
    InvalidReplicaAssignment,
    InvalidUpdateVersion,
    KafkaException,
    LogDirNotFound,
    NoReassignmentInProgress,
    PreferredLeaderNotAvailable,
    UnsupportedVersion,
)
from tests.brokers import KafkaCluster
from tests.integration.admin.conftest import unique
from tests.support.loops import Concurrency
from tests.support.waiting import until

pytestmark = [pytest.mark.kafka, pytest.mark.needs("latest")]


def leader(admin: Admin, part: TopicPartition) -> int | None:
    return admin.describe_topics(part.topic)[part.topic].partitions[part.partition].leader


def test_partitions_move_and_leaders_are_elected(client3: KafkaClient, admin: Admin) -> None:
    name = unique("t")
    part, other = TopicPartition(name, 0), TopicPartition(name, 1)
    admin.create_topics(NewTopic(name, assignments={0: [1, 2], 1: [2, 3]}))
    admin.alter_partition_reassignments({part: [3, 1]})
    handler = client3.cluster.handler
    until(handler, lambda: part not in admin.list_partition_reassignments([part]))

    def moved() -> bool:
        found = admin.describe_topics(name)[name].partitions[0]
        return found.replicas == (3, 1) and set(found.isr) == {1, 3}

    until(handler, moved)
    assert admin.elect_leaders([part, other])[other] is False
    until(handler, lambda: leader(admin, part) == 3)
    assert admin.elect_leaders([part])[part] is False
    assert admin.elect_leaders([part], ElectionType.UNCLEAN)[part] is False
    assert part not in admin.elect_leaders()
    results = admin.alter_partition_reassignments({part: None, other: [2, 9]}, raise_errors=False)
    assert [type(error) for error in results.errors.values()] == [NoReassignmentInProgress, InvalidReplicaAssignment]
    admin.delete_topics(name)


@pytest.mark.later("greenlets")
def test_a_preferred_leader_that_is_down_is_told(client3: KafkaClient, kafka3: KafkaCluster) -> None:
    admin, name = client3.admin, unique("t")
    part = TopicPartition(name, 0)
    admin.create_topics(NewTopic(name, assignments={0: [3, 1]}))
    kafka3.stop(3)
    try:
        until(client3.cluster.handler, lambda: leader(admin, part) == 1)
        with pytest.raises(PreferredLeaderNotAvailable) as caught:
            admin.elect_leaders([part])
        assert caught.value.topic == name
        listing = admin.list_groups(raise_errors=False)
        assert set(listing.errors) <= {3}
    finally:
        kafka3.start(3)
    until(client3.cluster.handler, lambda: 3 in admin.describe_topics(name)[name].partitions[0].isr)
    until(client3.cluster.handler, lambda: admin.elect_leaders([part], raise_errors=False).get(part) is not None)
    admin.delete_topics(name)


def test_directories(client3: KafkaClient, admin: Admin, topic: str) -> None:
    parts = {TopicPartition(topic, id_) for id_ in range(3)}

    def everywhere() -> bool:  # a replica is made when its broker hears of the topic
        found = admin.describe_log_dirs(partitions=parts)
        return all({part for one in dirs for part in one.replicas} == parts for dirs in found.values())

    until(client3.cluster.handler, everywhere)
    found = admin.describe_log_dirs()
    assert list(found) == [1, 2, 3]
    for dirs in found.values():
        assert all(one.error is None and one.total_bytes and one.usable_bytes for one in dirs)
        assert parts <= {part for one in dirs for part in one.replicas}
    only = admin.describe_log_dirs(2, partitions=[(topic, 1)])[2]
    assert [list(one.replicas) for one in only] == [[TopicPartition(topic, 1)]]
    path = only[0].path
    admin.alter_replica_log_dirs({(topic, 1, 2): path})  # where it is already
    with pytest.raises(LogDirNotFound) as caught:
        admin.alter_replica_log_dirs({(topic, 1, 2): "/no/such/directory"})
    assert (caught.value.topic, caught.value.partition) == (topic, 1)
    results = admin.describe_log_dirs([1, 77], raise_errors=False)
    assert isinstance(results.errors[77], BrokerNotAvailable)


def test_a_replica_moves_to_another_directory(roomy: KafkaCluster, concurrency: Concurrency) -> None:
    with KafkaClient(hosts=roomy.hosts, **concurrency()) as client:
        admin, name = client.admin, unique("t")
        admin.create_topics(NewTopic(name, assignments={0: [1, 2]}))
        with client.topics[name].get_sync_producer() as producer:
            producer.produce(b"x" * 1000)

        def places(broker: int) -> dict[str, bool]:
            dirs = admin.describe_log_dirs(broker, partitions=[(name, 0)])[broker]
            return {one.path: its.is_future for one in dirs for its in one.replicas.values()}

        until(client.cluster.handler, lambda: places(1) and places(2))  # the follower makes its log a moment later
        (here,), (there,) = places(1), places(2)
        both = {one.path for one in admin.describe_log_dirs(1)[1]}
        assert len(both) == 2
        (other,) = both - {here}
        results = admin.alter_replica_log_dirs({(name, 0, 1): other, (name, 0, 2): "/nowhere"}, raise_errors=False)
        assert list(results) == [Replica(name, 0, 1)]
        assert isinstance(results.errors[Replica(name, 0, 2)], LogDirNotFound)
        until(client.cluster.handler, lambda: places(1) == {other: False})
        assert places(2) == {there: False}
        part = TopicPartition(name, 0)
        # The leader learns anew how far its follower is.
        until(client.cluster.handler, lambda: admin.list_offsets({part: OffsetSpec.latest()})[part].offset == 1)
        admin.delete_topics(name)


def test_the_quorum(admin: Admin) -> None:
    quorum = admin.describe_metadata_quorum()
    assert {one.id for one in quorum.voters} == {1, 2, 3}
    assert quorum.leader in {1, 2, 3}
    assert quorum.high_watermark > 0
    assert set(quorum.endpoints) == {1, 2, 3}
    endpoint = Endpoint("CONTROLLER", "127.0.0.1", 1)
    with pytest.raises(UnsupportedVersion, match=r"kraft\.version"):
        admin.add_raft_voter(9, uuid.uuid4(), endpoint)
    with pytest.raises(UnsupportedVersion, match=r"kraft\.version"):
        admin.remove_raft_voter(9, uuid.uuid4())


def test_features(admin: Admin) -> None:
    found = admin.describe_features()
    level = found.finalized["metadata.version"].high
    assert found.supported["metadata.version"].high >= level
    assert found.epoch is not None
    admin.update_features({"transaction.version": found.finalized["transaction.version"].high}, validate_only=True)
    with pytest.raises(InvalidUpdateVersion):
        admin.update_features({"no.such.feature": 3})


def test_brokers(admin: Admin, kafka3: KafkaCluster) -> None:
    cluster = admin.describe_cluster(authorized_operations=True, fenced_brokers=True)
    assert {one.id: one.port for one in cluster.brokers} == kafka3.ports
    assert cluster.controller in {1, 2, 3}
    assert cluster.cluster_id
    assert cluster.authorized_operations
    with pytest.raises(BrokerIdNotRegistered, match="77"):
        admin.unregister_broker(77)


def test_calls_run_side_by_side(client3: KafkaClient, topic: str) -> None:
    """Any number of workers may call at a time."""
    handler, admin = client3.cluster.handler, client3.admin
    found: list[object] = []

    def ask() -> None:
        for _ in range(5):
            try:
                found.append(admin.describe_topics(topic)[topic].name)
                found.append(len(admin.describe_log_dirs()))
            except KafkaException as error:
                found.append(error)

    workers = [handler.spawn(ask, name=f"asks-{number}") for number in range(6)]
    assert all(worker.join(60) for worker in workers)
    assert found.count(topic) == found.count(3) == 30
