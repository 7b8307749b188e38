"""Transactions and their producers: list, describe, find those that hang, and abort them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from pykafka.admin.base import TIMEOUT_MS, ids_by_topic, several, topic_partition
from pykafka.admin.groups import GroupsAdmin
from pykafka.admin.releases import need
from pykafka.admin.results import Listing, Results, partition_error, partitions_in, response_error
from pykafka.admin.routing import TRANSACTION, CertainBrokers, Coordinators, Leaders, RequestFactory
from pykafka.admin.topics import TopicsAdmin
from pykafka.common import TopicPartition
from pykafka.exceptions import InvalidTxnState, KafkaException
from pykafka.protocol import wire

if TYPE_CHECKING:
    from pykafka.network.node import Node

#: The brokers' own limit of a transaction's timeout, transaction.max.timeout.ms (ms).
MAX_TRANSACTION_TIMEOUT_MS = 900_000


class TransactionState(Enum):
    """The state of a transaction; the values are Kafka's names."""

    EMPTY = "Empty"
    ONGOING = "Ongoing"
    PREPARE_COMMIT = "PrepareCommit"
    PREPARE_ABORT = "PrepareAbort"
    COMPLETE_COMMIT = "CompleteCommit"
    COMPLETE_ABORT = "CompleteAbort"
    PREPARE_EPOCH_FENCE = "PrepareEpochFence"
    DEAD = "Dead"
    UNKNOWN = "Unknown"

    @classmethod
    def of(cls, name: str) -> TransactionState:
        """Return the state that a broker names."""
        return next((one for one in cls if one.value == name), cls.UNKNOWN)


#: The states in which a coordinator will still end the transaction.
OPEN = (TransactionState.ONGOING, TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT)


@dataclass(frozen=True)
class TransactionListing:
    """A transaction in one line.

    :param transactional_id: of its producer
    :param producer_id: the number that brokers know the producer by
    :param state: of the transaction
    :param coordinator: the broker that keeps it, by id
    """

    transactional_id: str
    producer_id: int
    state: TransactionState
    coordinator: int


@dataclass(frozen=True)
class TransactionDescription:
    """A transaction.

    :param transactional_id: of its producer
    :param state: of the transaction
    :param producer_id: the number that brokers know the producer by
    :param producer_epoch: counts producers with this transactional id
    :param timeout_ms: how long it may last
    :param start_ms: when it began, ms since 1970; None for none that is open
    :param partitions: that it has written to
    :param coordinator: the broker that keeps it, by id
    """

    transactional_id: str
    state: TransactionState
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    start_ms: int | None
    partitions: tuple[TopicPartition, ...]
    coordinator: int


@dataclass(frozen=True)
class ProducerState:
    """A producer as the leader of a partition knows it.

    :param producer_id: its number
    :param producer_epoch: of that number
    :param last_sequence: of its last batch; -1 for none
    :param last_timestamp_ms: of its last batch, ms since 1970; -1 for none
    :param coordinator_epoch: of the coordinator of its last transaction; -1 for none
    :param txn_start_offset: where its open transaction begins; None without one
    """

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_timestamp_ms: int
    coordinator_epoch: int
    txn_start_offset: int | None


@dataclass(frozen=True)
class HangingTransaction:
    """An open transaction in a partition that no coordinator will end.

    :param partition: where it is open
    :param producer: whose it is
    :param transactional_id: of the producer; None if no coordinator knows it
    """

    partition: TopicPartition
    producer: ProducerState
    transactional_id: str | None = None


def is_hanging(one: HangingTransaction, known: TransactionDescription | None) -> bool:
    """Return whether no coordinator will end a transaction that a leader has open.

    :param known: the transaction that the coordinator has of this producer; None for none
    """
    if known is None or known.state not in OPEN or known.producer_epoch != one.producer.producer_epoch:
        return True
    return known.producer_id != one.producer.producer_id or one.partition not in known.partitions


Producers = tuple[ProducerState, ...]


