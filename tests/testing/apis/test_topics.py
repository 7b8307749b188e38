"""Topics as administrators make and remove them, without sockets; the codes are those that a broker of Kafka 4.4.0 gave."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from pykafka.exceptions import (
    InvalidConfig,
    InvalidPartitions,
    InvalidReplicaAssignment,
    InvalidReplicationFactor,
    InvalidRequest,
    InvalidTopic,
    LeaderNotAvailable,
    NotLeaderForPartition,
    OffsetOutOfRangeError,
    PolicyViolation,
    TopicAlreadyExists,
    UnknownError,
    UnknownTopicId,
    UnknownTopicOrPartition,
)
from pykafka.protocol import wire
from tests.testing.datapath import Brokers, batch
from tests.testing.direct import DirectCluster

OK = 0
_Create = wire.CreateTopicsRequest.Topic


@pytest.fixture
def cluster() -> DirectCluster:
    return DirectCluster({"orders": 2, "a.b": 1}, nodes=3)


def create(
    cluster: DirectCluster, name: str, partitions: int = -1, factor: int = -1, **given: Any
) -> wire.CreateTopicsResponse.Topic:
    """Create a topic, and return the answer for it."""
    assignments = [
        _Create.Assignment(partition_index=index, broker_ids=brokers) for index, brokers in given.get("assigned", ())
    ]
    configs = [_Create.Config(name=key, value=value) for key, value in given.get("configs", {}).items()]
    topic = _Create(
        name=name, num_partitions=partitions, replication_factor=factor, assignments=assignments, configs=configs
    )
    request = wire.CreateTopicsRequest(
        topics=[topic] * given.get("times", 1), validate_only=given.get("is_trial", False)
    )
    return cluster.ask(request, given.get("version", 7)).topics[0]


class TestCreateTopics:
    @pytest.mark.parametrize("version", range(8))
    def test_a_topic_with_replicas_on_all_brokers(self, cluster: DirectCluster, version: int) -> None:
        answer = create(cluster, "new", 3, 3, configs={"retention.ms": "7"}, version=version)
        topic = cluster.state.topics["new"]
        assert answer.error_code == OK
        assert [sorted(partition.replicas) for partition in topic.partitions] == [[1, 2, 3]] * 3
        assert {partition.leader for partition in topic.partitions} == {1, 2, 3}
        assert topic.configs == {"retention.ms": "7"}
        if version >= 7:
            assert answer.topic_id == topic.id
        if version >= 5:
            assert (answer.num_partitions, answer.replication_factor, len(answer.configs or [])) == (3, 3, 37)

    def test_defaults_of_brokers(self, cluster: DirectCluster) -> None:
        cluster.state.default_partitions, cluster.state.default_replication = 5, 2
        answer = create(cluster, "new")
        assert (answer.num_partitions, answer.replication_factor) == (5, 2)

    def test_assigned_replicas(self, cluster: DirectCluster) -> None:
        assert create(cluster, "new", assigned=[(1, [3, 1]), (0, [2, 3])]).error_code == OK
        assert [partition.replicas for partition in cluster.state.topics["new"].partitions] == [[2, 3], [3, 1]]

    def test_a_trial_creates_nothing(self, cluster: DirectCluster) -> None:
        assert create(cluster, "new", is_trial=True).error_code == OK
        assert "new" not in cluster.state.topics
        assert create(cluster, "orders", is_trial=True).error_code == TopicAlreadyExists.ERROR_CODE

    @pytest.mark.parametrize("name", ["", ".", "..", "bad name", "b/c", "x" * 250, "a_b"])
    def test_names_that_cannot_be(self, cluster: DirectCluster, name: str) -> None:
        answer = create(cluster, name)
        assert (answer.error_code, answer.error_message is not None) == (InvalidTopic.ERROR_CODE, True)

    @pytest.mark.parametrize(
        ("given", "error"),
        [
            ({"name": "orders"}, TopicAlreadyExists),
            ({"times": 2}, InvalidRequest),
            ({"partitions": 0}, InvalidPartitions),
            ({"partitions": 10_001}, PolicyViolation),
            ({"partitions": 2**31 - 1}, PolicyViolation),
            ({"factor": 0}, InvalidReplicationFactor),
            ({"factor": 4}, InvalidReplicationFactor),
            ({"factor": 1, "assigned": [(0, [1])]}, InvalidRequest),
            ({"partitions": 1, "assigned": [(0, [1])]}, InvalidRequest),
            ({"assigned": [(1, [1])]}, InvalidReplicaAssignment),
            ({"assigned": [(0, [77])]}, InvalidReplicaAssignment),
            ({"assigned": [(0, [])]}, InvalidReplicaAssignment),
            ({"assigned": [(0, [1, 1])]}, InvalidReplicaAssignment),
            ({"assigned": [(0, [1]), (0, [1])]}, InvalidReplicaAssignment),
            ({"assigned": [(0, [1]), (1, [1, 2])]}, InvalidReplicaAssignment),
            ({"configs": {"nope": "1"}}, InvalidConfig),
            ({"configs": {"retention.ms": "x"}}, InvalidConfig),
            ({"configs": {"retention.ms": None}}, InvalidConfig),
        ],
    )
    def test_refused(self, cluster: DirectCluster, given: dict[str, Any], error: type) -> None:
        answer = create(cluster, **{"name": "new", **given})
        assert answer.error_code == error.ERROR_CODE  # type: ignore[attr-defined]
        assert "new" not in cluster.state.topics


class TestCreatePartitions:
    def grow(
        self, cluster: DirectCluster, name: str, count: int, assigned: list[list[int]] | None = None, times: int = 1
    ) -> int:
        topic = wire.CreatePartitionsRequest.Topic
        assignments = None if assigned is None else [topic.Assignment(broker_ids=brokers) for brokers in assigned]
        topics = [topic(name=name, count=count, assignments=assignments)] * times
        return cluster.ask(wire.CreatePartitionsRequest(topics=topics)).results[0].error_code

    def test_more(self, cluster: DirectCluster) -> None:
        assert self.grow(cluster, "orders", 4) == OK
        assert self.grow(cluster, "orders", 5, [[3]]) == OK
        partitions = cluster.state.topics["orders"].partitions
        assert [partition.index for partition in partitions] == [0, 1, 2, 3, 4]
        assert partitions[4].leader == 3

    @pytest.mark.parametrize(
        ("name", "count", "assigned", "error"),
        [
            ("unknown", 3, None, UnknownTopicOrPartition),
            ("orders", 2, None, InvalidPartitions),
            ("orders", 0, None, InvalidPartitions),
            ("orders", 2**31 - 1, None, UnknownError),
            ("orders", 3, [[77]], InvalidReplicaAssignment),
            ("orders", 4, [[1]], InvalidReplicaAssignment),
            ("orders", 3, [[1, 1]], InvalidReplicaAssignment),
            ("orders", 3, [[1, 2]], InvalidReplicaAssignment),
            ("orders", 3, [[]], InvalidReplicaAssignment),
        ],
    )
    def test_refused(
        self, cluster: DirectCluster, name: str, count: int, assigned: list[list[int]] | None, error: type
    ) -> None:
        assert self.grow(cluster, name, count, assigned) == error.ERROR_CODE  # type: ignore[attr-defined]
        assert len(cluster.state.topics["orders"].partitions) == 2

    def test_one_topic_twice(self, cluster: DirectCluster) -> None:
        assert self.grow(cluster, "orders", 3, times=2) == InvalidRequest.ERROR_CODE

    def test_a_trial_adds_nothing(self, cluster: DirectCluster) -> None:
        topic = wire.CreatePartitionsRequest.Topic(name="orders", count=3, assignments=None)
        cluster.ask(wire.CreatePartitionsRequest(topics=[topic], validate_only=True))
        assert len(cluster.state.topics["orders"].partitions) == 2


class TestDeleteTopics:
    @pytest.mark.parametrize("version", range(6))
    def test_by_name(self, cluster: DirectCluster, version: int) -> None:
        request = wire.DeleteTopicsRequest(topic_names=["orders", "unknown"])
        responses = cluster.ask(request, version).responses
        assert {answer.name: answer.error_code for answer in responses} == {
            "orders": OK,
            "unknown": UnknownTopicOrPartition.ERROR_CODE,
        }
        assert set(cluster.state.topics) == {"a.b"}

    def test_by_id(self, cluster: DirectCluster) -> None:
        topic = cluster.state.topics["orders"]
        asked = wire.DeleteTopicsRequest.Topic(name=None, topic_id=topic.id)
        (answer,) = cluster.ask(wire.DeleteTopicsRequest(topics=[asked])).responses
        assert (answer.error_code, answer.name) == (OK, "orders")
        assert topic.id not in cluster.state.topic_ids
        (answer,) = cluster.ask(wire.DeleteTopicsRequest(topics=[asked])).responses
        assert answer.error_code == UnknownTopicId.ERROR_CODE

    @pytest.mark.parametrize(("name", "number", "times"), [(None, 0, 1), ("orders", 5, 1), ("orders", 0, 2)])
    def test_refused(self, cluster: DirectCluster, name: str | None, number: int, times: int) -> None:
        asked = wire.DeleteTopicsRequest.Topic(name=name, topic_id=UUID(int=number))
        (answer,) = cluster.ask(wire.DeleteTopicsRequest(topics=[asked] * times)).responses
        assert answer.error_code == InvalidRequest.ERROR_CODE
        assert "orders" in cluster.state.topics


class TestDeleteRecords:
    def delete(self, brokers: Brokers, offset: int, *, partition: int = 0, node: int = 1) -> tuple[int, int]:
        topic = wire.DeleteRecordsRequest.Topic
        asked = topic(name="orders", partitions=[topic.Partition(partition_index=partition, offset=offset)])
        answer = brokers.answer(wire.DeleteRecordsRequest(topics=[asked]), 2, node)
        assert answer is not None
        result = answer.topics[0].partitions[0]
        return result.error_code, result.low_watermark

    def test_before_an_offset_and_all(self) -> None:
        brokers = Brokers()
        brokers.partition.log.append(batch(*"abcde"), 0, 0)
        assert self.delete(brokers, 2) == (OK, 2)
        assert self.delete(brokers, 1) == (OK, 2)
        assert self.delete(brokers, -1) == (OK, 5)
        assert brokers.partition.log.start == 5

    @pytest.mark.parametrize("offset", [6, -2])
    def test_an_offset_that_is_not_there(self, offset: int) -> None:
        brokers = Brokers()
        brokers.partition.log.append(batch(*"abcde"), 0, 0)
        assert self.delete(brokers, offset) == (OffsetOutOfRangeError.ERROR_CODE, -1)

    def test_a_compacted_topic(self) -> None:
        assert self.delete(Brokers(cleanup_policy="compact"), -1) == (PolicyViolation.ERROR_CODE, -1)

    def test_elsewhere(self) -> None:
        brokers = Brokers(2)
        assert self.delete(brokers, -1, node=2) == (NotLeaderForPartition.ERROR_CODE, -1)
        assert self.delete(brokers, -1, partition=9) == (UnknownTopicOrPartition.ERROR_CODE, -1)


class TestDescribeTopicPartitions:
    def page(
        self, cluster: DirectCluster, names: list[str], limit: int = 2000, cursor: tuple[str, int] | None = None
    ) -> wire.DescribeTopicPartitionsResponse:
        asked = wire.DescribeTopicPartitionsRequest
        request = asked(
            topics=[asked.Topic(name=name) for name in names],
            response_partition_limit=limit,
            cursor=cursor and asked.Cursor(topic_name=cursor[0], partition_index=cursor[1]),
        )
        return cluster.ask(request)

    def test_all_in_the_order_of_their_names(self, cluster: DirectCluster) -> None:
        answer = self.page(cluster, [])
        assert [(topic.name, len(topic.partitions)) for topic in answer.topics] == [("a.b", 1), ("orders", 2)]
        assert answer.next_cursor is None

    @pytest.mark.parametrize("limit", [0, 1])
    def test_one_partition_a_page(self, cluster: DirectCluster, limit: int) -> None:
        pages: list[list[tuple[str | None, int]]] = []
        cursor: tuple[str, int] | None = None
        while True:
            answer = self.page(cluster, [], limit, cursor)
            pages.append(
                [(topic.name, partition.partition_index) for topic in answer.topics for partition in topic.partitions]
            )
            if answer.next_cursor is None:
                break
            cursor = answer.next_cursor.topic_name, answer.next_cursor.partition_index
        assert pages == [[("a.b", 0)], [("orders", 0)], [("orders", 1)]]

    def test_topics_that_are_none(self, cluster: DirectCluster) -> None:
        answer = self.page(cluster, ["unknown", "orders", "bad name"], 1)
        assert [(topic.name, topic.error_code) for topic in answer.topics] == [
            ("bad name", InvalidTopic.ERROR_CODE),
            ("orders", OK),
        ]
        assert answer.next_cursor is not None
        assert (answer.next_cursor.topic_name, answer.next_cursor.partition_index) == ("orders", 1)
        rest = self.page(cluster, ["unknown", "orders", "bad name"], 5, ("orders", 1))
        assert [(topic.name, topic.error_code) for topic in rest.topics] == [
            ("orders", OK),
            ("unknown", UnknownTopicOrPartition.ERROR_CODE),
        ]

    def test_replicas_that_are_down(self, cluster: DirectCluster) -> None:
        create(cluster, "new", assigned=[(0, [2, 3])])
        cluster.state.nodes[2].is_up = False
        (partition,) = self.page(cluster, ["new"]).topics[0].partitions
        assert (partition.error_code, partition.offline_replicas) == (LeaderNotAvailable.ERROR_CODE, [2])
