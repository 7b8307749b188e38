"""The kinds of errors in transactions (KIP-1050), as a table without I/O."""

from __future__ import annotations

from enum import Enum

from pykafka.exceptions import (
    ConcurrentTransactions,
    ConnectionRefused,
    ConnectTimeoutError,
    FencedInstanceId,
    FencedMemberEpoch,
    GroupCoordinatorNotAvailable,
    GroupLoadInProgress,
    IllegalGeneration,
    InvalidProducerEpoch,
    InvalidProducerIdMapping,
    InvalidRequest,
    InvalidTransactionTimeout,
    InvalidTxnState,
    KafkaException,
    NameResolutionError,
    NoBrokersAvailableError,
    NotCoordinatorForGroup,
    ProducerFenced,
    ProtocolClientError,
    ProxyError,
    StaleMemberEpoch,
    ThrottledError,
    TlsError,
    TransactionAbortable,
    TransactionalIdAuthorizationFailed,
    TransactionalIdNotFound,
    TransactionCoordinatorFenced,
    UnknownMemberId,
    UnsupportedVersion,
)
from pykafka.network.authentication import LOGIN_ERRORS


class Fault(Enum):
    """The consequence of an error for the transaction."""

    #: The same request again, after a pause.
    RETRY = "retriable"
    #: The coordinator has moved, or is gone: find it, then as RETRY.
    REFRESH = "refresh and retry"
    #: The transaction can only be aborted.
    ABORT = "abortable"
    #: Whether the coordinator has ended the transaction is not known, and the same request again would not tell.
    UNKNOWN = "outcome unknown"
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
#: The answers of a group to a member that is out of it, or of another generation.
OUT_OF_GROUP = (FencedInstanceId, FencedMemberEpoch, IllegalGeneration, StaleMemberEpoch, UnknownMemberId)


def fault_of(error: KafkaException) -> Fault:
    """Return the consequence of an error that a coordinator answered, or that kept its answer from coming."""
    for cls in type(error).__mro__:
        if cls in FAULTS:
            return FAULTS[cls]
    if not isinstance(error, ProtocolClientError):
        return Fault.REFRESH if error.retriable else Fault.FATAL
    return Fault.RETRY if error.retriable else Fault.ABORT


#: Answers which say that their EndTxn changed nothing, and never will. Any other error may come after the coordinator has
#: written its decision: UNKNOWN_SERVER_ERROR; COORDINATOR_NOT_AVAILABLE and NOT_COORDINATOR if replicas failed meanwhile.
UNCHANGED = (
    ConcurrentTransactions,
    GroupLoadInProgress,
    TransactionAbortable,
    ProducerFenced,
    InvalidProducerEpoch,
    InvalidProducerIdMapping,
    InvalidTxnState,
    InvalidRequest,
    TransactionalIdAuthorizationFailed,
    TransactionalIdNotFound,
    UnsupportedVersion,
)
#: Errors of requests that were not sent.
NOT_SENT = (
    ConnectionRefused,
    ConnectTimeoutError,
    NameResolutionError,
    NoBrokersAvailableError,
    ProxyError,
    ThrottledError,
    TlsError,
    *LOGIN_ERRORS,
)


def is_settled(error: KafkaException) -> bool:
    """Return whether an error proves that its request has changed nothing, and will change nothing later."""
    return isinstance(error, (*UNCHANGED, *NOT_SENT))


def fault_of_end(error: KafkaException) -> Fault:
    """Return the consequence of an error of EndTxn: as `fault_of`, but what proves nothing is UNKNOWN."""
    fault = fault_of(error)
    return fault if fault in (Fault.RETRY, Fault.REFRESH) or is_settled(error) else Fault.UNKNOWN


def is_fence(error: KafkaException) -> bool:
    """Return whether an error says that another producer has the transactional id."""
    return isinstance(error, (ProducerFenced, InvalidProducerEpoch))


def is_out(error: KafkaException) -> bool:
    """Return whether the group has refused the offsets of a member that is out of it, or of another generation."""
    return isinstance(error, OUT_OF_GROUP)
