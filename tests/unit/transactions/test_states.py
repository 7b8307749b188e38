"""The table of a transactional producer's states against Kafka's documented transitions."""

from __future__ import annotations

import pytest

from pykafka.common import TopicPartition
from pykafka.exceptions import (
    InvalidProducerEpoch,
    ProducerFencedError,
    RecordListTooLarge,
    TransactionAbortableError,
    TransactionFatalError,
    TransactionOutcomeUnknownError,
    TransactionStateError,
)
from pykafka.transactions.states import TABLE, Event, State, TransactionStatus

#: Each way from one state to another, as the Java producer documents them. Ours besides: a call made again, a new epoch before
#: the next transaction, and an outcome that is not known.
ALLOWED = {
    (State.UNINITIALIZED, Event.INIT): State.INITIALIZING,
    (State.INITIALIZING, Event.INIT): State.INITIALIZING,
    (State.INITIALIZING, Event.IDENTIFIED): State.READY,
    (State.READY, Event.BEGIN): State.IN_TRANSACTION,
    (State.IN_TRANSACTION, Event.COMMIT): State.COMMITTING,
    (State.IN_TRANSACTION, Event.ABORT): State.ABORTING,
    (State.IN_TRANSACTION, Event.FAIL): State.ABORTABLE,
    (State.ABORTABLE, Event.FAIL): State.ABORTABLE,
    (State.ABORTABLE, Event.ABORT): State.ABORTING,
    (State.COMMITTING, Event.COMMIT): State.COMMITTING,
    (State.COMMITTING, Event.ABORT): State.ABORTING,
    (State.COMMITTING, Event.FAIL): State.ABORTABLE,
    (State.COMMITTING, Event.ENDED): State.READY,
    (State.ABORTING, Event.ABORT): State.ABORTING,
    (State.ABORTING, Event.FAIL): State.ABORTING,
    (State.ABORTING, Event.ENDED): State.READY,
    (State.ABORTING, Event.REINIT): State.INITIALIZING,
    (State.READY, Event.REINIT): State.INITIALIZING,
    (State.COMMITTING, Event.UNCLEAR): State.UNKNOWN,
    (State.UNKNOWN, Event.INIT): State.INITIALIZING,
    **{(state, Event.DIE): State.FATAL for state in State},
}


@pytest.mark.parametrize("event", Event)
@pytest.mark.parametrize("state", State)
def test_each_event_in_each_state(state: State, event: Event) -> None:
    status = TransactionStatus("id")
    status.state = state
    following = ALLOWED.get((state, event))
    if following is not None:
        status.apply(event)
        assert status.state is following
        return
    wanted = {
        State.FATAL: TransactionFatalError,
        State.ABORTABLE: TransactionAbortableError,
        State.UNKNOWN: TransactionOutcomeUnknownError,
    }
    with pytest.raises(wanted.get(state, TransactionStateError), match="id") as caught:
        status.apply(event)
    assert event.value in str(caught.value)
    assert status.state is state


def test_the_table_has_nothing_else() -> None:
    assert {(state, event): to for state, row in TABLE.items() for event, to in row.items()} == ALLOWED


def test_a_commit_that_was_sent_is_not_aborted() -> None:
    status = _open()
    status.apply(Event.COMMIT)
    status.end_sent = True
    status.fail(RecordListTooLarge())
    assert status.state is State.COMMITTING
    with pytest.raises(TransactionStateError, match="commit_transaction"):
        status.apply(Event.ABORT)


def test_the_first_error_is_told() -> None:
    status = _open()
    status.fail(RecordListTooLarge("first"))
    status.fail(RecordListTooLarge("second"))
    with pytest.raises(TransactionAbortableError, match="first") as caught:
        status.apply(Event.COMMIT)
    assert isinstance(caught.value.__cause__, RecordListTooLarge)


def test_a_fenced_producer_says_so() -> None:
    status = _open()
    status.on_fatal_error(ProducerFencedError("taken over"))
    status.on_fatal_error(TransactionFatalError("later"))
    with pytest.raises(ProducerFencedError) as caught:
        status.apply(Event.BEGIN)
    assert "taken over" in str(caught.value.__cause__)


def test_an_end_clears_what_was_in_the_transaction() -> None:
    status = _open()
    status.partitions.add(TopicPartition("t", 0))
    status.started = status.broken = True
    status.fail(InvalidProducerEpoch())
    status.apply(Event.ABORT)
    status.ended(7, 3)
    assert (status.producer_id, status.epoch) == (7, 3)
    assert not status.partitions
    assert (status.started, status.broken, status.reason) == (False, False, None)
    assert status.state is State.READY


def test_a_request_without_an_answer_counts_until_the_next_epoch() -> None:
    status = _open()
    status.unanswered.add("EndTxn")
    status.apply(Event.COMMIT)
    status.ended()
    assert status.unanswered == {"EndTxn"}
    status.apply(Event.REINIT)
    status.identified(5, 1)
    assert not status.unanswered
    status.apply(Event.BEGIN)
    status.unanswered.add("EndTxn")
    status.apply(Event.COMMIT)
    status.ended(5, 2)
    assert not status.unanswered


def test_an_end_without_a_new_epoch_keeps_it() -> None:
    status = _open()
    status.apply(Event.COMMIT)
    status.ended()
    assert (status.producer_id, status.epoch) == (5, 0)


def _open() -> TransactionStatus:
    status = TransactionStatus("id")
    status.apply(Event.INIT)
    status.identified(5, 0)
    status.apply(Event.BEGIN)
    return status
