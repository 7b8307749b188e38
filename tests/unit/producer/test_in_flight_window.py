"""The idempotent producer's table: what each answer means for the batch, and for those behind it."""

from __future__ import annotations

import pytest

from pykafka.exceptions import KafkaException, ResponseTimeoutError, SocketDisconnectedError, error_for
from pykafka.producer.in_flight_window import EPOCH_MAX, IN_FLIGHT, SEQUENCE_MAX, InFlightBatch, InFlightWindow, Verdict


def sent(lane: InFlightWindow[str], item: str, count: int = 10) -> InFlightBatch[str]:
    assert lane.may_launch()
    flight = lane.launch(item, count)
    lane.number(flight)
    return flight


def resent(lane: InFlightWindow[str]) -> InFlightBatch[str]:
    flight = lane.resend()
    assert flight is not None
    if lane.wants_id and not flight.numbered:
        lane.adopt(8, 0)
    lane.number(flight)
    return flight


@pytest.fixture
def lane() -> InFlightWindow[str]:
    """Return a lane whose first batch is acknowledged."""
    lane: InFlightWindow[str] = InFlightWindow()
    assert lane.wants_id
    lane.adopt(7, 0)
    lane.answered(sent(lane, "first"), None)
    return lane


@pytest.mark.parametrize(
    ("code", "verdict", "uncertain"),
    [
        (45, Verdict.RESEND, False),
        (46, Verdict.DELIVERED, False),
        (47, Verdict.RESEND, False),
        (49, Verdict.RESEND, False),
        (59, Verdict.RESEND, False),
        (90, Verdict.RESEND, False),
        (10, Verdict.SPLIT, False),
        (18, Verdict.SPLIT, False),
        (19, Verdict.RESEND, False),
        (20, Verdict.RESEND, True),
        (3, Verdict.RESEND, True),
        (5, Verdict.RESEND, True),
        (6, Verdict.RESEND, True),
        (7, Verdict.RESEND, True),
        (13, Verdict.RESEND, True),
        (56, Verdict.RESEND, True),
        (-1, Verdict.FAILED, True),
        (17, Verdict.FAILED, False),
        (29, Verdict.FAILED, False),
        (31, Verdict.FAILED, False),
        (87, Verdict.FAILED, False),
    ],
)
def test_what_an_answer_means(lane: InFlightWindow[str], code: int, verdict: Verdict, uncertain: bool) -> None:
    flight = sent(lane, "b")
    assert lane.answered(flight, error_for(code)) == [(flight, verdict)]
    assert flight.uncertain == uncertain
    assert (flight in lane.window) == (verdict not in {Verdict.DELIVERED, Verdict.FAILED})


@pytest.mark.parametrize("error", [SocketDisconnectedError("cut"), ResponseTimeoutError("late")])
def test_a_lost_answer_leaves_it_open_and_the_number_stays(lane: InFlightWindow[str], error: KafkaException) -> None:
    flight = sent(lane, "b")
    assert lane.answered(flight, error) == [(flight, Verdict.RESEND)]
    assert flight.uncertain
    assert resent(lane) is flight
    assert (flight.producer_id, flight.epoch, flight.sequence) == (7, 0, 10)


def test_five_are_under_way_once_one_was_acknowledged(lane: InFlightWindow[str]) -> None:
    numbers = [sent(lane, str(number)).sequence for number in range(IN_FLIGHT)]
    assert numbers == [10, 20, 30, 40, 50]
    assert not lane.may_launch()
    fresh: InFlightWindow[str] = InFlightWindow()
    fresh.adopt(9, 0)
    sent(fresh, "alone")
    assert not fresh.may_launch()


def test_without_numbers_one_is_under_way(lane: InFlightWindow[str]) -> None:
    plain: InFlightWindow[str] = InFlightWindow()
    flight = plain.launch("b", 3)
    assert not plain.may_launch(numbered=False)
    assert plain.answered(flight, SocketDisconnectedError("cut")) == [(flight, Verdict.RESEND)]
    assert not plain.may_launch(numbered=False)
    assert plain.resend() is flight
    assert plain.answered(flight, None) == [(flight, Verdict.DELIVERED)]
    assert plain.may_launch(numbered=False)
    assert not flight.numbered


