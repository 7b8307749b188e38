"""The table of the states of a member with an epoch, and the verdicts on errors."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest

from pykafka.common import TopicPartition
from pykafka.exceptions import SocketDisconnectedError
from pykafka.groups.heartbeat_sender import IDLE_S, Activity
from pykafka.groups.heartbeat_thread import Call
from pykafka.groups.kip848.heartbeats import (
    SESSION_MS,
    ConsumerGroupHeartbeats,
    ConsumerGroupTarget,
    HeartbeatSubscription,
)
from pykafka.groups.kip848.membership import ConsumerGroupMembership, TopicIds
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


def joining(handler: Handler) -> ConsumerGroupHeartbeats:
    """Return the heartbeats of a member that has to join, without a thread."""
    beats = ConsumerGroupHeartbeats(handler, "m", Activity(), 300_000, lambda: None)
    broker: Any = SimpleNamespace(address="a:9092", socket_timeout_ms=5000)
    beats._target = ConsumerGroupTarget(broker, "g", 1, None, None, 300_000, None)
    beats._active_at = handler.native.now()
    beats.join()
    return beats


def test_a_join_is_not_sent_when_the_member_is_closed_meanwhile(
    handler: Handler, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would go out beside the request to leave, and the coordinator may take it second."""
    beats = joining(handler)

    def close() -> bool:
        beats.set_target(None)
        return True

    monkeypatch.setattr(beats, "_needs_heartbeat", close)
    assert beats.step(handler.native.now()) == IDLE_S
    assert not beats.is_joining


@pytest.mark.parametrize("stops", [True, False], ids=["stop", "coordinator-left-the-cluster"])
def test_no_answer_is_due_when_a_join_was_dropped(handler: Handler, stops: bool) -> None:
    beats = joining(handler)
    assert isinstance(beats.step(handler.native.now()), Call)
    assert [beats.is_joining] == [True]
    if stops:
        beats.stop()
    else:
        assert beats.end(SocketDisconnectedError("the coordinator has left the cluster")) is None
    assert [beats.is_joining] == [False]


@pytest.mark.parametrize("is_alive", [True, False])
def test_closing_waits_for_the_answer_to_a_join_while_the_thread_can_get_one(handler: Handler, is_alive: bool) -> None:
    beats = joining(handler)
    assert isinstance(beats.step(handler.native.now()), Call)
    thread: Any = SimpleNamespace(is_alive=is_alive, remove=lambda member: None)
    beats._thread = thread
    waited: list[bool] = []

    def sleep(_: float) -> None:
        waited.append(beats.target is None)  # so that no join begins
        beats.is_joining = False

    left: list[Any] = []
    clocked = SimpleNamespace(now=handler.now, sleep=sleep)
    connection = SimpleNamespace(
        leave_by=lambda *args: left.append(args), left_ms=lambda _: 1000, drop_connection=lambda: None
    )
    membership: Any = SimpleNamespace(_handler=clocked, connection=connection, member_id="m", _leave_once=lambda *_: 0)
    ConsumerGroupMembership._close(membership, beats, 5000, None)
    assert waited == [True] * is_alive
    assert len(left) == 1


def test_other_workers_never_see_an_unknown_topic_as_known() -> None:
    seen: list[bool] = []

    class Watched(dict[UUID, tuple[int, ...]]):
        def items(self) -> Any:
            seen.append(ids.unknown)
            return super().items()

    topics: list[wire.MetadataResponse.Topic] = []
    now = 0.0
    cluster: Any = SimpleNamespace(
        handler=SimpleNamespace(now=lambda: now), call=lambda *_, **__: wire.MetadataResponse(topics=topics)
    )
    ids = TopicIds(cluster)
    assignment = Watched({UUID(int=1): (0,)})
    assert ids.keys(assignment, 0) == (frozenset(), set())
    assert ids.keys(assignment, 0) == (frozenset(), set())
    now += 10
    topics.append(wire.MetadataResponse.Topic(name="t", topic_id=UUID(int=1)))
    assert ids.keys(assignment, 0) == (frozenset({TopicPartition("t", 0)}), set())
    assert (seen, ids.unknown) == ([False, True, True], False)
