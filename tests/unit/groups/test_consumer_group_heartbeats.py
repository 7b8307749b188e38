"""The fields of a KIP-848 member's heartbeats, and the answers that are news."""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest

from pykafka.exceptions import KafkaException, SocketDisconnectedError, error_for
from pykafka.groups.heartbeat_sender import Activity
from pykafka.groups.heartbeat_thread import Call
from pykafka.groups.kip848.heartbeats import (
    UNRELEASED_S,
    ConsumerGroupHeartbeats,
    ConsumerGroupTarget,
    HeartbeatSubscription,
)
from pykafka.groups.member_epoch import State, Verdict
from pykafka.handlers import Handler
from pykafka.protocol.wire import ConsumerGroupHeartbeatResponse

ORDERS = UUID(int=1)


class Member:
    """A member without a thread, whose coordinator is the test."""

    def __init__(self, handler: Handler) -> None:
        self.heartbeats = ConsumerGroupHeartbeats(handler, "m", Activity(), 300_000, lambda: None)
        broker: Any = SimpleNamespace(address="a:9092", socket_timeout_ms=5000)
        self._target = self.heartbeats._target = ConsumerGroupTarget(broker, "g", 1, None, None, 300_000, None)
        self.now, self.noticed = 1000.0, 0
        native: Any = SimpleNamespace(now=lambda: self.now, post=lambda notify: notify())
        self.heartbeats._native = native
        self.heartbeats.notify = self.notice
        timer: Any = self.heartbeats.heartbeat
        timer._clock = native.now
        timer.last_send = timer.last_receive = timer.last_reset = self.now
        self.heartbeats.joins = 1
        self.heartbeats.subscription = HeartbeatSubscription(("orders",))

    def notice(self) -> None:
        self.noticed += 1

    def heard(self) -> list[Any]:
        """Return the verdicts reported since the last call of this, each with its join and the type of its error."""
        found = [(report.join, report.verdict, type(report.error)) for report in self.heartbeats.reports]
        assert self.noticed >= len(found)
        self.heartbeats.reports.clear()
        self.noticed = 0
        return found

    def refuse(self, call: Call, code: int) -> None:
        call.answered(ConsumerGroupHeartbeatResponse(error_code=code))

    def send(self) -> Call:
        call = self.heartbeats._heartbeat_call(self._target)
        assert call is not None
        return call

    def answer(self, call: Call, epoch: int, assignment: Mapping[UUID, tuple[int, ...]] | None = None) -> None:
        kind = ConsumerGroupHeartbeatResponse.Assignment
        made = None
        if assignment is not None:
            topics = [kind.TopicPartitions(topic_id=id_, partitions=list(ids)) for id_, ids in assignment.items()]
            made = kind(topic_partitions=topics)
        call.answered(ConsumerGroupHeartbeatResponse(member_epoch=epoch, heartbeat_interval_ms=5000, assignment=made))


@pytest.fixture
def member(handler: Handler) -> Member:
    member = Member(handler)
    member.answer(member.send(), 1, {ORDERS: (0, 1)})
    return member


def fields(call: Call) -> Any:
    return call.request


def named(call: Call) -> dict[UUID, list[int]] | None:
    found = fields(call).topic_partitions
    return None if found is None else {one.topic_id: list(one.partitions) for one in found}


def test_a_revocation_of_what_was_never_reported_is_answered(member: Member) -> None:
    member.answer(member.send(), 1, {ORDERS: (0,)})
    assert named(member.send()) == {}  # the coordinator waits for that


def test_after_a_lost_heartbeat_the_next_has_all_fields(member: Member) -> None:
    member.heartbeats.owned = {ORDERS: (0, 1)}
    member.heartbeats.subscription = HeartbeatSubscription(("orders", "returns"))
    member.answer(member.send(), 1)
    request: Any = member.send().request
    assert (request.subscribed_topic_names, request.topic_partitions) == (None, None)
    member.send().failed(SocketDisconnectedError("the answer was lost"))
    call = member.send()
    request = call.request
    assert request.subscribed_topic_names == ["orders", "returns"]
    assert named(call) == {ORDERS: [0, 1]}


@pytest.mark.parametrize(("owned", "is_news"), [({}, True), ({ORDERS: (0,)}, True), ({ORDERS: (0, 1)}, False)])
def test_an_unchanged_assignment_is_news_for_a_member_that_lacks_part_of_it(
    member: Member, owned: dict[UUID, tuple[int, ...]], is_news: bool
) -> None:
    before = member.heartbeats.answer
    member.heartbeats.owned = owned
    member.answer(member.send(), 1, {ORDERS: (0, 1)})
    assert (member.heartbeats.answer is not before) is is_news


