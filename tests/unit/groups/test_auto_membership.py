"""`AutoMembership`: the calls of other workers while it chooses a protocol, and the errors that make it choose again."""

from __future__ import annotations

import logging
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from pykafka.common import SubscriptionPattern
from pykafka.exceptions import (
    GroupAuthorizationFailed,
    GroupIdNotFound,
    KafkaException,
    ResponseTimeoutError,
    SocketDisconnectedError,
    UnsupportedVersion,
)
from pykafka.groups.auto_membership import AutoMembership
from pykafka.groups.kip848.heartbeats import API
from pykafka.groups.options import CLASSIC, CONSUMER, CONSUMER_GROUP_HEARTBEAT, READY_SINCE, ZOOKEEPER
from pykafka.handlers import Handler
from pykafka.protocol import wire
from pykafka.utils.loglimit import LogLimiter


def nothing(*_: Any, **__: Any) -> None:
    """Do nothing."""


class Question:
    """A sent DescribeGroups request; `coordinator.during` runs while its caller waits."""

    deadline = float("inf")

    def __init__(self, coordinator: Coordinator) -> None:
        self._coordinator = coordinator
        self.done = False

    def wait(self, seconds: float) -> None:
        self._coordinator.clock += seconds
        self._coordinator.during()
        self.done = self.done or self._coordinator.answers

    def get_when_due(self) -> wire.DescribeGroupsResponse:
        if self._coordinator.error is not None:
            raise self._coordinator.error
        group = wire.DescribeGroupsResponse.Group(group_state=self._coordinator.state)
        return wire.DescribeGroupsResponse(groups=[group])


class Coordinator:
    """A broker with the next-generation protocol."""

    id, address = 1, "a:9092"

    def connect_within(self, timeout_ms: int) -> None:
        """It is connected."""

    def __init__(self) -> None:
        self.clock = 100.0
        self.keeps_groups = True
        self.answers = True
        self.error: KafkaException | None = None
        self.state = "Empty"
        self.during: Callable[[], object] = nothing
        self.asked = 0
        ranges = {CONSUMER_GROUP_HEARTBEAT: (0, READY_SINCE), wire.DescribeGroupsRequest.api_key: (0, 5)}
        self.versions = SimpleNamespace(found=ranges)

    def has(self, *_: Any) -> bool:
        return self.keeps_groups

    def is_connected(self, _: str) -> bool:
        return True

    def throttled_for(self, _: str) -> float:
        return 0.0

    def send(self, *_: Any, **__: Any) -> Question:
        self.asked += 1
        return Question(self)


class Member:
    """A membership that notes its calls; `during` runs in `subscribe`."""

    owns_assignment = True

    def __init__(self, protocol: str, during: Callable[[], object]) -> None:
        self.protocol = protocol
        self.topics: Any = None
        self.polls = self.leaves = 0
        self.error: KafkaException | None = None
        self._during = during

    def subscribe(self, topics: Any) -> None:
        self.topics = topics
        self._during()

    def poll(self, *_: Any) -> None:
        self.polls += 1
        if self.error is not None:
            raise self.error

    def leave(self, **_: Any) -> None:
        self.leaves += 1


