"""Reading records."""

from __future__ import annotations

from typing import Any, ClassVar
from uuid import UUID

from pykafka.protocol.fields import array, int8, int16, int32, int64, nested, records, string, uuid
from pykafka.protocol.schema import Request, Response, Struct

INT32_MAX = 2**31 - 1
INT64_MAX = 2**63 - 1


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
