"""Membership as a table, how members leave, and heartbeats by a clock of the test's."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykafka.compat.coordinator.metrics import ConsumerCoordinatorMetrics, GroupCoordinatorMetrics
from pykafka.compat.topic_member import TopicMember
from pykafka.exceptions import IllegalGeneration, RebalanceInProgress, UnknownMemberId
from pykafka.groups.classic.coordinator import AbstractCoordinator
from pykafka.groups.classic.heartbeat import Report, leave_request
from pykafka.groups.classic.membership import ClassicMembership
from pykafka.groups.classic.state import EVENT_OF_ERROR, TABLE, Event, ImpossibleEvent, MemberState, State
from pykafka.groups.heartbeat_sender import Heartbeat
from pykafka.handlers import Handler
from pykafka.protocol import (
    wire,
)
from tests.support.inside import take_report


@pytest.mark.parametrize("kind", [TopicMember, ClassicMembership])
def test_the_log_has_what_to_do_for_an_idle_application(
    kind: type[TopicMember | ClassicMembership], caplog: pytest.LogCaptureFixture
) -> None:
    member = object.__new__(kind)
    member.group_id = "g"
    member.config = {"max_poll_interval_ms": 4000}
    member.membership = MemberState()
    member.membership.apply(Event.JOIN)
    take_report(member, Report(-1, "m", 0, "a:9092", idle=True))
    assert "took no messages for 4000 ms, so this member has left the group; read more often, or raise" in caplog.text


def test_a_member_warns_of_heartbeats_that_were_refused_for_longer_than_its_session(
    caplog: pytest.LogCaptureFixture,
) -> None:
    member = object.__new__(ClassicMembership)
    member.group_id = "g"
    member.config = {"session_timeout_ms": 4000}
    member.membership = MemberState()
    take_report(member, Report(3, "m", 30, "a:9092", overdue=True))
    (record,) = caplog.records
    assert record.levelname == "WARNING"
    assert (
        "group g: the coordinator has taken no heartbeat of this member for longer than its session (4000 ms)"
        in caplog.text
    )
    assert "GROUP_AUTHORIZATION_FAILED" in caplog.text
    assert "a:9092" in caplog.text


@pytest.mark.parametrize(
    ("report", "follows"),
    [
        (Report(3, "m-1", 0, "a:9092", idle=True), State.UNJOINED),
        (Report(3, "m-1", UnknownMemberId.ERROR_CODE, "a:9092"), State.UNJOINED),
        (Report(3, "m-1", IllegalGeneration.ERROR_CODE, "a:9092"), State.UNJOINED),
        (Report(2, "m-1", UnknownMemberId.ERROR_CODE, "a:9092"), State.SYNCING),
        (Report(3, "m-1", RebalanceInProgress.ERROR_CODE, "a:9092"), State.SYNCING),
    ],
)
def test_an_assignment_that_waited_to_be_read_does_not_hide_that_the_member_is_out(
    handler: Handler, report: Report, follows: State
) -> None:
    """Seed 300868: a poll ends before the answer to SyncGroup, and the application takes too long to poll again."""
    member = Joining(handler, None)
    member.membership.apply(Event.JOINED, 3, "m-1", "range")
    member.sender.reports.append(report)
    assert member.need_rejoin()
    assert member.membership.state is follows


# -- leaving ------------------------------------------------------------------------------------------------------------


class Joining(AbstractCoordinator):
    """A member whose first request to join has no answer yet."""

    def __init__(self, handler: Handler, instance_id: str | None) -> None:
        cluster = SimpleNamespace(handler=handler, listener=None)
        super().__init__(cast(Any, cluster), group_id="g", group_instance_id=instance_id)
        self.waits: list[float] = []
        #: (LeaveGroup request in version 3, name for the log)
        self.left: list[tuple[Any, str]] = []
        self.membership.apply(Event.JOIN)
        self.join_pends()
        cast(Any, self.connection).leave_by = self._note_leave

    def join_pends(self) -> None:
        pending = SimpleNamespace(done=False, get=self._wait)
        self.pending_join.sent = cast(Any, SimpleNamespace(request=wire.JoinGroupRequest(), pending=pending))

    def _wait(self, timeout: float) -> Any:
        self.waits.append(timeout)
        return SimpleNamespace(member_id="m-1")

    def _note_leave(self, once: Any, name: str, timeout_ms: int) -> None:
        self.left.append((leave_request("g", once.args[0], 3, self.config["group_instance_id"]).members[0], name))

    def protocol_type(self) -> str:
        return "consumer"

    def group_protocols(self) -> list[tuple[str, Any]]:
        return []

    def _perform_assignment(self, *args: Any) -> dict[str, Any]:
        return {}

    def _on_join_complete(self, *args: Any) -> None:
        pass


@pytest.mark.parametrize("aborted", [False, True])
@pytest.mark.parametrize("leave_group", [None, True, False])
@pytest.mark.parametrize("instance_id", [None, "host-1"])
def test_what_a_member_sends_that_is_closed_in_its_first_join(
    handler: Handler, instance_id: str | None, leave_group: bool | None, aborted: bool
) -> None:
    """A static member leaves by its instance id: it gets no member id before the whole group has joined."""
    member = Joining(handler, instance_id)
    leaves = instance_id is None if leave_group is None else leave_group
    if aborted:  # as `PolledMembership.leave` does, which ends the wait of the worker that joins
        member._leave_group = leave_group
        member.abort()
        member.pending_join.forget()
        member.membership.apply(Event.FAILED)
    member.close(leave_group=leave_group)
    waits = [5.0] if leaves and instance_id is None else []
    assert member.waits == pytest.approx(waits, abs=0.5)
    if not leaves:
        assert member.left == []
        return
    ((left, name),) = member.left
    assert (left.member_id, left.group_instance_id) == (("m-1", None) if instance_id is None else ("", instance_id))
    assert name == (instance_id or "m-1")


def test_a_static_member_that_never_joined_sends_nothing(handler: Handler) -> None:
    member = Joining(handler, "host-1")
    member.pending_join.forget()
    member.close(leave_group=True)
    assert member.left == []


def test_a_member_that_joins_again_waits_for_each_close_before(handler: Handler) -> None:
    """A close that was cut off begins another one: it must not remove the member that joins next."""
    member, release = Joining(handler, None), handler.Event()

    def leave(*args: Any) -> None:
        release.wait(10)
        member._note_leave(*args)

    cast(Any, member.connection).leave_by = leave
    member.close(wait=0.0)
    member.close(wait=0.0)
    release.set()
    member.close()
    member.membership.apply(Event.JOIN)
    handler.sleep(0.05)
    assert member.membership.state is State.JOINING
    assert len(member.left) == 1
    member.membership.apply(Event.FAILED)
    member.close()
    ended: list[bool] = []

    def end() -> None:
        handler.sleep(0.1)
        ended.append(True)

    member._ending.take(end, 0.0)
    member.close()
    assert ended == [True]


# -- the table ---------------------------------------------------------------------------------------------------------


def test_a_member_s_way() -> None:
    member = MemberState()
    assert (member.state, member.generation_id, member.member_id) == (State.UNJOINED, -1, "")
    assert member.apply(Event.JOIN) is State.JOINING
    assert member.apply(Event.JOINED, 1, "m", "range") is State.SYNCING
    assert member.apply(Event.SYNCED) is State.STABLE
    assert member.is_present(1, "m")
    assert member.apply(Event.REBALANCE) is State.STALE
    assert member.apply(Event.JOIN) is State.JOINING
    assert member.apply(Event.JOINED, 2, "m", "range") is State.SYNCING
    assert member.apply(Event.REBALANCE) is State.STALE
    assert (member.generation_id, member.member_id, member.protocol) == (2, "m", "range")


@pytest.mark.parametrize("state", list(State))
@pytest.mark.parametrize(
    ("event", "left"), [(Event.OUTDATED, (-1, "m")), (Event.LOST, (-1, "")), (Event.LEFT, (-1, ""))]
)
def test_what_a_member_forgets(state: State, event: Event, left: tuple[int, str]) -> None:
    member = MemberState()
    member.state, member.generation_id, member.member_id = state, 3, "m"
    assert member.apply(event) is State.UNJOINED
    assert (member.generation_id, member.member_id) == left


def test_what_cannot_happen_is_refused() -> None:
    with pytest.raises(ImpossibleEvent, match="SYNCED in state UNJOINED"):
        MemberState().apply(Event.SYNCED)


@pytest.mark.parametrize("state", list(State))
def test_whatever_a_coordinator_answers_has_its_place_in_every_state(state: State) -> None:
    assert {*EVENT_OF_ERROR.values(), Event.LEFT} <= set(TABLE[state])
    assert (Event.JOIN in TABLE[state]) == (state in {State.UNJOINED, State.STALE})


def test_what_an_error_means_for_a_member() -> None:
    assert EVENT_OF_ERROR == {
        22: Event.OUTDATED,
        25: Event.LOST,
        27: Event.REBALANCE,
        15: Event.FAILED,
        16: Event.FAILED,
        14: Event.FAILED,
    }


@pytest.mark.parametrize(
    ("state", "event", "follows"),
    [
        *((state, Event.REBALANCE, State.STALE) for state in State if state is not State.UNJOINED),
        (State.UNJOINED, Event.REBALANCE, State.UNJOINED),
        (State.UNJOINED, Event.FAILED, State.UNJOINED),
        (State.JOINING, Event.FAILED, State.STALE),
        (State.SYNCING, Event.FAILED, State.STALE),
        (State.STABLE, Event.FAILED, State.STABLE),  # the next coordinator takes the member over
        (State.STALE, Event.FAILED, State.STALE),
        (State.STALE, Event.NAMED, State.STALE),
        (State.JOINING, Event.NAMED, State.JOINING),
    ],
)
def test_a_member_stays_one_through_a_rebalance_and_a_lost_answer(state: State, event: Event, follows: State) -> None:
    member = MemberState()
    member.state, member.generation_id, member.member_id = state, 3, "m"
    assert member.apply(event) is follows
    assert (member.generation_id, member.member_id, member.breaks) == (3, "m", 0)


@given(st.lists(st.sampled_from(list(Event))))
def test_only_a_stable_member_need_not_join(events: list[Event]) -> None:
    member = MemberState()
    for event in events:
        if event in TABLE[member.state]:
            member.apply(event, *((1, "m", "range") if event is Event.JOINED else ()))
        if member.state in {State.SYNCING, State.STABLE}:
            assert (member.generation_id, member.member_id) == (1, "m")


# -- time ----------------------------------------------------------------------------------------------------------------


def test_when_heartbeats_are_due_and_the_session_is_over() -> None:
    now = 100.0
    heartbeat = Heartbeat(session_timeout_ms=10_000, heartbeat_interval_ms=3000, clock=lambda: now)
    assert (heartbeat.ttl(), heartbeat.should_heartbeat(), heartbeat.session_expired()) == (3.0, False, False)
    now = 102.0
    assert heartbeat.ttl() == 1.0
    now = 103.5
    assert (heartbeat.ttl(), heartbeat.should_heartbeat()) == (0.0, True)
    heartbeat.sent_heartbeat()
    assert heartbeat.ttl() == 3.0
    now = 110.5
    assert heartbeat.session_expired()
    heartbeat.received_heartbeat()
    assert not heartbeat.session_expired()
    now = 121.0
    assert heartbeat.session_expired()
    heartbeat.reset_session_timeout()
    assert (heartbeat.session_expired(), heartbeat.ttl(), heartbeat.since_last()) == (False, 3.0, 17.5)


def test_heartbeats_have_documented_defaults_and_a_clock() -> None:
    heartbeat = Heartbeat()
    assert (heartbeat.timeout, heartbeat.interval) == (30.0, 3.0)
    assert 0 < heartbeat.ttl() <= 3.0
    with pytest.raises(ValueError, match="a third of it"):
        Heartbeat(session_timeout_ms=3000)


def test_metrics_go_where_they_are_wanted() -> None:
    seen: list[tuple[Any, ...]] = []
    gauges: dict[str, Any] = {}
    metrics = SimpleNamespace(
        record=lambda *args: seen.append(args), gauge=lambda name, value, *_: gauges.update({name: value})
    )
    heartbeat = Heartbeat()
    group = GroupCoordinatorMetrics(heartbeat, metrics, "consumer", {"client": "one"})
    group.joined(1.0)
    group.synced(2.0)
    group.answered(3.0)
    assert seen[0] == ("join-time", 1.0, "consumer-coordinator-metrics", {"client": "one"})
    assert gauges["last-heartbeat-seconds-ago"]() >= 0
    ConsumerCoordinatorMetrics(metrics, "consumer", SimpleNamespace(assigned_partitions=lambda: {1, 2}))
    assert gauges["assigned-partitions"]() == 2
    GroupCoordinatorMetrics(heartbeat, None, "").joined(1.0)