# -- what a heartbeat says -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("version", "pattern", "regex"), [(0, None, None), (1, None, ""), (1, "o.*", "o.*")])
def test_a_join_has_all_fields_and_the_next_heartbeat_none(
    handler: Handler, version: int, pattern: str | None, regex: str | None
) -> None:
    member = Member(handler)
    target = member._target._replace(version=version, instance_id="i", rack="r", assignor="uniform")
    member._target = member.heartbeats._target = target
    member.heartbeats.subscription = HeartbeatSubscription(("orders",), pattern)
    call = member.send()
    request: Any = call.request
    assert (call.version, call.timeout, member.heartbeats.is_joining) == (version, 5.0, True)
    assert (request.group_id, request.member_id, request.member_epoch, request.instance_id) == ("g", "m", 0, "i")
    assert (request.rack_id, request.rebalance_timeout_ms, request.server_assignor) == ("r", 300_000, "uniform")
    assert (request.subscribed_topic_names, request.subscribed_topic_regex, named(call)) == (["orders"], regex, {})
    member.answer(call, 4, {ORDERS: (0,)})
    assert not member.heartbeats.is_joining
    request = member.send().request
    assert (request.member_epoch, request.rack_id, request.rebalance_timeout_ms) == (4, None, -1)
    assert (request.subscribed_topic_names, request.subscribed_topic_regex, request.server_assignor) == (None,) * 3
    assert request.topic_partitions is None


@pytest.mark.parametrize("change", ["subscription", "owned", "hurry", "time", "nothing"])
def test_a_change_is_sent_at_once(member: Member, change: str) -> None:
    beats = member.heartbeats
    beats.owned = {ORDERS: (0, 1)}
    member.answer(member.send(), 1)
    assert not beats._needs_heartbeat()
    if change == "subscription":
        beats.set_subscription(HeartbeatSubscription(("returns",)))
    elif change == "owned":
        beats.set_owned({ORDERS: (1,)})
    elif change == "hurry":
        beats.hurry()
    elif change == "time":
        member.now += 5
    assert beats._needs_heartbeat() is (change != "nothing")
    call = member.send()
    assert fields(call).subscribed_topic_names == (["returns"] if change == "subscription" else None)
    assert named(call) == ({ORDERS: [1]} if change == "owned" else None)
    member.answer(call, 1)
    assert not beats._needs_heartbeat()


def test_heartbeats_come_soon_until_there_is_an_assignment(handler: Handler) -> None:
    member = Member(handler)
    intervals = []
    for assignment in [{}, None, None, {}, {ORDERS: (0,)}, None, {}]:
        member.answer(member.send(), 1, assignment)
        intervals.append(member.heartbeats.heartbeat.interval)
    assert intervals == [0.2, 0.4, 0.8, 1.6, 5.0, 5.0, 0.2]


# -- what an answer means ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("code", "verdict", "state"),
    [
        (25, Verdict.FENCED, State.OUT),
        (110, Verdict.FENCED, State.OUT),
        (69, Verdict.FENCED, State.OUT),
        (16, Verdict.MOVED, State.MEMBER),
        (14, Verdict.MOVED, State.MEMBER),
        (7, Verdict.MOVED, State.MEMBER),
        (111, Verdict.WAITS, State.MEMBER),
        (82, Verdict.ENDED, State.OUT),
        (30, Verdict.REFUSED, State.OUT),
    ],
)
def test_a_refused_heartbeat(member: Member, code: int, verdict: Verdict, state: State) -> None:
    beats = member.heartbeats
    beats.owned = {ORDERS: (0, 1)}
    member.answer(member.send(), 1)
    member.refuse(member.send(), code)
    assert member.heard() == [(1, verdict, type(error_for(code)))]
    assert (beats.membership.state, beats.present is None) == (state, state is State.OUT)
    assert beats.may_be_member is (state is State.MEMBER)
    assert (beats._retry_at > member.now) is (state is State.MEMBER)
    assert not beats.is_joining
    if state is State.OUT:
        assert not beats._needs_heartbeat()  # until the hooks have lost the assignment
        beats.join()
        assert beats.may_be_member
        member.now += 1
        assert beats._needs_heartbeat()
    request: Any = member.send().request
    assert request.member_epoch == (1 if state is State.MEMBER else 0)
    assert (request.subscribed_topic_names, request.rebalance_timeout_ms) == (["orders"], 300_000)


@pytest.mark.parametrize("code", [69, 35])
def test_a_refused_join_by_a_group_of_another_protocol(handler: Handler, code: int) -> None:
    member = Member(handler)
    member.refuse(member.send(), code)
    assert member.heard() == [(1, Verdict.FOREIGN, type(error_for(code)))]
    assert not member.heartbeats._needs_heartbeat()


def test_a_lost_heartbeat_keeps_the_member(member: Member) -> None:
    beats = member.heartbeats
    member.send().failed(SocketDisconnectedError("cut"))
    assert member.heard() == [(1, Verdict.MOVED, SocketDisconnectedError)]
    assert (beats.membership.state, beats._retry_at) == (State.MEMBER, member.now + 1)
    member.answer(member.send(), 1)  # nothing changed: the assignment is what it was
    assert beats.answer is not None
    assert beats.answer.assignment == {ORDERS: (0, 1)}


