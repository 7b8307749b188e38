"""Share groups (KIP-932)."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from pykafka.protocol.fields import array, boolean, int8, int16, int32, int64, nested, records, string, uuid
from pykafka.protocol.schema import Request, Response, Struct
from pykafka.protocol.wire.fetch import INT32_MAX
from pykafka.protocol.wire.groups import INT32_MIN


class TopicPartitions(Struct):
    """Partitions of one topic."""

    topic_id: UUID = uuid("0+")
    topic_name: str = string("0+")
    partitions: list[int] = array("int32", "0+")


class Assignment(Struct):
    """The present or the target assignment of a member."""

    topic_partitions: list[TopicPartitions] = array(TopicPartitions, "0+")


class ShareGroupDescribeResponse(Response, api_key=77, versions="1", flexible="0+"):
    """State and members of share groups."""

    class Group(Struct):
        class Member(Struct):
            member_id: str = string("0+")
            rack_id: str | None = string("0+", None, nullable="0+")
            member_epoch: int = int32("0+")
            client_id: str = string("0+")
            client_host: str = string("0+")
            subscribed_topic_names: list[str] = array("string", "0+")
            assignment: Assignment = nested(Assignment, "0+")

        error_code: int = int16("0+")
        error_message: str | None = string("0+", None, nullable="0+")
        group_id: str = string("0+")
        group_state: str = string("0+")
        group_epoch: int = int32("0+")
        assignment_epoch: int = int32("0+")
        assignor_name: str = string("0+")
        members: list[Member] = array(Member, "0+")
        authorized_operations: int = int32("0+", INT32_MIN)

    throttle_time_ms: int = int32("0+")
    groups: list[Group] = array(Group, "0+")


class ShareGroupDescribeRequest(Request[ShareGroupDescribeResponse], api_key=77, versions="1", flexible="0+"):
    """A request for state and members of share groups."""

    group_ids: list[str] = array("string", "0+")
    include_authorized_operations: bool = boolean("0+")


class DescribeShareGroupOffsetsResponse(Response, api_key=90, versions="0-1", flexible="0+"):
    """The start offsets of share groups."""

    class Group(Struct):
        class Topic(Struct):
            class Partition(Struct):
                partition_index: int = int32("0+")
                start_offset: int = int64("0+")
                leader_epoch: int = int32("0+")
                lag: int = int64("1+", -1, ignorable=True)
                error_code: int = int16("0+")
                error_message: str | None = string("0+", None, nullable="0+")

            topic_name: str = string("0+")
            topic_id: UUID = uuid("0+")
            partitions: list[Partition] = array(Partition, "0+")

        group_id: str = string("0+")
        topics: list[Topic] = array(Topic, "0+")
        error_code: int = int16("0+")
        error_message: str | None = string("0+", None, nullable="0+")

    throttle_time_ms: int = int32("0+")
    groups: list[Group] = array(Group, "0+")


class DescribeShareGroupOffsetsRequest(
    Request[DescribeShareGroupOffsetsResponse], api_key=90, versions="0-1", flexible="0+"
):
    """A request for the start offsets of share groups; None asks for all topics."""

    class Group(Struct):
        class Topic(Struct):
            topic_name: str = string("0+")
            partitions: list[int] = array("int32", "0+")

        group_id: str = string("0+")
        topics: list[Topic] | None = array(Topic, "0+", nullable="0+")

    groups: list[Group] = array(Group, "0+")


class AlterShareGroupOffsetsResponse(Response, api_key=91, versions="0", flexible="0+"):
    """The outcome for each partition."""

    class Result(Struct):
        class Partition(Struct):
            partition_index: int = int32("0+")
            error_code: int = int16("0+")
            error_message: str | None = string("0+", None, nullable="0+")

        topic_name: str = string("0+")
        topic_id: UUID = uuid("0+")
        partitions: list[Partition] = array(Partition, "0+")

    throttle_time_ms: int = int32("0+")
    error_code: int = int16("0+")
    error_message: str | None = string("0+", None, nullable="0+")
    responses: list[Result] = array(Result, "0+")


class AlterShareGroupOffsetsRequest(Request[AlterShareGroupOffsetsResponse], api_key=91, versions="0", flexible="0+"):
    """A request that sets the start offsets of a share group without members."""

    class Topic(Struct):
        class Partition(Struct):
            partition_index: int = int32("0+")
            start_offset: int = int64("0+")

        topic_name: str = string("0+")
        partitions: list[Partition] = array(Partition, "0+")

    group_id: str = string("0+")
    topics: list[Topic] = array(Topic, "0+")


class DeleteShareGroupOffsetsResponse(Response, api_key=92, versions="0", flexible="0+"):
    """The outcome for each topic."""

    class Result(Struct):
        topic_name: str = string("0+")
        topic_id: UUID = uuid("0+")
        error_code: int = int16("0+")
        error_message: str | None = string("0+", None, nullable="0+")

    throttle_time_ms: int = int32("0+")
    error_code: int = int16("0+")
    error_message: str | None = string("0+", None, nullable="0+")
    responses: list[Result] = array(Result, "0+")


class DeleteShareGroupOffsetsRequest(Request[DeleteShareGroupOffsetsResponse], api_key=92, versions="0", flexible="0+"):
    """A request that deletes the offsets of a share group without members."""

    class Topic(Struct):
        topic_name: str = string("0+")

    group_id: str = string("0+")
    topics: list[Topic] = array(Topic, "0+")


class ShareGroupHeartbeatResponse(Response, api_key=76, versions="1", flexible="0+"):
    """The epoch and the partitions of a member."""

    class Assignment(Struct):
        """The partitions that the member fetches from, all of them."""

        class TopicPartitions(Struct):
            topic_id: UUID = uuid("0+")
            partitions: list[int] = array("int32", "0+")

        topic_partitions: list[TopicPartitions] = array(TopicPartitions, "0+")

    throttle_time_ms: int = int32("0+")
    error_code: int = int16("0+")
    error_message: str | None = string("0+", None, nullable="0+")
    member_id: str | None = string("0+", None, nullable="0+")
    member_epoch: int = int32("0+")
    heartbeat_interval_ms: int = int32("0+")
    assignment: Assignment | None = nested(Assignment, "0+", None, nullable="0+")


class ShareGroupHeartbeatRequest(Request[ShareGroupHeartbeatResponse], api_key=76, versions="1", flexible="0+"):
    """A sign of life of a member: epoch 0 joins, -1 leaves. None means: as in the heartbeat before."""

    group_id: str = string("0+")
    member_id: str = string("0+")
    member_epoch: int = int32("0+")
    rack_id: str | None = string("0+", None, nullable="0+")
    subscribed_topic_names: list[str] | None = array("string", "0+", None, nullable="0+")


class AcknowledgementBatch(Struct):
    """An acknowledgement of acquired records: one type for all offsets, or one for each.

    Types: 0 gap, 1 accept, 2 release, 3 reject, 4 renew.
    """

    first_offset: int = int64("0+")
    last_offset: int = int64("0+")
    acknowledge_types: list[int] = array("int8", "0+")


class LeaderIdAndEpoch(Struct):
    """A partition's leader, or -1."""

    leader_id: int = int32("0+")
    leader_epoch: int = int32("0+")


