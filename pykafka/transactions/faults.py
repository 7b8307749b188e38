"""The kinds of errors in transactions (KIP-1050), as a table without I/O."""

from __future__ import annotations

from enum import Enum

from pykafka.exceptions import (
    ConcurrentTransactions,
    GroupCoordinatorNotAvailable,
    GroupLoadInProgress,
    InvalidProducerEpoch,
    InvalidProducerIdMapping,
    InvalidTransactionTimeout,
    InvalidTxnState,
    KafkaException,
    NoBrokersAvailableError,
    NotCoordinatorForGroup,
    ProducerFenced,
    ProtocolClientError,
    ThrottledError,
    TransactionAbortable,
    TransactionalIdAuthorizationFailed,
    TransactionalIdNotFound,
    TransactionCoordinatorFenced,
    UnsupportedVersion,
)
from pykafka.network.login import LOGIN_ERRORS


class Fault(Enum):
    """The consequence of an error for the transaction."""

    #: The same request again, after a pause.
    RETRY = "retriable"
    #: The coordinator has moved, or is gone: find it, then as RETRY.
    REFRESH = "refresh and retry"
    #: The transaction can only be aborted.
    ABORT = "abortable"
    #: The producer can make no more transactions.
    FATAL = "fatal"


#: Errors of requests to a coordinator; of an error whose class is not here, its nearest ancestor's.
FAULTS: dict[type[KafkaException], Fault] = {
    ConcurrentTransactions: Fault.RETRY,
    GroupLoadInProgress: Fault.RETRY,
    ThrottledError: Fault.RETRY,
    NotCoordinatorForGroup: Fault.REFRESH,
    GroupCoordinatorNotAvailable: Fault.REFRESH,
    NoBrokersAvailableError: Fault.REFRESH,
    **dict.fromkeys(LOGIN_ERRORS, Fault.FATAL),
    TransactionAbortable: Fault.ABORT,
    ProducerFenced: Fault.FATAL,
    InvalidProducerEpoch: Fault.FATAL,
    InvalidProducerIdMapping: Fault.FATAL,
    InvalidTxnState: Fault.FATAL,
    InvalidTransactionTimeout: Fault.FATAL,
    TransactionalIdAuthorizationFailed: Fault.FATAL,
    TransactionalIdNotFound: Fault.FATAL,
    TransactionCoordinatorFenced: Fault.FATAL,
    UnsupportedVersion: Fault.FATAL,
}

#: The errors of Produce that no abort mends. An old epoch is not one of them: the coordinator tells why, when asked.
FATAL_FOR_BATCHES = (TransactionalIdAuthorizationFailed, ProducerFenced)


def fault_of(error: KafkaException) -> Fault:
    """Return the consequence of an error that a coordinator answered, or that kept its answer from coming."""
    for cls in type(error).__mro__:
        if cls in FAULTS:
            return FAULTS[cls]
    if not isinstance(error, ProtocolClientError):
        return Fault.REFRESH if error.retriable else Fault.FATAL
    return Fault.RETRY if error.retriable else Fault.ABORT


def is_fence(error: KafkaException) -> bool:
    """Return whether an error says that another producer has the transactional id."""
    return isinstance(error, (ProducerFenced, InvalidProducerEpoch))
