"""The state of a producer's transactions, as a table without I/O (KIP-98, KIP-360)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import Enum
from typing import TYPE_CHECKING, Any, Protocol

from pykafka.common import TopicPartition
from pykafka.exceptions import (
    InvalidProducerEpoch,
    InvalidProducerIdMapping,
    KafkaException,
    ProducerFenced,
    ProducerFencedError,
    TransactionAbortableError,
    TransactionFatalError,
    TransactionOutcomeUnknownError,
    TransactionStateError,
)
from pykafka.producer.in_flight_window import SEQUENCE_MAX, InFlightBatch, InFlightWindow, Verdict

if TYPE_CHECKING:
    from pykafka.common import TopicPartition
    from pykafka.exceptions import KafkaException
    from pykafka.handlers import Handler
    from pykafka.handlers.base import EventType, LockType
    from pykafka.metadata.cluster import BaseCluster
    from pykafka.metrics.listener import ClientListener
    from pykafka.producer.accumulator import PartitionQueue, RecordAccumulator
    from pykafka.producer.batch import ProducerBatch
    from pykafka.producer.completion import Completion

#: The request that commits offsets with a transaction.
OFFSETS_OF_TXN = "TxnOffsetCommit"


class State(Enum):
    """The state of a transactional producer, with the calls that fit it."""

    UNINITIALIZED = "the producer has no epoch yet; call init_transactions() or begin_transaction()"
    INITIALIZING = "the producer asks for its epoch; call init_transactions() again if that was interrupted"
    READY = "no transaction is open; call begin_transaction()"
    IN_TRANSACTION = "a transaction is open; call commit_transaction() or abort_transaction()"
    ABORTABLE = "the transaction has failed; call abort_transaction()"
    COMMITTING = "the transaction is being committed; call commit_transaction() again if that was interrupted"
    ABORTING = "the transaction is being aborted; call abort_transaction() again if that was interrupted"
    UNKNOWN = (
        "it is not known whether the last transaction is committed; learn it as docs/transactions.md says, and call "
        "begin_transaction() for the next one"
    )
    FATAL = "the producer can make no more transactions; close() it, and make another"


class Event(Enum):
    """An event in the life of a transactional producer."""

    INIT = "init_transactions()"
    IDENTIFIED = "a producer id and an epoch came"
    BEGIN = "begin_transaction()"
    COMMIT = "commit_transaction()"
    ABORT = "abort_transaction()"
    FAIL = "an abortable error"
    ENDED = "the coordinator has ended the transaction"
    REINIT = "the next transaction needs another epoch"
    UNCLEAR = "an answer that does not say whether the transaction is committed"
    DIE = "a fatal error"


_DIE = {Event.DIE: State.FATAL}
#: {state: {event: next state}}; events that are missing here are refused.
TABLE: dict[State, dict[Event, State]] = {
    State.UNINITIALIZED: {Event.INIT: State.INITIALIZING, **_DIE},
    State.INITIALIZING: {Event.INIT: State.INITIALIZING, Event.IDENTIFIED: State.READY, **_DIE},
    State.READY: {Event.BEGIN: State.IN_TRANSACTION, Event.REINIT: State.INITIALIZING, **_DIE},
    State.IN_TRANSACTION: {
        Event.COMMIT: State.COMMITTING,
        Event.ABORT: State.ABORTING,
        Event.FAIL: State.ABORTABLE,
        **_DIE,
    },
    State.ABORTABLE: {Event.ABORT: State.ABORTING, Event.FAIL: State.ABORTABLE, **_DIE},
    # An abort is possible only until EndTxn has been sent: `TransactionStatus` checks that.
    State.COMMITTING: {
        Event.COMMIT: State.COMMITTING,
        Event.ABORT: State.ABORTING,
        Event.FAIL: State.ABORTABLE,
        Event.ENDED: State.READY,
        Event.UNCLEAR: State.UNKNOWN,
        **_DIE,
    },
    State.UNKNOWN: {Event.INIT: State.INITIALIZING, **_DIE},
    State.ABORTING: {
        Event.ABORT: State.ABORTING,
        Event.FAIL: State.ABORTING,
        Event.ENDED: State.READY,
        Event.REINIT: State.INITIALIZING,
        **_DIE,
    },
    State.FATAL: {Event.DIE: State.FATAL},
}


class TransactionStatus:
    """The state of one producer's transactions, with the partitions and groups of the present one.

    The caller guards each call with a lock.

    :param transactional_id: for errors
    """

    def __init__(self, transactional_id: str) -> None:
        self.transactional_id = transactional_id
        self.state = State.UNINITIALIZED
        self.producer_id = -1
        self.epoch = -1
        #: Whether brokers add partitions by themselves (KIP-890).
        self.implicit = False
        #: The partitions that the coordinator has in the transaction; version 1.
        self.partitions: set[TopicPartition] = set()
        #: The groups whose offsets are in the transaction.
        self.groups: set[str] = set()
        #: Whether the coordinator may know of the transaction.
        self.started = False
        #: Whether EndTxn (commit) may have reached it.
        self.end_sent = False
        #: The requests about this epoch without a clear answer, by API: they may still reach their coordinator.
        self.unanswered: set[str] = set()
        #: The block or call that began the transaction.
        self.owner: object = None
        #: The partitions to which batches of ended transactions may still come, since their answers are missing.
        self.late: set[TopicPartition] = set()
        #: The groups to which offsets of ended transactions may still come.
        self.late_groups: set[str] = set()
        #: Whether the sequence numbers have gaps, so that the next transaction needs another epoch.
        self.broken = False
        #: Why the transaction has to be aborted, or the producer is dead.
        self.reason: KafkaException | None = None

    def apply(self, event: Event, owner: object = None) -> None:
        """Go to the next state.

        :param owner: of the transaction that begins; it is stored before the state changes, so that an interrupt between leaves
            no transaction without it
        :raises TransactionStateError: the event does not fit the state
        :raises TransactionAbortableError, TransactionFatalError: because of an earlier error
        """
        following = TABLE[self.state].get(event)
        if self.state is State.COMMITTING and self.end_sent and event in (Event.ABORT, Event.FAIL):
            following = None
        if following is None:
            raise self.refusal(event.value)
        if event is Event.BEGIN:
            self._clear()
            self.unanswered.clear()
            self.owner = owner
        elif following is State.INITIALIZING:  # what was open has ended, also if no epoch comes
            self.keep_late()
        self.state = following

    def refusal(self, what: str) -> KafkaException:
        """Return the error of a call that does not fit the state."""
        about = f"{what}: transactional id {self.transactional_id!r}: {self.state.value}"
        if self.state is State.FATAL:
            fenced = isinstance(self.reason, ProducerFencedError)
            error: KafkaException = (ProducerFencedError if fenced else TransactionFatalError)(
                f"{about}; its error was: {self.reason}"
            )
        elif self.state is State.ABORTABLE:
            error = TransactionAbortableError(f"{about}; its first error was: {self.reason}")
        elif self.state is State.UNKNOWN:
            error = TransactionOutcomeUnknownError(f"{about}; its last answer was: {self.reason}")
        else:
            return TransactionStateError(about)
        error.__cause__ = None if self.reason is None else self.reason.again()
        return error

    def _clear(self) -> None:
        self.partitions = set()
        self.groups = set()
        self.started = self.end_sent = self.broken = False
        self.reason = self.owner = None

    def keep_late(self) -> None:
        """Keep the groups to which offsets of the present transaction may come late; brokers of version 2 refuse them."""
        if OFFSETS_OF_TXN in self.unanswered and not self.implicit:
            self.late_groups |= self.groups

    @property
    def may_come_late(self) -> bool:
        """Whether batches or offsets of ended transactions may still come to brokers that would take them."""
        return bool(self.late or self.late_groups)

    def identified(self, producer_id: int, epoch: int) -> None:
        """Set the producer id and its epoch of an InitProducerId response."""
        self.apply(Event.IDENTIFIED)
        self._clear()
        self.unanswered.clear()
        self.producer_id, self.epoch = producer_id, epoch

    def ended(self, producer_id: int = -1, epoch: int = -1) -> None:
        """Record that the coordinator has ended the transaction.

        :param producer_id: of the next transaction, if the coordinator names it (version 2)
        :param epoch: likewise
        """
        self.apply(Event.ENDED)
        if producer_id < 0:  # the markers had the epoch of the offsets
            self.keep_late()
        self._clear()
        if producer_id >= 0:
            self.producer_id, self.epoch = producer_id, epoch
            self.unanswered.clear()

    def on_outcome_unknown(self, reason: KafkaException) -> None:
        """Record that it is not known whether the transaction is committed."""
        self.apply(Event.UNCLEAR)
        self.reason = reason.again()

    def fail(self, reason: KafkaException) -> None:
        """Record an error that makes the transaction abortable; the first one counts, and only while an abort is possible."""
        following = TABLE[self.state].get(Event.FAIL)
        if following is None or (self.state is State.COMMITTING and self.end_sent):
            return
        if self.reason is None:
            self.reason = reason.again()
        self.state = following

    def on_fatal_error(self, reason: KafkaException) -> None:
        """Record a fatal error; the first one counts."""
        if self.state is not State.FATAL:
            self.reason = reason.again()
        self.apply(Event.DIE)

    @property
    def lacks_epoch(self) -> bool:
        """Whether the last transaction is aborted, and the producer has asked in vain for the epoch of the next one."""
        return self.state is State.INITIALIZING and self.broken

    @property
    def may_send(self) -> bool:
        """Whether batches may be sent now."""
        return self.state in (State.IN_TRANSACTION, State.COMMITTING) and not self.end_sent

    @property
    def accepts_records(self) -> bool:
        """Whether messages may be written now."""
        return self.state is State.IN_TRANSACTION


class TransactionalWindow(InFlightWindow):
    """A window whose epoch is the coordinator's: it never raises the epoch, and never renumbers.

    A gap in the numbers (`stuck`) needs another epoch, which the transaction's abort takes. Brokers before Kafka 2.5 give none:
    there the numbers continue behind what the log has (`rewind`), if all that was given up is certainly not in it, and the log
    has taken all that came before.
    """

    def __init__(self) -> None:
        super().__init__()
        #: Whether a gap keeps all later batches of this epoch from being stored.
        self.stuck = False
        #: Whether it is not known which batches of this epoch the log has: one was given up that may be written, or the log has
        #: other numbers, as that of a topic that was deleted and recreated.
        self.is_doubtful = False
        # The first number of the batches of this epoch that were given up; -1: none was.
        self._gap = -1

    def follow(self, producer_id: int, epoch: int) -> None:
        """Number from 0 on if producer id or epoch have changed."""
        if (producer_id, epoch) != (self.producer_id, self.epoch):
            self.adopt(producer_id, epoch)
            self.stuck = self._hole = self.is_doubtful = False
            self._gap = -1

    def drop(self, in_flight: InFlightBatch) -> list[InFlightBatch]:
        """See `InFlightWindow`; note where the gap in the numbers begins."""
        if in_flight.numbered:
            self.is_doubtful |= in_flight.may_be_written
            if self._gap < 0 or (self._gap - in_flight.sequence) & SEQUENCE_MAX <= SEQUENCE_MAX // 2:
                self._gap = in_flight.sequence
        return super().drop(in_flight)

    def rewind(self) -> None:
        """Number on from where the gap begins: the log has none of the batches from there on."""
        if self._gap >= 0:
            self._sequence, self._gap = self._gap, -1
            self.stuck = self._hole = False

    def _renumber(self) -> None:
        self._hole = False
        self.stuck = True
        for in_flight in self.batches:
            in_flight.bypassed = in_flight.broken = False

    def _judge(self, in_flight: InFlightBatch, error: KafkaException) -> Verdict:
        if isinstance(error, (InvalidProducerEpoch, ProducerFenced, InvalidProducerIdMapping)):
            return Verdict.FAILED
        return super()._judge(in_flight, error)

    def _refused(self, in_flight: InFlightBatch, forgotten: bool) -> Verdict:
        verdict = super()._refused(in_flight, forgotten)
        if (
            verdict is Verdict.RETRY and self._gap < 0
        ):  # none before it was given up: the log would refuse this number again
            self.is_doubtful = True
        return verdict


def number_in_transaction(
    status: TransactionStatus, batches: Iterable[ProducerBatch], queue_of: Callable[[ProducerBatch], PartitionQueue]
) -> None:
    """Give batches their numbers in the present epoch, under the producer's lock if several workers send.

    :param status: has producer id and epoch
    :param queue_of: returns the queue of the partition of each
    :raises TransactionAbortableError: the numbers of a partition have a gap
    """
    for batch in batches:
        window: Any = queue_of(batch).window
        window.follow(status.producer_id, status.epoch)
        if window.stuck:
            raise TransactionAbortableError(
                "a batch of this partition was lost, and the numbers of what follows have a gap; abort the transaction",
                topic=batch.topic,
                partition=batch.partition_id,
            )
        window.number(batch.in_flight)


class Engine(Protocol):
    """The engine of a transactional producer; `pykafka.transactions.engine.TransactionalEngine` documents each member."""

    cluster: BaseCluster
    handler: Handler
    lock: LockType
    progress: EventType
    accumulator: RecordAccumulator
    completion: Completion
    listener: ClientListener | None

    def open(self) -> None: ...
    def check_open(self) -> None: ...
    def queued(self) -> list[ProducerBatch]: ...
    def wait_all(self, timeout_ms: int | None = None, total: bool = False) -> int: ...
    def raise_worker_exception(self) -> None: ...
    def drop_queued(self, error: KafkaException) -> int: ...
    def waiting_partitions(self) -> set[TopicPartition]: ...
    def continue_numbers(self) -> bool: ...


def check_consumer(param: Any, what: str, cluster: BaseCluster | None = None) -> None:
    """Check that transactions can commit the offsets of a consumer, and reset its positions.

    :param what: the call that needs it
    :param cluster: of the producer; None: it is checked by a later call
    :raises TypeError: it is no `KafkaConsumer`
    :raises ValueError: it commits by itself, has no group, or one that ZooKeeper keeps, or is of another cluster
    """
    if not hasattr(param, "_in_transaction"):
        raise TypeError(f"{what}: transactions need a consumer of client.consumer(...), not {type(param).__name__}")
    param._check_transactional(what, cluster)
