"""How members leave a group that the brokers keep, however their joining or their callback ended, and what ends them."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator
from contextlib import nullcontext, suppress
from functools import partial
from typing import Any

import gevent
import pytest

from pykafka import Broker, KafkaClient, ManagedBalancedConsumer
from pykafka.exceptions import ConsumerStoppedException, GroupIdNotFound, RebalanceInProgress
from pykafka.groups.coordinator_connection import CoordinatorConnection
from pykafka.membershipprotocol import RangeProtocol
from pykafka.protocol import MemberAssignment, wire
from tests.brokers import KafkaCluster
from tests.support.groups import Group
from tests.support.inside import membership_of
from tests.support.interrupts import Interrupted, interrupting
from tests.support.topics import create_topic
from tests.support.waiting import CutOff, cut_off, until

pytestmark = [pytest.mark.kafka, pytest.mark.needs("groups")]

Managed = Group[ManagedBalancedConsumer]


class Stubborn:
    """A member that joins a group when it is told to, and is waited for meanwhile."""

    def __init__(self, group: Managed) -> None:
        self._group = group
        self._broker = group.client.cluster.get_group_coordinator(group.name)
        self.id: Any = ""
        self._channel = uuid.uuid4()

    def join(self) -> None:
        """Join, and take nothing for itself."""
        settings = {"session_timeout_ms": 30_000, "rebalance_timeout_ms": 60_000}
        name = self._group.name
        topic = self._group.topic
        for _ in range(100):
            joined = self._broker.join_group(self._channel, name, self.id, topic.name, RangeProtocol, **settings)
            if joined.error_code not in {14, 15, 16}:  # a broker that has just started makes up its mind
                break
            self._group.client.cluster.handler.sleep(0.1)
            self._broker = self._group.client.cluster.get_group_coordinator(name)
        assert joined.error_code == 0
        self.id = joined.member_id
        shares = []
        if joined.leader_id == joined.member_id:
            others = [member for member in joined.members if member != self.id]
            shares = [(member, MemberAssignment([(topic.name, list(topic.partitions))])) for member in others[:1]]
        synced = self._broker.sync_group(self._channel, name, joined.generation_id, self.id, shares)
        assert synced.error_code in {0, RebalanceInProgress.ERROR_CODE}  # where somebody has left since

    def leave(self) -> None:
        assert self._broker.leave_group(uuid.uuid4(), self._group.name, self.id).error_code == 0

    def is_waited_for(self) -> bool:
        """Return whether the others have joined again."""
        state = self._broker.describe_groups([self._group.name]).groups[self._group.name].state
        return str(state) in {"PreparingRebalance", "b'PreparingRebalance'"}

    def members(self) -> set[str]:
        """Return the ids of the group's members, as its coordinator knows them."""
        found = self._broker.describe_groups([self._group.name]).groups[self._group.name]
        return {str(member) for member in found.members}


@pytest.fixture
def stubborn(group: Managed) -> Iterator[Stubborn]:
    """Yield a member that is in the group already."""
    stubborn = Stubborn(group)
    stubborn.join()
    yield stubborn
    stubborn.leave()


def test_stop_during_a_rejoin_leaves(group: Managed) -> None:
    """It ended the connection, took the coordinator for lost, and never told it: the others waited for the session."""
    one = group.join()
    group.sizes(3)
    stubborn = Stubborn(group)
    joining = group.client.cluster.handler.spawn(stubborn.join)
    assert joining.join(20)
    assert joining.error is None
    group.until(lambda: membership_of(one).membership.state.name == "STABLE" and len(stubborn.members()) == 2)
    membership_of(one).request_rejoin()  # for which the other one is waited for
    group.until(stubborn.is_waited_for)
    started = time.monotonic()
    one.stop()
    assert stubborn.members() == {stubborn.id}
    assert time.monotonic() - started < 10
    stubborn.leave()


@pytest.mark.needs("ids")
def test_a_start_that_is_cut_off_leaves_nobody_behind(group: Managed, stubborn: Stubborn) -> None:
    """A member that got an id leaves by it: else a zombie owned partitions until its session ended."""
    handler = group.client.cluster.handler
    if handler.name == "gevent":
        with pytest.raises(gevent.Timeout), gevent.Timeout(1):
            group.join()
    else:
        member = group.join(auto_start=False)
        starting = handler.spawn(member.start)
        group.until(lambda: membership_of(member).member_id)
        member.stop()
        assert starting.join(20)
        assert isinstance(starting.error, ConsumerStoppedException)
    assert stubborn.members() == {stubborn.id}