def test_those_behind_a_failure_follow_it_one_at_a_time(lane: InFlightWindow[str]) -> None:
    a, b, c = (sent(lane, name) for name in "abc")
    assert lane.answered(a, error_for(19)) == [(a, Verdict.RESEND)]
    assert lane.resend() is None  # the others are still under way
    for flight in (b, c):
        assert lane.answered(flight, error_for(45)) == [(flight, Verdict.RESEND_IN_ORDER)]
    for flight in (a, b, c):
        assert not lane.may_launch()
        number = flight.sequence
        assert resent(lane) is flight
        assert flight.sequence == number
        assert lane.resend() is None
        assert lane.answered(flight, None) == [(flight, Verdict.DELIVERED)]
    assert lane.may_launch()


def test_a_gap_that_is_nobodys_fault_begins_a_new_epoch(lane: InFlightWindow[str]) -> None:
    a, b = sent(lane, "a"), sent(lane, "b")
    lane.answered(a, error_for(45))
    lane.answered(b, error_for(45))
    assert resent(lane) is a
    assert (a.producer_id, a.epoch, a.sequence) == (7, 1, 0)
    lane.answered(a, None)
    assert resent(lane) is b
    assert (b.epoch, b.sequence) == (1, 10)


def test_what_follows_one_that_was_given_up_is_numbered_anew(lane: InFlightWindow[str]) -> None:
    a, b = sent(lane, "a"), sent(lane, "b")
    lane.answered(a, error_for(29))
    lane.answered(b, error_for(45))
    assert resent(lane) is b
    assert (b.epoch, b.sequence) == (1, 0)
    lane.answered(b, error_for(29))
    c = sent(lane, "c")
    assert (c.epoch, c.sequence) == (2, 0)


def test_an_uncertain_one_behind_a_given_up_one_is_asked_about_first(lane: InFlightWindow[str]) -> None:
    a, b = sent(lane, "a"), sent(lane, "b")
    for flight in (a, b):
        lane.answered(flight, SocketDisconnectedError("cut"))
    lane.drop(a)
    assert resent(lane) is b
    assert (b.epoch, b.sequence) == (0, 20)
    assert lane.answered(b, error_for(45)) == [(b, Verdict.RESEND_IN_ORDER)]
    assert resent(lane) is b
    assert (b.epoch, b.sequence) == (1, 0)


def test_a_broker_that_knows_only_the_last_batch_tells_of_those_before(lane: InFlightWindow[str]) -> None:
    a, b, c = (sent(lane, name) for name in "abc")
    for flight in (a, b, c):
        lane.answered(flight, SocketDisconnectedError("cut"))
    for flight in (a, b):
        assert resent(lane) is flight
        assert lane.answered(flight, error_for(45)) == [(flight, Verdict.RESEND_IN_ORDER)]
    assert resent(lane) is c
    assert lane.answered(c, error_for(46)) == [(flight, Verdict.DELIVERED) for flight in (a, b, c)]
    assert not lane.window


def test_a_refused_id_is_replaced(lane: InFlightWindow[str]) -> None:
    a, b = sent(lane, "a"), sent(lane, "b")
    lane.answered(a, error_for(47))
    lane.answered(b, error_for(47))
    assert lane.wants_id
    assert lane.spent_id == 7
    assert resent(lane) is a
    assert (a.producer_id, a.epoch, a.sequence) == (8, 0, 0)


def test_an_uncertain_one_is_not_sent_under_another_id(lane: InFlightWindow[str]) -> None:
    flight = sent(lane, "a")
    lane.answered(flight, SocketDisconnectedError("cut"))
    assert resent(lane) is flight
    assert lane.answered(flight, error_for(47)) == [(flight, Verdict.FAILED)]
    assert flight.uncertain


def test_the_last_epoch_is_followed_by_another_id(lane: InFlightWindow[str]) -> None:
    lane.adopt(7, EPOCH_MAX)
    lane.answered(sent(lane, "a"), error_for(29))
    flight = lane.launch("b", 10)
    assert lane.wants_id
    assert lane.spent_id == 7
    lane.adopt(8, 0)
    lane.number(flight)
    assert (flight.producer_id, flight.epoch, flight.sequence) == (8, 0, 0)


