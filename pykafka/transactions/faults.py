"""The consequence of an error for a transaction: `Fault`, and the tables by which errors are judged (KIP-1050). No I/O."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from enum import Enum

from pykafka.exceptions import (
    ConcurrentTransactions,
    ConnectionRefused,
    ConnectTimeoutError,
    FencedInstanceId,
    FencedMemberEpoch,
    GroupCoordinatorNotAvailable,
    GroupIdNotFound,
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
    ProducerFencedError,
    ProtocolClientError,
    ProxyError,
    RequestTimedOut,
    StaleMemberEpoch,
    ThrottledError,
    TlsError,
    TopicRecreatedError,
    TransactionAbortable,
    TransactionalIdAuthorizationFailed,
    TransactionalIdNotFound,
    TransactionCoordinatorFenced,
    TransactionError,
    TransactionFatalError,
    TransactionUnfinishedError,
    UnknownMemberId,
    UnsupportedVersion,
    WrongBrokerError,
)
from pykafka.network.authentication import LOGIN_ERRORS

#: The errors of Produce after which no abort helps. An old epoch is not one of them: the coordinator returns the reason.
FATAL_FOR_BATCHES = (TransactionalIdAuthorizationFailed, ProducerFenced)
#: The errors of a group for a member that is out of it, or of another generation.
OUT_OF_GROUP = (
    FencedInstanceId,
    FencedMemberEpoch,
    GroupIdNotFound,
    IllegalGeneration,
    StaleMemberEpoch,
    UnknownMemberId,
)
#: Errors which prove that their EndTxn changed nothing, and never will. Any other error may come after the coordinator has
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
    WrongBrokerError,
    *LOGIN_ERRORS,
)
#: The request whose answer says how the transaction has ended.
END_TXN = "EndTxn"


class Fault(Enum):
    """The consequence of an error for the transaction."""

    #: The same request again, after a pause.
    RETRY = "retriable"
    #: The coordinator has moved, or is gone: find it, then as RETRY.
    REFRESH = "refresh and retry"
    #: The transaction can only be aborted.
    ABORT = "abortable"
    #: It is not known whether the coordinator has ended the transaction, and another attempt would not show it.
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
    RequestTimedOut: Fault.REFRESH,
    NoBrokersAvailableError: Fault.REFRESH,
    **dict.fromkeys(LOGIN_ERRORS, Fault.FATAL),
    TransactionAbortable: Fault.ABORT,
    TopicRecreatedError: Fault.ABORT,
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


def fault_of(error: KafkaException) -> Fault:
    """Return the consequence of an error that a coordinator answered, or that kept its answer from coming."""
    for cls in type(error).__mro__:
        if cls in FAULTS:
            return FAULTS[cls]
    if not isinstance(error, ProtocolClientError):
        return Fault.REFRESH if error.retriable else Fault.FATAL
    return Fault.RETRY if error.retriable else Fault.ABORT


def changed_nothing(error: KafkaException) -> bool:
    """Return whether an error proves that its request has changed nothing, and will change nothing later."""
    return isinstance(error, (*UNCHANGED, *NOT_SENT))


def fault_of_end(error: KafkaException) -> Fault:
    """Return the consequence of an error of EndTxn: see `fault_of`; an error that proves nothing is UNKNOWN."""
    fault = fault_of(error)
    return fault if fault in (Fault.RETRY, Fault.REFRESH) or changed_nothing(error) else Fault.UNKNOWN


def is_fence(error: KafkaException) -> bool:
    """Return whether an error says that another producer has the transactional id."""
    return isinstance(error, (ProducerFenced, InvalidProducerEpoch))


def is_out(error: KafkaException) -> bool:
    """Return whether the group has refused the offsets of a member that is out of it, or of another generation."""
    return isinstance(error, OUT_OF_GROUP)


def fatal_error(
    transactional_id: str, timeout_ms: int, error: KafkaException, what: str, doubt: str
) -> TransactionFatalError:
    """Return the error of a producer that can make no more transactions.

    :param timeout_ms: after which the coordinator aborts a transaction
    :param error: that a broker answered
    :param what: has failed
    :param doubt: ends the text, if it is not known whether a transaction is committed
    """
    if is_fence(error):
        return ProducerFencedError(
            f"another producer has taken over the transactional id {transactional_id!r}, or the transaction was open "
            f"for longer than transaction_timeout_ms={timeout_ms}; close() this producer, and make another if this "
            f"program is still to write: {error}{doubt}"
        )
    late = f" (it may have been open for longer than transaction_timeout_ms={timeout_ms})"
    about = f"{what}{late if isinstance(error, InvalidTxnState) else ''}"
    return TransactionFatalError(
        f"transactional id {transactional_id!r}: {about}: {error}; close() the producer, and make another{doubt}"
    )


def unfinished_error(
    transactional_id: str, what: str, cause: KafkaException | None = None
) -> TransactionUnfinishedError:
    """Return the error of a call that is not complete in time.

    :param what: has become of the transaction, and what to do
    :param cause: the last error
    """
    last = "" if cause is None else f". The last error was: {cause}"
    error = TransactionUnfinishedError(f"not complete in time: the transaction {transactional_id!r} {what}{last}")
    error.__cause__ = cause
    return error


@contextmanager
def answered_in_time(transactional_id: str, call: str) -> Iterator[None]:
    """Raise retriable errors of a block, which has retried them until the time was up, as `TransactionUnfinishedError`.

    :param call: to make again
    """
    try:
        yield
    except TransactionError:
        raise
    except KafkaException as error:
        if fault_of(error) not in (Fault.RETRY, Fault.REFRESH):
            raise
        raise unfinished_error(transactional_id, f"cannot begin; call {call} again", error) from error
