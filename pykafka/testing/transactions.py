"""`Transactions`: the transaction coordinators of a fake cluster: ids and epochs of producers, and their transactions.

KIP-98, KIP-360 (epochs that a producer asks for again), KIP-588 (time-outs), KIP-890 (version 2: each end raises the epoch).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

from pykafka.admin.transactions import TransactionState
from pykafka.exceptions import (
    ConcurrentTransactions,
    InvalidProducerEpoch,
    InvalidProducerIdMapping,
    InvalidRequest,
    InvalidTransactionTimeout,
    InvalidTxnState,
    ProducerFenced,
    TransactionAbortable,
    TransactionalIdAuthorizationFailed,
)
from pykafka.testing.behaviour import TransactionPath
from pykafka.testing.deadline import Deadline
from pykafka.testing.offsets import partition_of

if TYPE_CHECKING:
    from pykafka.testing.topics import Partition
    from pykafka.testing.waiters import Timer, Waiters

#: The topic with the offsets of groups, as transactions list it.
OFFSETS_TOPIC: Final = "__consumer_offsets"
#: An epoch that is not set.
NO_EPOCH: Final = -1
#: The last epoch that a producer gets; the next one is for markers alone, and then comes another producer id.
_LAST_EPOCH: Final = 32766
#: How soon markers are tried again whose coordinator, or whose partition's leader, is away or paused (ms).
_MARKERS_AGAIN_MS: Final = 100


_PREPARING: Final = frozenset({TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT})
_COMPLETE: Final = frozenset({TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT})


class Identity(NamedTuple):
    """A producer, as brokers distinguish them.

    :param producer_id: -1: none
    :param epoch: -1: none
    """

    producer_id: int = -1
    epoch: int = NO_EPOCH


@dataclass(eq=False, repr=False)
class Transaction:
    """A transactional id: its producer, and the transaction that is under way or was the last.

    :param transactional_id: the id
    :param producer_id: of its producer
    :param deadline: calls the coordinator when a transaction has taken its time-out
    """

    transactional_id: str
    producer_id: int
    deadline: Deadline
    epoch: int = NO_EPOCH
    #: The epoch before: a producer whose request was answered in vain asks with it again.
    last_epoch: int = NO_EPOCH
    #: The producer id before, if its epochs were used up.
    previous_producer_id: int = -1
    #: The producer id that follows once the transaction has ended, if the epochs are used up.
    next_producer_id: int = -1
    timeout_ms: int = 0
    state: TransactionState = TransactionState.EMPTY
    partitions: set[tuple[str, int]] = field(default_factory=set)
    groups: set[str] = field(default_factory=set)
    #: When the transaction began (ms); -1: none has.
    start_ms: int = -1
    #: When the state changed (ms).
    updated_ms: int = -1

    def __repr__(self) -> str:
        return f"<Transaction {self.transactional_id} {self.state.value} of {self.producer_id} epoch {self.epoch}>"

    @property
    def identity(self) -> Identity:
        """The present producer."""
        return Identity(self.producer_id, self.epoch)

    def topics(self) -> dict[str, list[int]]:
        """Return partitions by topic, as brokers list them: groups by the partition with their offsets."""
        by_topic: dict[str, set[int]] = {}
        for topic, index in self.partitions:
            by_topic.setdefault(topic, set()).add(index)
        for group in self.groups:
            by_topic.setdefault(OFFSETS_TOPIC, set()).add(partition_of(group))
        return {topic: sorted(by_topic[topic]) for topic in sorted(by_topic)}


class Transactions:
    """All transactional ids of a cluster, whichever broker coordinates them.

    :param waiters: for timers and the clock; partitions that get a marker are woken
    :param partition: finds one by topic and number; None: there is none
    :param serves: whether a broker answers, by its number
    :param coordinates: whether the coordinator of an id does
    :param end_offsets: makes the offsets of a transaction valid (True), or forgets them: it has producer id, epoch and groups
    """

    def __init__(
        self,
        waiters: Waiters,
        partition: Callable[[str, int], Partition | None],
        serves: Callable[[int], bool],
        coordinates: Callable[[str], bool],
        end_offsets: Callable[[int, int, Collection[str], bool], object],
    ) -> None:
        self._waiters = waiters
        self._partition = partition
        self._serves = serves
        self._coordinates = coordinates
        self._end_offsets = end_offsets
        self._producer_ids = itertools.count()
        self._holds_markers = False
        self._retry: Timer | None = None
        self.by_id: dict[str, Transaction] = {}
        #: The longest time-out that producers may ask for (ms): transaction.max.timeout.ms.
        self.max_timeout_ms = 900_000
        #: How long an id without a transaction is kept (ms): transactional.id.expiration.ms.
        self.expiration_ms = 604_800_000
        #: How the release that is played coordinates.
        self.path = TransactionPath()
        #: Where producers begin to count their epochs; a test sets it near 32766 to see the next producer id.
        self.first_epoch = 0

    def hold_markers(self) -> None:
        """Write no markers until `release_markers`.

        Transactions that end stay prepared meanwhile, and last stable offsets stand still.
        """
        self._holds_markers = True

    def release_markers(self) -> None:
        """Write the markers that were held, and those to come at once."""
        self._holds_markers = False
        self.write_markers()

    def find(self, transactional_id: str) -> Transaction | None:
        """Return what is known of an id; None: it is not known, or was forgotten as it was not used for long."""
        transaction = self.by_id.get(transactional_id)
        if transaction is None or transaction.state in _PREPARING or transaction.state == TransactionState.ONGOING:
            return transaction
        if self._waiters.now_ms() - transaction.updated_ms >= self.expiration_ms:
            transaction.state = TransactionState.DEAD
            del self.by_id[transactional_id]
            return None
        return transaction

    def init(self, transactional_id: str | None, timeout_ms: int, producer: Identity) -> Identity:
        """Return the producer id and epoch of a new producer, or the next epoch of one (InitProducerId).

        :param transactional_id: None: of an idempotent producer
        :param timeout_ms: after which its transactions are aborted (ms)
        :param producer: what it has been so far, to get the next epoch (KIP-360)
        :raises ProtocolClientError: it is fenced; or a transaction of its predecessor has to end first
        """
        if transactional_id is None:
            return Identity(next(self._producer_ids), 0)
        if not transactional_id or (producer.producer_id < 0) != (producer.epoch < 0):
            raise InvalidRequest
        if not 0 < timeout_ms <= self.max_timeout_ms:
            raise InvalidTransactionTimeout
        transaction = self.find(transactional_id)
        if transaction is None:
            deadline = Deadline(self._waiters, lambda: self._expire(transactional_id))
            transaction = Transaction(transactional_id, next(self._producer_ids), deadline)
            self.by_id[transactional_id] = transaction
        if not _may_init(transaction, producer):
            raise ProducerFenced
        if transaction.state in _PREPARING:
            raise ConcurrentTransactions
        if transaction.state == TransactionState.ONGOING:
            self._fence(transaction)
            raise ConcurrentTransactions
        self._renew(transaction, producer.epoch)
        transaction.timeout_ms = timeout_ms
        transaction.state = TransactionState.EMPTY
        transaction.start_ms = -1
        transaction.updated_ms = self._waiters.now_ms()
        return transaction.identity

    def _renew(self, transaction: Transaction, expected: int) -> None:
        # Kafka: TransactionMetadata.prepareIncrementProducerEpoch, prepareProducerIdRotation.
        if transaction.epoch == NO_EPOCH:
            transaction.epoch = self.first_epoch
        elif transaction.epoch >= _LAST_EPOCH:
            transaction.previous_producer_id, transaction.producer_id = (
                transaction.producer_id,
                next(self._producer_ids),
            )
            transaction.last_epoch = transaction.epoch if expected >= 0 else NO_EPOCH
            transaction.epoch = 0
        elif expected < 0:
            transaction.epoch, transaction.last_epoch = transaction.epoch + 1, NO_EPOCH
        elif expected == transaction.epoch:
            transaction.epoch, transaction.last_epoch = transaction.epoch + 1, transaction.epoch
        elif expected != transaction.last_epoch:
            raise ProducerFenced

    def add_partitions(self, transactional_id: str, producer: Identity, partitions: Iterable[tuple[str, int]]) -> None:
        """Add partitions to the transaction of a producer, which begins with the first ones.

        :raises ProtocolClientError: the producer is fenced, or its last transaction has not ended yet
        """
        transaction = self._of_producer(transactional_id, producer)
        self._begin(transaction)
        transaction.partitions.update(partitions)

    def add_group(self, transactional_id: str, producer: Identity, group: str) -> None:
        """Add the offsets of a group to the transaction of a producer.

        :raises ProtocolClientError: the producer is fenced, or its last transaction has not ended yet
        """
        transaction = self._of_producer(transactional_id, producer)
        self._begin(transaction)
        transaction.groups.add(group)

    def _of_producer(self, transactional_id: str, producer: Identity) -> Transaction:
        if not transactional_id:
            raise InvalidRequest
        transaction = self.find(transactional_id)
        if transaction is None or transaction.producer_id != producer.producer_id:
            raise InvalidProducerIdMapping
        if transaction.epoch != producer.epoch:
            raise ProducerFenced
        if transaction.state in _PREPARING:
            raise ConcurrentTransactions
        return transaction

    def _begin(self, transaction: Transaction) -> None:
        if transaction.state == TransactionState.ONGOING:
            return
        transaction.state = TransactionState.ONGOING
        transaction.start_ms = transaction.updated_ms = self._waiters.now_ms()
        transaction.deadline.extend(transaction.timeout_ms)

    def _expire(self, transactional_id: str) -> None:
        transaction = self.by_id.get(transactional_id)
        if transaction is not None and transaction.state == TransactionState.ONGOING:
            self._fence(transaction)

    def _fence(self, transaction: Transaction) -> None:
        # The producer with the old epoch may come back with it, to get the next one (KIP-588), unless another asks before.
        transaction.state = TransactionState.PREPARE_EPOCH_FENCE
        transaction.last_epoch = transaction.epoch if self.path.knows_fenced else NO_EPOCH
        transaction.epoch += 1
        self._prepare(transaction, TransactionState.PREPARE_ABORT)

    def is_in(self, transactional_id: str, producer: Identity, partition: tuple[str, int]) -> bool:
        """Return whether a partition is in the transaction of a producer that is under way.

        :raises ProtocolClientError: the producer is fenced, or its last transaction has not ended yet
        """
        transaction = self._of_producer(transactional_id, producer)
        return transaction.state == TransactionState.ONGOING and partition in transaction.partitions

    def has_group(self, transactional_id: str, producer: Identity, group: str) -> bool:
        """Return whether the offsets of a group are in the transaction of a producer that is under way.

        :raises ProtocolClientError: the producer is fenced, or its last transaction has not ended yet
        """
        transaction = self._of_producer(transactional_id, producer)
        return transaction.state == TransactionState.ONGOING and group in transaction.groups

    def end(self, transactional_id: str, producer: Identity, is_commit: bool, raises_epoch: bool) -> Identity:
        """Commit or abort the transaction of a producer, and return what the producer is for the next one (EndTxn).

        :param transactional_id: the id
        :param producer: the producer
        :param is_commit: or it is aborted
        :param raises_epoch: whether the client speaks version 2 of transactions
        :raises ProtocolClientError: the producer is fenced, or there is no such transaction
        """
        if not transactional_id:
            raise InvalidRequest
        transaction = self.find(transactional_id)
        if transaction is None or not _is_of(transaction, producer, raises_epoch):
            raise InvalidProducerIdMapping
        if not _may_end(transaction, producer, raises_epoch):
            raise ProducerFenced
        if transaction.state == TransactionState.ONGOING:
            return self._end(transaction, is_commit, raises_epoch)
        if (
            raises_epoch
            and not is_commit
            and not _is_retry(transaction, producer)
            and transaction.state not in _PREPARING
        ):
            # Version 2 may abort what has not begun: it gets the next epoch.
            return self._end(transaction, False, True)
        _check_again(transaction, is_commit, raises_epoch and not _is_retry(transaction, producer))
        return transaction.identity

    def _end(self, transaction: Transaction, is_commit: bool, raises_epoch: bool) -> Identity:
        following = transaction.identity
        if raises_epoch:
            if transaction.epoch >= _LAST_EPOCH:
                transaction.next_producer_id = next(self._producer_ids)
            transaction.epoch, transaction.last_epoch = transaction.epoch + 1, transaction.epoch
            following = (
                Identity(transaction.next_producer_id, 0) if transaction.next_producer_id >= 0 else transaction.identity
            )
        self._prepare(transaction, TransactionState.PREPARE_COMMIT if is_commit else TransactionState.PREPARE_ABORT)
        return following

    def _prepare(self, transaction: Transaction, state: TransactionState) -> None:
        transaction.state = state
        transaction.updated_ms = self._waiters.now_ms()
        self._write_markers(transaction)

    def write_markers(self) -> None:
        """Write the markers that are due, unless they are held."""
        self._retry = None
        for transaction in list(self.by_id.values()):
            if transaction.state in _PREPARING:
                self._write_markers(transaction)

    def _write_markers(self, transaction: Transaction) -> None:
        if self._holds_markers:
            return
        if self._coordinates(transaction.transactional_id):
            is_commit = transaction.state == TransactionState.PREPARE_COMMIT
            for key in sorted(transaction.partitions):
                if self._write_marker(transaction, key, is_commit):
                    transaction.partitions.discard(key)
            if transaction.groups:
                self._end_offsets(transaction.producer_id, transaction.epoch, transaction.groups, is_commit)
                transaction.groups.clear()
            if not transaction.partitions:
                self._complete(transaction, is_commit)
                return
        if self._retry is None:
            self._retry = self._waiters.after(_MARKERS_AGAIN_MS, self.write_markers)

    def _write_marker(self, transaction: Transaction, key: tuple[str, int], is_commit: bool) -> bool:
        partition = self._partition(*key)
        if partition is None:
            # The topic was deleted meanwhile.
            return True
        if not self._serves(partition.leader):
            return False
        now_ms = self._waiters.now_ms()
        partition.log.append_marker(
            transaction.producer_id, transaction.epoch, is_commit, now_ms, partition.leader_epoch
        )
        self._waiters.wake(partition)
        return True

    def _complete(self, transaction: Transaction, is_commit: bool) -> None:
        transaction.state = TransactionState.COMPLETE_COMMIT if is_commit else TransactionState.COMPLETE_ABORT
        transaction.updated_ms = self._waiters.now_ms()
        if transaction.next_producer_id >= 0:
            transaction.previous_producer_id, transaction.producer_id = (
                transaction.producer_id,
                transaction.next_producer_id,
            )
            transaction.next_producer_id = -1
            transaction.epoch = 0
        self._waiters.wake(("transaction", transaction.transactional_id))

    def check_produce(
        self, partition: Partition, transactional_id: str | None, producer: Identity, version: int
    ) -> None:
        """Check that a transactional batch may be written.

        From version 12 on, Produce adds the partition to the transaction (KIP-890). Before that, leaders since Kafka 3.6
        ask the coordinator whether the partition was added.

        :param partition: where to
        :param transactional_id: as the request has it
        :param producer: of the batch
        :param version: of Produce
        :raises ProtocolClientError: it may not
        """
        if transactional_id is None:
            raise TransactionalIdAuthorizationFailed
        log = partition.log
        state = log.producers.by_id.get(producer.producer_id)
        if producer.producer_id in log.open_transactions and state is not None and state.epoch == producer.epoch:
            return
        key = partition.topic, partition.index
        try:
            if version >= 12:
                self.add_partitions(transactional_id, producer, [key])
            elif self.path.verifies and not self.is_in(transactional_id, producer, key):
                raise TransactionAbortable if version >= 11 else InvalidTxnState
        except ProducerFenced as fenced:
            raise InvalidProducerEpoch from fenced

    def check_offsets(self, transactional_id: str, producer: Identity, group: str, version: int) -> None:
        """Check that a group's offsets of a transaction may be kept.

        From version 5 on, TxnOffsetCommit adds the group to the transaction (KIP-890). Before that, coordinators of groups
        since Kafka 3.6 ask whether the group was added. Earlier ones know what `Offsets.check_epoch` does.

        :param transactional_id: as the request has it
        :param producer: the producer
        :param group: whose offsets
        :param version: of TxnOffsetCommit
        :raises ProtocolClientError: the producer is fenced, or the group is not in its transaction
        """
        try:
            if version >= 5:
                self.add_group(transactional_id, producer, group)
            elif self.path.verifies and not self.has_group(transactional_id, producer, group):
                raise TransactionAbortable if version >= 4 else InvalidTxnState
        except ProducerFenced as fenced:
            raise InvalidProducerEpoch from fenced


def _may_init(transaction: Transaction, producer: Identity) -> bool:
    if producer.producer_id < 0 or transaction.epoch == NO_EPOCH or producer.producer_id == transaction.producer_id:
        return True
    return producer.producer_id == transaction.previous_producer_id and producer.epoch >= _LAST_EPOCH


def _is_of(transaction: Transaction, producer: Identity, raises_epoch: bool) -> bool:
    return transaction.producer_id == producer.producer_id or (
        raises_epoch and _is_overflow_retry(transaction, producer)
    )


def _is_overflow_retry(transaction: Transaction, producer: Identity) -> bool:
    return (
        transaction.state in _COMPLETE
        and transaction.previous_producer_id == producer.producer_id
        and producer.epoch == _LAST_EPOCH
        and transaction.epoch == 0
    )


def _is_retry(transaction: Transaction, producer: Identity) -> bool:
    return transaction.epoch == producer.epoch + 1 or _is_overflow_retry(transaction, producer)


def _may_end(transaction: Transaction, producer: Identity, raises_epoch: bool) -> bool:
    if not raises_epoch or transaction.state in (TransactionState.EMPTY, TransactionState.ONGOING):
        return producer.epoch == transaction.epoch
    if transaction.state in _PREPARING:
        return _is_retry(transaction, producer)
    return producer.epoch == transaction.epoch or _is_retry(transaction, producer)


def _check_again(transaction: Transaction, is_commit: bool, is_new: bool) -> None:
    # A producer whose EndTxn was not answered asks again: that is no error, if it asks for the same end.
    same = {
        TransactionState.PREPARE_COMMIT: is_commit,
        TransactionState.COMPLETE_COMMIT: is_commit,
        TransactionState.PREPARE_ABORT: not is_commit,
        TransactionState.COMPLETE_ABORT: not is_commit,
    }
    if is_new or not same.get(transaction.state, False):
        raise InvalidTxnState
    if transaction.state in _PREPARING:
        raise ConcurrentTransactions
