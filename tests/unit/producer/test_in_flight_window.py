"""The idempotent producer's table: what each answer means for the batch, and for those behind it."""

from __future__ import annotations

import pytest

from pykafka.exceptions import (
    KafkaException,
    ResponseTimeoutError,
    SocketDisconnectedError,
    TopicRecreatedError,
    error_for,
)
from pykafka.producer.in_flight_window import EPOCH_MAX, IN_FLIGHT, SEQUENCE_MAX, InFlightBatch, InFlightWindow, Verdict


def sent(window: InFlightWindow, item: str, count: int = 10) -> InFlightBatch:
    assert window.may_begin()
    in_flight = window.begin(item, count)
    window.number(in_flight)
    return in_flight


def resent(window: InFlightWindow) -> InFlightBatch:
    in_flight = window.next_retry()
    assert in_flight is not None
    if window.producer_id < 0 and not in_flight.numbered:
        window.adopt(8, 0)
    window.number(in_flight)
    return in_flight


@pytest.fixture
def window() -> InFlightWindow:
    """Return a window whose first batch is acknowledged."""
    window: InFlightWindow = InFlightWindow()
    assert window.producer_id < 0
    window.adopt(7, 0)
    window.on_result(sent(window, "first"), None)
    return window


@pytest.mark.parametrize(
    ("code", "verdict", "outcome_unknown"),
    [
        (45, Verdict.RETRY, False),
        (46, Verdict.DELIVERED, False),
        (47, Verdict.RETRY, False),
        (49, Verdict.RETRY, False),
        (59, Verdict.RETRY, False),
        (90, Verdict.RETRY, False),
        (10, Verdict.SPLIT, False),
        (18, Verdict.SPLIT, False),
        (19, Verdict.RETRY, False),
        (20, Verdict.RETRY, True),
        (3, Verdict.RETRY, True),
        (5, Verdict.RETRY, True),
        (6, Verdict.RETRY, True),
        (7, Verdict.RETRY, True),
        (13, Verdict.RETRY, True),
        (56, Verdict.RETRY, True),
        (-1, Verdict.FAILED, True),
        (17, Verdict.FAILED, False),
        (29, Verdict.FAILED, False),
        (31, Verdict.FAILED, False),
        (87, Verdict.FAILED, False),
    ],
)
def test_what_an_answer_means(window: InFlightWindow, code: int, verdict: Verdict, outcome_unknown: bool) -> None:
    in_flight = sent(window, "b")
    assert window.on_result(in_flight, error_for(code)) == [(in_flight, verdict)]
    assert in_flight.outcome_unknown == outcome_unknown
    assert (in_flight in window.batches) == (verdict not in {Verdict.DELIVERED, Verdict.FAILED})


@pytest.mark.parametrize("error", [SocketDisconnectedError("cut"), ResponseTimeoutError("late")])
def test_a_lost_answer_leaves_it_open_and_the_number_stays(window: InFlightWindow, error: KafkaException) -> None:
    in_flight = sent(window, "b")
    assert window.on_result(in_flight, error) == [(in_flight, Verdict.RETRY)]
    assert in_flight.outcome_unknown
    assert resent(window) is in_flight
    assert (in_flight.producer_id, in_flight.epoch, in_flight.sequence) == (7, 0, 10)


def test_five_are_under_way_once_one_was_acknowledged(window: InFlightWindow) -> None:
    numbers = [sent(window, str(number)).sequence for number in range(IN_FLIGHT)]
    assert numbers == [10, 20, 30, 40, 50]
    assert not window.may_begin()
    fresh: InFlightWindow = InFlightWindow()
    fresh.adopt(9, 0)
    sent(fresh, "alone")
    assert not fresh.may_begin()


