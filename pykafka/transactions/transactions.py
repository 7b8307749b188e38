"""`Transactions`: begin, commit, abort and offsets of one producer's transactions, and the partitions in them."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Any, Never
from weakref import WeakKeyDictionary

from pykafka.common import TopicPartition
from pykafka.exceptions import (
    InvalidTxnState,
    KafkaException,
    RebalanceInProgress,
    ResponseTimeoutError,
    TopicRecreatedError,
    TransactionAbortableError,
    TransactionAbortedError,
    TransactionError,
    TransactionFatalError,
    TransactionUnfinishedError,
    UnknownTopicId,
)
from pykafka.handlers.interrupts import SingleCaller
from pykafka.metrics.listener import TRANSACTION, kind_of
from pykafka.transactions.coordinator import Coordinator, Groups
from pykafka.transactions.faults import (
    END_TXN,
    FATAL_FOR_BATCHES,
    Fault,
    answered_in_time,
    fatal_error,
    fault_of,
    fault_of_end,
    is_fence,
    is_out,
    unfinished_error,
)
from pykafka.transactions.late import LateRequests
from pykafka.transactions.states import (
    Event,
    State,
    TransactionalWindow,
    TransactionStatus,
    check_consumer,
    number_in_transaction,
)
from pykafka.utils.error_handlers import left_ms, valid_timeout

if TYPE_CHECKING:
    from pykafka.consumer.commit_calls import Committing, InTransaction
    from pykafka.handlers.base import LockType
    from pykafka.producer.accumulator import PartitionQueue
    from pykafka.producer.batch import ProducerBatch
    from pykafka.transactions.states import Engine

log = logging.getLogger(__name__)

#: The highest version of Produce in version 1 of transactions: later ones add partitions by themselves (KIP-890).
PRODUCE_EXPLICIT, PRODUCE_IMPLICIT = 11, 13
#: Maximum sleep of an abort between checks for batches in flight (s).
BATCH_POLL_INTERVAL_S = 0.05
#: How long a sender waits for AddPartitionsToTxn before its batches wait in the queue again (s).
ADD_PARTITIONS_TIMEOUT_S = 5.0
#: The requests that open a transaction at its coordinator.
OPENING_REQUESTS = {"AddPartitionsToTxn", "AddOffsetsToTxn"}
#: How often an abort without a clear answer is sent, and the pause (s).
MAX_UNCLEAR_ABORTS, UNCLEAR_ABORT_PAUSE_S = 3, 0.1
#: How events name the calls.
STEPS = {
    "init_transactions()": "init",
    "begin_transaction()": "begin",
    "send_offsets()": "send-offsets",
    "commit_transaction()": "commit",
    "abort_transaction()": "abort",
    "close()": "close",
}
#: The longest wait (s) that locks and events take.
LONGEST_S = 1_000_000.0


class Transactions:
    """The transactions of one producer.

    State: `status`, under the producer's lock. The running call of the application holds `_calls`, the sender that adds
    partitions holds `_adding`.

    :param engine: of the producer
    :param transactional_id: of the producer
    :param timeout_ms: after which the coordinator aborts a transaction
    :param max_block_ms: how long calls wait if they are given no timeout
    """

    def __init__(self, engine: Engine, transactional_id: str, timeout_ms: int, max_block_ms: int) -> None:
        self._engine = engine
        self._handler = engine.handler
        self.transactional_id = transactional_id
        self._timeout_ms = timeout_ms
        self._max_block_ms = max_block_ms
        self.status = TransactionStatus(transactional_id)
        self._coordinator = Coordinator(engine.cluster, self.status)
        self._late = LateRequests(engine.cluster, self.status, self._coordinator)
        self._consumers: WeakKeyDictionary[Committing, None] = WeakKeyDictionary()  # in their order
        #: The offsets in the transaction; those of the last one are kept until the next begins.
        self.sent_offsets: list[InTransaction] = []
        # Whether the consumers have read for a transaction that is neither committed nor aborted yet.
        self._reads = False
        self.begin_process()

    def begin_process(self) -> None:
        """Make what belongs to one process."""
        self._calls = SingleCaller(self._handler)
        self._adding = SingleCaller(self._handler)

    @property
    def produce_ceiling(self) -> int:
        """The highest version of Produce that these transactions may be sent by."""
        return PRODUCE_IMPLICIT if self.status.implicit else PRODUCE_EXPLICIT

    # -- the application's calls -----------------------------------------------------------------------------------

    @contextmanager
    def _call(self, turn: LockType, what: str, timeout: float | None) -> Iterator[float]:
        """Enter a call of the application, one at a time; the value is its deadline.

        :param turn: held by the call
        """
        seconds = min(self._max_block_ms / 1000 if timeout is None else valid_timeout(timeout), LONGEST_S)
        began, failure = self._handler.now(), None
        deadline = began + seconds
        if not self._calls.await_entry(turn, seconds):
            raise ResponseTimeoutError(f"{what}: another worker is in a call about the transaction of this producer")
        try:
            yield deadline
        except BaseException as error:
            failure = error
            raise
        finally:
            if self._engine.listener is not None:
                kind = kind_of(TRANSACTION, STEPS[what])
                about = f"transactional id {self.transactional_id}"
                self._engine.listener.on_event(kind, about, self._handler.now() - began, failure or "")
            if self.status.state in (State.FATAL, State.UNKNOWN):
                self._put_back()

    def init(self, timeout: float | None = None, consumer: Committing | None = None) -> None:
        """Fence producers with this transactional id; see `KafkaProducer.init_transactions`."""
        if consumer is not None:
            check_consumer(consumer, "init_transactions()", self._engine.cluster)
        with (turn := self._handler.Lock()), self._call(turn, "init_transactions()", timeout) as deadline:
            with answered_in_time(self.transactional_id, "init_transactions()"):
                is_ready = self._settle(deadline, consumer)
            if not is_ready:
                raise self.status.refusal("init_transactions()")

    def _settle(self, deadline: float, consumer: Committing | None = None) -> bool:
        """Finish an abort, and take an epoch for which no request comes late; return False if a transaction is open.

        :param consumer: of the transactions to come
        """
        if self.status.state is State.ABORTING:
            self._abort(deadline)
        if self.status.state in (State.UNINITIALIZED, State.INITIALIZING, State.UNKNOWN):
            self._init(deadline)
        elif self.status.state is not State.READY:
            return False
        if consumer is not None:
            self._late.expect(consumer, deadline)
        self._late.take()  # this producer may have fenced one since
        self._refuse_late(deadline)
        return True

    def _init(self, deadline: float, event: Event = Event.INIT) -> None:
        """Ask for an epoch: a producer that has one asks as this producer, and is refused if another has taken over.

        :param event: the reason
        """
        if self.status.state is State.UNKNOWN:
            self._end_left_open(deadline)
        with self._engine.lock:
            self.status.apply(event)
        with self._raising_fatal("the transactional id is not initialized"):
            again = self.status.producer_id >= 0
            producer_id, epoch, implicit = self._coordinator.init(self._timeout_ms, deadline, again)
            with self._engine.lock:
                self.status.identified(producer_id, epoch)
                self.status.implicit = implicit
                self._late.has_predecessor |= not again and epoch > 0
                self._late.take()
        text = "transactional id %s: producer id %d, epoch %d, transactions of version %d"
        log.info(text, self.transactional_id, producer_id, epoch, 2 if implicit else 1)

    def _take_new_epoch(self, deadline: float) -> None:
        """Take a new epoch, as a request about the present one may come late and count for the next transaction."""
        apis = ", ".join(sorted(self.status.unanswered))
        if self._coordinator.can_bump_epoch(deadline):
            if self.status.unanswered & OPENING_REQUESTS or self.status.may_come_late:
                self._end_left_open(deadline)
            log.info("transactional id %s: no answer to %s: taking a new epoch", self.transactional_id, apis)
            self._init(deadline, Event.REINIT)
            return
        text = "transactional id %s: no answer to %s, and brokers before Kafka 2.5 give no new epoch: if that request comes "
        log.warning(text + "late, it counts for the next transaction", self.transactional_id, apis)

    def _refuse_late(self, deadline: float) -> None:
        """Make brokers refuse all requests about ended transactions that may still come to them."""
        if self.status.unanswered:
            self._take_new_epoch(deadline)
        with self._raising_fatal("requests of the last transaction may still come"):
            self._late.refuse(deadline)

    def _try_to_refuse_late(self, deadline: float) -> None:
        """Do so after a transaction has ended as it should; if that fails, the next begin does it."""
        try:
            self._refuse_late(deadline)
        except KafkaException as error:
            then = "raises that" if isinstance(error, TransactionFatalError) else "asks again"
            log.info("transactional id %s: the next begin %s: %s", self.transactional_id, then, error)

    def _end_left_open(self, deadline: float) -> None:
        """Abort what the coordinator may have open: most releases would give a new epoch, and then refuse who asked for it.

        :raises TransactionUnfinishedError: it is not known in time
        """
        status = self.status
        for _ in range(MAX_UNCLEAR_ABORTS):
            try:
                producer_id, epoch = self._coordinator.end(False, deadline)
                if producer_id >= 0:
                    status.producer_id, status.epoch = producer_id, epoch
                return
            except KafkaException as error:
                if isinstance(error, InvalidTxnState) or is_fence(error):  # it has ended; a fence is raised once more
                    return
                fault = fault_of_end(error)
                if fault in (Fault.RETRY, Fault.REFRESH):
                    raise unfinished_error(
                        status.transactional_id, "is not ended; begin the next one again", error
                    ) from error
                with self._raising_fatal("the transaction has not ended"):
                    if fault is Fault.FATAL:
                        raise
            self._handler.sleep(UNCLEAR_ABORT_PAUSE_S)

    def begin(self, timeout: float | None = None, owner: object = None, consumer: Committing | None = None) -> None:
        """Begin a transaction; see `KafkaProducer.begin_transaction`.

        :param owner: the block that ends it; None: calls do
        :param consumer: put back by an abort
        """
        self._engine.check_open()
        with (turn := self._handler.Lock()), self._call(turn, "begin_transaction()", timeout) as deadline:
            with answered_in_time(self.transactional_id, "begin_transaction()"):
                self._settle(deadline, consumer)
            # first what an abort needs, which an interrupt may make necessary at any step from here on
            if consumer is not None:
                self.watch(consumer, "transaction()")
            self._reads = self._reads or self.status.state is State.READY
            with self._engine.lock:
                self.status.apply(Event.BEGIN, owner)
                self._engine.open()
            self.sent_offsets.clear()

    def commit(self, timeout: float | None = None, owner: object = None) -> None:
        """Commit the transaction; see `KafkaProducer.commit_transaction`.

        :param owner: the block that has begun it: one that has ended is left alone; None for any transaction
        """
        with (turn := self._handler.Lock()), self._call(turn, "commit_transaction()", timeout) as deadline:
            if owner is None or owner is self.status.owner:
                self._commit(deadline)

    def _commit(self, deadline: float) -> None:
        with self._engine.lock:
            self.status.apply(Event.COMMIT)
        self._engine.accumulator.close()
        if not self.status.end_sent:
            self._flush(deadline)
        with self._engine.lock:
            if self.status.state is not State.COMMITTING:  # a batch has failed
                raise self.status.refusal("commit_transaction()")
            self.status.end_sent = self.status.started
        self._end(True, deadline)

    def _flush(self, deadline: float) -> None:
        left = self._engine.wait_all(left_ms(deadline, self._handler.now(), 1), total=True)
        self._engine.raise_worker_exception()
        if left and self.status.state is State.COMMITTING:
            what = (
                f"is not committed, as {left} messages are not acknowledged yet; call commit_transaction() again, or "
            )
            raise unfinished_error(self.transactional_id, what + "abort_transaction()")

    def abort(self, timeout: float | None = None, owner: object = None) -> None:
        """Abort the transaction; see `KafkaProducer.abort_transaction`.

        :param owner: see `commit`
        """
        with (turn := self._handler.Lock()), self._call(turn, "abort_transaction()", timeout) as deadline:
            if owner is None or owner is self.status.owner:
                self._abort(deadline)

    def _abort(self, deadline: float) -> None:
        if self.status.lacks_epoch:
            self._take_epoch_after_abort(deadline, Event.INIT)
            return
        engine = self._engine
        engine.accumulator.close()
        if self.status.state is State.FATAL:
            engine.drop_queued(TransactionAbortedError("the message is of a transaction that was lost"))
        with engine.lock:
            self.status.apply(Event.ABORT)
        self._put_back()  # first: however the abort ends, what was read is read again
        error = TransactionAbortedError("the message was not sent before its transaction was aborted")
        pending = engine.queued()
        # A batch that has left its window is not reported yet, and a later failure would be the next transaction's.
        while engine.drop_queued(error) or not all(batch.done for batch in pending):
            left = deadline - self._handler.now()
            if left <= 0:
                raise self._unfinished("abort", None)
            engine.progress.wait(min(BATCH_POLL_INTERVAL_S, left))
            engine.progress.clear()
        try:
            self._end(False, deadline)
        finally:  # the abort has reported failed messages, also if only the next begin gets an epoch
            with engine.lock:
                if self.status.state is not State.FATAL:
                    engine.completion.failures.take()

    def _end(self, committed: bool, deadline: float) -> None:
        """Send EndTxn, if the coordinator knows of the transaction, and go to the next state."""
        status, following = self.status, (-1, -1)
        if status.started:
            try:
                following = self._coordinator.end(committed, deadline)
            except KafkaException as error:
                with self._raising_fatal("the transaction has not ended"):
                    if committed:
                        self._raise_uncommitted(error, deadline)
                    self._check_unaborted(error, deadline)
                status.broken = True
        if status.broken and not committed and following[0] < 0 and not self._keeps_epoch(deadline):
            status.late |= status.partitions
            self._take_epoch_after_abort(deadline, Event.REINIT)
            return
        with self._engine.lock:
            status.ended(*following)
        self._reads = False
        if status.late_groups:  # at once: whoever reads the group's offsets would wait for the next transaction
            self._try_to_refuse_late(deadline)

    def _take_epoch_after_abort(self, deadline: float, event: Event) -> None:
        """Take the epoch of the next transaction, and refuse what may still come to the one that is aborted.

        :param event: see `_init`
        :raises TransactionUnfinishedError: no epoch came in time
        """
        try:
            self._init(deadline, event)
        except TransactionError:
            raise
        except KafkaException as error:
            what = "is aborted, and lacks the epoch of the next one; call abort_transaction() again, or begin_transaction()"
            raise unfinished_error(self.transactional_id, what, error) from error
        self._try_to_refuse_late(deadline)

    def _raise_uncommitted(self, error: KafkaException, deadline: float) -> Never:
        """Raise the error of a failed commit, and set the state after it."""
        status, fault = self.status, fault_of_end(error)
        if fault in (Fault.RETRY, Fault.REFRESH):
            raise self._unfinished("commit", error)
        if END_TXN in status.unanswered and not is_fence(error):
            with self._engine.lock:
                status.on_outcome_unknown(error)
            refusal = status.refusal("commit_transaction()")
            try:
                self._end_left_open(deadline)  # at once: consumers that are put back wait for its end
            except KafkaException as failure:
                refusal.add_note(f"it could not be ended yet: {type(failure).__name__}: {failure}")
            raise refusal
        if fault is Fault.ABORT:  # the coordinator has not committed, and never will
            with self._engine.lock:
                status.end_sent = False
                status.fail(error)
            raise status.refusal("commit_transaction()")
        raise error

    def _check_unaborted(self, error: KafkaException, deadline: float) -> None:
        """Return if the transaction has ended in spite of the error; then the producer needs a new epoch.

        :raises KafkaException: it has not
        """
        status, fault = self.status, fault_of_end(error)
        if isinstance(error, InvalidTxnState) and not status.partitions and not status.groups:
            return  # nothing of it has reached the coordinator
        if fault in (Fault.RETRY, Fault.REFRESH):
            raise self._unfinished("abort", error)
        if fault is Fault.FATAL:
            raise error
        if not self._gives_epochs(deadline):
            raise self._unfinished("abort", error)
        self._end_left_open(deadline)

    def _gives_epochs(self, deadline: float) -> bool:
        """Return whether an abort can take a new epoch (since Kafka 2.5)."""
        try:
            return self._coordinator.can_bump_epoch(deadline)
        except KafkaException as error:
            if fault_of(error) is Fault.FATAL:
                raise
            raise self._unfinished("abort", error) from error

    def _keeps_epoch(self, deadline: float) -> bool:
        """Return whether the transaction behind an abort has the same epoch, as brokers give no other: numbers continue."""
        return not self._gives_epochs(deadline) and self._engine.continue_numbers()

    def _unfinished(self, what: str, cause: KafkaException | None) -> TransactionUnfinishedError:
        about = f"has no answer to its {what}, which may be made or not; call {what}_transaction() again"
        return unfinished_error(self.transactional_id, about, cause)

    @contextmanager
    def _raising_fatal(self, what: str) -> Iterator[None]:
        """Record fatal errors of a block, and raise them as `TransactionFatalError`."""
        try:
            yield
        except TransactionError:
            raise
        except KafkaException as error:
            if fault_of(error) is not Fault.FATAL:
                raise
            raise self._fatal(error, what) from error

    def _fatal(self, error: KafkaException, what: str) -> TransactionFatalError:
        doubt = ""
        if END_TXN in self.status.unanswered and self.status.end_sent:
            doubt = "; an earlier attempt to commit got no clear answer, so the transaction may be committed, or not"
        made = fatal_error(self.transactional_id, self._timeout_ms, error, what, doubt)
        if self._engine.cluster.listener is not None:
            self._engine.cluster.listener.on_fatal(made)
        with self._engine.lock:
            self._late.leave()
            self.status.on_fatal_error(made)
        return made

    def close(self, timeout: float | None = None) -> None:
        """Abort an open transaction; finish an abort, or a commit that was interrupted after it was sent."""
        with (turn := self._handler.Lock()), self._call(turn, "close()", timeout) as deadline:
            try:
                if self.status.state is State.COMMITTING and self.status.end_sent:
                    self._commit(deadline)
                elif self.status.state in (State.IN_TRANSACTION, State.ABORTABLE, State.COMMITTING, State.ABORTING):
                    self._abort(deadline)
                elif self.status.state in (State.READY, State.INITIALIZING) and self._late.take():
                    self._end_last(deadline)  # an end was cut off: its empty transaction may be open
            finally:
                if self.status.state is State.UNKNOWN:
                    self._end_last(deadline)

    def _end_last(self, deadline: float) -> None:
        """End a transaction for which readers may wait; the application has had its error already."""
        try:
            self._settle(deadline)
        except KafkaException as error:
            text = "transactional id %s: the coordinator ends the last transaction after transaction_timeout_ms=%d: %s"
            log.warning(text, self.transactional_id, self._timeout_ms, error)

    def after_fork(self) -> None:
        """Leave the transaction to the parent process."""
        self.begin_process()
        self._consumers = WeakKeyDictionary()
        text = "this process was forked, and the transactional id is its parent's: give a child another"
        self.status.on_fatal_error(TransactionFatalError(text))

    # -- offsets ---------------------------------------------------------------------------------------------------

    def watch(self, consumer: Committing, what: str) -> None:
        """Reset a consumer to its committed offsets after each abort from now on; see `check_consumer` for errors."""
        check_consumer(consumer, what, self._engine.cluster)
        self._consumers[consumer] = None

    def send_offsets(
        self, consumer: Committing, offsets: Mapping[TopicPartition, Any] | None, timeout: float | None = None
    ) -> None:
        """Commit a consumer's offsets with the transaction; see `KafkaProducer.send_offsets`."""
        with (turn := self._handler.Lock()), self._call(turn, "send_offsets()", timeout) as deadline:
            self.watch(consumer, "send_offsets()")
            if not self.status.accepts_records:
                raise self.status.refusal("send_offsets()")
            try:
                to_send = consumer._in_transaction(offsets, deadline)
            except (RebalanceInProgress, TopicRecreatedError, UnknownTopicId) as error:
                raise self._abortable_by(error) from error
            if to_send.offsets:
                self._run_step(lambda: self._send_offsets(consumer, to_send, deadline))

    def _send_offsets(self, consumer: Committing, to_send: InTransaction, deadline: float) -> None:
        group, name = to_send.group, to_send.group.name
        if name not in self.status.groups:
            self.status.started = True
            if not self.status.implicit:
                self._coordinator.add_offsets(name, deadline)
                self.status.groups.add(name)
        where = Groups(name, group.coordinator_by, group.forget_coordinator)
        tracer = self._engine.cluster.tracer
        with nullcontext() if tracer is None else tracer.committing(to_send.offsets, name):
            self._coordinator.commit_offsets(
                where, to_send.identity, to_send.offsets, to_send.epochs, deadline, to_send.ids
            )
        self.status.groups.add(name)
        consumer._check_held()  # another worker may read it, and may have lost a partition before the group had its offset
        consumer._settle(to_send.offsets)
        self.sent_offsets.append(to_send)

    def _run_step(self, step: Callable[[], None]) -> None:
        """Make a step of the open transaction; an error that is not retriable makes it abortable, or is fatal."""
        try:
            step()
        except TransactionError:
            raise
        except KafkaException as error:
            if fault_of(error) is Fault.FATAL:
                raise self._fatal(error, "its transaction is lost") from error
            raise self._abortable_by(error) from error

    def _abortable_by(self, error: KafkaException) -> TransactionAbortableError:
        """Record an error that makes the transaction abortable; return the error to raise."""
        with self._engine.lock:
            self.status.fail(error)
        why = "the group is in another generation than its member that has read the records: " if is_out(error) else ""
        return TransactionAbortableError(
            f"the transaction {self.transactional_id!r} can only be aborted, by abort_transaction(): {why}{error}"
        ).with_context(topic=error.topic, partition=error.partition)

    def _put_back(self) -> None:
        """Reset the consumers, once for each transaction: records that they read later are not part of it."""
        reads, self._reads = self._reads, False
        for consumer in list(self._consumers) if reads else ():
            consumer._put_back()

    # -- for the senders -------------------------------------------------------------------------------------------

    def make_window(self) -> TransactionalWindow:
        """Return the in-flight window of a partition."""
        return TransactionalWindow()

    def must_add(self, batches: Sequence[ProducerBatch]) -> bool:
        """Return whether partitions of some batches have to be added first; brokers do that in version 2 (KIP-890)."""
        if self.status.implicit:
            return False
        added = self.status.partitions
        return not all((batch.topic, batch.partition_id) in added for batch in batches)

    def number(self, batches: Sequence[ProducerBatch], queue_of: Callable[[ProducerBatch], PartitionQueue]) -> None:
        """Number batches, after adding their partitions to the transaction.

        :raises TransactionError: they cannot be sent any more
        :raises KafkaException: their partitions could not be added in time; they may be later
        """
        status = self.status
        if not status.implicit:
            self._add({TopicPartition(batch.topic, batch.partition_id) for batch in batches})
        with self._engine.lock:
            if not status.may_send:
                raise TransactionAbortedError("the transaction of this message failed before it was sent")
            number_in_transaction(status, batches, queue_of)
            status.started = True

    def _add(self, keys: set[TopicPartition]) -> None:
        if keys <= self.status.partitions:
            return
        with (turn := self._handler.Lock()):
            if not self._adding.await_entry(turn, ADD_PARTITIONS_TIMEOUT_S):
                raise ResponseTimeoutError("the partition is not in the transaction yet", api="AddPartitionsToTxn")
            missing = (keys | self._engine.waiting_partitions()) - self.status.partitions
            if not self.status.may_send or keys <= self.status.partitions:
                return
            self.status.started = True
            try:
                self._coordinator.add_partitions(missing, self._handler.now() + ADD_PARTITIONS_TIMEOUT_S)
            except KafkaException as error:
                fault = fault_of(error)
                if fault is Fault.FATAL:
                    raise self._fatal(error, "partitions cannot be added to the transaction") from error
                if fault is Fault.ABORT:
                    raise self._abortable_by(error) from error
                raise
            with self._engine.lock:
                self.status.partitions |= missing

    def failed(self, error: KafkaException) -> None:
        """Record that a batch of the transaction has failed."""
        if isinstance(error, FATAL_FOR_BATCHES):
            self._fatal(error, "its transaction is lost")
            return
        with self._engine.lock:
            self.status.broken = True
            self.status.fail(error)
