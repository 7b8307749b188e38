"""Creation, growth and deletion of topics, and deletion of their records."""

from __future__ import annotations

from uuid import UUID

from pykafka.protocol.fields import array, boolean, int8, int16, int32, int64, string, uuid
from pykafka.protocol.schema import Request, Response, Struct


class CreateTopicsResponse(Response, api_key=19, versions="0-7", flexible="5+", early="3+"):
    """The topics that were created, and their settings."""

    class Topic(Struct):
        class Config(Struct):
            name: str = string("5+")
            value: str | None = string("5+", nullable="5+")
            read_only: bool = boolean("5+")
            config_source: int = int8("5+", -1, ignorable=True)
            is_sensitive: bool = boolean("5+")

        name: str = string("0+")
        topic_id: UUID = uuid("7+", ignorable=True)
        error_code: int = int16("0+")
        error_message: str | None = string("1+", nullable="0+", ignorable=True)
        topic_config_error_code: int = int16("5+", ignorable=True, tag=0)
        num_partitions: int = int32("5+", -1, ignorable=True)
        replication_factor: int = int16("5+", -1, ignorable=True)
        configs: list[Config] | None = array(Config, "5+", nullable="5+", ignorable=True)

    throttle_time_ms: int = int32("2+", ignorable=True)
    topics: list[Topic] = array(Topic, "0+")


class CreateTopicsRequest(Request[CreateTopicsResponse], api_key=19, versions="0-7", flexible="5+"):
    """A request that creates topics. From version 4 on, -1 asks for the brokers' defaults (KIP-464)."""

    class Topic(Struct):
        class Assignment(Struct):
            """The brokers with the replicas of one partition."""

            partition_index: int = int32("0+")
            broker_ids: list[int] = array("int32", "0+")

        class Config(Struct):
            name: str = string("0+")
            value: str | None = string("0+", nullable="0+")

        name: str = string("0+")
        num_partitions: int = int32("0+")
        replication_factor: int = int16("0+")
        assignments: list[Assignment] = array(Assignment, "0+")
        configs: list[Config] = array(Config, "0+")

    topics: list[Topic] = array(Topic, "0+")
    timeout_ms: int = int32("0+", 60000)
    validate_only: bool = boolean("1+")


class DeleteTopicsResponse(Response, api_key=20, versions="0-6", flexible="4+", early="2+"):
    """The topics that were deleted."""

    class Topic(Struct):
        name: str | None = string("0+", nullable="6+")
        topic_id: UUID = uuid("6+", ignorable=True)
        error_code: int = int16("0+")
        error_message: str | None = string("5+", None, nullable="5+", ignorable=True)

    throttle_time_ms: int = int32("1+", ignorable=True)
    responses: list[Topic] = array(Topic, "0+")


class DeleteTopicsRequest(Request[DeleteTopicsResponse], api_key=20, versions="0-6", flexible="4+"):
    """A request that deletes topics; by id from version 6 on."""

    class Topic(Struct):
        name: str | None = string("6+", None, nullable="6+")
        topic_id: UUID = uuid("6+")

    topics: list[Topic] = array(Topic, "6+")
    topic_names: list[str] = array("string", "0-5", ignorable=True)
    timeout_ms: int = int32("0+")


class CreatePartitionsResponse(Response, api_key=37, versions="0-3", flexible="2+", early="1+"):
    """The topics that got their partitions."""

    class Topic(Struct):
        name: str = string("0+")
        error_code: int = int16("0+")
        error_message: str | None = string("0+", None, nullable="0+")

    throttle_time_ms: int = int32("0+")
    results: list[Topic] = array(Topic, "0+")


class CreatePartitionsRequest(Request[CreatePartitionsResponse], api_key=37, versions="0-3", flexible="2+"):
    """A request that gives topics more partitions (KIP-195)."""

    class Topic(Struct):
        class Assignment(Struct):
            """The brokers with the replicas of one new partition."""

            broker_ids: list[int] = array("int32", "0+")

        name: str = string("0+")
        count: int = int32("0+")
        assignments: list[Assignment] | None = array(Assignment, "0+", nullable="0+")

    topics: list[Topic] = array(Topic, "0+")
    timeout_ms: int = int32("0+")
    validate_only: bool = boolean("0+")


class DeleteRecordsResponse(Response, api_key=21, versions="0-2", flexible="2+", early="1+"):
    """The new start of each log."""

    class Topic(Struct):
        class Partition(Struct):
            partition_index: int = int32("0+")
            low_watermark: int = int64("0+")
            error_code: int = int16("0+")

        name: str = string("0+")
        partitions: list[Partition] = array(Partition, "0+")

    throttle_time_ms: int = int32("0+")
    topics: list[Topic] = array(Topic, "0+")


class DeleteRecordsRequest(Request[DeleteRecordsResponse], api_key=21, versions="0-2", flexible="2+"):
    """A request that deletes the records before an offset; -1 deletes all (KIP-107)."""

    class Topic(Struct):
        class Partition(Struct):
            partition_index: int = int32("0+")
            offset: int = int64("0+")

        name: str = string("0+")
        partitions: list[Partition] = array(Partition, "0+")

    topics: list[Topic] = array(Topic, "0+")
    timeout_ms: int = int32("0+")
