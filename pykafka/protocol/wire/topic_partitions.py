"""Topics and their partitions, page by page (KIP-966)."""

from __future__ import annotations

from uuid import UUID

from pykafka.protocol.fields import array, boolean, int16, int32, nested, string, uuid
from pykafka.protocol.schema import Request, Response, Struct
from pykafka.protocol.wire.metadata import INT32_MIN


class _Cursor(Struct):
    """The partition that a page begins with."""

    topic_name: str = string("0+")
    partition_index: int = int32("0+")


class DescribeTopicPartitionsResponse(Response, api_key=75, versions="0", flexible="0+"):
    """A page of partitions, in the order of topics' names, and the cursor of the next page; None after the last one."""

    class Topic(Struct):
        class Partition(Struct):
            error_code: int = int16("0+")
            partition_index: int = int32("0+")
            leader_id: int = int32("0+")
            leader_epoch: int = int32("0+", -1, ignorable=True)
            replica_nodes: list[int] = array("int32", "0+")
            isr_nodes: list[int] = array("int32", "0+")
            eligible_leader_replicas: list[int] | None = array("int32", "0+", None, nullable="0+")
            last_known_elr: list[int] | None = array("int32", "0+", None, nullable="0+")
            offline_replicas: list[int] = array("int32", "0+", ignorable=True)

        error_code: int = int16("0+")
        name: str | None = string("0+", nullable="0+")
        topic_id: UUID = uuid("0+", ignorable=True)
        is_internal: bool = boolean("0+", ignorable=True)
        partitions: list[Partition] = array(Partition, "0+")
        topic_authorized_operations: int = int32("0+", INT32_MIN)

    throttle_time_ms: int = int32("0+", ignorable=True)
    topics: list[Topic] = array(Topic, "0+")
    next_cursor: _Cursor | None = nested(_Cursor, "0+", None, nullable="0+")


class DescribeTopicPartitionsRequest(Request[DescribeTopicPartitionsResponse], api_key=75, versions="0", flexible="0+"):
    """A request for a page of the partitions of topics; no topics asks for all of them. It creates none."""

    class Topic(Struct):
        name: str = string("0+")

    Cursor = _Cursor

    topics: list[Topic] = array(Topic, "0+")
    response_partition_limit: int = int32("0+", 2000)
    cursor: _Cursor | None = nested(_Cursor, "0+", None, nullable="0+")
