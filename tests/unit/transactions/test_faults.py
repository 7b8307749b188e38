"""The kinds of errors in transactions, and lanes of transactional producers."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from pykafka.exceptions import (
    ConcurrentTransactions,
    ConnectionRefused,
    ForeignClusterError,
    FrameTooLargeError,
    GroupAuthorizationFailed,
    GroupCoordinatorNotAvailable,
    GroupIdNotFound,
    IllegalGeneration,
    InvalidProducerEpoch,
    InvalidTxnState,
    KafkaException,
    NoBrokersAvailableError,
    NotCoordinatorForGroup,
    OutOfOrderSequenceNumber,
    ProducerFenced,
    RecordListTooLarge,
    ResponseTimeoutError,
    SocketDisconnectedError,
    TopicAuthorizationFailed,
    TopicRecreatedError,
    TransactionAbortable,
    TransactionalIdAuthorizationFailed,
    UnknownError,
    UnknownErrorCode,
    UnknownTopicId,
    UnknownTopicOrPartition,
    WrongBrokerError,
)
from pykafka.handlers import Handler
from pykafka.producer.in_flight_window import Verdict
from pykafka.transactions.coordinator import Coordinator
from pykafka.transactions.faults import Fault, changed_nothing, fault_of, fault_of_end, is_fence
from pykafka.transactions.states import TransactionalWindow


@pytest.mark.parametrize(
    ("error", "fault"),
    [
        (ConcurrentTransactions(), Fault.RETRY),
        (UnknownTopicOrPartition(), Fault.RETRY),
        (NotCoordinatorForGroup(), Fault.REFRESH),
        (SocketDisconnectedError(), Fault.REFRESH),
        (ResponseTimeoutError(), Fault.REFRESH),
        (TransactionAbortable(), Fault.ABORT),
        (TopicAuthorizationFailed(), Fault.ABORT),
        (GroupAuthorizationFailed(), Fault.ABORT),
        (IllegalGeneration(), Fault.ABORT),
        (GroupIdNotFound(), Fault.ABORT),
        (TopicRecreatedError("made anew"), Fault.ABORT),
        (UnknownTopicId(), Fault.RETRY),
        (WrongBrokerError(), Fault.REFRESH),
        (ProducerFenced(), Fault.FATAL),
        (InvalidProducerEpoch(), Fault.FATAL),
        (InvalidTxnState(), Fault.FATAL),
        (TransactionalIdAuthorizationFailed(), Fault.FATAL),
    ],
)
def test_the_kind_of_an_error(error: KafkaException, fault: Fault) -> None:
    assert fault_of(error) is fault
    assert is_fence(error) is isinstance(error, (ProducerFenced, InvalidProducerEpoch))


@pytest.mark.parametrize(
    ("error", "fault"),
    [
        (ConcurrentTransactions(), Fault.RETRY),
        (NotCoordinatorForGroup(), Fault.REFRESH),
        (ResponseTimeoutError(), Fault.REFRESH),
        (TransactionAbortable(), Fault.ABORT),
        (ProducerFenced(), Fault.FATAL),
        (InvalidProducerEpoch(), Fault.FATAL),
        (InvalidTxnState(), Fault.FATAL),
        (TransactionalIdAuthorizationFailed(), Fault.FATAL),
        (UnknownError(), Fault.UNKNOWN),
        (UnknownErrorCode(1234), Fault.UNKNOWN),
        (RecordListTooLarge(), Fault.UNKNOWN),
        (FrameTooLargeError(), Fault.UNKNOWN),
    ],
)
def test_an_answer_of_end_txn_that_proves_nothing_is_no_abort(error: KafkaException, fault: Fault) -> None:
    assert fault_of_end(error) is fault


@pytest.mark.parametrize(
    ("error", "proves"),
    [
        (ConnectionRefused(), True),
        (ConcurrentTransactions(), True),
        (InvalidTxnState(), True),
        (ProducerFenced(), True),
        (WrongBrokerError(), True),
        (ForeignClusterError(), True),
        (SocketDisconnectedError(), False),
        (ResponseTimeoutError(), False),
        (NotCoordinatorForGroup(), False),
        (GroupCoordinatorNotAvailable(), False),
        (UnknownError(), False),
    ],
)
def test_what_proves_that_a_request_has_changed_nothing(error: KafkaException, proves: bool) -> None:
    assert changed_nothing(error) is proves


def test_metadata_that_cannot_be_fetched_leaves_a_commit_answered(handler: Handler) -> None:
    """The group's coordinator has refused the offsets; whether the topic was recreated is another question."""

    def update(topics: list[str], timeout_ms: int) -> None:
        raise NoBrokersAvailableError("all are down")

    cluster = SimpleNamespace(handler=handler, socket_timeout_ms=1000, update=update)
    refusal = UnknownTopicId(topic="orders", partition=0)
    coordinator = Coordinator(cast(Any, cluster), cast(Any, None))
    assert coordinator._recreated(refusal, {}, handler.now() + 5) is refusal


def test_numbers_go_on_in_one_epoch_and_begin_anew_in_the_next() -> None:
    window: TransactionalWindow = TransactionalWindow()
    for epoch, wanted in ((0, 0), (0, 3), (1, 0)):
        window.follow(9, epoch)
        in_flight = window.begin("batch", 3)
        window.number(in_flight)
        assert (in_flight.producer_id, in_flight.epoch, in_flight.sequence) == (9, epoch, wanted)
        window.on_result(in_flight, None)


def test_a_gap_is_not_numbered_over() -> None:
    window: TransactionalWindow = TransactionalWindow()
    window.follow(9, 0)
    lost = window.begin("lost", 1)
    window.number(lost)
    window.drop(lost)
    window.begin("next", 1)
    assert window.stuck
    assert window.epoch == 0
    window.follow(9, 1)
    assert not window.stuck


def test_a_refused_epoch_fails_the_batch() -> None:
    window: TransactionalWindow = TransactionalWindow()
    window.follow(9, 0)
    in_flight = window.begin("batch", 1)
    window.number(in_flight)
    assert window.on_result(in_flight, InvalidProducerEpoch()) == [(in_flight, Verdict.FAILED)]
    assert not window.batches


def test_numbers_that_nothing_mends_leave_the_window_stuck() -> None:
    window: TransactionalWindow = TransactionalWindow()
    window.follow(9, 0)
    in_flight = window.begin("batch", 1)
    window.number(in_flight)
    window.on_result(in_flight, OutOfOrderSequenceNumber())
    assert window.next_retry() is in_flight
    assert window.stuck
