"""Batches whose answers were lost, before one that is acknowledged: it does not prove them, as a log may forget a producer."""

from __future__ import annotations

import pytest

from pykafka.exceptions import KafkaException, SocketDisconnectedError, error_for
from pykafka.producer.in_flight_window import InFlightWindow, Verdict
from tests.support.windows import resent, sent


@pytest.mark.parametrize("room", [0, 20, 21, None])
def test_a_broker_that_knows_only_the_last_batch_may_have_those_before(
    window: InFlightWindow, room: int | None
) -> None:
    """As many records before it may be of others: one that forgot the producer has taken the last batch without them."""
    a, b, c = (sent(window, name) for name in "abc")
    for in_flight in (a, b, c):
        window.on_result(in_flight, SocketDisconnectedError("cut"))
    for in_flight in (a, b):
        assert resent(window) is in_flight
        assert window.on_result(in_flight, error_for(45)) == [(in_flight, Verdict.RETRY_IN_ORDER)]
    assert resent(window) is c
    assert window.on_result(c, None, room) == [(c, Verdict.DELIVERED)]
    if room == 0:  # it has none of them
        assert resent(window) is a
        assert (a.epoch, a.sequence) == (1, 0)
        return
    for in_flight in (a, b):
        assert window.on_result(resent(window), error_for(45)) == [(in_flight, Verdict.FAILED)]
        assert in_flight.outcome_unknown
    assert not window.batches


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
    assert window.on_result(resent(window), None, 10) == [(behind, Verdict.DELIVERED)]
    assert window.on_result(resent(window), error_for(45)) == [(lost, Verdict.FAILED)]
    assert lost.outcome_unknown


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
