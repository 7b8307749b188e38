"""`Transacting`: the part of `KafkaProducer` that is about transactions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pykafka.exceptions import TransactionStateError
from pykafka.transactions.states import State, check_consumer

if TYPE_CHECKING:
    from types import TracebackType

    from pykafka.common import OffsetAndMetadata, TopicPartition
    from pykafka.consumer.commit_calls import Committing
    from pykafka.transactions.transactions import Transactions


#: The states in which a transaction is open that has not been committed yet.
OPEN = (State.IN_TRANSACTION, State.ABORTABLE)
#: The state, and whether EndTxn was sent, of a commit that was interrupted.
SENT = (State.COMMITTING, True)
#: How long an abort may take after an interrupt, a timeout or a cancellation of the block (s): the next transaction, or
#: `close()`, continues the abort.
ABORT_TIMEOUT_S = 5.0


class Transaction:
    """One transaction: `producer.transaction()` makes it.

    :param transactions: of the producer
    :param consumer: put back to its committed offsets by an abort
    """

    def __init__(self, transactions: Transactions, consumer: Committing | None = None) -> None:
        self._transactions = transactions
        self._consumer = consumer
        if consumer is not None:
            check_consumer(consumer, "transaction()")

    def __enter__(self) -> Transaction:
        """Begin it; see `begin_transaction()` for errors, after which the consumer is reset as by an abort."""
        status = self._transactions.status
        try:
            self._transactions.begin(owner=self, consumer=self._consumer)
        except BaseException as error:
            if status.owner is self and status.state is not State.READY:  # interrupted after it had begun
                self._abort(error)
            elif self._consumer is not None and status.state not in OPEN:  # what it has read is in no transaction
                self._consumer._put_back()
            raise
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Commit it, or abort it on an exception; see `commit_transaction()` for errors."""
        if exc is not None:
            self._abort(exc)
            return
        try:
            self._transactions.commit(owner=self)
        except BaseException as error:
            self._abort(error)
            raise

    def _abort(self, error: BaseException) -> None:
        """Abort because of an error, if that is still possible; a failure of the abort is a note of the error."""
        transactions = self._transactions
        status = transactions.status
        if status.owner is self and (status.state is State.UNKNOWN or (status.state, status.end_sent) == SENT):
            if status.state is State.COMMITTING:
                error.add_note("it is not known whether the transaction is committed: call commit_transaction() again")
            return
        try:
            transactions.abort(None if isinstance(error, Exception) else ABORT_TIMEOUT_S, owner=self)
        except Exception as failure:  # noqa: BLE001 - the error of the block comes first, and the next begin tries again
            error.add_note(f"the transaction could not be aborted: {type(failure).__name__}: {failure}")