def test_numbers_go_on_from_zero_after_the_last(lane: InFlightWindow[str]) -> None:
    lane._sequence = SEQUENCE_MAX - 3
    assert [sent(lane, name, 6).sequence for name in "abc"] == [SEQUENCE_MAX - 3, 2, 8]


def test_parts_of_a_large_batch_take_its_numbers(lane: InFlightWindow[str]) -> None:
    a, b = sent(lane, "a"), sent(lane, "b")
    lane.answered(a, error_for(10))
    lane.answered(b, error_for(45))
    parts = lane.split(a, [("a1", 4), ("a2", 6)])
    assert [(part.item, part.sequence) for part in parts] == [("a1", 10), ("a2", 14)]
    for flight in (*parts, b):
        assert resent(lane) is flight
        lane.answered(flight, None)
    assert b.sequence == 20
    assert lane.may_launch()


def test_what_was_never_sent_keeps_its_place_and_number(lane: InFlightWindow[str]) -> None:
    flight = sent(lane, "a")
    lane.unsent(flight)
    assert not flight.uncertain
    assert not lane.may_launch()
    assert resent(lane) is flight
    assert flight.sequence == 10


def test_what_is_proven_written_while_it_is_on_its_way_again_holds_nothing_up(lane: InFlightWindow[str]) -> None:
    """It was counted as under way for ever, and nothing of its partition was sent any more."""
    again = sent(lane, "again")
    lane.answered(again, SocketDisconnectedError("cut"))
    assert resent(lane) is again
    behind = sent(lane, "behind")
    assert lane.answered(behind, None) == [(again, Verdict.DELIVERED), (behind, Verdict.DELIVERED)]
    assert (lane.on_wire, len(lane.window)) == (0, 0)
    lane.answered(sent(lane, "next"), SocketDisconnectedError("cut"))
    assert resent(lane).item == "next"


@pytest.mark.parametrize("code", [3, 100, 103])
def test_a_topic_that_was_made_anew_proves_nothing_about_what_the_former_one_refused(
    lane: InFlightWindow[str], code: int
) -> None:
    """The new topic's log took the batch behind it, as it knew of no producer; the refused one counted as delivered."""
    refused, taken = sent(lane, "refused"), sent(lane, "taken")
    assert lane.answered(refused, error_for(code)) == [(refused, Verdict.RESEND)]
    assert lane.answered(taken, None) == [(taken, Verdict.DELIVERED)]
    again = resent(lane)
    assert again is refused
    assert (again.epoch, again.sequence) == (1, 0)
    assert lane.answered(again, None) == [(refused, Verdict.DELIVERED)]


def test_what_may_be_written_is_proven_all_the_same(lane: InFlightWindow[str]) -> None:
    """An answer was lost first; that the topic was gone for a while does not make it certain that nothing was written."""
    lost, behind = sent(lane, "lost"), sent(lane, "behind")
    lane.answered(lost, SocketDisconnectedError())
    lane.answered(behind, SocketDisconnectedError())
    again = resent(lane)
    lane.answered(again, error_for(3))
    again = resent(lane)
    assert (again, again.epoch) == (lost, 0)
    lane.answered(again, error_for(45))  # it was written, and is not among those that the broker remembers
    assert lane.answered(resent(lane), None) == [(lost, Verdict.DELIVERED), (behind, Verdict.DELIVERED)]


def test_what_a_new_log_may_have_behind_one_that_it_refused_is_asked_about_first(lane: InFlightWindow[str]) -> None:
    """Under new numbers it would be stored twice."""
    refused, taken, lost = (sent(lane, item) for item in ("refused", "taken", "lost"))
    lane.answered(refused, error_for(3))
    lane.answered(taken, None)
    lane.answered(lost, SocketDisconnectedError())
    again = resent(lane)
    assert (again, again.epoch) == (lost, 0)
    assert lane.answered(again, error_for(46)) == [(lost, Verdict.DELIVERED)]
    assert (resent(lane), refused.epoch) == (refused, 1)


def test_one_that_a_new_log_does_not_have_holds_up_nobody(lane: InFlightWindow[str]) -> None:
    refused, taken, lost = (sent(lane, item) for item in ("refused", "taken", "lost"))
    lane.answered(refused, error_for(100))
    lane.answered(taken, None)
    lane.answered(lost, SocketDisconnectedError())
    assert lane.answered(resent(lane), error_for(45)) == [(lost, Verdict.RESEND_IN_ORDER)]
    assert (resent(lane), refused.epoch) == (refused, 1)


