"""Offsets by time."""

from __future__ import annotations

from pykafka.protocol.fields import array, int8, int16, int32, int64, string
from pykafka.protocol.schema import Request, Response, Struct


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
