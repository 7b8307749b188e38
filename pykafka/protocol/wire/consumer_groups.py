"""Groups whose members the broker assigns (KIP-848)."""

from __future__ import annotations

from uuid import UUID

from pykafka.protocol.fields import array, boolean, int8, int16, int32, nested, string, uuid
from pykafka.protocol.schema import Request, Response, Struct
from pykafka.protocol.wire.groups import INT32_MIN


class ConsumerGroupDescribeResponse(Response, api_key=69, versions="0-1", flexible="0+"):
    """State and members of groups."""

    class Group(Struct):
        class Member(Struct):
            class Assignment(Struct):
                """The present or the target assignment of a member."""

                class TopicPartitions(Struct):
                    topic_id: UUID = uuid("0+")
                    topic_name: str = string("0+")
                    partitions: list[int] = array("int32", "0+")

                topic_partitions: list[TopicPartitions] = array(TopicPartitions, "0+")

            member_id: str = string("0+")
            instance_id: str | None = string("0+", None, nullable="0+")
            rack_id: str | None = string("0+", None, nullable="0+")
            member_epoch: int = int32("0+")
            client_id: str = string("0+")
            client_host: str = string("0+")
            subscribed_topic_names: list[str] = array("string", "0+")
            subscribed_topic_regex: str | None = string("0+", None, nullable="0+")
            assignment: Assignment = nested(Assignment, "0+")
            target_assignment: Assignment = nested(Assignment, "0+")
            member_type: int = int8("1+", -1, ignorable=True)

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


class ConsumerGroupDescribeRequest(Request[ConsumerGroupDescribeResponse], api_key=69, versions="0-1", flexible="0+"):
    """A request for state and members of groups."""

    group_ids: list[str] = array("string", "0+")
    include_authorized_operations: bool = boolean("0+")


class ConsumerGroupHeartbeatResponse(Response, api_key=68, versions="0-1", flexible="0+"):
    """The epoch of a member, and the partitions that it may read now; None: those of the answer before."""

    class Assignment(Struct):
        """The partitions that the member may read, all of them."""

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


class ConsumerGroupHeartbeatRequest(Request[ConsumerGroupHeartbeatResponse], api_key=68, versions="0-1", flexible="0+"):
    """A sign of life of a member: epoch 0 joins, -1 leaves, -2 is a static member that comes back.

    None, or -1 for the timeout, means: as in the heartbeat before. Patterns for the broker come with version 1.
    """

    class TopicPartitions(Struct):
        """Partitions of one topic that the member has."""

        topic_id: UUID = uuid("0+")
        partitions: list[int] = array("int32", "0+")

    group_id: str = string("0+")
    member_id: str = string("0+")
    member_epoch: int = int32("0+")
    instance_id: str | None = string("0+", None, nullable="0+")
    rack_id: str | None = string("0+", None, nullable="0+")
    rebalance_timeout_ms: int = int32("0+", -1)
    subscribed_topic_names: list[str] | None = array("string", "0+", None, nullable="0+")
    subscribed_topic_regex: str | None = string("1+", None, nullable="1+")
    server_assignor: str | None = string("0+", None, nullable="0+")
    topic_partitions: list[TopicPartitions] | None = array(TopicPartitions, "0+", None, nullable="0+")
