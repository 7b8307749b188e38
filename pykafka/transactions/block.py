"""`Transaction`: one transaction as a `with` block."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykafka.transactions.ports import check_consumer
from pykafka.transactions.states import State

if TYPE_CHECKING:
    from types import TracebackType

    from pykafka.transactions.ports import Consumer
    from pykafka.transactions.transactions import Transactions

#: The states in which a transaction is open that has not been committed yet.
OPEN = (State.IN_TRANSACTION, State.ABORTABLE)
#: The state, and whether EndTxn was sent, of a commit that was interrupted.
SENT = (State.COMMITTING, True)
#: How long an abort may take where an interrupt, a timeout or a cancellation has ended the block (s): its caller is in a hurry,
#: and the next transaction, or `close()`, goes on with the abort.
INTERRUPTED_S = 5.0


class Transaction:
    """One transaction: `producer.transaction()` makes it.

    :param transactions: of the producer
    :param consumer: put back to its committed offsets by an abort
    """

    def __init__(self, transactions: Transactions, consumer: Consumer | None = None) -> None:
        self._transactions = transactions
        self._consumer = consumer
        if consumer is not None:
            check_consumer(consumer, "transaction()")

    def __enter__(self) -> Transaction:
        """Begin it; errors as of `begin_transaction()`, after which the consumer is put back as by an abort."""
        ledger = self._transactions.ledger
        try:
            self._transactions.begin(owner=self, consumer=self._consumer)
        except BaseException as error:
            if (
                ledger.owner is self and ledger.state is not State.READY
            ):  # interrupted after it had begun: nobody would end it
                self._abort(error)
            elif self._consumer is not None and ledger.state not in OPEN:  # what it has read is in no transaction
                self._consumer._put_back()
            raise
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Commit it, or abort it on an exception; errors as of `commit_transaction()`."""
        if exc is not None:
            self._abort(exc)
            return
        try:
            self._transactions.commit(owner=self)
        except BaseException as error:
            self._abort(error)
            raise

    def _abort(self, error: BaseException) -> None:
        """Abort because of an error, if that is possible yet; what goes wrong is a note of the error."""
        transactions = self._transactions
        ledger = transactions.ledger
        if ledger.owner is self and (ledger.state is State.UNKNOWN or (ledger.state, ledger.end_sent) == SENT):
            if ledger.state is State.COMMITTING:
                error.add_note("it is not known whether the transaction is committed: call commit_transaction() again")
            return
        try:
            transactions.abort(None if isinstance(error, Exception) else INTERRUPTED_S, owner=self)
        except Exception as failure:  # noqa: BLE001 - the error of the block comes first, and the next begin tries again
            error.add_note(f"the transaction could not be aborted: {type(failure).__name__}: {failure}")