class Group:
    """An `AutoMembership`, the coordinator that it asks, and the memberships that it has made."""

    def __init__(self, handler: Handler, **configs: Any) -> None:
        self.coordinator = coordinator = Coordinator()
        self.made: list[Member] = []
        self.make_error: Exception | None = None
        self.in_subscribe: Callable[[], object] = nothing
        clocked: Any = SimpleNamespace(now=self.now, random=handler.random, sleep=self._sleep, at_fork=handler.at_fork)
        self.found = 0
        self.find_error: KafkaException | None = None
        self.cluster = cluster = SimpleNamespace(
            handler=clocked,
            listener=None,
            brokers={1: coordinator},
            coordinators=SimpleNamespace(find=self._find, forget=nothing, refused=nothing, has_successor=nothing),
            closed=False,
            socket_timeout_ms=30_000,
            limiter=LogLimiter(handler),
            may_pass=lambda error: error.retriable,
        )
        self.hooks: Any = SimpleNamespace(wakeup_requested=False, request_poll=nothing)
        identity: Any = SimpleNamespace(listener=None)
        as_cluster: Any = cluster
        configs = {"group_id": "g", "assignor": None, **configs}
        self.member = AutoMembership(self._make, as_cluster, self.hooks, identity, **configs)
        self.member.subscribe(["a"])

    def _find(self, *_: Any) -> Coordinator:
        self.found += 1
        if self.find_error is not None:
            raise self.find_error
        return self.coordinator

    def _sleep(self, seconds: float) -> None:
        self.coordinator.clock += seconds

    def _make(self, protocol: str, *_: Any, **__: Any) -> Any:
        if self.make_error is not None:
            raise self.make_error
        during, self.in_subscribe = self.in_subscribe, nothing
        self.made.append(Member(protocol, during))
        return self.made[-1]

    def replace_coordinator(self) -> None:
        """Move the group to another broker."""
        clock = self.coordinator.clock
        self.coordinator = Coordinator()
        self.coordinator.clock = clock
        self.cluster.brokers = {1: self.coordinator}

    def now(self) -> float:
        """Return the time, as a deadline that is over."""
        return self.coordinator.clock


@pytest.fixture
def group(handler: Handler) -> Group:
    return Group(handler)


@pytest.mark.parametrize(
    "error", [None, GroupAuthorizationFailed("no"), SocketDisconnectedError("the connection is gone")]
)
def test_leaving_during_the_question_ends_the_call_without_an_error(group: Group, error: KafkaException | None) -> None:
    group.coordinator.error = error
    group.coordinator.during = group.member.leave
    group.member.poll(None)
    group.member.poll(None)
    assert (group.made, group.member.chosen) == ([], None)


def test_an_error_of_the_question_is_raised_while_the_member_subscribes(group: Group) -> None:
    group.coordinator.error = GroupAuthorizationFailed("no")
    with pytest.raises(GroupAuthorizationFailed):
        group.member.poll(None)


def test_a_subscription_during_the_question_is_the_one_that_joins(group: Group) -> None:
    group.coordinator.during = lambda: group.member.subscribe(["b"])
    group.member.poll(None)
    (made,) = group.made
    assert (made.topics, made.polls) == (["b"], 1)


def test_a_subscription_while_the_membership_is_made_is_the_one_that_joins(group: Group) -> None:
    group.in_subscribe = lambda: group.member.subscribe(["b"])
    group.member.poll(None)
    former, made = group.made
    assert (former.polls, made.topics, made.polls) == (0, ["b"], 1)
    group.member.subscribe(["c"])
    assert made.topics == ["c"]


def test_the_protocol_fits_a_pattern_for_the_broker_that_comes_while_the_membership_is_made(group: Group) -> None:
    group.coordinator.state = "Stable"
    group.in_subscribe = lambda: group.member.subscribe([SubscriptionPattern("b.*")])
    group.member.poll(None)
    assert [made.protocol for made in group.made] == [CLASSIC, CONSUMER]


def test_leaving_while_the_membership_is_made_keeps_it_from_joining(group: Group) -> None:
    group.in_subscribe = group.member.leave
    group.member.poll(None)
    (made,) = group.made
    assert (made.polls, group.member.chosen) == (0, None)


def test_leaving_after_the_membership_was_stored_leaves_it(group: Group) -> None:
    """`leave` comes between the store of the membership and the comparison of the topics."""

    class Watched(AutoMembership):
        @property
        def chosen(self) -> Any:
            return vars(self).get("stored")

        @chosen.setter
        def chosen(self, chosen: Any) -> None:
            vars(self)["stored"] = chosen
            if chosen is not None:
                self.leave()

    group.member.__class__ = Watched
    group.member.poll(None)
    (made,) = group.made
    assert (made.polls, made.leaves) == (0, 1)