def test_a_member_that_is_told_its_id_late_leaves_with_it(
    group: Managed, stubborn: Stubborn, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Brokers before 2.2 tell it in the answer to the join, which comes when all others have joined."""
    api_version = Broker.api_version

    def old_version(self: Broker, request_cls: type[Any], *args: Any, **kwargs: Any) -> int:
        found = api_version(self, request_cls, *args, **kwargs)
        return min(found, 3) if request_cls is wire.JoinGroupRequest else found

    monkeypatch.setattr(Broker, "api_version", old_version)
    handler = group.client.cluster.handler
    member = group.join(auto_start=False)
    starting = handler.spawn(member.start)
    group.until(lambda: membership_of(member).pending_join.sent is not None)
    stopping = handler.spawn(member.stop)
    handler.sleep(0.3)
    assert stopping.is_alive()
    assert not membership_of(member).member_id
    stubborn.join()
    assert stopping.join(20)
    assert starting.join(20)
    group.until(lambda: stubborn.members() == {stubborn.id})


@pytest.mark.parametrize("seconds", [0.001, 0.3], ids=["at once", "while it leaves"])
@pytest.mark.later("threads-while", "greenlets-at once")
def test_a_stop_that_is_cut_off_leaves_all_the_same(
    group: Managed, monkeypatch: pytest.MonkeyPatch, seconds: float
) -> None:
    """The others waited for the session's end, or for ever, as heartbeats went on; and start() never worked again."""
    one, two = group.join(), group.join()
    group.sizes(1, 2)
    handler = group.client.cluster.handler
    leave_at = CoordinatorConnection._leave_at

    def slowly(self: CoordinatorConnection, *args: Any) -> None:
        self.handler.sleep(1)
        leave_at(self, *args)

    monkeypatch.setattr(CoordinatorConnection, "_leave_at", slowly)
    while one._running:  # on a busy machine the cut may come before the first step
        with pytest.raises(CutOff), cut_off(handler, seconds):
            one.stop()
    group.until(lambda: len(two.partitions) == 3)
    while two._running:
        with pytest.raises(CutOff), cut_off(handler, seconds):
            two.stop()
    two.start()
    one.start()
    group.sizes(1, 2)
    assert membership_of(one).sender.is_alive
    with pytest.raises(CutOff), cut_off(handler, seconds):
        one.stop()
    one.stop()  # waits for what the former one has begun
    assert membership_of(one).membership.member_id == ""


STOPPING = (
    "compat/group_consumer.py",
    "compat/managed_balanced_consumer.py",
    "groups/classic/coordinator.py",
    "handlers/interrupts.py",
    "handlers/threads.py",
)


def test_a_stop_that_is_cut_off_at_any_step_leaves(kafka: KafkaCluster) -> None:
    """It stayed in the group, and sent heartbeats, if Ctrl-C came before the worker that leaves had started."""
    with KafkaClient(kafka.hosts) as client:
        topic = create_topic(client, 1)
        steps = 0
        for call in interrupting(*STOPPING):
            name = f"g-{uuid.uuid4().hex[:8]}"
            member = topic.get_balanced_consumer(
                name, managed=True, heartbeat_interval_ms=300, session_timeout_ms=10_000
            )
            with suppress(Interrupted):
                call(member.stop)
            if not member._running:  # else it was before the first step
                steps += 1
                until(client.cluster.handler, partial(has_left, client, name), 5)
            member.stop()
        assert steps > 30


def test_a_start_that_is_cut_off_at_any_step_leaves_or_is_whole(kafka: KafkaCluster) -> None:
    """It ran without the worker that follows the assignment, so the group waited for it at the next rebalance."""
    with KafkaClient(kafka.hosts) as client:
        topic = create_topic(client, 1)
        steps = 0
        for call in interrupting("compat/group_consumer.py"):
            name = f"g-{uuid.uuid4().hex[:8]}"
            settings: dict[str, Any] = {"heartbeat_interval_ms": 300, "session_timeout_ms": 10_000}
            member = topic.get_balanced_consumer(name, managed=True, auto_start=False, **settings)
            with suppress(Interrupted):
                call(member.start)
            if member._running:
                assert member._worker.is_alive()
            else:
                steps += 1
                until(client.cluster.handler, partial(has_left, client, name), 5)
            member.stop()
        assert steps > 5


def has_left(client: KafkaClient, group: str) -> bool:
    """Return whether a group has no members, or does not exist."""
    try:
        return not client.admin.describe_groups(group)[group].members
    except GroupIdNotFound:
        return True


class Sudden(BaseException):
    """No error that anybody expects."""


ENDS = {"a timeout": gevent.Timeout, "an exit": SystemExit, "whatever": Sudden}


@pytest.mark.parametrize(
    "end",
    ["a timeout", pytest.param("an exit", marks=pytest.mark.no_loop("end the loop by SystemExit")), "whatever"],
)
@pytest.mark.later("greenlets-a timeout", "threads-an exit", "greenlets-whatever")
def test_a_callback_that_ends_the_worker_ends_the_consumer(group: Managed, end: str) -> None:
    """The worker was gone without a word, while heartbeats kept the share from the others."""
    kind = ENDS[end]
    calls = 0

    def fail(*_: Any) -> None:
        nonlocal calls
        calls += 1
        if calls > 1:
            raise kind()

    # on greenlets the program is told of an exit, too, whatever it is at
    exits = 1 if kind is SystemExit and group.client.cluster.handler.cooperative else 0
    group.produce(30)
    one = group.join(post_rebalance_callback=fail, consumer_timeout_ms=20_000)
    assert one.consume() is not None
    with pytest.raises(SystemExit) if exits else nullcontext():
        two = group.join()
        group.until(lambda: not exits and calls > 1)
    two = group.members[-1] if group.members[-1] is not one else group.join()
    with pytest.raises(ConsumerStoppedException, match="post_rebalance_callback") as told:
        while one.consume() is not None:
            continue
    assert isinstance(told.value.__cause__, kind)
    with pytest.raises(ConsumerStoppedException):
        one.consume()
    group.until(lambda: len(two.partitions) == 3)
    assert membership_of(two).membership.state.name == "STABLE"
    one.stop()
    calls = -10
    one.start()
    group.sizes(1, 2)


@pytest.mark.later("greenlets")
def test_who_hangs_loses_its_share_though_others_come_and_go(group: Managed) -> None:
    """Each join began the poll deadline anew: who hangs kept its partitions for as long as others joined or left."""
    one = group.join()
    hanging = group.join(max_poll_interval_ms=2500, auto_commit_enable=False)
    group.sizes(1, 2)
    handler = group.client.cluster.handler
    deadline = time.monotonic() + 30
    while len(one.partitions) < 3:
        assert time.monotonic() < deadline
        membership_of(one).request_rejoin()
        handler.sleep(0.7)
    assert hanging.partitions == {}
    hanging.consume(block=False)
    group.sizes(1, 2)
