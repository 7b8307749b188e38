"""The kinds of errors in transactions, and lanes of transactional producers."""

from __future__ import annotations

import pytest

from pykafka.exceptions import (
    ConcurrentTransactions,
    GroupAuthorizationFailed,
    IllegalGeneration,
    InvalidProducerEpoch,
    InvalidTxnState,
    KafkaException,
    NotCoordinatorForGroup,
    OutOfOrderSequenceNumber,
    ProducerFenced,
    ResponseTimeoutError,
    SocketDisconnectedError,
    TopicAuthorizationFailed,
    TransactionAbortable,
    TransactionalIdAuthorizationFailed,
    UnknownTopicOrPartition,
)
from pykafka.producer.idempotence import Verdict
from pykafka.transactions.faults import Fault, fault_of, is_fence
from pykafka.transactions.lanes import TransactionalLane


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
        (ProducerFenced(), Fault.FATAL),
        (InvalidProducerEpoch(), Fault.FATAL),
        (InvalidTxnState(), Fault.FATAL),
        (TransactionalIdAuthorizationFailed(), Fault.FATAL),
    ],
)
def test_the_kind_of_an_error(error: KafkaException, fault: Fault) -> None:
    assert fault_of(error) is fault
    assert is_fence(error) is isinstance(error, (ProducerFenced, InvalidProducerEpoch))


def test_numbers_go_on_in_one_epoch_and_begin_anew_in_the_next() -> None:
    lane: TransactionalLane[str] = TransactionalLane()
    for epoch, wanted in ((0, 0), (0, 3), (1, 0)):
        lane.follow(9, epoch)
        flight = lane.launch("batch", 3)
        lane.number(flight)
        assert (flight.producer_id, flight.epoch, flight.sequence) == (9, epoch, wanted)
        lane.answered(flight, None)


def test_a_gap_is_not_numbered_over() -> None:
    lane: TransactionalLane[str] = TransactionalLane()
    lane.follow(9, 0)
    lost = lane.launch("lost", 1)
    lane.number(lost)
    lane.drop(lost)
    lane.launch("next", 1)
    assert lane.stuck
    assert lane.epoch == 0
    lane.follow(9, 1)
    assert not lane.stuck


def test_a_refused_epoch_fails_the_batch() -> None:
    lane: TransactionalLane[str] = TransactionalLane()
    lane.follow(9, 0)
    flight = lane.launch("batch", 1)
    lane.number(flight)
    assert lane.answered(flight, InvalidProducerEpoch()) == [(flight, Verdict.FAILED)]
    assert not lane.window


def test_numbers_that_nothing_mends_leave_the_lane_stuck() -> None:
    lane: TransactionalLane[str] = TransactionalLane()
    lane.follow(9, 0)
    flight = lane.launch("batch", 1)
    lane.number(flight)
    lane.answered(flight, OutOfOrderSequenceNumber())
    assert lane.resend() is flight
    assert lane.stuck
