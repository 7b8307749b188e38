"""A fake cluster as administrators see it, without sockets; the codes are those that a broker of Kafka 4.4.0 gave."""

from __future__ import annotations

import pytest

from pykafka.exceptions import (
    ElectionNotNeeded,
    EligibleLeadersNotAvailable,
    InvalidReplicaAssignment,
    InvalidReplicationFactor,
    InvalidRequest,
    InvalidUpdateVersion,
    MismatchedEndpointType,
    NoReassignmentInProgress,
    PreferredLeaderNotAvailable,
    RebootstrapRequired,
    UnknownTopicOrPartition,
    UnsupportedEndpointType,
)
from pykafka.protocol import wire
from pykafka.testing.call import APIS
from pykafka.testing.topics import Partition
from tests.testing.datapath import Brokers, batch
from tests.testing.direct import DirectCluster

OK = 0
PREFERRED, UNCLEAN = 0, 1
UPGRADE, SAFE, UNSAFE = 1, 2, 3


@pytest.fixture
def cluster() -> DirectCluster:
    cluster = DirectCluster(nodes=3)
    cluster.state.cluster_id = "this"
    cluster.state.versions = {key: api.versions for key, api in APIS.items()}
    cluster.state.add_topic("orders", [[1, 2], [2, 3]])
    return cluster


def partition(cluster: DirectCluster) -> Partition:
    return cluster.state.topics["orders"].partitions[0]


class TestApiVersions:
    def test_features(self, cluster: DirectCluster) -> None:
        request = wire.ApiVersionsRequest(client_software_name="test", client_software_version="1")
        answer = cluster.ask(request)
        assert {feature.name: feature.max_version for feature in answer.supported_features}["transaction.version"] == 2
        assert {one.name: one.max_version_level for one in answer.finalized_features}["transaction.version"] == 2

    def test_a_release_without_the_api_lacks_the_feature(self, cluster: DirectCluster) -> None:
        cluster.state.versions[0] = range(12)
        request = wire.ApiVersionsRequest(client_software_name="test", client_software_version="1")
        assert "transaction.version" not in {feature.name for feature in cluster.ask(request).supported_features}

    def test_lowest_levels_of_0_are_hidden_from_version_3(self, cluster: DirectCluster) -> None:
        request = wire.ApiVersionsRequest(client_software_name="test", client_software_version="1")
        assert {feature.name for feature in cluster.ask(request, 3).supported_features} == {"metadata.version"}

    @pytest.mark.parametrize(
        ("cluster_id", "node_id", "code"),
        [
            (None, -1, OK),
            ("this", 1, OK),
            ("other", 1, RebootstrapRequired.ERROR_CODE),
            ("this", 2, RebootstrapRequired.ERROR_CODE),
        ],
    )
    def test_whom_the_client_means(
        self, cluster: DirectCluster, cluster_id: str | None, node_id: int, code: int
    ) -> None:
        request = wire.ApiVersionsRequest(
            client_software_name="test", client_software_version="1", cluster_id=cluster_id, node_id=node_id
        )
        assert cluster.ask(request, 5).error_code == code

    def test_a_client_without_a_name(self, cluster: DirectCluster) -> None:
        assert cluster.ask(wire.ApiVersionsRequest(), 3).error_code == InvalidRequest.ERROR_CODE
        assert cluster.ask(wire.ApiVersionsRequest(), 2).error_code == OK


class TestDescribeCluster:
    def test_brokers(self, cluster: DirectCluster) -> None:
        cluster.state.nodes[3].is_up = False
        answer = cluster.ask(wire.DescribeClusterRequest(include_cluster_authorized_operations=True))
        assert (answer.cluster_id, answer.controller_id, answer.cluster_authorized_operations) == ("this", 1, 8096)
        assert [broker.broker_id for broker in answer.brokers] == [1, 2]
        answer = cluster.ask(wire.DescribeClusterRequest(include_fenced_brokers=True))
        assert [(broker.broker_id, broker.is_fenced) for broker in answer.brokers] == [
            (1, False),
            (2, False),
            (3, True),
        ]

    @pytest.mark.parametrize(("kind", "error"), [(2, MismatchedEndpointType), (3, UnsupportedEndpointType)])
    def test_controllers_are_elsewhere(self, cluster: DirectCluster, kind: int, error: type) -> None:
        code: int = error.ERROR_CODE  # type: ignore[attr-defined]
        assert cluster.ask(wire.DescribeClusterRequest(endpoint_type=kind)).error_code == code


