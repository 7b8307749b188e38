"""Moves of partitions to other brokers (KIP-455), and elections of leaders (KIP-460)."""

from __future__ import annotations

from pykafka.protocol.fields import array, boolean, int8, int16, int32, string
from pykafka.protocol.schema import Request, Response, Struct


class AlterPartitionReassignmentsResponse(Response, api_key=45, versions="0-1", flexible="0+"):
    """The outcome for each partition."""

    class Result(Struct):
        class Partition(Struct):
            partition_index: int = int32("0+")
            error_code: int = int16("0+")
            error_message: str | None = string("0+", nullable="0+")

        name: str = string("0+")
        partitions: list[Partition] = array(Partition, "0+")

    throttle_time_ms: int = int32("0+")
    allow_replication_factor_change: bool = boolean("1+", True, ignorable=True)
    error_code: int = int16("0+")
    error_message: str | None = string("0+", nullable="0+")
    responses: list[Result] = array(Result, "0+")


class AlterPartitionReassignmentsRequest(
    Request[AlterPartitionReassignmentsResponse], api_key=45, versions="0-1", flexible="0+"
):
    """A request that moves partitions; None as replicas cancels a move."""

    class Topic(Struct):
        class Partition(Struct):
            partition_index: int = int32("0+")
            replicas: list[int] | None = array("int32", "0+", None, nullable="0+")

        name: str = string("0+")
        partitions: list[Partition] = array(Partition, "0+")

    timeout_ms: int = int32("0+", 60000)
    allow_replication_factor_change: bool = boolean("1+", True)
    topics: list[Topic] = array(Topic, "0+")


class ListPartitionReassignmentsResponse(Response, api_key=46, versions="0", flexible="0+"):
    """The moves under way."""

    class Topic(Struct):
        class Partition(Struct):
            partition_index: int = int32("0+")
            replicas: list[int] = array("int32", "0+")
            adding_replicas: list[int] = array("int32", "0+")
            removing_replicas: list[int] = array("int32", "0+")

        name: str = string("0+")
        partitions: list[Partition] = array(Partition, "0+")

    throttle_time_ms: int = int32("0+")
    error_code: int = int16("0+")
    error_message: str | None = string("0+", nullable="0+")
    topics: list[Topic] = array(Topic, "0+")


class ListPartitionReassignmentsRequest(
    Request[ListPartitionReassignmentsResponse], api_key=46, versions="0", flexible="0+"
):
    """A request for the moves under way; None asks for all."""

    class Topic(Struct):
        name: str = string("0+")
        partition_indexes: list[int] = array("int32", "0+")

    timeout_ms: int = int32("0+", 60000)
    topics: list[Topic] | None = array(Topic, "0+", None, nullable="0+")


class ElectLeadersResponse(Response, api_key=43, versions="0-2", flexible="2+"):
    """The outcome for each partition."""

    class ReplicaElectionResult(Struct):
        class PartitionResult(Struct):
            partition_id: int = int32("0+")
            error_code: int = int16("0+")
            error_message: str | None = string("0+", nullable="0+")

        topic: str = string("0+")
        partition_result: list[PartitionResult] = array(PartitionResult, "0+")

    throttle_time_ms: int = int32("0+")
    error_code: int = int16("1+")
    replica_election_results: list[ReplicaElectionResult] = array(ReplicaElectionResult, "0+")


class ElectLeadersRequest(Request[ElectLeadersResponse], api_key=43, versions="0-2", flexible="2+"):
    """A request that elects leaders: preferred replicas (0), or any (1, from version 1 on); None elects for all partitions."""

    class TopicPartition(Struct):
        topic: str = string("0+")
        partitions: list[int] = array("int32", "0+")

    election_type: int = int8("1+")
    topic_partitions: list[TopicPartition] | None = array(TopicPartition, "0+", nullable="0+")
    timeout_ms: int = int32("0+", 60000)