class NodeEndpoint(Struct):
    """The address of a leader."""

    node_id: int = int32("0+")
    host: str = string("0+")
    port: int = int32("0+")
    rack: str | None = string("0+", None, nullable="0+")


class ShareFetchResponse(Response, api_key=78, versions="1-2", flexible="0+"):
    """Acquired records, and the outcome of acknowledgements."""

    class Topic(Struct):
        class Partition(Struct):
            class AcquiredRecords(Struct):
                """Offsets that this member has now, also those without a record."""

                first_offset: int = int64("0+")
                last_offset: int = int64("0+")
                delivery_count: int = int16("0+")

            partition_index: int = int32("0+")
            error_code: int = int16("0+")
            error_message: str | None = string("0+", None, nullable="0+")
            acknowledge_error_code: int = int16("0+")
            acknowledge_error_message: str | None = string("0+", None, nullable="0+")
            current_leader: LeaderIdAndEpoch = nested(LeaderIdAndEpoch, "0+")
            records: Any = records("0+")
            acquired_records: list[AcquiredRecords] = array(AcquiredRecords, "0+")

        topic_id: UUID = uuid("0+")
        partitions: list[Partition] = array(Partition, "0+")

    throttle_time_ms: int = int32("0+")
    error_code: int = int16("0+")
    error_message: str | None = string("0+", None, nullable="0+")
    acquisition_lock_timeout_ms: int = int32("1+")
    responses: list[Topic] = array(Topic, "0+")
    node_endpoints: list[NodeEndpoint] = array(NodeEndpoint, "0+")


