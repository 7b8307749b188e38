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
from tests.support.windows import resent, sent


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
        assert in_flight.doubted
        assert resent(window) is in_flight
        assert (in_flight.epoch, in_flight.sequence) == (1, 0)


def test_what_may_be_written_in_a_topic_goes_with_the_topic(window: InFlightWindow) -> None:
    in_flight = lost(window, "a")
    assert resent(window) is in_flight
    assert window.on_result(in_flight, TopicRecreatedError("t")) == [(in_flight, Verdict.FAILED)]
    assert (in_flight.outcome_unknown, in_flight.topic_missing, in_flight.bypassed) == (False, False, False)
    assert not in_flight.doubted


def _behind_a_gap(window: InFlightWindow) -> tuple[InFlightBatch, InFlightBatch]:
    """Return a batch that is certainly not written, before which one was given up, and one behind it whose answer was lost."""
    given_up, refused, uncertain = (sent(window, item) for item in "abc")
    window.on_result(given_up, error_for(19))
    window.on_result(refused, error_for(19))
    window.on_result(uncertain, ResponseTimeoutError())
    assert window.drop(given_up) == [given_up]
    assert refused.broken
    return refused, uncertain


def test_what_may_be_written_behind_one_that_is_not_is_asked_about_first(window: InFlightWindow) -> None:
    """A log that had forgotten the producer takes the second of two: under new numbers, it would have that twice."""
    refused, uncertain = _behind_a_gap(window)
    assert resent(window) is uncertain
    assert (uncertain.epoch, uncertain.sequence) == (0, 30)
    assert window.on_result(uncertain, error_for(46)) == [(uncertain, Verdict.DELIVERED)]
    assert resent(window) is refused
    assert (refused.epoch, refused.sequence) == (1, 0)


@pytest.mark.parametrize("error", [ResponseTimeoutError(), error_for(19), error_for(29)])
def test_what_was_refused_under_its_old_number_may_be_written_all_the_same(
    window: InFlightWindow, error: KafkaException
) -> None:
    """The log may have it, and have forgotten the producer since: whoever gives it up does not know."""
    refused, uncertain = _behind_a_gap(window)
    assert window.on_result(resent(window), error_for(45)) == [(uncertain, Verdict.RETRY_IN_ORDER)]
    assert resent(window) is refused
    assert (uncertain.epoch, uncertain.doubted, refused.doubted, refused.may_be_written) == (-1, True, False, True)
    window.on_result(refused, None)
    assert resent(window) is uncertain
    assert (uncertain.epoch, uncertain.sequence, uncertain.outcome_unknown) == (1, 10, False)
    window.on_result(uncertain, error)
    if uncertain in window.batches:
        assert uncertain.may_be_written
        assert window.drop(uncertain) == [uncertain]
    assert uncertain.outcome_unknown


@pytest.mark.parametrize(("doubted", "numbered"), [(True, False), (False, True)])
def test_parts_and_batches_without_numbers_stay_in_doubt(window: InFlightWindow, doubted: bool, numbered: bool) -> None:
    in_flight = sent(window, "a")
    in_flight.doubted = doubted
    assert [part.doubted for part in window.split(in_flight, [("b", 4), ("c", 6)])] == [doubted] * 2
    plain = InFlightBatch("d", 1)
    plain.outcome_unknown = not numbered
    window.number(plain)
    assert (plain.doubted, plain.outcome_unknown) == (not numbered, False)


@pytest.mark.parametrize(("count", "verdict"), [(1, Verdict.FAILED), (2, Verdict.SPLIT)])
def test_one_message_is_not_split(window: InFlightWindow, count: int, verdict: Verdict) -> None:
    in_flight = sent(window, "a", count)
    assert window.on_result(in_flight, error_for(10)) == [(in_flight, verdict)]


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