def test_without_numbers_one_is_under_way(window: InFlightWindow) -> None:
    plain: InFlightWindow = InFlightWindow()
    in_flight = plain.begin("b", 3)
    assert not plain.may_begin(numbered=False)
    assert plain.on_result(in_flight, SocketDisconnectedError("cut")) == [(in_flight, Verdict.RETRY)]
    assert not plain.may_begin(numbered=False)
    assert plain.next_retry() is in_flight
    assert plain.on_result(in_flight, None) == [(in_flight, Verdict.DELIVERED)]
    assert plain.may_begin(numbered=False)
    assert not in_flight.numbered


def test_those_behind_a_failure_follow_it_one_at_a_time(window: InFlightWindow) -> None:
    a, b, c = (sent(window, name) for name in "abc")
    assert window.on_result(a, error_for(19)) == [(a, Verdict.RETRY)]
    assert window.next_retry() is None  # the others are still under way
    for in_flight in (b, c):
        assert window.on_result(in_flight, error_for(45)) == [(in_flight, Verdict.RETRY_IN_ORDER)]
    for in_flight in (a, b, c):
        assert not window.may_begin()
        number = in_flight.sequence
        assert resent(window) is in_flight
        assert in_flight.sequence == number
        assert window.next_retry() is None
        assert window.on_result(in_flight, None) == [(in_flight, Verdict.DELIVERED)]
    assert window.may_begin()


def test_a_gap_that_is_nobodys_fault_begins_a_new_epoch(window: InFlightWindow) -> None:
    a, b = sent(window, "a"), sent(window, "b")
    window.on_result(a, error_for(45))
    window.on_result(b, error_for(45))
    assert resent(window) is a
    assert (a.producer_id, a.epoch, a.sequence) == (7, 1, 0)
    window.on_result(a, None)
    assert resent(window) is b
    assert (b.epoch, b.sequence) == (1, 10)


def test_what_follows_one_that_was_given_up_is_numbered_anew(window: InFlightWindow) -> None:
    a, b = sent(window, "a"), sent(window, "b")
    window.on_result(a, error_for(29))
    window.on_result(b, error_for(45))
    assert resent(window) is b
    assert (b.epoch, b.sequence) == (1, 0)
    window.on_result(b, error_for(29))
    c = sent(window, "c")
    assert (c.epoch, c.sequence) == (2, 0)


def test_an_uncertain_one_behind_a_given_up_one_is_asked_about_first(window: InFlightWindow) -> None:
    a, b = sent(window, "a"), sent(window, "b")
    for in_flight in (a, b):
        window.on_result(in_flight, SocketDisconnectedError("cut"))
    window.drop(a)
    assert resent(window) is b
    assert (b.epoch, b.sequence) == (0, 20)
    assert window.on_result(b, error_for(45)) == [(b, Verdict.RETRY_IN_ORDER)]
    assert resent(window) is b
    assert (b.epoch, b.sequence) == (1, 0)


@pytest.mark.parametrize("room", [20, 21, None])
def test_a_broker_that_knows_only_the_last_batch_may_have_those_before(
    window: InFlightWindow, room: int | None
) -> None:
    """If there are as many records before it, these are written; else a log that forgot the producer may lack them."""
    a, b, c = (sent(window, name) for name in "abc")
    for in_flight in (a, b, c):
        window.on_result(in_flight, SocketDisconnectedError("cut"))
    for in_flight in (a, b):
        assert resent(window) is in_flight
        assert window.on_result(in_flight, error_for(45)) == [(in_flight, Verdict.RETRY_IN_ORDER)]
    assert resent(window) is c
    if room == 20:
        assert window.on_result(c, None, room) == [(in_flight, Verdict.DELIVERED) for in_flight in (a, b, c)]
    else:
        assert window.on_result(c, None, room) == [(c, Verdict.DELIVERED)]
        for in_flight in (a, b):
            assert window.on_result(resent(window), error_for(45)) == [(in_flight, Verdict.FAILED)]
            assert in_flight.outcome_unknown
    assert not window.batches