class TestLogDirs:
    @pytest.mark.parametrize("version", range(1, 6))
    def test_sizes_and_lags(self, version: int) -> None:
        brokers = Brokers(2)
        brokers.partition.log.append(batch(*"abcde"), 0, 0)
        brokers.partition.copied_to[2] = 3
        brokers.partition.isr = [1]
        for node, lag in ((1, 0), (2, 2)):
            answer = brokers.answer(wire.DescribeLogDirsRequest(topics=None), version, node)
            assert answer is not None
            (directory,) = answer.results
            (found,) = directory.topics[0].partitions
            assert (found.partition_size, found.offset_lag) == (brokers.partition.log.size, lag)

    def test_chosen_partitions(self, cluster: DirectCluster) -> None:
        wanted = wire.DescribeLogDirsRequest.Topic(topic="orders", partitions=[1])
        for node, known in ((1, []), (2, [1]), (3, [1])):
            (directory,) = cluster.ask(wire.DescribeLogDirsRequest(topics=[wanted]), node=node).results
            found = [known.partition_index for topic in directory.topics for known in topic.partitions]
            assert found == known


class TestQuorum:
    def test_one_voter(self, cluster: DirectCluster) -> None:
        topic = wire.DescribeQuorumRequest.Topic
        request = wire.DescribeQuorumRequest(
            topics=[topic(topic_name="__cluster_metadata", partitions=[topic.Partition(partition_index=0)])]
        )
        (found,) = cluster.ask(request).topics[0].partitions
        assert found.leader_id == 1
        assert [voter.replica_id for voter in found.current_voters] == [1]
        assert [observer.replica_id for observer in found.observers] == [2, 3]

    def test_another_topic(self, cluster: DirectCluster) -> None:
        topic = wire.DescribeQuorumRequest.Topic
        request = wire.DescribeQuorumRequest(
            topics=[topic(topic_name="orders", partitions=[topic.Partition(partition_index=0)])]
        )
        assert cluster.ask(request).topics[0].partitions[0].error_code == UnknownTopicOrPartition.ERROR_CODE


class TestUpdateFeatures:
    def update(
        self, cluster: DirectCluster, name: str, level: int, kind: int = UPGRADE, *, is_trial: bool = False
    ) -> int:
        request = wire.UpdateFeaturesRequest
        update = request.FeatureUpdate(feature=name, max_version_level=level, upgrade_type=kind)
        return cluster.ask(request(feature_updates=[update], validate_only=is_trial)).error_code

    def test_down_and_up(self, cluster: DirectCluster) -> None:
        assert self.update(cluster, "transaction.version", 1, SAFE, is_trial=True) == OK
        assert cluster.state.features.levels["transaction.version"] == 2
        assert self.update(cluster, "transaction.version", 1, UNSAFE) == OK
        assert cluster.state.features.levels["transaction.version"] == 1
        assert self.update(cluster, "transaction.version", 2) == OK

    @pytest.mark.parametrize(
        ("name", "level"),
        [
            ("transaction.version", 9),
            ("transaction.version", 0),
            ("group.version", -1),
            ("nope", 1),
            ("metadata.version", 1),
        ],
    )
    def test_refused(self, cluster: DirectCluster, name: str, level: int) -> None:
        assert self.update(cluster, name, level) == InvalidUpdateVersion.ERROR_CODE


