"""Share groups (KIP-932)."""

from __future__ import annotations

from uuid import UUID

from pykafka.protocol.schema import Request, Response, Struct, array, boolean, int16, int32, int64, nested, string, uuid
from pykafka.protocol.wire.groups import INT32_MIN


class TopicPartitions(Struct):
    """Partitions of one topic."""

    topic_id: UUID = uuid("0+")
    topic_name: str = string("0+")
    partitions: list[int] = array("int32", "0+")


class Assignment(Struct):
    """The present or the target assignment of a member."""

    topic_partitions: list[TopicPartitions] = array(TopicPartitions, "0+")


class ShareGroupDescribeResponse(Response, api_key=77, versions="0-1", flexible="0+"):
    """State and members of share groups."""

    class Group(Struct):
        """One group."""

        class Member(Struct):
            """One member."""

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


class ShareGroupDescribeRequest(Request[ShareGroupDescribeResponse], api_key=77, versions="0-1", flexible="0+"):
    """A request for state and members of share groups."""

    group_ids: list[str] = array("string", "0+")
    include_authorized_operations: bool = boolean("0+")


class DescribeShareGroupOffsetsResponse(Response, api_key=90, versions="0-1", flexible="0+"):
    """The start offsets of share groups."""

    class Group(Struct):
        """One group."""

        class Topic(Struct):
            """One topic."""

            class Partition(Struct):
                """One partition."""

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
        """One group."""

        class Topic(Struct):
            """One topic."""

            topic_name: str = string("0+")
            partitions: list[int] = array("int32", "0+")

        group_id: str = string("0+")
        topics: list[Topic] | None = array(Topic, "0+", nullable="0+")

    groups: list[Group] = array(Group, "0+")


class AlterShareGroupOffsetsResponse(Response, api_key=91, versions="0", flexible="0+"):
    """The outcome for each partition."""

    class Result(Struct):
        """The outcome of one item."""

        class Partition(Struct):
            """One partition."""

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
        """One topic."""

        class Partition(Struct):
            """One partition."""

            partition_index: int = int32("0+")
            start_offset: int = int64("0+")

        topic_name: str = string("0+")
        partitions: list[Partition] = array(Partition, "0+")

    group_id: str = string("0+")
    topics: list[Topic] = array(Topic, "0+")


class DeleteShareGroupOffsetsResponse(Response, api_key=92, versions="0", flexible="0+"):
    """The outcome for each topic."""

    class Result(Struct):
        """The outcome of one item."""

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
        """One topic."""

        topic_name: str = string("0+")

    group_id: str = string("0+")
    topics: list[Topic] = array(Topic, "0+")