@pytest.mark.parametrize(
    ("error", "raised"),
    [
        (GroupIdNotFound("of other members", api=API), False),
        (UnsupportedVersion("not here", api=API), False),
        (GroupIdNotFound("no such group", api="DescribeGroups"), True),
        (UnsupportedVersion("too old"), True),
    ],
)
def test_only_a_refusal_of_the_member_makes_it_choose_again(group: Group, error: KafkaException, raised: bool) -> None:
    """A listener may call the admin client, and raise what that has raised."""
    group.member.poll(None)
    (made,) = group.made
    made.error = error
    if raised:
        with pytest.raises(type(error)):
            group.member.poll(None)
        assert (len(group.made), made.leaves) == (1, 0)
    else:
        group.member.poll(None)
        assert [made.protocol for made in group.made] == [CONSUMER, CLASSIC]
        assert made.leaves == 1


def test_wakeup_ends_a_question_without_a_deadline_and_the_next_call_takes_its_answer(group: Group) -> None:
    def wake_up() -> None:
        group.hooks.wakeup_requested = True

    group.coordinator.answers, group.coordinator.during = False, wake_up
    began = group.coordinator.clock
    group.member.poll(None)
    assert group.coordinator.clock - began < 1
    assert group.made == []
    group.hooks.wakeup_requested, group.coordinator.answers, group.coordinator.during = False, True, nothing
    group.member.poll(None)
    assert (len(group.made), group.coordinator.asked) == (1, 1)


def test_calls_without_a_wait_get_the_answer_of_a_slow_coordinator(group: Group) -> None:
    group.coordinator.answers = False
    for _ in range(3):
        group.member.poll(group.now())
    assert (group.made, group.coordinator.asked, group.found) == ([], 1, 1)
    group.coordinator.answers = True
    group.member.poll(group.now())
    assert (len(group.made), group.coordinator.asked) == (1, 1)


def test_another_coordinator_is_asked_anew(group: Group) -> None:
    group.coordinator.answers = False
    group.member.poll(group.now())
    group.coordinator.answers = True
    group.replace_coordinator()
    group.find_error = GroupAuthorizationFailed("no")
    with pytest.raises(GroupAuthorizationFailed):
        group.member.poll(group.now())
    group.find_error = None
    group.member.poll(group.now())
    assert (len(group.made), group.coordinator.asked) == (1, 1)


def test_a_question_that_has_failed_is_asked_again(group: Group) -> None:
    group.coordinator.error = ResponseTimeoutError("no answer in time")
    group.member.poll(group.now())
    assert (group.made, group.coordinator.asked, group.found) == ([], 1, 1)
    group.coordinator.error = None
    group.member.poll(group.now())
    assert (len(group.made), group.coordinator.asked, group.found) == (1, 2, 2)


@pytest.mark.parametrize(
    "error",
    [
        ValueError("zookeeper_hosts= is missing"),
        ImportError("no module named kazoo"),
        NotImplementedError("kazoo does not run on an event loop"),
    ],
)
def test_brokers_without_groups_are_an_error_of_kafka_when_zookeeper_cannot_be_used(
    group: Group, error: Exception
) -> None:
    group.coordinator.keeps_groups = False
    group.make_error = error
    with pytest.raises(UnsupportedVersion, match=str(error)) as raised:
        group.member.poll(None)
    assert raised.value.__cause__ is error


@pytest.mark.parametrize("by_pattern", [False, True])
def test_brokers_without_groups_do_not_take_what_zookeeper_does_not(handler: Handler, by_pattern: bool) -> None:
    group = Group(handler, assignor=None if by_pattern else ("sticky",))
    group.coordinator.keeps_groups = False
    if by_pattern:
        group.member.subscribe([SubscriptionPattern("b.*")])
    with pytest.raises(UnsupportedVersion, match="SubscriptionPattern" if by_pattern else "sticky"):
        group.member.poll(None)


def test_brokers_without_groups_are_read_through_zookeeper(group: Group, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "pykafka.groups.auto_membership")
    group.coordinator.keeps_groups = False
    group.member.poll(None)
    (made,) = group.made
    assert (made.protocol, made.polls) == (ZOOKEEPER, 1)
    assert "the brokers keep no groups" in caplog.text


def test_errors_of_other_protocols_are_raised_as_they_are(group: Group) -> None:
    group.make_error = ValueError("heartbeat_interval_ms must be below session_timeout_ms")
    with pytest.raises(ValueError, match="heartbeat_interval_ms"):
        group.member.poll(None)
