"""The directories in which brokers keep their logs (KIP-113)."""

from __future__ import annotations

from pykafka.protocol.fields import array, boolean, int16, int32, int64, string
from pykafka.protocol.schema import Request, Response, Struct


class AlterReplicaLogDirsResponse(Response, api_key=34, versions="0-2", flexible="2+", early="1+"):
    """The outcome for each replica."""

    class Result(Struct):
        class Partition(Struct):
            partition_index: int = int32("0+")
            error_code: int = int16("0+")

        topic_name: str = string("0+")
        partitions: list[Partition] = array(Partition, "0+")

    throttle_time_ms: int = int32("0+")
    results: list[Result] = array(Result, "0+")


class AlterReplicaLogDirsRequest(Request[AlterReplicaLogDirsResponse], api_key=34, versions="0-2", flexible="2+"):
    """A request that moves replicas of a broker to other directories."""

    class Dir(Struct):
        class Topic(Struct):
            name: str = string("0+")
            partitions: list[int] = array("int32", "0+")

        path: str = string("0+")
        topics: list[Topic] = array(Topic, "0+")

    dirs: list[Dir] = array(Dir, "0+")


class DescribeLogDirsResponse(Response, api_key=35, versions="0-5", flexible="2+", early="1+"):
    """The directories of a broker, and the replicas in each."""

    class Result(Struct):
        class Topic(Struct):
            class Partition(Struct):
                partition_index: int = int32("0+")
                partition_size: int = int64("0+")
                offset_lag: int = int64("0+")
                is_future_key: bool = boolean("0+")

            name: str = string("0+")
            partitions: list[Partition] = array(Partition, "0+")

        error_code: int = int16("0+")
        log_dir: str = string("0+")
        topics: list[Topic] = array(Topic, "0+")
        total_bytes: int = int64("4+", -1, ignorable=True)
        usable_bytes: int = int64("4+", -1, ignorable=True)
        is_cordoned: bool = boolean("5+", ignorable=True)

    throttle_time_ms: int = int32("0+")
    error_code: int = int16("3+", ignorable=True)
    results: list[Result] = array(Result, "0+")


class DescribeLogDirsRequest(Request[DescribeLogDirsResponse], api_key=35, versions="0-5", flexible="2+"):
    """A request for the directories of a broker; None asks for all replicas."""

    class Topic(Struct):
        topic: str = string("0+")
        partitions: list[int] = array("int32", "0+")

    topics: list[Topic] | None = array(Topic, "0+", nullable="0+")