# -- brokers that take a batch behind one that they have refused ---------------------------------------------------------


@pytest.mark.parametrize("room", [0, 9, 19, -5])
def test_an_acknowledged_batch_proves_nothing_of_those_without_room_in_the_log(
    lane: InFlightWindow[str], room: int
) -> None:
    first, second, third = sent(lane, "one"), sent(lane, "two"), sent(lane, "three")
    lane.answered(first, error_for(6))
    lane.answered(second, error_for(6))
    assert lane.answered(third, None, room) == [(third, Verdict.DELIVERED)]
    assert list(lane.window) == [first, second]
    numbers = first.sequence, second.sequence
    assert (resent(lane), first.sequence) == (first, numbers[0])  # asked about under its old number
    assert lane.answered(first, error_for(45)) == [(first, Verdict.RESEND_IN_ORDER)]
    assert resent(lane) is second
    assert second.sequence == numbers[1]
    assert lane.answered(second, error_for(45)) == [(second, Verdict.RESEND_IN_ORDER)]
    assert resent(lane) is first
    assert (first.epoch, first.sequence) == (1, 0)
    assert lane.answered(first, None, 0) == [(first, Verdict.DELIVERED)]


def test_what_had_no_room_stays_unproven_behind_others(lane: InFlightWindow[str]) -> None:
    first, second, third = sent(lane, "one"), sent(lane, "two"), sent(lane, "three")
    lane.answered(first, error_for(6))
    lane.answered(second, None, 0)
    assert lane.answered(third, None, 100) == [(third, Verdict.DELIVERED)]  # another producer's are between
    assert lane.answered(resent(lane), None) == [(first, Verdict.DELIVERED)]


@pytest.mark.parametrize("room", [None, 10, 11])
def test_where_there_is_room_an_acknowledged_batch_proves_those_before_it(
    lane: InFlightWindow[str], room: int | None
) -> None:
    first, second = sent(lane, "one"), sent(lane, "two")
    lane.answered(first, SocketDisconnectedError())
    assert lane.answered(second, None, room) == [(first, Verdict.DELIVERED), (second, Verdict.DELIVERED)]


def test_a_lane_that_forgoes_numbers_sends_what_was_refused_first_and_one_at_a_time(lane: InFlightWindow[str]) -> None:
    """Numbers are taken from what is on the wire only when all answers are there: until then it may be acknowledged."""
    refused = error_for(43)
    flights = [sent(lane, item) for item in "abc"]
    for flight in flights[:2]:
        lane.plain = flight.reshaped = True
        assert lane.answered(flight, refused) == [(flight, Verdict.RESEND_IN_ORDER)]
        assert not lane.may_launch()
        assert lane.resend() is None
    assert all(flight.numbered for flight in flights)
    assert lane.answered(flights[2], None)[-1] == (flights[2], Verdict.DELIVERED)
    for flight in flights[:2]:
        assert lane.resend() is flight
        assert not flight.numbered
        assert lane.resend() is None
        flight.reshaped = False
        assert lane.answered(flight, None) == [(flight, Verdict.DELIVERED)]
    assert not lane.window


def test_a_lane_without_numbers_has_one_batch_on_the_wire() -> None:
    lane: InFlightWindow[str] = InFlightWindow()
    lane.adopt(7, 0)
    lane.answered(sent(lane, "first"), None)
    lane.forgo()
    assert not lane.wants_id
    assert not lane.numbers
    flight = lane.launch("second", 10)
    assert not flight.numbered
    assert not lane.may_launch()
    lost = ResponseTimeoutError()
    assert lane.answered(flight, lost) == [(flight, Verdict.RESEND)]
    again = lane.resend()
    assert again is flight
    assert flight.uncertain
    assert not lane.resume(flight)  # it may be stored already, which its numbers would not show
    lane.answered(flight, None)
    third = lane.launch("third", 10)
    assert lane.resume(third)
    lane.number(third)
    # in another epoch: brokers would take the first numbers of the former for those of the first batch, and store nothing
    assert (third.producer_id, third.epoch, third.sequence) == (7, 1, 0)
