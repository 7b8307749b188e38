"""Reading records."""

from __future__ import annotations

import struct
from functools import lru_cache
from typing import Any, ClassVar, Self
from uuid import UUID

from pykafka.protocol.fields import array, int8, int16, int32, int64, nested, records, string, uuid
from pykafka.protocol.schema import Request, Response, Struct

INT32_MAX = 2**31 - 1
INT64_MAX = 2**63 - 1

#: The first version that names topics by id.
IDS_FROM = 13
# A response about one partition up to its records: correlation id, tags; throttle time, error, session, topics; id of the
# topic, partitions; index, error, high watermark, last stable offset, start of the log, aborted transactions, replica.
_READ = struct.Struct(">IBihiB16sBihqqqBi")
# The place of the number of topics in it.
_TOPICS_AT = 15
# The compact lengths of an array of one element, of an empty array, and of null.
_ONE, _EMPTY, _NULL = 2, 1, 0
# The tags behind the records: of the partition, of the topic and of the response.
_NO_TAGS = b"\0\0\0"


@lru_cache(maxsize=256)
def _topic_id(raw: bytes) -> UUID:
    return UUID(bytes=raw)


class FetchResponse(Response, api_key=1, versions="0-18", flexible="12+", early="8+"):
    """Records: message sets in versions 0 to 3, batches from 4 on. Sessions come with 7 (KIP-227)."""

    class Topic(Struct):
        class Partition(Struct):
            class EpochEndOffset(Struct):
                """The offset where a follower's log diverges from the leader's."""

                epoch: int = int32("12+", -1)
                end_offset: int = int64("12+", -1)

            class Leader(Struct):
                """A partition's leader and its epoch."""

                leader_id: int = int32("12+", -1)
                leader_epoch: int = int32("12+", -1)

            class SnapshotId(Struct):
                """A snapshot of the metadata log."""

                end_offset: int = int64("0+", -1)
                epoch: int = int32("0+", -1)

            class AbortedTransaction(Struct):
                """A transaction to skip, from its first offset."""

                producer_id: int = int64("4+")
                first_offset: int = int64("4+")

            partition_index: int = int32("0+")
            error_code: int = int16("0+")
            high_watermark: int = int64("0+")
            last_stable_offset: int = int64("4+", -1, ignorable=True)
            log_start_offset: int = int64("5+", -1, ignorable=True)
            diverging_epoch: EpochEndOffset = nested(EpochEndOffset, "12+", tag=0)
            current_leader: Leader = nested(Leader, "12+", tag=1)
            snapshot_id: SnapshotId = nested(SnapshotId, "12+", tag=2)
            aborted_transactions: list[AbortedTransaction] | None = array(
                AbortedTransaction, "4+", nullable="4+", ignorable=True
            )
            preferred_read_replica: int = int32("11+", -1)
            records: Any = records("0+", nullable="0+")

        topic: str = string("0-12", ignorable=True)
        topic_id: UUID = uuid("13+", ignorable=True)
        partitions: list[Partition] = array(Partition, "0+")

    class Node(Struct):
        node_id: int = int32("16+")
        host: str = string("16+")
        port: int = int32("16+")
        rack: str | None = string("16+", None, nullable="16+")

    throttle_time_ms: int = int32("1+", ignorable=True)
    error_code: int = int16("7+", ignorable=True)
    session_id: int = int32("7+")
    responses: list[Topic] = array(Topic, "0+")
    node_endpoints: list[Node] = array(Node, "16+", tag=0)

    @classmethod
    def read_one(cls, version: int, frame: memoryview) -> Self | None:
        """Read the frame of a response about one partition, without an error or a tag; None: decode it.

        :param frame: from the correlation id on
        """
        if version < IDS_FROM or len(frame) < _READ.size or frame[_TOPICS_AT] != _ONE:
            return None
        _, tags, throttle_ms, error, session_id, _, topic_id, count, *numbers = _READ.unpack_from(frame)
        index, failed, high, stable, start, aborted, replica = numbers
        if tags or error or count != _ONE or failed or aborted not in (_NULL, _EMPTY):
            return None
        size = _records_size(frame)
        if size is None:
            return None
        part = cls.Topic.Partition.__new__(cls.Topic.Partition)
        part.__dict__ = {
            "partition_index": index,
            "error_code": 0,
            "high_watermark": high,
            "last_stable_offset": stable,
            "log_start_offset": start,
            "aborted_transactions": None if aborted == _NULL else [],
            "preferred_read_replica": replica,
            "records": frame[len(frame) - len(_NO_TAGS) - size : len(frame) - len(_NO_TAGS)],
        }
        topic = cls.Topic.__new__(cls.Topic)
        topic.__dict__ = {"topic_id": _topic_id(topic_id), "partitions": [part]}
        response = cls.__new__(cls)
        response.__dict__ = {
            "throttle_time_ms": throttle_ms,
            "error_code": 0,
            "session_id": session_id,
            "responses": [topic],
        }
        return response


