"""The ends of leader epochs in a partition's log."""

from __future__ import annotations

from pykafka.protocol.fields import array, int16, int32, int64, string
from pykafka.protocol.schema import Request, Response, Struct


class OffsetForLeaderEpochResponse(Response, api_key=23, versions="0-4", flexible="4+"):
    """The end of each epoch, or of the last one before it; -1 where the broker knows neither."""

    class Topic(Struct):
        class Partition(Struct):
            error_code: int = int16("0+")
            partition: int = int32("0+")
            leader_epoch: int = int32("1+", -1, ignorable=True)
            end_offset: int = int64("0+", -1)

        topic: str = string("0+")
        partitions: list[Partition] = array(Partition, "0+")

    throttle_time_ms: int = int32("2+", ignorable=True)
    topics: list[Topic] = array(Topic, "0+")


class OffsetForLeaderEpochRequest(Request[OffsetForLeaderEpochResponse], api_key=23, versions="0-4", flexible="4+"):
    """A request for the ends of leader epochs (KIP-320); before version 3 brokers allow it to each other only (ACLs)."""

    class Topic(Struct):
        class Partition(Struct):
            partition: int = int32("0+")
            current_leader_epoch: int = int32("2+", -1, ignorable=True)
            leader_epoch: int = int32("0+")

        topic: str = string("0+")
        partitions: list[Partition] = array(Partition, "0+")

    replica_id: int = int32("3+", -2, ignorable=True)
    topics: list[Topic] = array(Topic, "0+")
