"""The committed offsets of groups, and offsets by time."""

from __future__ import annotations

from uuid import UUID

from pykafka.protocol.fields import array, boolean, int8, int16, int32, int64, string, uuid
from pykafka.protocol.schema import Request, Response, Struct


class OffsetCommitResponse(Response, api_key=8, versions="0-10", flexible="8+", early="4+"):
    """The result of each commit."""

    class Topic(Struct):
        class Partition(Struct):
            partition_index: int = int32("0+")
            error_code: int = int16("0+")

        name: str = string("0-9", ignorable=True)
        topic_id: UUID = uuid("10+", ignorable=True)
        partitions: list[Partition] = array(Partition, "0+")

    throttle_time_ms: int = int32("3+", ignorable=True)
    topics: list[Topic] = array(Topic, "0+")


class OffsetCommitRequest(Request[OffsetCommitResponse], api_key=8, versions="0-10", flexible="8+"):
    """A request that commits a group's offsets: to ZooKeeper in version 0, to Kafka from 1 on; topic ids from 10 on."""

    class Topic(Struct):
        class Partition(Struct):
            partition_index: int = int32("0+")
            committed_offset: int = int64("0+")
            committed_leader_epoch: int = int32("6+", -1, ignorable=True)
            commit_timestamp: int = int64("1", -1)
            committed_metadata: str | None = string("0+", nullable="0+")

        name: str = string("0-9", ignorable=True)
        topic_id: UUID = uuid("10+", ignorable=True)
        partitions: list[Partition] = array(Partition, "0+")

    group_id: str = string("0+")
    generation_id_or_member_epoch: int = int32("1+", -1, ignorable=True)
    member_id: str = string("1+", ignorable=True)
    group_instance_id: str | None = string("7+", None, nullable="7+")
    retention_time_ms: int = int64("2-4", -1, ignorable=True)
    topics: list[Topic] = array(Topic, "0+")


class OffsetFetchResponse(Response, api_key=9, versions="0-10", flexible="6+", early="4+"):
    """A group's committed offsets; -1 for none. Several groups from version 8 on."""

    class Topic(Struct):
        class Partition(Struct):
            partition_index: int = int32("0-7")
            committed_offset: int = int64("0-7")
            committed_leader_epoch: int = int32("5-7", -1, ignorable=True)
            metadata: str | None = string("0-7", nullable="0-7")
            error_code: int = int16("0-7")

        name: str = string("0-7")
        partitions: list[Partition] = array(Partition, "0-7")

    class Group(Struct):
        class Topic(Struct):
            class Partition(Struct):
                partition_index: int = int32("8+")
                committed_offset: int = int64("8+")
                committed_leader_epoch: int = int32("8+", -1, ignorable=True)
                metadata: str | None = string("8+", nullable="8+")
                error_code: int = int16("8+")

            name: str = string("8-9", ignorable=True)
            topic_id: UUID = uuid("10+", ignorable=True)
            partitions: list[Partition] = array(Partition, "8+")

        group_id: str = string("8+")
        topics: list[Topic] = array(Topic, "8+")
        error_code: int = int16("8+")

    throttle_time_ms: int = int32("3+", ignorable=True)
    topics: list[Topic] = array(Topic, "0-7")
    error_code: int = int16("2-7", ignorable=True)
    groups: list[Group] = array(Group, "8+")


class OffsetFetchRequest(Request[OffsetFetchResponse], api_key=9, versions="0-10", flexible="6+"):
    """A request for committed offsets: ZooKeeper's in version 0, Kafka's from 1 on; None asks for all, from 2 on."""

    class Topic(Struct):
        name: str = string("0-7")
        partition_indexes: list[int] = array("int32", "0-7")

    class Group(Struct):
        class Topic(Struct):
            name: str = string("8-9", ignorable=True)
            topic_id: UUID = uuid("10+", ignorable=True)
            partition_indexes: list[int] = array("int32", "8+")

        group_id: str = string("8+")
        member_id: str | None = string("9+", None, nullable="9+", ignorable=True)
        member_epoch: int = int32("9+", -1, ignorable=True)
        topics: list[Topic] | None = array(Topic, "8+", nullable="8+")

    group_id: str = string("0-7")
    topics: list[Topic] | None = array(Topic, "0-7", nullable="2-7")
    groups: list[Group] = array(Group, "8+")
    require_stable: bool = boolean("7+")


class OffsetDeleteResponse(Response, api_key=47, versions="0"):
    """The result of each deletion."""

    class Topic(Struct):
        class Partition(Struct):
            partition_index: int = int32("0+")
            error_code: int = int16("0+")

        name: str = string("0+")
        partitions: list[Partition] = array(Partition, "0+")

    error_code: int = int16("0+")
    throttle_time_ms: int = int32("0+", ignorable=True)
    topics: list[Topic] = array(Topic, "0+")


class OffsetDeleteRequest(Request[OffsetDeleteResponse], api_key=47, versions="0"):
    """A request that deletes a group's offsets (KIP-496)."""

    class Topic(Struct):
        class Partition(Struct):
            partition_index: int = int32("0+")

        name: str = string("0+")
        partitions: list[Partition] = array(Partition, "0+")

    group_id: str = string("0+")
    topics: list[Topic] = array(Topic, "0+")


class ListOffsetsResponse(Response, api_key=2, versions="0-11", flexible="6+", early="3+"):
    """Offsets by time: several in version 0, one from 1 on."""

    class Topic(Struct):
        class Partition(Struct):
            partition_index: int = int32("0+")
            error_code: int = int16("0+")
            old_style_offsets: list[int] = array("int64", "0")
            timestamp: int = int64("1+", -1)
            offset: int = int64("1+", -1)
            leader_epoch: int = int32("4+", -1)

        name: str = string("0+")
        partitions: list[Partition] = array(Partition, "0+")

    throttle_time_ms: int = int32("2+", ignorable=True)
    topics: list[Topic] = array(Topic, "0+")


class ListOffsetsRequest(Request[ListOffsetsResponse], api_key=2, versions="0-11", flexible="6+"):
    """A request for offsets by time: -1 the latest, -2 the earliest, -3 that of the newest timestamp (since version 7)."""

    class Topic(Struct):
        class Partition(Struct):
            partition_index: int = int32("0+")
            current_leader_epoch: int = int32("4+", -1, ignorable=True)
            timestamp: int = int64("0+")
            max_num_offsets: int = int32("0", 1)

        name: str = string("0+")
        partitions: list[Partition] = array(Partition, "0+")

    replica_id: int = int32("0+")
    isolation_level: int = int8("2+")
    topics: list[Topic] = array(Topic, "0+")
    timeout_ms: int = int32("10+", ignorable=True)