def _records_size(frame: memoryview) -> int | None:
    """Return the size of the records in a response about one partition (bytes); None if they are null, or tags follow."""
    at, shift, length = _READ.size, 0, 0
    end = len(frame) - len(_NO_TAGS)
    while at < end and shift < 35:
        byte = frame[at]
        length |= (byte & 0x7F) << shift
        at += 1
        shift += 7
        if byte < 0x80:
            return length - 1 if at + length - 1 == end and length and frame[end:] == _NO_TAGS else None
    return None


class FetchRequest(Request[FetchResponse], api_key=1, versions="0-18", flexible="12+"):
    """A request for records. Transactions come with version 4, sessions with 7, zstd with 10, topic ids with 13."""

    class ReplicaState(Struct):
        """The follower that fetches, if one does."""

        replica_id: int = int32("15+", -1)
        replica_epoch: int = int64("15+", -1)

    class Topic(Struct):
        class Partition(Struct):
            partition: int = int32("0+")
            current_leader_epoch: int = int32("9+", -1, ignorable=True)
            fetch_offset: int = int64("0+")
            last_fetched_epoch: int = int32("12+", -1)
            log_start_offset: int = int64("5+", -1, ignorable=True)
            partition_max_bytes: int = int32("0+")
            replica_directory_id: UUID = uuid("17+", ignorable=True, tag=0)
            high_watermark: int = int64("18+", INT64_MAX, ignorable=True, tag=1)

        topic: str = string("0-12", ignorable=True)
        topic_id: UUID = uuid("13+", ignorable=True)
        partitions: list[Partition] = array(Partition, "0+")

    class ForgottenTopic(Struct):
        """Partitions to remove from the session."""

        topic: str = string("7-12", ignorable=True)
        topic_id: UUID = uuid("13+", ignorable=True)
        partitions: list[int] = array("int32", "7+")

    cluster_id: str | None = string("12+", None, nullable="12+", ignorable=True, tag=0)
    replica_id: int = int32("0-14", -1)
    replica_state: ReplicaState = nested(ReplicaState, "15+", tag=1)
    max_wait_ms: int = int32("0+")
    min_bytes: int = int32("0+")
    max_bytes: int = int32("3+", INT32_MAX, ignorable=True)
    isolation_level: int = int8("4+", ignorable=True)
    session_id: int = int32("7+", ignorable=True)
    session_epoch: int = int32("7+", -1, ignorable=True)
    topics: list[Topic] = array(Topic, "0+")
    forgotten_topics_data: list[ForgottenTopic] = array(ForgottenTopic, "7+")
    rack_id: str = string("11+", ignorable=True)

    quick_response = FetchResponse.read_one
    # A version, and its body before and behind `session_epoch`; see `keep_body`.
    _kept: ClassVar[tuple[int, bytes, bytes] | None] = None

    def keep_body(self, version: int) -> None:
        """Encode the request for a version from 7 on: from now on only `session_epoch` may change."""
        body = b"".join(super().chunks(version))
        # Behind `replica_id`, up to 14, then four numbers, a byte and the session's id.
        start = 17 if version >= 15 else 21
        self.__dict__["_kept"] = version, body[:start], body[start + 4 :]

    def chunks(self, version: int) -> list[bytes | memoryview]:
        """Return the body in pieces, as `Message.chunks`."""
        kept = self._kept
        if kept is None or kept[0] != version:
            return super().chunks(version)
        return [kept[1] + self.session_epoch.to_bytes(4, "big", signed=True) + kept[2]]