class TransactionsAdmin(TopicsAdmin, GroupsAdmin):
    """The transactions of the cluster."""

    def list_transactions(
        self,
        *,
        states: TransactionState | Iterable[TransactionState] = (),
        producer_ids: int | Iterable[int] = (),
        longer_than_ms: int | None = None,
        pattern: str | None = None,
        timeout_ms: int = TIMEOUT_MS,
        raise_errors: bool = True,
    ) -> Listing[TransactionListing]:
        """Return the transactions of all coordinators, by id (since Kafka 3.0).

        :param states: in these states alone; none stands for all
        :param producer_ids: of these producers alone; none stands for all
        :param longer_than_ms: open for longer than this alone (since Kafka 3.8)
        :param pattern: of transactional ids, a regular expression of RE2 (since Kafka 4.1)
        :param timeout_ms: of the whole call
        :param raise_errors: whether to raise if a broker does not answer; else its transactions are missing, see `Listing`
        """
        deadline = self._deadline(timeout_ms)
        conditions: list[TransactionState] = several(states, "states", TransactionState)
        producers: list[int] = several(producer_ids, "producer_ids", int)

        def request(items: Sequence[int], broker: Node, left: int) -> wire.ListTransactionsRequest:
            made = wire.ListTransactionsRequest(
                state_filters=[state.value for state in conditions], producer_id_filters=producers
            )
            if longer_than_ms is not None:
                need(broker, wire.ListTransactionsRequest, 1, "longer_than_ms", "3.8")
                made.duration_filter = longer_than_ms
            if pattern is not None:
                need(broker, wire.ListTransactionsRequest, 2, "pattern", "4.1")
                made.transactional_id_pattern = pattern
            return made

        def read(
            response: wire.ListTransactionsResponse, items: Sequence[int], broker: Node
        ) -> Mapping[int, list[TransactionListing] | KafkaException]:
            found = [
                TransactionListing(
                    one.transactional_id, one.producer_id, TransactionState.of(one.transaction_state), broker.id
                )
                for one in response.transaction_states
            ]
            return {items[0]: response_error(response) or found}

        factory = RequestFactory(wire.ListTransactionsRequest, request, read)
        target = CertainBrokers[int](self._cluster, int)
        results = self._ask(self._every_broker(deadline), target, factory, self._left_ms(deadline), raise_errors)
        listed = (one for found in results.values() for one in found)
        return Listing(self._once(listed, lambda one: one.transactional_id, deadline, TRANSACTION), results.errors)

    def describe_transactions(
        self, transactional_ids: str | Iterable[str], *, timeout_ms: int = TIMEOUT_MS, raise_errors: bool = True
    ) -> Results[str, TransactionDescription]:
        """Return the state of transactions (since Kafka 3.0).

        :param transactional_ids: an id, or several
        :param timeout_ms: of the whole call
        :param raise_errors: whether to raise for transactions that failed, see `Results`
        :raises TransactionalIdNotFound: the coordinator does not know the id
        """

        def request(items: Sequence[str], broker: Node, left: int) -> wire.DescribeTransactionsRequest:
            return wire.DescribeTransactionsRequest(transactional_ids=list(items))

        def read(
            response: wire.DescribeTransactionsResponse, items: Sequence[str], broker: Node
        ) -> Mapping[str, TransactionDescription | KafkaException]:
            return {
                state.transactional_id: response_error(state, f"transactional id {state.transactional_id}")
                or _described(state, broker)
                for state in response.transaction_states
            }

        factory = RequestFactory(wire.DescribeTransactionsRequest, request, read)
        target = Coordinators[str](self._cluster, str, TRANSACTION)
        ids: list[str] = several(transactional_ids, "transactional_ids", str)
        return self._ask(ids, target, factory, timeout_ms, raise_errors)

    def describe_producers(
        self, partitions: Iterable[tuple[str, int]], *, timeout_ms: int = TIMEOUT_MS, raise_errors: bool = True
    ) -> Results[TopicPartition, Producers]:
        """Return the producers with sequence numbers that leaders of partitions know (since Kafka 2.8).

        :param partitions: (topic, partition) pairs
        :param timeout_ms: of the whole call
        :param raise_errors: whether to raise for partitions that failed, see `Results`
        """

        def request(items: Sequence[TopicPartition], broker: Node, left: int) -> wire.DescribeProducersRequest:
            topic = wire.DescribeProducersRequest.Topic
            topics = [topic(name=name, partition_indexes=ids) for name, ids in ids_by_topic(items).items()]
            return wire.DescribeProducersRequest(topics=topics)

        def read(
            response: wire.DescribeProducersResponse, items: Sequence[TopicPartition], broker: Node
        ) -> Mapping[TopicPartition, Producers | KafkaException]:
            return {
                key: partition_error(key, part) or tuple(_producer(producer) for producer in part.active_producers)
                for key, part in partitions_in(response.topics)
            }

        factory = RequestFactory(wire.DescribeProducersRequest, request, read)
        parts = [topic_partition(part) for part in partitions]
        return self._ask(parts, Leaders(self._cluster), factory, timeout_ms, raise_errors)

    def find_hanging_transactions(
        self,
        partitions: Iterable[tuple[str, int]] | None = None,
        *,
        max_timeout_ms: int = MAX_TRANSACTION_TIMEOUT_MS,
        timeout_ms: int = TIMEOUT_MS,
    ) -> list[HangingTransaction]:
        """Return transactions that no coordinator will ever end: they stop consumers that read committed messages.

        It hangs if the partition's leader has had it open for longer than any transaction may last, and no coordinator has an
        open transaction of this producer that includes the partition.

        :param partitions: (topic, partition) pairs; by default all of the cluster
        :param max_timeout_ms: how long a transaction may last: the brokers' `transaction.max.timeout.ms`
        :param timeout_ms: of the whole call
        """
        deadline = self._deadline(timeout_ms)
        if partitions is None:
            topics = [topic.name for topic in self.list_topics(timeout_ms=timeout_ms)]
            described = self.describe_topics(topics, timeout_ms=self._left_ms(deadline)) if topics else {}
            partitions = [(name, one.partition) for name, topic in described.items() for one in topic.partitions]
        before_ms = self._cluster.handler.time_ms() - max_timeout_ms
        known = self.describe_producers(partitions, timeout_ms=self._left_ms(deadline))
        old = [
            HangingTransaction(item, producer)
            for item, producers in known.items()
            for producer in producers
            if producer.txn_start_offset is not None and producer.last_timestamp_ms <= before_ms
        ]
        if not old:
            return []
        ids = sorted({one.producer.producer_id for one in old})
        listed = self.list_transactions(producer_ids=ids, timeout_ms=self._left_ms(deadline))
        by_producer = {one.producer_id: one.transactional_id for one in listed}
        names = sorted(set(by_producer.values()))
        transactions = self.describe_transactions(names, timeout_ms=self._left_ms(deadline), raise_errors=False)
        found = []
        for one in old:
            name = by_producer.get(one.producer.producer_id)
            if is_hanging(one, None if name is None else transactions.get(name)):
                found.append(HangingTransaction(one.partition, one.producer, name))
        return found

    def abort_transaction(
        self,
        partition: tuple[str, int],
        producer: ProducerState | None = None,
        *,
        start_offset: int | None = None,
        timeout_ms: int = TIMEOUT_MS,
    ) -> None:
        """Abort a hanging transaction in a partition. Never do that to one that a coordinator still has.

        :param partition: (topic, partition)
        :param producer: whose transaction, as `find_hanging_transactions` and `describe_producers` return it
        :param start_offset: or the first offset of the transaction (since Kafka 2.8)
        :param timeout_ms: of the whole call
        :raises InvalidTxnState: no transaction begins at `start_offset`
        """
        item = topic_partition(partition)
        deadline = self._deadline(timeout_ms)
        if (producer is None) == (start_offset is None):
            raise ValueError("give either the producer, or the start_offset of its transaction")
        if producer is None:
            known = self.describe_producers([item], timeout_ms=timeout_ms)[item]
            producer = next((one for one in known if one.txn_start_offset == start_offset), None)
            if producer is None:
                raise InvalidTxnState(
                    f"no open transaction begins at offset {start_offset}: describe_producers lists those that there are",
                    topic=item.topic,
                    partition=item.partition,
                )
        self._ask([item], Leaders(self._cluster), _abort_markers(producer), self._left_ms(deadline), True)


