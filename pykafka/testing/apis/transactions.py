"""Transactions as producers make them, and as administrators see them."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from pykafka.admin.acls import ResourceType
from pykafka.admin.results import AclOperation as Operation
from pykafka.admin.transactions import TransactionState
from pykafka.exceptions import (
    InvalidProducerEpoch,
    InvalidRequest,
    NotLeaderForPartition,
    OperationNotAttempted,
    ProducerFenced,
    ProtocolClientError,
    TopicAuthorizationFailed,
    TransactionAbortable,
    TransactionalIdAuthorizationFailed,
    TransactionalIdNotFound,
    UnknownTopicOrPartition,
)
from pykafka.protocol import wire
from pykafka.testing.apis.coordinators import check_coordinator
from pykafka.testing.authorization import may, may_any, require
from pykafka.testing.call import Call, api, refusing
from pykafka.testing.patterns import Pattern
from pykafka.testing.transactions import Identity, Transaction

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from pykafka.testing.log import PartitionLog

#: The version of Produce, AddPartitionsToTxn and so on from which the producer is told that it is fenced.
_FENCED_SINCE = {
    wire.InitProducerIdRequest.api_key: 4,
    wire.AddPartitionsToTxnRequest.api_key: 2,
    wire.AddOffsetsToTxnRequest.api_key: 2,
    wire.EndTxnRequest.api_key: 2,
}
#: The first version of AddPartitionsToTxn that brokers alone send.
_BATCHED = 4
#: The first version of EndTxn that raises the epoch (KIP-890).
_RAISES_EPOCH = 5
_NOT_THIS_ID = TransactionalIdAuthorizationFailed.ERROR_CODE

#: Topics, each with its partitions and their codes.
_Topics = list[tuple[str, list[tuple[int, int]]]]


def _check_coordinator(call: Call, transactional_id: str) -> None:
    if not transactional_id:
        raise InvalidRequest
    check_coordinator(call, "transaction", transactional_id)


@contextmanager
def _fencing(call: Call) -> Iterator[None]:
    """Report a fenced producer by the error that clients of the version know."""
    try:
        yield
    except ProducerFenced as error:
        if call.version < _FENCED_SINCE[call.request.api_key]:
            raise InvalidProducerEpoch from error
        raise


@api(wire.InitProducerIdRequest, highest=5)
def init_producer_id(call: Call, request: wire.InitProducerIdRequest) -> wire.InitProducerIdResponse:
    """Give a producer its id and epoch. Version 6 is for two-phase commit (KIP-939), which brokers do not offer yet."""
    name, response = request.transactional_id, wire.InitProducerIdResponse(producer_epoch=-1)
    with refusing(response), _fencing(call):
        if name:
            require(call, Operation.WRITE, ResourceType.TRANSACTIONAL_ID, name)
            _check_coordinator(call, name)
        elif not may_any(call, Operation.WRITE, ResourceType.TOPIC):
            require(call, Operation.IDEMPOTENT_WRITE, ResourceType.CLUSTER)
        producer = Identity(request.producer_id, request.producer_epoch)
        made = call.state.transactions.init(name, request.transaction_timeout_ms, producer)
        response.producer_id, response.producer_epoch = made
    return response


@api(wire.AddPartitionsToTxnRequest)
def add_partitions_to_txn(call: Call, request: wire.AddPartitionsToTxnRequest) -> wire.AddPartitionsToTxnResponse:
    """Add partitions to a transaction; from version 4 on, of several transactions, or only look."""
    if call.version >= _BATCHED:
        require(call, Operation.CLUSTER_ACTION, ResourceType.CLUSTER)
    if call.version < _BATCHED:
        producer = Identity(request.v3_and_below_producer_id, request.v3_and_below_producer_epoch)
        wanted = [(topic.name, topic.partitions) for topic in request.v3_and_below_topics]
        added = _add(call, request.v3_and_below_transactional_id, producer, wanted, False)
        return wire.AddPartitionsToTxnResponse(results_by_topic_v3_and_below=_topic_results(added))
    results = []
    for transaction in request.transactions:
        producer = Identity(transaction.producer_id, transaction.producer_epoch)
        wanted = [(topic.name, topic.partitions) for topic in transaction.topics]
        added = _add(call, transaction.transactional_id, producer, wanted, transaction.verify_only)
        result = wire.AddPartitionsToTxnResponse.Result(
            transactional_id=transaction.transactional_id, topic_results=_topic_results(added)
        )
        results.append(result)
    return wire.AddPartitionsToTxnResponse(results_by_transaction=results)


def _topic_results(topics: _Topics) -> list[Any]:
    answer = wire.AddPartitionsToTxnResponse
    return [
        answer.TopicResult(
            name=name,
            results_by_partition=[
                answer.PartitionResult(partition_index=index, partition_error_code=code) for index, code in partitions
            ],
        )
        for name, partitions in topics
    ]


def _add(
    call: Call, transactional_id: str, producer: Identity, wanted: Sequence[tuple[str, Sequence[int]]], verifies: bool
) -> _Topics:
    state = call.state
    keys = [(name, index) for name, indexes in wanted for index in indexes]
    codes = {key: UnknownTopicOrPartition.ERROR_CODE for key in keys if state.partition(*key) is None}
    if call.version < _BATCHED:
        if not may(call, Operation.WRITE, ResourceType.TRANSACTIONAL_ID, transactional_id):
            return [(name, [(index, _NOT_THIS_ID) for index in indexes]) for name, indexes in wanted]
        may_write = {name: may(call, Operation.WRITE, ResourceType.TOPIC, name) for name, _ in wanted}
        codes |= {key: TopicAuthorizationFailed.ERROR_CODE for key in keys if not may_write[key[0]]}
    others = 0
    try:
        with _fencing(call):
            if codes:
                raise OperationNotAttempted
            _check_coordinator(call, transactional_id)
            if verifies:
                codes |= _verified(call, transactional_id, producer, keys)
            else:
                state.transactions.add_partitions(transactional_id, producer, keys)
    except ProtocolClientError as refused:
        others = refused.ERROR_CODE
    return [(name, [(index, codes.get((name, index), others)) for index in indexes]) for name, indexes in wanted]


def _verified(
    call: Call, transactional_id: str, producer: Identity, keys: Iterable[tuple[str, int]]
) -> dict[tuple[str, int], int]:
    transactions = call.state.transactions
    return {
        key: TransactionAbortable.ERROR_CODE for key in keys if not transactions.is_in(transactional_id, producer, key)
    }


@api(wire.AddOffsetsToTxnRequest)
def add_offsets_to_txn(call: Call, request: wire.AddOffsetsToTxnRequest) -> wire.AddOffsetsToTxnResponse:
    """Add the offsets of a group to a transaction."""
    _check_coordinator(call, request.transactional_id)
    producer = Identity(request.producer_id, request.producer_epoch)
    with _fencing(call):
        call.state.transactions.add_group(request.transactional_id, producer, request.group_id)
    return wire.AddOffsetsToTxnResponse()


@api(wire.EndTxnRequest)
def end_txn(call: Call, request: wire.EndTxnRequest) -> wire.EndTxnResponse:
    """Commit or abort; the answer does not wait for the markers."""
    _check_coordinator(call, request.transactional_id)
    producer = Identity(request.producer_id, request.producer_epoch)
    raises_epoch = call.version >= _RAISES_EPOCH
    with _fencing(call):
        following = call.state.transactions.end(request.transactional_id, producer, request.committed, raises_epoch)
    if not raises_epoch:
        return wire.EndTxnResponse()
    return wire.EndTxnResponse(producer_id=following.producer_id, producer_epoch=following.epoch)


@api(wire.DescribeTransactionsRequest)
def describe_transactions(call: Call, request: wire.DescribeTransactionsRequest) -> wire.DescribeTransactionsResponse:
    """Describe transactions that this broker coordinates."""
    return wire.DescribeTransactionsResponse(
        transaction_states=[_described(call, name) for name in request.transactional_ids]
    )


def _described(call: Call, name: str) -> wire.DescribeTransactionsResponse.TransactionState:
    answer = wire.DescribeTransactionsResponse.TransactionState(transactional_id=name)
    with refusing(answer):
        _check_coordinator(call, name)
        transaction = call.state.transactions.find(name)
        if transaction is None:
            raise TransactionalIdNotFound
        answer.transaction_state = transaction.state.value
        answer.transaction_timeout_ms, answer.transaction_start_time_ms = transaction.timeout_ms, transaction.start_ms
        answer.producer_id, answer.producer_epoch = transaction.identity
        answer.topics = [answer.Topic(topic=topic, partitions=ids) for topic, ids in transaction.topics().items()]
    return answer


@api(wire.ListTransactionsRequest)
def list_transactions(call: Call, request: wire.ListTransactionsRequest) -> wire.ListTransactionsResponse:
    """List the transactions that this broker coordinates, and that all filters take."""
    unknown = [name for name in request.state_filters if TransactionState.of(name) is TransactionState.UNKNOWN]
    transactions, text = call.state.transactions, request.transactional_id_pattern
    names: Iterable[str] = list(transactions.by_id)
    if text:
        matched = Pattern(text, max(map(len, names), default=0), "TransactionalIdPattern").matches(names)
        names = [name for name in names if name in matched]
    here = (name for name in names if call.state.coordinator("transaction", name) is call.node)
    listed = [
        wire.ListTransactionsResponse.TransactionState(
            transactional_id=transaction.transactional_id,
            producer_id=transaction.producer_id,
            transaction_state=transaction.state.value,
        )
        for transaction in map(transactions.find, here)
        if transaction is not None
        and may(call, Operation.DESCRIBE, ResourceType.TRANSACTIONAL_ID, transaction.transactional_id)
        and _takes(request, transaction, call.state.now_ms())
    ]
    return wire.ListTransactionsResponse(unknown_state_filters=unknown, transaction_states=listed)


def _takes(request: wire.ListTransactionsRequest, transaction: Transaction, now_ms: int) -> bool:
    if request.producer_id_filters and transaction.producer_id not in request.producer_id_filters:
        return False
    if request.state_filters and transaction.state.value not in request.state_filters:
        return False
    # As brokers do, this takes ids without a transaction for very old ones: they began at -1.
    return request.duration_filter < 0 or now_ms - transaction.start_ms > request.duration_filter


@api(wire.DescribeProducersRequest)
def describe_producers(call: Call, request: wire.DescribeProducersRequest) -> wire.DescribeProducersResponse:
    """Describe the producers that partitions led by this broker know."""
    response = wire.DescribeProducersResponse()
    for topic in request.topics:
        parts = [_producers(call, topic.name, index) for index in topic.partition_indexes]
        response.topics.append(response.Topic(name=topic.name, partitions=parts))
    return response


def _producers(call: Call, topic: str, index: int) -> wire.DescribeProducersResponse.Topic.Partition:
    answer = wire.DescribeProducersResponse.Topic.Partition(partition_index=index)
    with refusing(answer, None):
        partition = call.state.partition(topic, index)
        if partition is None:
            text = "" if topic in call.state.topics else "This server does not host this topic-partition."
            raise UnknownTopicOrPartition(text)
        partition = call.state.held_by(call.node.node_id, partition)
        if partition.leader != call.node.node_id:
            raise NotLeaderForPartition
        answer.active_producers = _active(partition.log)
    return answer


def _active(log: PartitionLog) -> list[wire.DescribeProducersResponse.Topic.Partition.ActiveProducer]:
    return [
        wire.DescribeProducersResponse.Topic.Partition.ActiveProducer(
            producer_id=producer_id,
            producer_epoch=state.epoch,
            last_sequence=state.last_sequence,
            last_timestamp=state.last_ms,
            coordinator_epoch=state.coordinator_epoch,
            current_txn_start_offset=log.open_transactions.get(producer_id, -1),
        )
        for producer_id, state in log.producers.by_id.items()
    ]