def test_a_refused_id_is_replaced(window: InFlightWindow) -> None:
    a, b = sent(window, "a"), sent(window, "b")
    window.on_result(a, error_for(47))
    window.on_result(b, error_for(47))
    assert window.producer_id < 0
    assert window.spent_id == 7
    assert resent(window) is a
    assert (a.producer_id, a.epoch, a.sequence) == (8, 0, 0)


def test_an_uncertain_one_is_not_sent_under_another_id(window: InFlightWindow) -> None:
    in_flight = sent(window, "a")
    window.on_result(in_flight, SocketDisconnectedError("cut"))
    assert resent(window) is in_flight
    assert window.on_result(in_flight, error_for(47)) == [(in_flight, Verdict.FAILED)]
    assert in_flight.outcome_unknown


def test_the_last_epoch_is_followed_by_another_id(window: InFlightWindow) -> None:
    window.adopt(7, EPOCH_MAX)
    window.on_result(sent(window, "a"), error_for(29))
    in_flight = window.begin("b", 10)
    assert window.producer_id < 0
    assert window.spent_id == 7
    window.adopt(8, 0)
    window.number(in_flight)
    assert (in_flight.producer_id, in_flight.epoch, in_flight.sequence) == (8, 0, 0)


def test_numbers_go_on_from_zero_after_the_last(window: InFlightWindow) -> None:
    window._sequence = SEQUENCE_MAX - 3
    assert [sent(window, name, 6).sequence for name in "abc"] == [SEQUENCE_MAX - 3, 2, 8]


def test_parts_of_a_large_batch_take_its_numbers(window: InFlightWindow) -> None:
    a, b = sent(window, "a"), sent(window, "b")
    window.on_result(a, error_for(10))
    window.on_result(b, error_for(45))
    parts = window.split(a, [("a1", 4), ("a2", 6)])
    assert [(part.batch, part.sequence) for part in parts] == [("a1", 10), ("a2", 14)]
    for in_flight in (*parts, b):
        assert resent(window) is in_flight
        window.on_result(in_flight, None)
    assert b.sequence == 20
    assert window.may_begin()


def test_what_was_never_sent_keeps_its_place_and_number(window: InFlightWindow) -> None:
    in_flight = sent(window, "a")
    window.unsent(in_flight)
    assert not in_flight.outcome_unknown
    assert not window.may_begin()
    assert resent(window) is in_flight
    assert in_flight.sequence == 10


def test_what_is_overtaken_while_it_is_on_its_way_again_holds_nothing_up(window: InFlightWindow) -> None:
    """It was counted as under way for ever, and nothing of its partition was sent any more."""
    again = sent(window, "again")
    window.on_result(again, SocketDisconnectedError("cut"))
    assert resent(window) is again
    behind = sent(window, "behind")
    assert window.on_result(behind, None) == [(behind, Verdict.DELIVERED)]
    assert (window.on_wire, list(window.batches)) == (1, [again])
    assert window.on_result(again, error_for(46)) == [(again, Verdict.DELIVERED)]
    assert (window.on_wire, len(window.batches)) == (0, 0)
    window.on_result(sent(window, "next"), SocketDisconnectedError("cut"))
    assert resent(window).batch == "next"


@pytest.mark.parametrize("code", [3, 100, 103])
def test_a_topic_that_was_made_anew_proves_nothing_about_what_the_former_one_refused(
    window: InFlightWindow, code: int
) -> None:
    """The new topic's log took the batch behind it, as it knew of no producer; the refused one counted as delivered."""
    refused, taken = sent(window, "refused"), sent(window, "taken")
    assert window.on_result(refused, error_for(code)) == [(refused, Verdict.RETRY)]
    assert window.on_result(taken, None) == [(taken, Verdict.DELIVERED)]
    again = resent(window)
    assert again is refused
    assert (again.epoch, again.sequence) == (1, 0)
    assert window.on_result(again, None) == [(refused, Verdict.DELIVERED)]


