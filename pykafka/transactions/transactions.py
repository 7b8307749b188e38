"""`Transactions`: begin, commit, abort and offsets of one producer's transactions, and the partitions in them."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary, WeakSet

from pykafka.common import OffsetAndMetadata, TopicPartition
from pykafka.exceptions import (
    InvalidTxnState,
    KafkaException,
    ProducerFencedError,
    RebalanceInProgress,
    ResponseTimeoutError,
    TransactionAbortableError,
    TransactionAbortedError,
    TransactionError,
    TransactionFatalError,
    TransactionUnfinishedError,
)
from pykafka.handlers.turnstile import Turnstile
from pykafka.transactions.coordinator import Coordinator, Groups
from pykafka.transactions.faults import FATAL_FOR_BATCHES, Fault, fault_of, is_fence
from pykafka.transactions.lanes import TransactionalLane, number_in_transaction
from pykafka.transactions.ports import check_consumer
from pykafka.transactions.states import Event, Ledger, State
from pykafka.utils.error_handlers import valid_timeout

if TYPE_CHECKING:
    from pykafka.handlers.base import LockType
    from pykafka.producer.accumulator import PartitionQueue
    from pykafka.producer.batches import MessageBatch
    from pykafka.transactions.ports import Consumer, Engine

log = logging.getLogger(__name__)

#: The highest version of Produce in version 1 of transactions: later ones add partitions by themselves (KIP-890).
PRODUCE_EXPLICIT, PRODUCE_IMPLICIT = 11, 13
#: How often an abort looks whether batches are still on the wire (s), if nothing wakes it.
LOOK_S = 0.05
#: How long a sender waits for AddPartitionsToTxn before its batches wait in the queue again (s).
ADD_S = 5.0
#: How long a call waits without a limit (s): so long that locks and events take it.
LONGEST_S = 1_000_000.0


class Transactions:
    """The transactions of one producer.

    State: the ledger, under the producer's lock. `_calls` is held by the call of the application that goes on, `_adding` by the
    sender that adds partitions.

    :param engine: of the producer
    :param transactional_id: of the producer
    :param timeout_ms: after which the coordinator aborts a transaction
    :param max_block_ms: how long calls wait, where they are given no timeout
    """

    def __init__(self, engine: Engine, transactional_id: str, timeout_ms: int, max_block_ms: int) -> None:
        self._engine = engine
        self._handler = engine.handler
        self.transactional_id = transactional_id
        self._timeout_ms = timeout_ms
        self._max_block_ms = max_block_ms
        self.ledger = Ledger(transactional_id)
        self._coordinator = Coordinator(engine.cluster, self.ledger)
        self._consumers: WeakSet[Consumer] = WeakSet()
        # The generation in which each of them read when the transaction began.
        self._generations: WeakKeyDictionary[Consumer, int] = WeakKeyDictionary()
        # Whether the consumers have read for a transaction that is neither committed nor aborted yet.
        self._reads = False
        self.begin_process()

    def begin_process(self) -> None:
        """Make what belongs to one process."""
        self._calls = Turnstile(self._handler)
        self._adding = Turnstile(self._handler)

    @property
    def produce_ceiling(self) -> int:
        """The highest version of Produce that these transactions may be sent by."""
        return PRODUCE_IMPLICIT if self.ledger.implicit else PRODUCE_EXPLICIT

    # -- the application's calls -----------------------------------------------------------------------------------

    @contextmanager
    def _call(self, turn: LockType, what: str, timeout: float | None) -> Iterator[float]:
        """Enter a call of the application, of which one goes on at a time; the value is its deadline.

        :param turn: held by the call
        """
        seconds = min(self._max_block_ms / 1000 if timeout is None else valid_timeout(timeout), LONGEST_S)
        deadline = self._handler.now() + seconds
        if not self._calls.await_entry(turn, seconds):
            raise ResponseTimeoutError(f"{what}: another worker is in a call about the transaction of this producer")
        try:
            yield deadline
        finally:
            if self.ledger.state is State.FATAL:
                self._put_back()

    def init(self, timeout: float | None = None) -> None:
        """Fence producers with this transactional id; as of `KafkaProducer.init_transactions`."""
        with (turn := self._handler.Lock()), self._call(turn, "init_transactions()", timeout) as deadline:
            if self.ledger.state is State.ABORTING:
                self._abort(deadline)
            if self.ledger.state is not State.READY:
                # an epoch that was asked for after an abort, and did not come, is asked for as that of this producer
                self._init(deadline, again=self.ledger.producer_id >= 0)

    def _init(self, deadline: float, again: bool = False) -> None:
        if not again:
            with self._engine.lock:
                self.ledger.apply(Event.INIT)
        with self._fatal_ones("the transactional id is not initialized"):
            producer_id, epoch, implicit = self._coordinator.init(self._timeout_ms, deadline, again)
            with self._engine.lock:
                self.ledger.identified(producer_id, epoch)
                self.ledger.implicit = implicit
        log.info(
            "transactional id %s: producer id %d, epoch %d, transactions of version %d",
            *(self.transactional_id, producer_id, epoch, 2 if implicit else 1),
        )

    def begin(self, timeout: float | None = None) -> None:
        """Begin a transaction; as of `KafkaProducer.begin_transaction`."""
        self._engine.check_open()
        with (turn := self._handler.Lock()), self._call(turn, "begin_transaction()", timeout) as deadline:
            if self.ledger.state is State.ABORTING:
                self._abort(deadline)
            if self.ledger.state in (State.UNINITIALIZED, State.INITIALIZING):
                self._init(deadline, again=self.ledger.producer_id >= 0)
            with self._engine.lock:
                self.ledger.apply(Event.BEGIN)
            self._reads = True
            self._generations.clear()
            for consumer in list(self._consumers):
                generation = consumer._generation
                if generation is not None and generation >= 0:
                    self._generations[consumer] = generation
            self._engine.open()

    def commit(self, timeout: float | None = None) -> None:
        """Commit the transaction; as of `KafkaProducer.commit_transaction`."""
        with (turn := self._handler.Lock()), self._call(turn, "commit_transaction()", timeout) as deadline:
            with self._engine.lock:
                self.ledger.apply(Event.COMMIT)
            self._engine.accumulator.close()
            if not self.ledger.end_sent:
                self._flush(deadline)
            with self._engine.lock:
                if self.ledger.state is not State.COMMITTING:  # a batch has failed
                    raise self.ledger.refusal("commit_transaction()")
                self.ledger.end_sent = self.ledger.started
            self._end(True, deadline)

    def _flush(self, deadline: float) -> None:
        left_ms = max(1, round((deadline - self._handler.now()) * 1000))
        left = self._engine.wait_all(left_ms, total=True)
        self._engine.raise_worker_exception()
        if left and self.ledger.state is State.COMMITTING:
            raise TransactionUnfinishedError(
                f"{left} messages are not acknowledged yet, so the transaction {self.transactional_id!r} is not committed; "
                "call commit_transaction() again, or abort_transaction()"
            )

    def abort(self, timeout: float | None = None) -> None:
        """Abort the transaction; as of `KafkaProducer.abort_transaction`."""
        with (turn := self._handler.Lock()), self._call(turn, "abort_transaction()", timeout) as deadline:
            self._abort(deadline)

    def _abort(self, deadline: float) -> None:
        engine = self._engine
        engine.accumulator.close()
        if self.ledger.state is State.FATAL:
            engine.drop_queued(TransactionAbortedError("the message is of a transaction that was lost"))
        with engine.lock:
            self.ledger.apply(Event.ABORT)
        self._put_back()  # first: however the abort ends, what was read is read again
        error = TransactionAbortedError("the message was not sent before its transaction was aborted")
        pending = engine.queued()
        # A batch that has left its lane is not told of yet, and a failure that came later would be the next transaction's.
        while engine.drop_queued(error) or not all(batch.done for batch in pending):
            left = deadline - self._handler.now()
            if left <= 0:
                raise self._unfinished("abort", None)
            engine.progress.wait(min(LOOK_S, left))
            engine.progress.clear()
        self._end(False, deadline)
        with engine.lock:
            engine.settlement.failures.take()  # the abort has told of them

    def _end(self, committed: bool, deadline: float) -> None:
        """Send EndTxn, if the coordinator knows of the transaction, and go to the next state."""
        ledger, following = self.ledger, (-1, -1)
        if ledger.started:
            try:
                following = self._coordinator.end(committed, deadline)
            except KafkaException as error:
                unknown = not committed and isinstance(error, InvalidTxnState)
                if not unknown or ledger.partitions or ledger.groups:
                    with self._fatal_ones("the transaction has not ended"):
                        self._refuse(error, committed)
                ledger.broken = True  # nothing of it has reached the coordinator
        if ledger.broken and not committed and following[0] < 0:
            with self._engine.lock:
                ledger.apply(Event.REINIT)
            self._init(deadline, again=True)
            return
        with self._engine.lock:
            ledger.ended(*following)
        self._reads = False

    def _refuse(self, error: KafkaException, committed: bool) -> None:
        if fault_of(error) in (Fault.RETRY, Fault.REFRESH):
            raise self._unfinished("commit" if committed else "abort", error)
        if fault_of(error) is Fault.ABORT and committed:  # the coordinator has not committed, and never will
            with self._engine.lock:
                self.ledger.end_sent = False
                self.ledger.fail(error)
            raise self.ledger.refusal("commit_transaction()")
        raise error

    def _unfinished(self, what: str, cause: KafkaException | None) -> TransactionUnfinishedError:
        error = TransactionUnfinishedError(
            f"the {what} of the transaction {self.transactional_id!r} is not answered in time, and may be made or not; call "
            f"{what}_transaction() again{'' if cause is None else f'. The last error was: {cause}'}"
        )
        error.__cause__ = cause
        return error

    @contextmanager
    def _fatal_ones(self, what: str) -> Iterator[None]:
        """Note fatal errors of a block, and raise them as what they are for the application."""
        try:
            yield
        except TransactionError:
            raise
        except KafkaException as error:
            if fault_of(error) is not Fault.FATAL:
                raise
            raise self._dead(error, what) from error

    def _dead(self, error: KafkaException, what: str) -> TransactionFatalError:
        if is_fence(error):
            made: TransactionFatalError = ProducerFencedError(
                f"another producer has taken over the transactional id {self.transactional_id!r}, or the transaction was open "
                f"for longer than transaction_timeout_ms={self._timeout_ms}; close() this producer, and make another if this "
                f"program is still to write: {error}"
            )
        else:
            late = f" (it may have been open for longer than transaction_timeout_ms={self._timeout_ms})"
            about = f"{what}{late if isinstance(error, InvalidTxnState) else ''}"
            made = TransactionFatalError(
                f"transactional id {self.transactional_id!r}: {about}: {error}; close() the producer, and make another"
            )
        with self._engine.lock:
            self.ledger.die(made)
        return made

    def close(self, timeout: float | None = None) -> None:
        """Abort what is open, and finish an abort, or a commit that was interrupted after it was sent."""
        if self.ledger.state is State.COMMITTING and self.ledger.end_sent:
            self.commit(timeout)
        elif self.ledger.state in (State.IN_TRANSACTION, State.ABORTABLE, State.COMMITTING, State.ABORTING):
            self.abort(timeout)

    def after_fork(self) -> None:
        """Leave the transaction to the parent process, whose it is."""
        self.begin_process()
        self._consumers = WeakSet()
        self.ledger.die(
            TransactionFatalError(
                "this process was forked, and the transactional id is its parent's: give a child another"
            )
        )

    # -- offsets ---------------------------------------------------------------------------------------------------

    def watch(self, consumer: Consumer) -> None:
        """Put a consumer back to its committed offsets after each abort from now on.

        :raises TypeError: it cannot be put back
        :raises ValueError: it commits by itself
        """
        check_consumer(consumer)
        consumer._in_transaction({})
        self._consumers.add(consumer)

    def send_offsets(
        self, consumer: Consumer, offsets: Mapping[TopicPartition, Any] | None, timeout: float | None = None
    ) -> None:
        """Commit a consumer's offsets with the transaction; as of `KafkaProducer.send_offsets`."""
        self.watch(consumer)
        patience = math.inf if timeout is None else valid_timeout(timeout)
        group, taken, epochs = consumer._in_transaction(offsets, self._handler.now() + patience)
        member = group.membership
        with (turn := self._handler.Lock()), self._call(turn, "send_offsets()", timeout) as deadline:
            if not self.ledger.takes:
                raise self.ledger.refusal("send_offsets()")
            self._check_generation(consumer)
            if not taken:
                return
            identity = (member.generation_id, member.member_id, member.group_instance_id)
            self._guarded(lambda: self._send_offsets(group, identity, taken, epochs, deadline))

    def _check_generation(self, consumer: Consumer) -> None:
        """Raise where records of the transaction may be others' by now: their offsets would be left out, or not be ours."""
        generation = consumer._generation
        if generation is None or generation == self._generations.get(consumer, max(generation, 0)):
            return
        error = RebalanceInProgress(
            "the consumer has left its group, or came into another generation of it, within the transaction: what it had read "
            "before may be read by other members",
            api="TxnOffsetCommit",
        )
        with self._engine.lock:
            self.ledger.fail(error)
        raise self._abortable(error) from error

    def _send_offsets(
        self,
        group: Any,
        member: tuple[int, str, str | None],
        offsets: Mapping[TopicPartition, OffsetAndMetadata],
        epochs: Mapping[TopicPartition, int],
        deadline: float,
    ) -> None:
        name = group.name
        if name not in self.ledger.groups:
            self.ledger.started = True
            if not self.ledger.implicit:
                self._coordinator.add_offsets(name, deadline)
                self.ledger.groups.add(name)
        where = Groups(name, lambda: group.coordinator, group.discover)
        self._coordinator.commit_offsets(where, member, offsets, epochs, deadline)
        self.ledger.groups.add(name)

    def _guarded(self, step: Callable[[], None]) -> None:
        """Make a step of the open transaction; an error that no other attempt mends makes it abortable, or is fatal."""
        try:
            step()
        except TransactionError:
            raise
        except KafkaException as error:
            if fault_of(error) is Fault.FATAL:
                raise self._dead(error, "its transaction is lost") from error
            with self._engine.lock:
                self.ledger.fail(error)
            raise self._abortable(error) from error

    def _abortable(self, error: KafkaException) -> TransactionAbortableError:
        return TransactionAbortableError(
            f"the transaction {self.transactional_id!r} can only be aborted, by abort_transaction(): {error}"
        ).with_context(topic=error.topic, partition=error.partition)

    def _put_back(self) -> None:
        """Put the consumers back, once for each transaction: what they read after that is not part of it."""
        reads, self._reads = self._reads, False
        for consumer in list(self._consumers) if reads else ():
            consumer._put_back()

    # -- for the senders -------------------------------------------------------------------------------------------

    def lane(self) -> TransactionalLane[Any]:
        """Return the lane of a partition."""
        return TransactionalLane()

    def number(self, batches: Sequence[MessageBatch], queue_of: Callable[[MessageBatch], PartitionQueue]) -> None:
        """Give batches their numbers, and their partitions a place in the transaction.

        :raises TransactionError: they cannot be sent any more
        :raises KafkaException: their partitions could not be added in time; they may be later
        """
        ledger = self.ledger
        if not ledger.implicit:
            self._add({TopicPartition(batch.topic, batch.partition_id) for batch in batches})
        with self._engine.lock:
            if not ledger.sends:
                raise TransactionAbortedError("the transaction of this message failed before it was sent")
            number_in_transaction(ledger, batches, queue_of)
            ledger.started = True

    def _add(self, keys: set[TopicPartition]) -> None:
        if keys <= self.ledger.partitions:
            return
        with (turn := self._handler.Lock()):
            if not self._adding.await_entry(turn, ADD_S):
                raise ResponseTimeoutError("the partition is not in the transaction yet", api="AddPartitionsToTxn")
            missing = (keys | self._engine.waiting_partitions()) - self.ledger.partitions
            if not self.ledger.sends or keys <= self.ledger.partitions:
                return
            self.ledger.started = True
            try:
                self._coordinator.add_partitions(missing, self._handler.now() + ADD_S)
            except KafkaException as error:
                fault = fault_of(error)
                if fault is Fault.FATAL:
                    raise self._dead(error, "partitions cannot be added to the transaction") from error
                if fault is Fault.ABORT:
                    with self._engine.lock:
                        self.ledger.fail(error)
                    raise self._abortable(error) from error
                raise
            with self._engine.lock:
                self.ledger.partitions |= missing

    def failed(self, error: KafkaException) -> None:
        """Note that a batch of the transaction has failed."""
        if isinstance(error, FATAL_FOR_BATCHES):
            self._dead(error, "its transaction is lost")
            return
        with self._engine.lock:
            self.ledger.broken = True
            self.ledger.fail(error)
