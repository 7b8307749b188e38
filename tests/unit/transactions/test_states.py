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
from pykafka.transactions.states import TABLE, Event, Ledger, State

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
    ledger = Ledger("id")
    ledger.state = state
    following = ALLOWED.get((state, event))
    if following is not None:
        ledger.apply(event)
        assert ledger.state is following
        return
    wanted = {
        State.FATAL: TransactionFatalError,
        State.ABORTABLE: TransactionAbortableError,
        State.UNKNOWN: TransactionOutcomeUnknownError,
    }
    with pytest.raises(wanted.get(state, TransactionStateError), match="id") as caught:
        ledger.apply(event)
    assert event.value in str(caught.value)
    assert ledger.state is state


def test_the_table_has_nothing_else() -> None:
    assert {(state, event): to for state, row in TABLE.items() for event, to in row.items()} == ALLOWED


def test_a_commit_that_was_sent_is_not_aborted() -> None:
    ledger = _open()
    ledger.apply(Event.COMMIT)
    ledger.end_sent = True
    ledger.fail(RecordListTooLarge())
    assert ledger.state is State.COMMITTING
    with pytest.raises(TransactionStateError, match="commit_transaction"):
        ledger.apply(Event.ABORT)


def test_the_first_error_is_told() -> None:
    ledger = _open()
    ledger.fail(RecordListTooLarge("first"))
    ledger.fail(RecordListTooLarge("second"))
    with pytest.raises(TransactionAbortableError, match="first") as caught:
        ledger.apply(Event.COMMIT)
    assert isinstance(caught.value.__cause__, RecordListTooLarge)


def test_a_fenced_producer_says_so() -> None:
    ledger = _open()
    ledger.die(ProducerFencedError("taken over"))
    ledger.die(TransactionFatalError("later"))
    with pytest.raises(ProducerFencedError) as caught:
        ledger.apply(Event.BEGIN)
    assert "taken over" in str(caught.value.__cause__)


def test_an_end_clears_what_was_in_the_transaction() -> None:
    ledger = _open()
    ledger.partitions.add(TopicPartition("t", 0))
    ledger.started = ledger.broken = True
    ledger.fail(InvalidProducerEpoch())
    ledger.apply(Event.ABORT)
    ledger.ended(7, 3)
    assert (ledger.producer_id, ledger.epoch) == (7, 3)
    assert not ledger.partitions
    assert (ledger.started, ledger.broken, ledger.reason) == (False, False, None)
    assert ledger.state is State.READY


def test_a_request_without_an_answer_counts_until_the_next_epoch() -> None:
    ledger = _open()
    ledger.unanswered.add("EndTxn")
    ledger.apply(Event.COMMIT)
    ledger.ended()
    assert ledger.unanswered == {"EndTxn"}
    ledger.apply(Event.REINIT)
    ledger.identified(5, 1)
    assert not ledger.unanswered
    ledger.apply(Event.BEGIN)
    ledger.unanswered.add("EndTxn")
    ledger.apply(Event.COMMIT)
    ledger.ended(5, 2)
    assert not ledger.unanswered


def test_an_end_without_a_new_epoch_keeps_it() -> None:
    ledger = _open()
    ledger.apply(Event.COMMIT)
    ledger.ended()
    assert (ledger.producer_id, ledger.epoch) == (5, 0)


def _open() -> Ledger:
    ledger = Ledger("id")
    ledger.apply(Event.INIT)
    ledger.identified(5, 0)
    ledger.apply(Event.BEGIN)
    return ledger