def test_what_may_be_written_is_not_taken_for_lost(window: InFlightWindow) -> None:
    """An answer was lost first; that the topic was gone for a while does not make it certain that nothing was written."""
    lost, behind = sent(window, "lost"), sent(window, "behind")
    window.on_result(lost, SocketDisconnectedError())
    window.on_result(behind, SocketDisconnectedError())
    again = resent(window)
    window.on_result(again, error_for(3))
    again = resent(window)
    assert (again, again.epoch) == (lost, 0)
    window.on_result(again, error_for(45))  # it was written, and is not among those that the broker remembers
    assert window.on_result(resent(window), None, 10) == [(lost, Verdict.DELIVERED), (behind, Verdict.DELIVERED)]


def test_what_a_new_log_may_have_behind_one_that_it_refused_is_asked_about_first(window: InFlightWindow) -> None:
    """Under new numbers it would be stored twice."""
    refused, taken, lost = (sent(window, item) for item in ("refused", "taken", "lost"))
    window.on_result(refused, error_for(3))
    window.on_result(taken, None)
    window.on_result(lost, SocketDisconnectedError())
    again = resent(window)
    assert (again, again.epoch) == (lost, 0)
    assert window.on_result(again, error_for(46)) == [(lost, Verdict.DELIVERED)]
    assert (resent(window), refused.epoch) == (refused, 1)


def test_one_that_a_new_log_does_not_have_holds_up_nobody(window: InFlightWindow) -> None:
    refused, taken, lost = (sent(window, item) for item in ("refused", "taken", "lost"))
    window.on_result(refused, error_for(100))
    window.on_result(taken, None)
    window.on_result(lost, SocketDisconnectedError())
    assert window.on_result(resent(window), error_for(45)) == [(lost, Verdict.RETRY_IN_ORDER)]
    assert (resent(window), refused.epoch) == (refused, 1)


# -- brokers that take a batch behind one that they have refused ---------------------------------------------------------


@pytest.mark.parametrize("room", [0, 9, -5])
def test_an_acknowledged_batch_proves_nothing_of_those_without_room_in_the_log(
    window: InFlightWindow, room: int
) -> None:
    first, second, third = sent(window, "one"), sent(window, "two"), sent(window, "three")
    window.on_result(first, error_for(6))
    window.on_result(second, error_for(6))
    assert window.on_result(third, None, room) == [(third, Verdict.DELIVERED)]
    assert list(window.batches) == [first, second]
    numbers = first.sequence, second.sequence
    assert (resent(window), first.sequence) == (first, numbers[0])  # asked about under its old number
    assert window.on_result(first, error_for(45)) == [(first, Verdict.RETRY_IN_ORDER)]
    assert resent(window) is second
    assert second.sequence == numbers[1]
    assert window.on_result(second, error_for(45)) == [(second, Verdict.RETRY_IN_ORDER)]
    assert resent(window) is first
    assert (first.epoch, first.sequence) == (1, 0)
    assert window.on_result(first, None, 0) == [(first, Verdict.DELIVERED)]


def test_what_had_no_room_stays_unproven_behind_others(window: InFlightWindow) -> None:
    first, second, third = sent(window, "one"), sent(window, "two"), sent(window, "three")
    window.on_result(first, error_for(6))
    window.on_result(second, None, 0)
    assert window.on_result(third, None, 100) == [(third, Verdict.DELIVERED)]  # another producer's are between
    assert window.on_result(resent(window), None) == [(first, Verdict.DELIVERED)]


@pytest.mark.parametrize("room", [10, 19])
def test_where_there_is_room_for_one_of_two_it_may_be_either(window: InFlightWindow, room: int) -> None:
    first, second, third = sent(window, "one"), sent(window, "two"), sent(window, "three")
    window.on_result(first, error_for(6))
    window.on_result(second, error_for(7))
    window.on_result(third, None, room)
    assert window.on_result(resent(window), error_for(45)) == [(first, Verdict.FAILED)]
    assert window.on_result(resent(window), None) == [(second, Verdict.DELIVERED)]


