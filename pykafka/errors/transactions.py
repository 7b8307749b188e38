"""Errors of transactions, by kind (KIP-1050). Import them from `pykafka.exceptions`."""

from __future__ import annotations

from pykafka.errors.base import KafkaException

__all__ = [
    "ProducerFencedError",
    "TransactionAbortableError",
    "TransactionAbortedError",
    "TransactionError",
    "TransactionFatalError",
    "TransactionOutcomeUnknownError",
    "TransactionStateError",
    "TransactionUnfinishedError",
]


class TransactionError(KafkaException):
    """Base of the errors of transactions."""


class TransactionStateError(TransactionError):
    """Raised when a call does not fit the state of the transaction; the text names the call that does."""


class TransactionAbortableError(TransactionError):
    """Raised when the transaction can only be aborted; the producer goes on after that. `__cause__` is the reason."""


class TransactionAbortedError(TransactionError):
    """The error of messages that were not sent when their transaction was aborted."""


class TransactionUnfinishedError(TransactionError):
    """Raised when it is not known in time whether a transaction has ended. Call the same method again."""

    retriable = True


class TransactionOutcomeUnknownError(TransactionError):
    """Raised when a commit was sent, and neither an answer nor another attempt can tell whether it was made.

    Do not write the messages again before you know: docs/transactions.md says how to learn it. Its consumers are put back to
    their committed offsets, and the producer can begin the next transaction. `__cause__` is the last answer.
    """


class TransactionFatalError(TransactionError):
    """Raised when the producer can make no more transactions: close it, and make another. `__cause__` is the reason."""


class ProducerFencedError(TransactionFatalError):
    """Raised when another producer has taken over the transactional id: this one has to stop.

    From `commit_transaction()`: nothing is committed, unless the text says that the answer of an earlier attempt was lost.
    """
