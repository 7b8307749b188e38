"""The table of the states of a member with an epoch, and the verdicts on errors."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from pykafka.groups.heartbeat_sender import Activity
from pykafka.groups.kip848.heartbeats import (
    SESSION_MS,
    ConsumerGroupHeartbeats,
    ConsumerGroupTarget,
    HeartbeatSubscription,
)
from pykafka.groups.member_epoch import TABLE, EpochMembership, Event, State, Verdict, verdict
from pykafka.handlers import Handler
from pykafka.protocol import wire


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
    assert verdict(code, retriable, is_member=True) is (Verdict.FENCED if code == 69 else expected)


def test_heartbeats_that_are_refused_for_longer_than_the_session_are_told_once(handler: Handler) -> None:
    now = 0.0
    beats = ConsumerGroupHeartbeats(handler, "m", Activity(), 300_000, lambda: None)
    timer: Any = beats.heartbeat
    timer._clock = lambda: now
    timer.last_receive = timer.last_reset = now
    broker: Any = SimpleNamespace(address="a:9092")
    place = ConsumerGroupTarget(broker, "g", 1, None, None, 300_000, None)
    well = wire.ConsumerGroupHeartbeatResponse(member_epoch=3, heartbeat_interval_ms=5000)
    refused = wire.ConsumerGroupHeartbeatResponse(error_code=16)
    for _ in range(2):
        beats._answered(1, HeartbeatSubscription(("t",)), {}, well)
        beats.reports.clear()
        for second in range(2 * SESSION_MS // 1000):
            now += 1
            beats._refused(place, 1, refused)
            assert sum(news.overdue for news in beats.reports) == (1 if second >= SESSION_MS / 1000 else 0)
