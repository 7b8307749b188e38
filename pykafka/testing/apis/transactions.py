"""Transactions as producers make them, and as administrators see them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pykafka.admin.acls import ResourceType
from pykafka.admin.results import AclOperation as Operation
from pykafka.admin.transactions import TransactionState
from pykafka.exceptions import (
    ClusterAuthorizationFailed,
    GroupCoordinatorNotAvailable,
    InvalidProducerEpoch,
    InvalidRegularExpression,
    InvalidRequest,
    NotCoordinatorForGroup,
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
from pykafka.testing.authorization import may, may_any
from pykafka.testing.call import Call, api
from pykafka.testing.patterns import Pattern
from pykafka.testing.transactions import Identity, Transaction

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

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


def _misplaced(call: Call, transactional_id: str) -> int:
    # The code for a broker that is not the coordinator of an id; 0 if it is.
    if not transactional_id:
        return InvalidRequest.ERROR_CODE
    node = call.state.coordinator("transaction", transactional_id)
    if node is None:
        return GroupCoordinatorNotAvailable.ERROR_CODE
    return 0 if node is call.node else NotCoordinatorForGroup.ERROR_CODE


def _may_use(call: Call, transactional_id: str) -> bool:
    return may(call, Operation.WRITE, ResourceType.TRANSACTIONAL_ID, transactional_id)


def _code(call: Call, refused: ProtocolClientError) -> int:
    if refused.ERROR_CODE == ProducerFenced.ERROR_CODE and call.version < _FENCED_SINCE[call.request.api_key]:
        return InvalidProducerEpoch.ERROR_CODE
    return refused.ERROR_CODE


@api(wire.InitProducerIdRequest, highest=5)
def init_producer_id(call: Call, request: wire.InitProducerIdRequest) -> wire.InitProducerIdResponse:
    """Give a producer its id and epoch. Version 6 is for two-phase commit (KIP-939), which brokers do not offer yet."""
    name = request.transactional_id
    code = 0 if not name else _NOT_THIS_ID if not _may_use(call, name) else _misplaced(call, name)
    if code:
        return wire.InitProducerIdResponse(error_code=code, producer_epoch=-1)
    may_write = name or may(call, Operation.IDEMPOTENT_WRITE, ResourceType.CLUSTER)
    if not (may_write or may_any(call, Operation.WRITE, ResourceType.TOPIC)):
        return wire.InitProducerIdResponse(error_code=ClusterAuthorizationFailed.ERROR_CODE, producer_epoch=-1)
    producer = Identity(request.producer_id, request.producer_epoch)
    try:
        identity = call.state.transactions.init(name, request.transaction_timeout_ms, producer)
    except ProtocolClientError as refused:
        return wire.InitProducerIdResponse(error_code=_code(call, refused), producer_epoch=-1)
    return wire.InitProducerIdResponse(producer_id=identity.producer_id, producer_epoch=identity.epoch)


@api(wire.AddPartitionsToTxnRequest)
def add_partitions_to_txn(call: Call, request: wire.AddPartitionsToTxnRequest) -> wire.AddPartitionsToTxnResponse:
    """Add partitions to a transaction; from version 4 on, of several transactions, or only look."""
    if call.version >= _BATCHED and not may(call, Operation.CLUSTER_ACTION, ResourceType.CLUSTER):
        return wire.AddPartitionsToTxnResponse(error_code=ClusterAuthorizationFailed.ERROR_CODE)
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
        if not _may_use(call, transactional_id):
            return [(name, [(index, _NOT_THIS_ID) for index in indexes]) for name, indexes in wanted]
        may_write = {name: may(call, Operation.WRITE, ResourceType.TOPIC, name) for name, _ in wanted}
        codes |= {key: TopicAuthorizationFailed.ERROR_CODE for key in keys if not may_write[key[0]]}
    others = OperationNotAttempted.ERROR_CODE if codes else _misplaced(call, transactional_id)
    if not others:
        try:
            if verifies:
                codes |= _verified(call, transactional_id, producer, keys)
            else:
                state.transactions.add_partitions(transactional_id, producer, keys)
        except ProtocolClientError as refused:
            others = _code(call, refused)
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
    code = _misplaced(call, request.transactional_id)
    if not code:
        producer = Identity(request.producer_id, request.producer_epoch)
        try:
            call.state.transactions.add_group(request.transactional_id, producer, request.group_id)
        except ProtocolClientError as refused:
            code = _code(call, refused)
    return wire.AddOffsetsToTxnResponse(error_code=code)


@api(wire.EndTxnRequest)
def end_txn(call: Call, request: wire.EndTxnRequest) -> wire.EndTxnResponse:
    """Commit or abort; the answer does not wait for the markers."""
    if code := _misplaced(call, request.transactional_id):
        return wire.EndTxnResponse(error_code=code)
    producer = Identity(request.producer_id, request.producer_epoch)
    raises_epoch = call.version >= _RAISES_EPOCH
    try:
        following = call.state.transactions.end(request.transactional_id, producer, request.committed, raises_epoch)
    except ProtocolClientError as refused:
        return wire.EndTxnResponse(error_code=_code(call, refused))
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
    answer = wire.DescribeTransactionsResponse.TransactionState
    code = _misplaced(call, name)
    transaction = None if code else call.state.transactions.find(name)
    if transaction is None:
        return answer(error_code=code or TransactionalIdNotFound.ERROR_CODE, transactional_id=name)
    return answer(
        transactional_id=name,
        transaction_state=transaction.state.value,
        transaction_timeout_ms=transaction.timeout_ms,
        transaction_start_time_ms=transaction.start_ms,
        producer_id=transaction.producer_id,
        producer_epoch=transaction.epoch,
        topics=[answer.Topic(topic=topic, partitions=indexes) for topic, indexes in transaction.topics().items()],
    )


@api(wire.ListTransactionsRequest)
def list_transactions(call: Call, request: wire.ListTransactionsRequest) -> wire.ListTransactionsResponse:
    """List the transactions that this broker coordinates, and that all filters take."""
    unknown = [name for name in request.state_filters if TransactionState.of(name) is TransactionState.UNKNOWN]
    transactions, text = call.state.transactions, request.transactional_id_pattern
    names: Iterable[str] = list(transactions.by_id)
    if text:
        try:
            matched = Pattern(text, max(map(len, names), default=0), "TransactionalIdPattern").matches(names)
        except InvalidRegularExpression as error:
            return wire.ListTransactionsResponse(error_code=error.ERROR_CODE)
        names = [name for name in names if name in matched]
    candidates = (transactions.find(name) for name in names if not _misplaced(call, name))
    listed = [
        wire.ListTransactionsResponse.TransactionState(
            transactional_id=transaction.transactional_id,
            producer_id=transaction.producer_id,
            transaction_state=transaction.state.value,
        )
        for transaction in candidates
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
    answer = wire.DescribeProducersResponse.Topic
    return wire.DescribeProducersResponse(
        topics=[
            answer(
                name=topic.name, partitions=[_producers(call, topic.name, index) for index in topic.partition_indexes]
            )
            for topic in request.topics
        ]
    )


def _producers(call: Call, topic: str, index: int) -> wire.DescribeProducersResponse.Topic.Partition:
    answer = wire.DescribeProducersResponse.Topic.Partition
    partition = call.state.partition(topic, index)
    if partition is None:
        text = None if topic in call.state.topics else "This server does not host this topic-partition."
        return answer(partition_index=index, error_code=UnknownTopicOrPartition.ERROR_CODE, error_message=text)
    if partition.leader != call.node.node_id:
        return answer(partition_index=index, error_code=NotLeaderForPartition.ERROR_CODE)
    return answer(partition_index=index, active_producers=_active(partition.log))


def _active(log: PartitionLog) -> list[wire.DescribeProducersResponse.Topic.Partition.ActiveProducer]:
    return [
        wire.DescribeProducersResponse.Topic.Partition.ActiveProducer(
            producer_id=producer_id,
            producer_epoch=state.epoch,
            last_sequence=state.last_sequence,
            last_timestamp=state.last_ms,
            coordinator_epoch=max(state.coordinator_epoch, 0),
            current_txn_start_offset=log.open_transactions.get(producer_id, -1),
        )
        for producer_id, state in log.producers.by_id.items()
    ]
