"""Transactions and producers as brokers describe them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from pykafka.common import TopicPartition


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
