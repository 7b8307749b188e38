"""Transactions as their producers make them (KIP-98, KIP-447, KIP-890)."""

from __future__ import annotations

from uuid import UUID

from pykafka.protocol.fields import array, boolean, int16, int32, int64, string, uuid
from pykafka.protocol.schema import Request, Response, Struct


class _PartitionResult(Struct):
    """The result for one partition."""

    partition_index: int = int32("0+")
    partition_error_code: int = int16("0+")


class _TopicResult(Struct):
    """The results for one topic."""

    name: str = string("0+")
    results_by_partition: list[_PartitionResult] = array(_PartitionResult, "0+")


class _TransactionTopic(Struct):
    """The partitions of one topic."""

    name: str = string("0+")
    partitions: list[int] = array("int32", "0+")


class AddPartitionsToTxnResponse(Response, api_key=24, versions="0-5", flexible="3+", early="1+"):
    """The result for each partition; of several transactions from version 4 on, which only brokers ask for."""

    PartitionResult = _PartitionResult
    TopicResult = _TopicResult

    class Result(Struct):
        """The results for one transaction."""

        transactional_id: str = string("4+")
        topic_results: list[_TopicResult] = array(_TopicResult, "4+")

    throttle_time_ms: int = int32("0+")
    error_code: int = int16("4+", ignorable=True)
    results_by_transaction: list[Result] = array(Result, "4+")
    results_by_topic_v3_and_below: list[_TopicResult] = array(_TopicResult, "0-3")


class AddPartitionsToTxnRequest(Request[AddPartitionsToTxnResponse], api_key=24, versions="0-5", flexible="3+"):
    """A request that adds partitions to a transaction, before its first batch goes there; producers stop at version 3."""

    Topic = _TransactionTopic

    class Transaction(Struct):
        transactional_id: str = string("4+")
        producer_id: int = int64("4+")
        producer_epoch: int = int16("4+")
        verify_only: bool = boolean("4+")
        topics: list[_TransactionTopic] = array(_TransactionTopic, "4+")

    transactions: list[Transaction] = array(Transaction, "4+")
    v3_and_below_transactional_id: str = string("0-3")
    v3_and_below_producer_id: int = int64("0-3")
    v3_and_below_producer_epoch: int = int16("0-3")
    v3_and_below_topics: list[_TransactionTopic] = array(_TransactionTopic, "0-3")


class AddOffsetsToTxnResponse(Response, api_key=25, versions="0-4", flexible="3+", early="1+"):
    """Whether the group's offsets are in the transaction."""

    throttle_time_ms: int = int32("0+")
    error_code: int = int16("0+")


class AddOffsetsToTxnRequest(Request[AddOffsetsToTxnResponse], api_key=25, versions="0-4", flexible="3+"):
    """A request that adds the offsets of a group to a transaction, before they are committed in it."""

    transactional_id: str = string("0+")
    producer_id: int = int64("0+")
    producer_epoch: int = int16("0+")
    group_id: str = string("0+")


class EndTxnResponse(Response, api_key=26, versions="0-5", flexible="3+", early="1+"):
    """Whether the transaction has ended; from version 5 on with the id and epoch of the next one (KIP-890)."""

    throttle_time_ms: int = int32("0+")
    error_code: int = int16("0+")
    producer_id: int = int64("5+", -1, ignorable=True)
    producer_epoch: int = int16("5+", -1, ignorable=True)


class EndTxnRequest(Request[EndTxnResponse], api_key=26, versions="0-5", flexible="3+"):
    """A request that commits or aborts a transaction."""

    transactional_id: str = string("0+")
    producer_id: int = int64("0+")
    producer_epoch: int = int16("0+")
    committed: bool = boolean("0+")


class TxnOffsetCommitResponse(Response, api_key=28, versions="0-6", flexible="3+", early="1+"):
    """The result for each partition."""

    class Topic(Struct):
        class Partition(Struct):
            partition_index: int = int32("0+")
            error_code: int = int16("0+")

        name: str = string("0-5", ignorable=True)
        topic_id: UUID = uuid("6+", ignorable=True)
        partitions: list[Partition] = array(Partition, "0+")

    throttle_time_ms: int = int32("0+")
    topics: list[Topic] = array(Topic, "0+")


class TxnOffsetCommitRequest(Request[TxnOffsetCommitResponse], api_key=28, versions="0-6", flexible="3+"):
    """A request that commits a group's offsets when the transaction does.

    Generation and member come with version 3 (KIP-447), topic ids instead of names with version 6 (KIP-1319).
    """

    class Topic(Struct):
        class Partition(Struct):
            partition_index: int = int32("0+")
            committed_offset: int = int64("0+")
            committed_leader_epoch: int = int32("2+", -1, ignorable=True)
            committed_metadata: str | None = string("0+", nullable="0+")

        name: str = string("0-5", ignorable=True)
        topic_id: UUID = uuid("6+", ignorable=True)
        partitions: list[Partition] = array(Partition, "0+")

    transactional_id: str = string("0+")
    group_id: str = string("0+")
    producer_id: int = int64("0+")
    producer_epoch: int = int16("0+")
    generation_id_or_member_epoch: int = int32("3+", -1)
    member_id: str = string("3+")
    group_instance_id: str | None = string("3+", None, nullable="3+")
    topics: list[Topic] = array(Topic, "0+")