def test_as_many_records_as_are_uncertain_prove_nothing_before_the_broker_was_asked(window: InFlightWindow) -> None:
    """They may be another producer's, in a log that had forgotten this one (seed 331302)."""
    first, second, third = sent(window, "one"), sent(window, "two"), sent(window, "three")
    window.on_result(first, error_for(7))
    window.on_result(second, SocketDisconnectedError())
    assert window.on_result(third, None, 20) == [(third, Verdict.DELIVERED)]
    assert window.on_result(resent(window), error_for(45)) == [(first, Verdict.FAILED)]
    assert window.on_result(resent(window), error_for(46)) == [(second, Verdict.DELIVERED)]


@pytest.mark.parametrize("room", [None, 11])
@pytest.mark.parametrize("lost", [SocketDisconnectedError(), error_for(6), error_for(7)])
def test_where_there_is_room_those_before_an_acknowledged_batch_are_asked_about(
    window: InFlightWindow, room: int | None, lost: KafkaException
) -> None:
    """The records between may be of others: a broker that had forgotten the producer took the batch without that one."""
    first, second = sent(window, "one"), sent(window, "two")
    window.on_result(first, lost)
    assert window.on_result(second, None, room) == [(second, Verdict.DELIVERED)]
    assert (resent(window), first.epoch, first.sequence) == (first, 0, 10)
    assert window.on_result(first, None) == [(first, Verdict.DELIVERED)]
    assert window.may_begin()


@pytest.mark.parametrize("room", [None, 11])
def test_one_that_is_refused_then_is_of_unknown_outcome(window: InFlightWindow, room: int | None) -> None:
    first, second = sent(window, "one"), sent(window, "two")
    window.on_result(first, error_for(6))
    window.on_result(second, None, room)
    assert window.on_result(resent(window), error_for(45)) == [(first, Verdict.FAILED)]
    assert first.outcome_unknown
    following = sent(window, "three")
    assert (following.epoch, following.sequence) == (1, 0)


def test_one_that_was_overtaken_has_no_room_before_later_ones(window: InFlightWindow) -> None:
    """It is before the batch that overtook it: that there is no room behind that one does not show that it is lost."""
    first, second, third = (sent(window, item) for item in ("one", "two", "three"))
    window.on_result(first, error_for(7))
    window.on_result(second, None, 11)
    window.on_result(third, None, 0)
    assert window.on_result(resent(window), error_for(45)) == [(first, Verdict.FAILED)]


def test_an_id_proves_nothing_of_what_has_another(window: InFlightWindow) -> None:
    """Both begin with epoch 0."""
    lost = sent(window, "lost")
    window.on_result(lost, SocketDisconnectedError())
    assert resent(window) is lost
    former = sent(window, "former")
    assert window.on_result(lost, error_for(47)) == [(lost, Verdict.FAILED)]
    assert not window.may_begin()
    behind = window.begin("behind", 10)
    window.adopt(8, 0)
    window.number(behind)
    window.on_result(former, error_for(7))
    assert (former.producer_id, former.epoch, behind.producer_id, behind.epoch) == (7, 0, 8, 0)
    assert window.on_result(behind, None, 10) == [(behind, Verdict.DELIVERED)]
    assert list(window.batches) == [former]


def test_a_window_that_forgoes_numbers_sends_what_was_refused_first_and_one_at_a_time(
    window: InFlightWindow,
) -> None:
    """Numbers are taken from what is on the wire only when all answers are there: until then it may be acknowledged."""
    refused = error_for(43)
    batches_in_flight = [sent(window, item) for item in "abc"]
    for in_flight in batches_in_flight[:2]:
        window.plain = in_flight.reshaped = True
        assert window.on_result(in_flight, refused) == [(in_flight, Verdict.RETRY_IN_ORDER)]
        assert not window.may_begin()
        assert window.next_retry() is None
    assert all(in_flight.numbered for in_flight in batches_in_flight)
    assert window.on_result(batches_in_flight[2], None)[-1] == (batches_in_flight[2], Verdict.DELIVERED)
    for in_flight in batches_in_flight[:2]:
        assert window.next_retry() is in_flight
        assert not in_flight.numbered
        assert window.next_retry() is None
        in_flight.reshaped = False
        assert window.on_result(in_flight, None) == [(in_flight, Verdict.DELIVERED)]
    assert not window.batches


