"""Members of many topics whose coordinator dies, moves or falls silent, whose group is deleted, and whose process forks."""

from __future__ import annotations

import os
import socket
import time
import traceback
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from pykafka import KafkaClient
from pykafka.exceptions import UnsupportedVersion
from tests.brokers import KafkaCluster
from tests.support.inside import background_join
from tests.support.loops import Concurrency
from tests.support.subscribers import Member, Members, put_out
from tests.support.waiting import until

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(300)]


@pytest.fixture
def members3(concurrency: Concurrency, kafka3: KafkaCluster) -> Iterator[Members]:
    """Yield a group on three brokers."""
    with KafkaClient(hosts=kafka3.hosts, **concurrency(), socket_timeout_ms=4000) as client:
        group = Members(client)
        yield group
        group.leave()


@pytest.fixture
def members(client: KafkaClient) -> Iterator[Members]:
    group = Members(client)
    yield group
    group.leave()


@pytest.mark.needs("groups")
@pytest.mark.matrix
def test_a_dead_coordinator_takes_no_share_with_it(members3: Members, kafka3: KafkaCluster) -> None:
    members = members3
    one, two = members.join(session_timeout_ms=20_000), members.join(session_timeout_ms=20_000)
    members.settled(2, 4)
    calls = [list(member.hooks.called) for member in (one, two)]
    victim = members.client.cluster.get_group_coordinator(members.name).id
    now = members.client.cluster.handler.now
    kafka3.kill(victim)
    try:
        longest = 0.0
        ends = now() + 8
        while now() < ends:
            for member in (one, two):
                began = now()
                member.serve(0.1)
                longest = max(longest, now() - began)
        assert longest < 2  # a call keeps its deadline while the coordinator is away
        members.until(
            lambda: not one.subscriber.connection.is_unknown() and not two.subscriber.connection.is_unknown(), 60
        )
        one.commit(one.share)
        assert [member.hooks.called for member in (one, two)] == calls
        three = members.join()
        members.settled(2, 2, 2)
        one.hooks.then["on_revoked_all"] = one.commit
        members.leave(three)
        members.settled(2, 4)
    finally:
        kafka3.start(victim)


@pytest.mark.needs("groups")
@pytest.mark.matrix
def test_a_rebalance_goes_on_at_the_next_coordinator(members3: Members, kafka3: KafkaCluster) -> None:
    members = members3
    one = members.join(session_timeout_ms=20_000)
    one.serve(None)
    two = members.join(session_timeout_ms=20_000)
    two.serve(0.5)  # joins; one does not yet
    assert two.subscriber.pending_join.sent is not None
    victim = members.client.cluster.get_group_coordinator(members.name).id
    kafka3.kill(victim)
    try:
        members.settled(2, 4)
        assert "on_lost" not in one.hooks.names()
    finally:
        kafka3.start(victim)


@pytest.mark.needs("groups")
@pytest.mark.later("threads-silent", "greenlets-swallowing")
@pytest.mark.parametrize("kind", ["silent", "swallowing"])
def test_a_silent_coordinator_holds_up_no_call(members: Members, kind: str) -> None:
    """Whether it accepts connections and says nothing, or packets to it are lost: each call returns in time."""
    one = members.join()
    one.serve(None)
    now = members.client.cluster.handler.now
    with ExitStack() as stack:
        silent = stack.enter_context(socket.socket())
        silent.bind(("127.0.0.1", 0))
        silent.listen(100 if kind == "silent" else 0)
        for _ in range(3 if kind == "swallowing" else 0):  # until its queue is full, so that it drops more
            filler = stack.enter_context(socket.socket())
            filler.setblocking(False)
            filler.connect_ex(silent.getsockname())
        coordinator = one.subscriber.connection.find()
        one.subscriber.connection.drop_connection()
        port, coordinator._port = coordinator._port, silent.getsockname()[1]
        one.subscriber.request_rejoin()
        began = now()
        one.serve(0.3)
        took = now() - began
        coordinator._port = port
    one.subscriber.connection.drop_connection()
    one.subscriber.connection.coordinator = None
    assert took < 4
    members.settled(6)


