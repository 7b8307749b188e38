"""The table of a transactional producer's states against Kafka's documented transitions."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

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
    error_for,
)
from pykafka.producer.in_flight_window import InFlightBatch, Verdict
from pykafka.transactions.states import (
    TABLE,
    Event,
    State,
    TransactionalWindow,
    TransactionStatus,
    check_consumer,
    number_in_transaction,
)

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
    with pytest.raises(wanted.get(state, TransactionStateError), match="'id'") as caught:
        status.apply(event)
    assert event.value in str(caught.value)
    assert type(caught.value) is wanted.get(state, TransactionStateError)
    assert status.state is state


def test_a_new_producer_has_no_id_and_no_transaction() -> None:
    status = TransactionStatus("id")
    assert (status.producer_id, status.epoch, status.late) == (-1, -1, set())
    assert not any([status.implicit, status.started, status.end_sent, status.broken])
    assert not TransactionalWindow().stuck


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


@pytest.mark.parametrize("producer_id", [0, 7])
def test_an_end_may_name_any_producer_id(producer_id: int) -> None:
    status = _open()
    status.unanswered.add("EndTxn")
    status.groups.add("g")
    status.apply(Event.COMMIT)
    status.ended(producer_id, 3)
    assert (status.producer_id, status.epoch, status.unanswered, status.groups) == (producer_id, 3, set(), set())


def test_a_new_epoch_and_a_new_transaction_begin_with_nothing() -> None:
    status = TransactionStatus("id")
    status.apply(Event.INIT)
    for begins in (False, True):
        status.partitions.add(TopicPartition("t", 0))
        status.groups.add("g")
        status.unanswered.add("EndTxn")
        status.started = status.end_sent = status.broken = True
        if begins:
            status.apply(Event.BEGIN, "owner")
        else:
            status.identified(5, 0)
        assert (status.partitions, status.groups, status.unanswered) == (set(), set(), set())
        assert not any([status.started, status.end_sent, status.broken])
    assert status.owner == "owner"


def test_an_unknown_outcome_has_its_reason() -> None:
    status = _open()
    status.apply(Event.COMMIT)
    status.on_outcome_unknown(RecordListTooLarge("unclear"))
    assert status.state is State.UNKNOWN
    with pytest.raises(TransactionOutcomeUnknownError, match="unclear"):
        status.apply(Event.BEGIN)


@pytest.mark.parametrize(("sent", "state"), [(False, State.ABORTABLE), (True, State.COMMITTING)])
def test_a_commit_fails_until_it_is_sent(sent: bool, state: State) -> None:
    status = _open()
    status.apply(Event.COMMIT)
    assert status.may_send
    status.end_sent = sent
    assert status.may_send is not sent
    status.fail(RecordListTooLarge())
    assert status.state is state


def test_another_transaction_fails_whatever_was_sent_of_the_former() -> None:
    status = _open()
    status.end_sent = True  # of an end that was interrupted
    status.fail(RecordListTooLarge())
    assert status.state is State.ABORTABLE


# -- numbers within a transaction ----------------------------------------------------------------------------------------


def _sent(window: TransactionalWindow, item: str) -> InFlightBatch:
    assert window.may_begin()
    in_flight = window.begin(item, 10)
    window.number(in_flight)
    return in_flight


def _batch(window: TransactionalWindow) -> Any:
    return SimpleNamespace(in_flight=window.begin("b", 10), topic="t", partition_id=3, window=window)


def test_batches_are_numbered_under_the_epoch_of_their_transaction() -> None:
    status, window = _open(), TransactionalWindow()
    for epoch, sequences in ((0, [0, 10]), (1, [0]), (1, [10])):
        status.epoch = epoch
        batches = [_batch(window) for _ in sequences]
        number_in_transaction(status, batches, lambda batch: cast(Any, batch))
        for batch, sequence in zip(batches, sequences, strict=True):
            in_flight = batch.in_flight
            assert (in_flight.producer_id, in_flight.epoch, in_flight.sequence) == (5, epoch, sequence)
            window.on_result(in_flight, None)


def test_a_gap_ends_a_transaction_s_numbers_until_the_next_epoch() -> None:
    status, window = _open(), TransactionalWindow()
    window.follow(5, 0)
    window.on_result(_sent(window, "first"), None)
    lost = _sent(window, "lost")
    behind = _sent(window, "behind")
    window.drop(lost)
    assert window.on_result(behind, error_for(45)) == [(behind, Verdict.RETRY)]
    assert window.next_retry() is behind
    assert (window.stuck, behind.epoch, behind.sequence, behind.broken, behind.bypassed) == (True, 0, 20, False, False)
    window.unsent(behind)
    window.drop(behind)
    batch = _batch(window)
    with pytest.raises(TransactionAbortableError, match="have a gap") as caught:
        number_in_transaction(status, [batch], lambda _: cast(Any, batch))
    assert (caught.value.topic, caught.value.partition, batch.in_flight.numbered) == ("t", 3, False)
    window.drop(batch.in_flight)
    window.follow(5, 0)
    assert [window.stuck] == [True]
    window.follow(5, 1)
    assert [window.stuck] == [False]
    status.epoch = 1
    next_one = _batch(window)
    number_in_transaction(status, [next_one], lambda _: cast(Any, next_one))
    assert (next_one.in_flight.epoch, next_one.in_flight.sequence) == (1, 0)


@pytest.mark.parametrize("code", [47, 49, 90])
def test_a_fenced_transaction_s_batches_fail(code: int) -> None:
    window = TransactionalWindow()
    window.follow(5, 0)
    in_flight = _sent(window, "b")
    assert window.on_result(in_flight, error_for(code)) == [(in_flight, Verdict.FAILED)]
    assert (window.producer_id, window.epoch) == (5, 0)


def test_a_consumer_is_asked_whether_it_fits() -> None:
    asked: list[Any] = []
    fitting = SimpleNamespace(_in_transaction=None, _check_transactional=lambda *given: asked.append(given))
    check_consumer(fitting, "exactly_once()")
    assert asked == [("exactly_once()", None)]
    with pytest.raises(TypeError, match=r"exactly_once\(\): transactions need a consumer .* not object"):
        check_consumer(object(), "exactly_once()")


def _open() -> TransactionStatus:
    status = TransactionStatus("id")
    status.apply(Event.INIT)
    status.identified(5, 0)
    status.apply(Event.BEGIN)
    return status