@pytest.mark.parametrize("code", [14, 15, 16, 25, 110])
def test_joins_that_are_refused_one_after_the_other_pause(handler: Handler, code: int) -> None:
    """The application's calls look the coordinator up after each, and join there: only the first is repeated at once."""
    member, pauses = Member(handler), []
    beats = member.heartbeats
    for _ in range(6):
        member.refuse(member.send(), code)
        beats.set_target(None)
        beats.join()
        pauses.append(round(max(0.0, beats._retry_at - member.now), 3))
        beats._target = member._target
        member.now += 1
    assert pauses == [0.0, 0.2, 0.4, 0.8, 1.0, 1.0]
    member.answer(member.send(), 1, {ORDERS: (0,)})
    member.refuse(member.send(), code)
    beats.set_target(None)
    assert beats._retry_at == 0.0


def test_each_join_is_another_one(member: Member) -> None:
    beats = member.heartbeats
    for join in (2, 3):
        beats.join()
        assert (beats.joins, beats.present, beats.owned) == (join, None, {})
        member.refuse(member.send(), 25)
        assert member.heard() == [(join, Verdict.FENCED, type(error_for(25)))]


@pytest.mark.parametrize(
    ("error", "fenced"),
    [(error_for(25), True), (error_for(69), True), (error_for(16), False), (SocketDisconnectedError("cut"), False)],
)
def test_a_refused_commit_is_followed(member: Member, error: KafkaException, fenced: bool) -> None:
    beats = member.heartbeats
    beats.owned = {ORDERS: (0, 1)}
    member.answer(member.send(), 1)
    beats.commit_refused(error)
    assert member.heard() == ([(1, Verdict.FENCED, type(error))] if fenced else [])
    assert beats._needs_heartbeat() is not fenced  # a heartbeat says more
    assert beats.membership.state is (State.OUT if fenced else State.MEMBER)


# -- an instance id that another member has --------------------------------------------------------------------------------


def test_an_instance_id_is_waited_for_a_minute(handler: Handler) -> None:
    member = Member(handler)
    for second in (0.0, 1.0, UNRELEASED_S):
        member.now = 1000 + second
        member.refuse(member.send(), 111)
        assert member.heartbeats.is_waiting_for_instance
        assert [verdict for _, verdict, _ in member.heard()] == [Verdict.WAITS]
    member.now += 0.5
    member.refuse(member.send(), 111)
    assert not member.heartbeats.is_waiting_for_instance
    assert [verdict for _, verdict, _ in member.heard()] == [Verdict.REFUSED]


def test_an_instance_id_of_its_own_lost_join_is_released(handler: Handler) -> None:
    member = Member(handler)
    member.send().failed(SocketDisconnectedError("the answer was lost"))
    member.refuse(member.send(), 111)
    assert not member.heartbeats.is_waiting_for_instance
    for _ in range(2):
        call = member.send()
        assert fields(call).member_epoch == -2
        assert (fields(call).member_id, call.version, call.timeout) == ("m", 1, 5.0)
        member.heard()
        call.failed(SocketDisconnectedError("cut"))
        assert member.heard() == [(1, Verdict.MOVED, SocketDisconnectedError)]
    member.send().answered(ConsumerGroupHeartbeatResponse())
    call = member.send()
    assert fields(call).member_epoch == 0
    member.refuse(call, 111)
    assert member.heartbeats.is_waiting_for_instance


def test_an_instance_id_of_a_fenced_member_is_released(member: Member) -> None:
    """The coordinator has fenced its epoch, and may still have it under its instance id."""
    member.refuse(member.send(), 110)
    member.heartbeats.join()
    member.refuse(member.send(), 111)
    assert fields(member.send()).member_epoch == -2


# -- leaving ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("instance", "leaves", "epoch"),
    [(None, None, -1), (None, True, -1), (None, False, None), ("i", None, -2), ("i", True, -1), ("i", False, -2)],
)
def test_static_members_pause_and_others_leave(
    member: Member, instance: str | None, leaves: bool | None, epoch: int | None
) -> None:
    request: Any = member.heartbeats.leaving(member._target._replace(instance_id=instance), leaves)
    if epoch is None:
        assert request is None
    else:
        assert (request.group_id, request.member_id, request.member_epoch) == ("g", "m", epoch)


@pytest.mark.parametrize("answered", [True, False])
def test_a_member_leaves_whose_application_hangs(member: Member, answered: bool) -> None:
    beats = member.heartbeats
    call = beats._leave_call(member._target)
    assert call is not None
    assert (fields(call).member_epoch, fields(call).member_id) == (-1, "m")
    assert (call.version, call.timeout) == (1, 5.0)
    if answered:
        call.answered(ConsumerGroupHeartbeatResponse())
    else:
        call.failed(SocketDisconnectedError("cut"))
    (report,) = beats.reports
    assert (report.idle, report.overdue) == (True, False)
    assert member.heard() == [(1, Verdict.FENCED, type(None) if answered else SocketDisconnectedError)]
    assert (beats.is_sending, beats.membership.state, beats.may_be_member) == (False, State.OUT, False)


def test_one_that_is_out_has_nothing_to_leave(handler: Handler) -> None:
    member = Member(handler)
    assert member.heartbeats._leave_call(member._target) is None
    assert member.heard() == [(1, Verdict.FENCED, type(None))]
    assert not member.heartbeats.is_sending