class Transacting:
    """The calls about transactions: one runs at a time; a second worker waits for it, within its own time."""

    _transactions: Transactions | None = None
    _engine: Any

    def init_transactions(self, timeout: float | None = None, consumer: Committing | None = None) -> None:
        """Fence other producers with this transactional id, and wait until what they left open is ended (KIP-98).

        `begin_transaction()` does it if it was not called. Call it before you read what earlier transactions have committed.

        :param timeout: how long to wait (s); None: `max_block_ms`
        :param consumer: a `KafkaConsumer` whose offsets the transactions are to commit: name it before it reads. Brokers before
            Kafka 3.6 take offsets of a predecessor that died, behind the end of its transaction, and the consumer would wait
            for ever; two requests, if there was a predecessor, make them refuse those
        :raises TransactionStateError: a transaction is open, or the producer has no transactional id
        :raises TransactionFatalError: the cluster refuses, as without permission for the transactional id
        :raises ValueError: see `send_offsets`
        :raises TransactionUnfinishedError: it is not complete in time, though tried until then; call it again
        :raises KafkaException: brokers refuse for another reason
        """
        self._given("init_transactions()").init(timeout, consumer)

    def begin_transaction(self, timeout: float | None = None) -> None:
        """Begin a transaction: messages from now on are part of it. Waits for brokers only if an epoch is needed.

        :param timeout: how long to wait (s); None: `max_block_ms`
        :raises TransactionStateError: one is open, or its commit was interrupted
        :raises TransactionFatalError: the producer can make no more transactions
        :raises TransactionUnfinishedError: it is not complete in time, though tried until then; call it again
        :raises KafkaException: brokers refuse for another reason
        """
        self._given("begin_transaction()").begin(timeout)

    def commit_transaction(self, timeout: float | None = None) -> None:
        """Deliver what is queued, and commit the transaction: messages and offsets become visible together.

        :param timeout: how long to wait (s); None: `max_block_ms`
        :raises TransactionAbortableError: a message or the offsets failed, so nothing is committed; call `abort_transaction()`
        :raises TransactionUnfinishedError: it is not known in time; call it again
        :raises TransactionOutcomeUnknownError: it is not known whether it is committed, and another call would not show
            it: learn it as docs/transactions.md says; the next transaction can begin
        :raises ProducerFencedError: another producer has the transactional id. Nothing is committed, unless an earlier attempt
            got no answer: then the text says that it may be committed
        :raises TransactionFatalError: the producer can make no more transactions; likewise
        :raises TransactionStateError: no transaction is open
        """
        self._given("commit_transaction()").commit(timeout)

    def abort_transaction(self, timeout: float | None = None) -> None:
        """Abort the transaction: drop what is queued, and put its consumers back to their committed offsets.

        Messages that were not sent fail with `TransactionAbortedError`; `flush()` and `close()` do not raise that.

        :param timeout: how long to wait (s); None: `max_block_ms`
        :raises TransactionUnfinishedError: it is not complete in time, as the text says; call it again, or begin the next one
        :raises ProducerFencedError: another producer has the transactional id, and its coordinator has aborted this
        :raises TransactionFatalError: the producer can make no more transactions
        :raises TransactionStateError: no transaction is open
        """
        self._given("abort_transaction()").abort(timeout)

    def transaction(self, consumer: Committing | None = None) -> Transaction:
        """Return a transaction for a `with` block: committed on leaving it, aborted on any exception.

        That is also a greenlet's timeout, a cancellation and Ctrl-C.

        :param consumer: a `KafkaConsumer` that an abort puts back to its committed offsets, as `send_offsets()` does
        :raises TransactionStateError: the producer has no transactional id
        :raises ValueError: see `send_offsets`
        """
        return Transaction(self._given("transaction()"), consumer)

    def send_offsets(
        self,
        consumer: Committing,
        offsets: Mapping[TopicPartition, int | OffsetAndMetadata] | None = None,
        timeout: float | None = None,
    ) -> None:
        """Commit a consumer's offsets with the transaction, or not at all (KIP-447).

        The group refuses it if the consumer is out of the group by now. An abort puts the consumer back to its committed
        offsets, from this call on.

        :param consumer: a `KafkaConsumer` of a group, without `auto_commit`
        :param offsets: {TopicPartition: offset of the next record}; None: behind all that the consumer has returned
        :param timeout: how long to wait, also for the consumer's own commits before it (s); None: `max_block_ms`
        :raises TransactionAbortableError: the group refuses; call `abort_transaction()`
        :raises ValueError: the consumer commits by itself, is of another cluster, or has no group, or one that ZooKeeper keeps
        :raises TransactionStateError: no transaction is open
        :raises TransactionFatalError: the producer can make no more transactions
        """
        self._given("send_offsets()").send_offsets(consumer, offsets, timeout)

    def _given(self, what: str) -> Transactions:
        found: Any = self._transactions
        if found is None:
            raise TransactionStateError(
                f"{what} needs a producer with transactions: client.producer(transactional_id=...)"
            )
        self._engine.check_open()
        return found  # type: ignore[no-any-return]