def test_the_oldest_batch_is_acknowledged_in_short(window: InFlightWindow) -> None:
    first, second = sent(window, "a"), sent(window, "b")
    assert not window.acknowledge(second)
    assert window.acknowledge(first)
    assert not window.acknowledge(first)  # called again after an interruption
    assert (window.on_wire, list(window.batches)) == (1, [second])
    assert window.on_result(second, None) == [(second, Verdict.DELIVERED)]
    assert (window.on_wire, window.recovering) == (0, False)


def test_a_window_without_numbers_has_one_batch_on_the_wire() -> None:
    window: InFlightWindow = InFlightWindow()
    window.adopt(7, 0)
    window.on_result(sent(window, "first"), None)
    window.forgo()
    assert window.plain
    assert not window.numbers
    in_flight = window.begin("second", 10)
    assert not in_flight.numbered
    assert not window.may_begin()
    lost = ResponseTimeoutError()
    assert window.on_result(in_flight, lost) == [(in_flight, Verdict.RETRY)]
    again = window.next_retry()
    assert again is in_flight
    assert in_flight.outcome_unknown
    assert not window.resume(in_flight)  # it may be stored already, which its numbers would not show
    window.on_result(in_flight, None)
    third = window.begin("third", 10)
    assert window.resume(third)
    window.number(third)
    # in another epoch: brokers would take the first numbers of the former for those of the first batch, and store nothing
    assert (third.producer_id, third.epoch, third.sequence) == (7, 1, 0)


# -- the first number, the first id, and counts of what is on the wire -----------------------------------------------------


@pytest.fixture(params=[0, 7])
def fresh(request: pytest.FixtureRequest) -> InFlightWindow:
    """Return a window that has sent nothing; 0 is a producer id like others."""
    window = InFlightWindow()
    assert not window.has_numbered
    window.adopt(request.param, 0)
    return window


def test_the_first_batch_keeps_its_number_when_it_is_sent_again(fresh: InFlightWindow) -> None:
    first = sent(fresh, "first")
    assert fresh.on_result(first, ResponseTimeoutError()) == [(first, Verdict.RETRY)]
    assert (resent(fresh), first.sequence) == (first, 0)
    fresh.on_result(first, None)
    assert sent(fresh, "second").sequence == 10


@pytest.mark.parametrize("in_short", [True, False])
def test_the_first_acknowledged_batch_lets_several_go(fresh: InFlightWindow, in_short: bool) -> None:
    first = sent(fresh, "first")
    if in_short:
        assert fresh.acknowledge(first)
    else:
        fresh.on_result(first, None)
    batches = [sent(fresh, item) for item in "abc"]
    assert fresh.acknowledge(batches[0])
    assert fresh.on_wire == 2
    assert fresh.acknowledge(batches[1])
    assert fresh.acknowledge(batches[2])
    assert (fresh.on_wire, fresh.recovering) == (0, False)


def test_the_first_batch_under_any_id_gets_a_new_epoch_after_a_gap(fresh: InFlightWindow) -> None:
    first = sent(fresh, "first")
    fresh.on_result(first, error_for(45))
    again = fresh.next_retry()
    assert again is first
    fresh.number(first)
    assert (first.producer_id, first.epoch, first.sequence) == (fresh.producer_id, 1, 0)


def test_a_batch_under_a_former_id_does_not_let_several_go_under_the_next(window: InFlightWindow) -> None:
    a, b = sent(window, "a"), sent(window, "b")
    window.on_result(a, error_for(47))
    window.adopt(8, 0)
    assert window.on_result(b, None) == [(b, Verdict.DELIVERED)]
    assert resent(window) is a
    assert (a.producer_id, a.sequence) == (8, 0)
    assert not window.may_begin()
    window.on_result(a, None)
    assert window.may_begin()