class TestElections:
    def elect(self, cluster: DirectCluster, kind: int, topic: str = "orders", index: int = 0) -> int:
        wanted = wire.ElectLeadersRequest.TopicPartition(topic=topic, partitions=[index])
        answer = cluster.ask(wire.ElectLeadersRequest(election_type=kind, topic_partitions=[wanted]))
        return answer.replica_election_results[0].partition_result[0].error_code

    def test_the_preferred_replica(self, cluster: DirectCluster) -> None:
        assert self.elect(cluster, PREFERRED) == ElectionNotNeeded.ERROR_CODE
        partition(cluster).elect(2)
        epoch = partition(cluster).leader_epoch
        assert self.elect(cluster, PREFERRED) == OK
        assert (partition(cluster).leader, partition(cluster).leader_epoch) == (1, epoch + 1)

    def test_the_preferred_replica_is_down(self, cluster: DirectCluster) -> None:
        partition(cluster).elect(2)
        cluster.state.nodes[1].is_up = False
        assert self.elect_from(cluster, PREFERRED) == PreferredLeaderNotAvailable.ERROR_CODE

    def elect_from(self, cluster: DirectCluster, kind: int) -> int:
        wanted = wire.ElectLeadersRequest.TopicPartition(topic="orders", partitions=[0])
        request = wire.ElectLeadersRequest(election_type=kind, topic_partitions=[wanted])
        return cluster.ask(request, node=3).replica_election_results[0].partition_result[0].error_code

    def test_any_replica(self, cluster: DirectCluster) -> None:
        assert self.elect(cluster, UNCLEAN) == ElectionNotNeeded.ERROR_CODE
        cluster.state.nodes[1].is_up = False
        partition(cluster).isr = [1]
        assert self.elect_from(cluster, UNCLEAN) == OK
        assert partition(cluster).leader == 2
        cluster.state.nodes[2].is_up = False
        assert self.elect_from(cluster, UNCLEAN) == EligibleLeadersNotAvailable.ERROR_CODE

    def test_all_partitions(self, cluster: DirectCluster) -> None:
        partition(cluster).elect(2)
        answer = cluster.ask(wire.ElectLeadersRequest(election_type=PREFERRED, topic_partitions=None))
        assert [
            (result.topic, [one.partition_id for one in result.partition_result])
            for result in answer.replica_election_results
        ] == [("orders", [0])]

    @pytest.mark.parametrize(
        ("kind", "topic", "index", "error"),
        [
            (PREFERRED, "unknown", 0, UnknownTopicOrPartition),
            (UNCLEAN, "orders", 9, UnknownTopicOrPartition),
            (7, "orders", 0, InvalidRequest),
        ],
    )
    def test_refused(self, cluster: DirectCluster, kind: int, topic: str, index: int, error: type) -> None:
        assert self.elect(cluster, kind, topic, index) == error.ERROR_CODE  # type: ignore[attr-defined]


class TestReassignments:
    def move(
        self, cluster: DirectCluster, replicas: list[int] | None, topic: str = "orders", index: int = 0, **given: bool
    ) -> int:
        request = wire.AlterPartitionReassignmentsRequest
        asked = request.Topic.Partition(partition_index=index, replicas=replicas)
        answer = cluster.ask(request(topics=[request.Topic(name=topic, partitions=[asked])], **given))
        return answer.responses[0].partitions[0].error_code

    def test_a_move_is_done_at_once(self, cluster: DirectCluster) -> None:
        assert self.move(cluster, [3, 2]) == OK
        moved = partition(cluster)
        assert (moved.replicas, moved.isr, moved.leader, moved.leader_epoch) == ([3, 2], [3, 2], 3, 1)
        assert cluster.ask(wire.ListPartitionReassignmentsRequest(topics=None)).topics == []

    @pytest.mark.parametrize(
        ("replicas", "error"),
        [
            ([77], InvalidReplicaAssignment),
            ([], InvalidReplicaAssignment),
            ([1, 1], InvalidReplicaAssignment),
            (None, NoReassignmentInProgress),
        ],
    )
    def test_refused(self, cluster: DirectCluster, replicas: list[int] | None, error: type) -> None:
        assert self.move(cluster, replicas) == error.ERROR_CODE  # type: ignore[attr-defined]

    def test_no_other_number_of_replicas(self, cluster: DirectCluster) -> None:
        code = self.move(cluster, [1], allow_replication_factor_change=False)
        assert code == InvalidReplicationFactor.ERROR_CODE

    @pytest.mark.parametrize(("topic", "index"), [("unknown", 0), ("orders", 9)])
    def test_unknown(self, cluster: DirectCluster, topic: str, index: int) -> None:
        assert self.move(cluster, [1], topic, index) == UnknownTopicOrPartition.ERROR_CODE
