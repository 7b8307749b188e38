"""Writing records."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from pykafka.protocol.fields import array, int16, int32, int64, nested, records, string, uuid
from pykafka.protocol.schema import Request, Response, Struct


class ProduceResponse(Response, api_key=0, versions="0-13", flexible="9+", early="6+"):
    """The offsets of the written records, or errors. Version 10 names the new leader (KIP-951)."""

    class Topic(Struct):
        class Partition(Struct):
            class RecordError(Struct):
                """A record that made the broker refuse its batch (KIP-467)."""

                batch_index: int = int32("8+")
                batch_index_error_message: str | None = string("8+", None, nullable="8+")

            class Leader(Struct):
                """A partition's leader and its epoch."""

                leader_id: int = int32("10+", -1)
                leader_epoch: int = int32("10+", -1)

            index: int = int32("0+")
            error_code: int = int16("0+")
            base_offset: int = int64("0+")
            log_append_time_ms: int = int64("2+", -1, ignorable=True)
            log_start_offset: int = int64("5+", -1, ignorable=True)
            record_errors: list[RecordError] = array(RecordError, "8+", ignorable=True)
            error_message: str | None = string("8+", None, nullable="8+", ignorable=True)
            current_leader: Leader = nested(Leader, "10+", tag=0)

        name: str = string("0-12", ignorable=True)
        topic_id: UUID = uuid("13+", ignorable=True)
        partition_responses: list[Partition] = array(Partition, "0+")

    class Node(Struct):
        node_id: int = int32("10+")
        host: str = string("10+")
        port: int = int32("10+")
        rack: str | None = string("10+", None, nullable="10+")

    responses: list[Topic] = array(Topic, "0+")
    throttle_time_ms: int = int32("1+", ignorable=True)
    node_endpoints: list[Node] = array(Node, "10+", tag=0)


class ProduceRequest(Request[ProduceResponse], api_key=0, versions="0-13", flexible="9+"):
    """A request that writes records: message sets in versions 0 to 2, batches from 3 on; zstd from 7, topic ids from 13 on."""

    class Topic(Struct):
        class Partition(Struct):
            index: int = int32("0+")
            records: Any = records("0+", nullable="0+")

        name: str = string("0-12", ignorable=True)
        topic_id: UUID = uuid("13+", ignorable=True)
        partition_data: list[Partition] = array(Partition, "0+")

    transactional_id: str | None = string("3+", None, nullable="3+")
    acks: int = int16("0+")
    timeout_ms: int = int32("0+")
    topic_data: list[Topic] = array(Topic, "0+")