def _abort_markers(producer: ProducerState) -> RequestFactory[TopicPartition, None]:
    def request(items: Sequence[TopicPartition], broker: Node, left: int) -> wire.WriteTxnMarkersRequest:
        marker = wire.WriteTxnMarkersRequest.Marker
        topics = [marker.Topic(name=name, partition_indexes=ids) for name, ids in ids_by_topic(items).items()]
        return wire.WriteTxnMarkersRequest(
            markers=[
                marker(
                    producer_id=producer.producer_id,
                    producer_epoch=producer.producer_epoch,
                    transaction_result=False,
                    topics=topics,
                    # Of a transaction that its coordinator does not know the leader has no epoch (-1).
                    coordinator_epoch=max(producer.coordinator_epoch, 0),
                )
            ]
        )

    def read(
        response: wire.WriteTxnMarkersResponse, items: Sequence[TopicPartition], broker: Node
    ) -> Mapping[TopicPartition, KafkaException | None]:
        topics = [topic for marker in response.markers for topic in marker.topics]
        return {key: partition_error(key, part) for key, part in partitions_in(topics)}

    return RequestFactory(wire.WriteTxnMarkersRequest, request, read, waits=True)


def _described(state: wire.DescribeTransactionsResponse.TransactionState, broker: Node) -> TransactionDescription:
    return TransactionDescription(
        state.transactional_id,
        TransactionState.of(state.transaction_state),
        state.producer_id,
        state.producer_epoch,
        state.transaction_timeout_ms,
        state.transaction_start_time_ms if state.transaction_start_time_ms >= 0 else None,
        tuple(sorted(TopicPartition(topic.topic, id_) for topic in state.topics for id_ in topic.partitions)),
        broker.id,
    )


def _producer(one: wire.DescribeProducersResponse.Topic.Partition.ActiveProducer) -> ProducerState:
    return ProducerState(
        one.producer_id,
        one.producer_epoch,
        one.last_sequence,
        one.last_timestamp,
        one.coordinator_epoch,
        one.current_txn_start_offset if one.current_txn_start_offset >= 0 else None,
    )