@pytest.mark.parametrize("others", [0, 1])
def test_numbers_are_taken_at_once_if_nothing_else_is_on_the_wire(window: InFlightWindow, others: int) -> None:
    batches = [sent(window, item) for item in "ab"[: 1 + others]]
    window.forgo()
    assert [in_flight.numbered for in_flight in batches] == [bool(others)] * len(batches)


def test_what_is_surely_not_written_needs_no_room_in_the_log(window: InFlightWindow) -> None:
    refused, lost, third = (sent(window, item) for item in ("refused", "lost", "third"))
    window.on_result(refused, error_for(19))
    window.on_result(lost, SocketDisconnectedError())
    lost.bypassed = True
    assert window.on_result(third, None, 10) == [(lost, Verdict.DELIVERED), (third, Verdict.DELIVERED)]
    assert resent(window) is refused


@pytest.mark.parametrize("in_short", [True, False])
@pytest.mark.parametrize("following", [(8, 0), (7, 1), (8, 1)])
def test_the_oldest_batch_of_a_former_epoch_does_not_let_several_go(following: tuple[int, int], in_short: bool) -> None:
    window = InFlightWindow()
    window.adopt(7, 0)
    former = sent(window, "former")
    window.adopt(*following)
    if in_short:
        assert window.acknowledge(former)
    else:
        window.on_result(former, None)
    sent(window, "next")
    assert not window.may_begin()


def test_numbers_are_resumed_by_one_batch_that_is_written_nowhere(window: InFlightWindow) -> None:
    window.forgo()
    first = window.begin("first", 10)
    window.on_result(first, error_for(19))
    window.batches.append(InFlightBatch("second", 10))
    assert not window.resume(first)
    window.batches.pop()
    assert window.next_retry() is first
    assert window.resume(first)
    assert (window.plain, window.numbers) == (False, True)


def test_a_part_is_not_on_the_wire_before_it_is_sent(window: InFlightWindow) -> None:
    large = sent(window, "large")
    window.on_result(large, error_for(10))
    first, second = window.split(large, [("a", 4), ("b", 6)])
    window.drop(second)
    assert (window.on_wire, window.peek_retry()) == (0, first)


# -- what may be written --------------------------------------------------------------------------------------------------


def lost(window: InFlightWindow, item: str, count: int = 10) -> InFlightBatch:
    """Return a batch whose answer was lost."""
    in_flight = sent(window, item, count)
    window.on_result(in_flight, ResponseTimeoutError())
    assert in_flight.outcome_unknown
    return in_flight


@pytest.mark.parametrize(
    ("code", "verdict", "outcome_unknown"),
    [(19, Verdict.RETRY, True), (89, Verdict.RETRY, True), (29, Verdict.FAILED, True), (59, Verdict.RETRY, False)],
)
def test_what_may_be_written_stays_so_until_a_broker_has_forgotten_the_producer(
    window: InFlightWindow, code: int, verdict: Verdict, outcome_unknown: bool
) -> None:
    in_flight = lost(window, "a")
    assert resent(window) is in_flight
    assert window.on_result(in_flight, error_for(code)) == [(in_flight, verdict)]
    assert in_flight.outcome_unknown is outcome_unknown
    if code == 59:
        assert resent(window) is in_flight
        assert (in_flight.epoch, in_flight.sequence) == (1, 0)


def test_what_may_be_written_in_a_topic_goes_with_the_topic(window: InFlightWindow) -> None:
    in_flight = lost(window, "a")
    assert resent(window) is in_flight
    assert window.on_result(in_flight, TopicRecreatedError("t")) == [(in_flight, Verdict.FAILED)]
    assert (in_flight.outcome_unknown, in_flight.topic_missing, in_flight.bypassed) == (False, False, False)