class ShareFetchRequest(Request[ShareFetchResponse], api_key=78, versions="1-2", flexible="0+"):
    """A request that acquires records, and says what became of those before. Session epoch 0 opens a session, -1 ends it."""

    class Topic(Struct):
        class Partition(Struct):
            partition_index: int = int32("0+")
            acknowledgement_batches: list[AcknowledgementBatch] = array(AcknowledgementBatch, "0+")

        topic_id: UUID = uuid("0+")
        partitions: list[Partition] = array(Partition, "0+")

    class ForgottenTopic(Struct):
        """Partitions that the session is to forget."""

        topic_id: UUID = uuid("0+")
        partitions: list[int] = array("int32", "0+")

    group_id: str | None = string("0+", None, nullable="0+")
    member_id: str | None = string("0+", nullable="0+")
    share_session_epoch: int = int32("0+")
    max_wait_ms: int = int32("0+")
    min_bytes: int = int32("0+")
    max_bytes: int = int32("0+", INT32_MAX)
    max_records: int = int32("1+")
    batch_size: int = int32("1+")
    share_acquire_mode: int = int8("2+", 0, ignorable=True)
    is_renew_ack: bool = boolean("2+")
    topics: list[Topic] = array(Topic, "0+")
    forgotten_topics_data: list[ForgottenTopic] = array(ForgottenTopic, "0+")


class ShareAcknowledgeResponse(Response, api_key=79, versions="1-2", flexible="0+"):
    """The outcome of acknowledgements for each partition."""

    class Topic(Struct):
        class Partition(Struct):
            partition_index: int = int32("0+")
            error_code: int = int16("0+")
            error_message: str | None = string("0+", None, nullable="0+")
            current_leader: LeaderIdAndEpoch = nested(LeaderIdAndEpoch, "0+")

        topic_id: UUID = uuid("0+")
        partitions: list[Partition] = array(Partition, "0+")

    throttle_time_ms: int = int32("0+")
    error_code: int = int16("0+")
    error_message: str | None = string("0+", None, nullable="0+")
    acquisition_lock_timeout_ms: int = int32("2+", ignorable=True)
    responses: list[Topic] = array(Topic, "0+")
    node_endpoints: list[NodeEndpoint] = array(NodeEndpoint, "0+")


class ShareAcknowledgeRequest(Request[ShareAcknowledgeResponse], api_key=79, versions="1-2", flexible="0+"):
    """A request that says what became of acquired records. Session epoch -1 ends the session."""

    class Topic(Struct):
        class Partition(Struct):
            partition_index: int = int32("0+")
            acknowledgement_batches: list[AcknowledgementBatch] = array(AcknowledgementBatch, "0+")

        topic_id: UUID = uuid("0+")
        partitions: list[Partition] = array(Partition, "0+")

    group_id: str | None = string("0+", None, nullable="0+")
    member_id: str | None = string("0+", nullable="0+")
    share_session_epoch: int = int32("0+")
    is_renew_ack: bool = boolean("2+")
    topics: list[Topic] = array(Topic, "0+")
