"""The quorum of KRaft controllers (KIP-595, KIP-853)."""

from __future__ import annotations

from uuid import UUID

from pykafka.protocol.fields import array, boolean, int16, int32, int64, string, uint16, uuid
from pykafka.protocol.schema import Request, Response, Struct


class ReplicaState(Struct):
    """How far one replica of the metadata is."""

    replica_id: int = int32("0+")
    replica_directory_id: UUID = uuid("2+")
    log_end_offset: int = int64("0+")
    last_fetch_timestamp: int = int64("1+", -1, ignorable=True)
    last_caught_up_timestamp: int = int64("1+", -1, ignorable=True)


class DescribeQuorumResponse(Response, api_key=55, versions="0-2", flexible="0+"):
    """Leader, voters and observers of the quorum."""

    class Topic(Struct):
        class Partition(Struct):
            partition_index: int = int32("0+")
            error_code: int = int16("0+")
            error_message: str | None = string("2+", nullable="2+", ignorable=True)
            leader_id: int = int32("0+")
            leader_epoch: int = int32("0+")
            high_watermark: int = int64("0+")
            current_voters: list[ReplicaState] = array(ReplicaState, "0+")
            observers: list[ReplicaState] = array(ReplicaState, "0+")

        topic_name: str = string("0+")
        partitions: list[Partition] = array(Partition, "0+")

    class Node(Struct):
        class Listener(Struct):
            name: str = string("2+")
            host: str = string("2+")
            port: int = uint16("2+")

        node_id: int = int32("2+")
        listeners: list[Listener] = array(Listener, "2+")

    error_code: int = int16("0+")
    error_message: str | None = string("2+", nullable="2+", ignorable=True)
    topics: list[Topic] = array(Topic, "0+")
    nodes: list[Node] = array(Node, "2+")


class DescribeQuorumRequest(Request[DescribeQuorumResponse], api_key=55, versions="0-2", flexible="0+"):
    """A request for the state of the quorum."""

    class Topic(Struct):
        class Partition(Struct):
            partition_index: int = int32("0+")

        topic_name: str = string("0+")
        partitions: list[Partition] = array(Partition, "0+")

    topics: list[Topic] = array(Topic, "0+")


class AddRaftVoterResponse(Response, api_key=80, versions="0-1", flexible="0+"):
    """Whether the voter was added."""

    throttle_time_ms: int = int32("0+")
    error_code: int = int16("0+")
    error_message: str | None = string("0+", nullable="0+", ignorable=True)


class AddRaftVoterRequest(Request[AddRaftVoterResponse], api_key=80, versions="0-1", flexible="0+"):
    """A request that adds a controller to the voters."""

    class Listener(Struct):
        name: str = string("0+")
        host: str = string("0+")
        port: int = uint16("0+")

    cluster_id: str | None = string("0+", nullable="0+")
    timeout_ms: int = int32("0+")
    voter_id: int = int32("0+")
    voter_directory_id: UUID = uuid("0+")
    listeners: list[Listener] = array(Listener, "0+")
    ack_when_committed: bool = boolean("1+", True)


class RemoveRaftVoterResponse(Response, api_key=81, versions="0", flexible="0+"):
    """Whether the voter was removed."""

    throttle_time_ms: int = int32("0+")
    error_code: int = int16("0+")
    error_message: str | None = string("0+", nullable="0+", ignorable=True)


class RemoveRaftVoterRequest(Request[RemoveRaftVoterResponse], api_key=81, versions="0", flexible="0+"):
    """A request that removes a controller from the voters."""

    cluster_id: str | None = string("0+", nullable="0+")
    voter_id: int = int32("0+")
    voter_directory_id: UUID = uuid("0+")