@pytest.mark.needs("admin")
@pytest.mark.later("greenlets")
def test_a_deleted_group_is_joined_anew(members: Members) -> None:
    one = members.join(session_timeout_ms=6000)
    one.serve(None)
    share = frozenset(one.share)
    beat = one.subscriber.sender._target
    one.subscriber.sender.set_target(None)  # a network that loses heartbeats
    put_out(one.subscriber)
    until(
        members.client.cluster.handler,
        lambda: not members.client.admin.describe_groups([members.name])[members.name].members,
    )
    members.client.admin.delete_groups([members.name])
    one.subscriber.sender.set_target(beat)
    members.until(lambda: one.hooks.names() == ["on_assigned", "on_lost", "on_assigned"])
    assert one.hooks.called[1][1] == share == one.share


@pytest.mark.needs("groups")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_forked_child_is_a_member_of_its_own(kafka: KafkaCluster) -> None:
    with KafkaClient(hosts=kafka.hosts) as client:
        members = Members(client)
        one = members.join()
        one.serve(None)
        reading, writing = os.pipe()
        child = os.fork()
        if not child:
            try:
                os.close(reading)
                one.serve(5)
                deadline = time.monotonic() + 20
                while len(one.share) not in (2, 4) and time.monotonic() < deadline:
                    one.serve()
                names = one.hooks.names()
                one.subscriber.leave()
                os.write(writing, repr(names).encode())
            except BaseException:  # noqa: BLE001 - the parent tells it
                os.write(writing, traceback.format_exc().encode())
            finally:
                os._exit(0)
        os.close(writing)
        members.until(lambda: len(one.share) < 6)
        members.settled(6)
        with os.fdopen(reading, "rb") as pipe:
            told = pipe.read().decode()
        os.waitpid(child, 0)
        assert told.startswith("['on_assigned', 'on_lost', 'on_assigned'"), told
        assert "on_lost" not in one.hooks.names()
        members.leave()


@pytest.mark.matrix
def test_brokers_before_0_9_keep_no_groups() -> None:
    with KafkaCluster("0.8.2.2") as old, KafkaClient(hosts=old.hosts) as client:
        member = Member(client, "g", ["topic"])
        with pytest.raises(UnsupportedVersion, match=r"0\.9"):
            member.serve(None)
        member.subscriber.leave()


@pytest.mark.needs("groups")
@pytest.mark.matrix
@pytest.mark.parametrize("when", ["join", "sync"])
def test_a_cooperative_share_stays_when_the_coordinator_dies_within_a_rebalance(
    members3: Members, kafka3: KafkaCluster, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    """While a member waits for the others to join, or for the leader to share out; calls wait for nobody meanwhile."""
    members = members3
    members.defaults = {"assignor": "cooperative-sticky", "session_timeout_ms": 20_000}
    handler = members.client.cluster.handler
    one = members.join()
    members.settled(6)
    two = members.join()
    members.settled(3, 3)
    held, go_on = handler.Event(), handler.Event()
    assign = one.subscriber._assignors.assign

    def stalled(*arguments: Any) -> Any:
        held.set()
        go_on.wait(30)
        return assign(*arguments)

    monkeypatch.setattr(one.subscriber._assignors, "assign", stalled)
    members.join()
    if when == "sync":
        members.until(held.is_set)
    else:
        members.until(lambda: background_join(two.subscriber) is not None, among=members.members[1:])
    victim = members.client.cluster.get_group_coordinator(members.name).id
    kafka3.kill(victim)
    try:
        ends = handler.now() + 6
        longest = 0.0
        while handler.now() < ends:
            began = handler.now()
            two.serve(0.1)
            longest = max(longest, handler.now() - began)
            handler.sleep(0.02)
        assert longest < 1
        go_on.set()
        members.settled(2, 2, 2)
        assert "on_lost" not in [*one.hooks.names(), *two.hooks.names()]
        one.commit(one.share)
    finally:
        go_on.set()
        kafka3.start(victim)
