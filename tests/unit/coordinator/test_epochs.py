"""The table of the states of a member with an epoch, and the verdicts on errors."""

from __future__ import annotations

import pytest

from pykafka.coordinator.epochs import TABLE, EpochMembership, Event, State, Verdict, verdict


def test_each_event_has_an_effect_in_each_state() -> None:
    assert {state: set(row) for state, row in TABLE.items()} == {state: set(Event) for state in State}


def test_a_member_joins_goes_on_and_leaves() -> None:
    member = EpochMembership("m")
    assert (member.state, member.epoch) == (State.OUT, 0)
    member.apply(Event.ANSWERED, 3)
    assert (member.state, member.epoch) == (State.MEMBER, 3)
    member.apply(Event.ANSWERED, 4)
    assert member.epoch == 4
    member.apply(Event.LEFT)
    assert (member.state, member.epoch) == (State.LEFT, -1)


def test_a_fenced_member_joins_anew_under_its_id() -> None:
    member = EpochMembership("m")
    member.apply(Event.ANSWERED, 7)
    member.apply(Event.FENCED)
    assert (member.state, member.epoch, member.member_id) == (State.OUT, 0, "m")


@pytest.mark.parametrize("event", Event)
def test_a_late_answer_does_not_bring_back_who_has_left(event: Event) -> None:
    member = EpochMembership("m")
    member.apply(Event.LEFT)
    member.apply(event, 5)
    assert (member.state, member.epoch) == (State.LEFT, -1)


@pytest.mark.parametrize(
    ("code", "retriable", "expected"),
    [
        (25, False, Verdict.FENCED),
        (110, False, Verdict.FENCED),
        (16, False, Verdict.MOVED),
        (14, True, Verdict.MOVED),
        (7, True, Verdict.MOVED),
        (111, False, Verdict.WAITS),
        (82, False, Verdict.ENDED),
        (69, False, Verdict.FOREIGN),
        (35, False, Verdict.FOREIGN),
        (112, False, Verdict.REFUSED),
        (81, False, Verdict.REFUSED),
        (128, False, Verdict.REFUSED),
        (30, False, Verdict.REFUSED),
    ],
)
def test_each_error_has_a_verdict(code: int, retriable: bool, expected: Verdict) -> None:
    assert verdict(code, retriable) is expected