@pytest.mark.parametrize(("count", "verdict"), [(1, Verdict.FAILED), (2, Verdict.SPLIT)])
def test_one_message_is_not_split(window: InFlightWindow, count: int, verdict: Verdict) -> None:
    in_flight = sent(window, "a", count)
    assert window.on_result(in_flight, error_for(10)) == [(in_flight, verdict)]


def test_behind_one_without_room_another_is_proven(window: InFlightWindow) -> None:
    first, second, third, fourth = (sent(window, item) for item in "abcd")
    window.on_result(first, ResponseTimeoutError())
    window.on_result(second, None, 0)
    window.on_result(third, ResponseTimeoutError())
    assert first.skipped
    third.bypassed = True
    assert window.on_result(fourth, None, third.count) == [(third, Verdict.DELIVERED), (fourth, Verdict.DELIVERED)]
    assert list(window.batches) == [first]


def test_under_another_id_nothing_overtakes_what_is_under_way(window: InFlightWindow) -> None:
    """The broker had refused the id: a new batch went under another one, before the next of the former was refused, too."""
    lost, behind = sent(window, "lost"), sent(window, "behind")
    lost.outcome_unknown = True
    assert window.on_result(lost, error_for(47)) == [(lost, Verdict.FAILED)]
    assert not window.may_begin()
    window.on_result(behind, error_for(45))
    assert resent(window) is behind


@pytest.mark.parametrize("again", [True, False])
def test_those_that_only_one_answer_could_prove_leave_with_it(window: InFlightWindow, again: bool) -> None:
    first, second, third = (sent(window, item) for item in "abc")
    for in_flight in (first, second, third):
        window.on_result(in_flight, ResponseTimeoutError())
    assert resent(window) is first
    window.on_result(first, error_for(45))
    assert first.bypassed
    assert resent(window) is second
    if again:  # the first one is on its way as well
        first.on_wire = True
        window.on_wire += 1
    assert window.drop(second) == [first, second]
    assert (list(window.batches), window.on_wire) == ([third], 0)
    assert (third.broken, window.may_begin()) == (True, False)


def test_one_that_is_surely_not_written_leaves_alone(window: InFlightWindow) -> None:
    first, second, third = (sent(window, item) for item in "abc")
    window.on_result(first, ResponseTimeoutError())
    first.bypassed = True
    assert window.drop(second) == [second]
    assert list(window.batches) == [first, third]
    assert [in_flight.broken for in_flight in (first, third)] == [False, True]
    assert window.on_wire == 1


@pytest.mark.parametrize("unclear", [False, True])
def test_parts_inherit_what_is_known_of_the_whole(window: InFlightWindow, unclear: bool) -> None:
    large = lost(window, "large", 9) if unclear else sent(window, "large", 9)
    if unclear:
        assert resent(window) is large
        large.skipped = True
    parts = window.split(large, [("a", 2), ("b", 3), ("c", 4)])
    assert list(window.batches) == parts
    assert [(part.batch, part.count, part.sequence) for part in parts] == [("a", 2, 10), ("b", 3, 12), ("c", 4, 15)]
    assert [(part.halved, part.skipped, part.outcome_unknown) for part in parts] == [(unclear,) * 3] * 3
    assert window.on_wire == 0
    parts[0].outcome_unknown = False
    assert [part.halved for part in window.split(parts[0], [("d", 1), ("e", 1)])] == [unclear, unclear]


def test_a_part_of_what_may_be_written_whole_is_not_sent_under_new_numbers(window: InFlightWindow) -> None:
    large = lost(window, "large")
    assert resent(window) is large
    assert window.on_result(large, error_for(10)) == [(large, Verdict.SPLIT)]
    first, _ = window.split(large, [("a", 4), ("b", 6)])
    first.outcome_unknown = False
    assert resent(window) is first
    assert window.on_result(first, error_for(45)) == [(first, Verdict.FAILED)]
    assert first.outcome_unknown
