"""Transactions and their producers, as administrators see them (KIP-664)."""

from __future__ import annotations

from pykafka.protocol.fields import array, boolean, int8, int16, int32, int64, string
from pykafka.protocol.schema import Request, Response, Struct


class DescribeProducersResponse(Response, api_key=61, versions="0", flexible="0+"):
    """The active producers of partitions."""

    class Topic(Struct):
        class Partition(Struct):
            class ActiveProducer(Struct):
                producer_id: int = int64("0+")
                producer_epoch: int = int32("0+")
                last_sequence: int = int32("0+", -1)
                last_timestamp: int = int64("0+", -1)
                coordinator_epoch: int = int32("0+")
                current_txn_start_offset: int = int64("0+", -1)

            partition_index: int = int32("0+")
            error_code: int = int16("0+")
            error_message: str | None = string("0+", None, nullable="0+")
            active_producers: list[ActiveProducer] = array(ActiveProducer, "0+")

        name: str = string("0+")
        partitions: list[Partition] = array(Partition, "0+")

    throttle_time_ms: int = int32("0+")
    topics: list[Topic] = array(Topic, "0+")


class DescribeProducersRequest(Request[DescribeProducersResponse], api_key=61, versions="0", flexible="0+"):
    """A request for the active producers of partitions, to their leaders."""

    class Topic(Struct):
        name: str = string("0+")
        partition_indexes: list[int] = array("int32", "0+")

    topics: list[Topic] = array(Topic, "0+")


class DescribeTransactionsResponse(Response, api_key=65, versions="0", flexible="0+"):
    """The states of transactions."""

    class TransactionState(Struct):
        class Topic(Struct):
            topic: str = string("0+")
            partitions: list[int] = array("int32", "0+")

        error_code: int = int16("0+")
        transactional_id: str = string("0+")
        transaction_state: str = string("0+")
        transaction_timeout_ms: int = int32("0+")
        transaction_start_time_ms: int = int64("0+")
        producer_id: int = int64("0+")
        producer_epoch: int = int16("0+")
        topics: list[Topic] = array(Topic, "0+")

    throttle_time_ms: int = int32("0+")
    transaction_states: list[TransactionState] = array(TransactionState, "0+")


class DescribeTransactionsRequest(Request[DescribeTransactionsResponse], api_key=65, versions="0", flexible="0+"):
    """A request for the states of transactions, to their coordinator."""

    transactional_ids: list[str] = array("string", "0+")


class ListTransactionsResponse(Response, api_key=66, versions="0-2", flexible="0+"):
    """The transactions that a broker coordinates."""

    class TransactionState(Struct):
        transactional_id: str = string("0+")
        producer_id: int = int64("0+")
        transaction_state: str = string("0+")

    throttle_time_ms: int = int32("0+")
    error_code: int = int16("0+")
    unknown_state_filters: list[str] = array("string", "0+")
    transaction_states: list[TransactionState] = array(TransactionState, "0+")


class ListTransactionsRequest(Request[ListTransactionsResponse], api_key=66, versions="0-2", flexible="0+"):
    """A request for the transactions that a broker coordinates; by duration from version 1 on, by pattern from 2 on."""

    state_filters: list[str] = array("string", "0+")
    producer_id_filters: list[int] = array("int64", "0+")
    duration_filter: int = int64("1+", -1)
    transactional_id_pattern: str | None = string("2+", None, nullable="2+")


class WriteTxnMarkersResponse(Response, api_key=27, versions="0-2", flexible="1+"):
    """The outcome for each partition."""

    class Marker(Struct):
        """The end of one producer's transactions."""

        class Topic(Struct):
            class Partition(Struct):
                partition_index: int = int32("0+")
                error_code: int = int16("0+")

            name: str = string("0+")
            partitions: list[Partition] = array(Partition, "0+")

        producer_id: int = int64("0+")
        topics: list[Topic] = array(Topic, "0+")

    markers: list[Marker] = array(Marker, "0+")


class WriteTxnMarkersRequest(Request[WriteTxnMarkersResponse], api_key=27, versions="0-2", flexible="1+"):
    """A request that ends transactions in partitions, to their leaders."""

    class Marker(Struct):
        """The end of one producer's transactions."""

        class Topic(Struct):
            name: str = string("0+")
            partition_indexes: list[int] = array("int32", "0+")

        producer_id: int = int64("0+")
        producer_epoch: int = int16("0+")
        transaction_result: bool = boolean("0+")
        topics: list[Topic] = array(Topic, "0+")
        coordinator_epoch: int = int32("0+")
        transaction_version: int = int8("2+", ignorable=True)

    markers: list[Marker] = array(Marker, "0+")
