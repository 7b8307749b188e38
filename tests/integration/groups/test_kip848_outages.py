"""Members of the next-generation protocol whose coordinator dies, hangs or moves, and whose process forks."""

from __future__ import annotations

import os
import time
import traceback
from collections.abc import Iterator
from typing import Any

import pytest

from pykafka import KafkaClient
from pykafka.exceptions import SocketDisconnectedError
from tests.brokers import KafkaCluster
from tests.integration.groups.test_consumer_histories import History, kill_coordinators
from tests.support.loops import Concurrency
from tests.support.subscribers import Members
from tests.support.waiting import until

pytestmark = [pytest.mark.kafka, pytest.mark.needs("assigning"), pytest.mark.timeout(300)]


@pytest.fixture
def members3(concurrency: Concurrency, kafka3: KafkaCluster) -> Iterator[Members]:
    """Yield a group on three brokers."""
    with KafkaClient(hosts=kafka3.hosts, **concurrency(), socket_timeout_ms=4000) as client:
        group = Members(client, defaults={"protocol": "consumer"})
        yield group
        group.leave()


@pytest.mark.matrix
@pytest.mark.on_asyncio
def test_a_dead_coordinator_takes_no_share_with_it(members3: Members, kafka3: KafkaCluster) -> None:
    members = members3
    one, two = members.join(), members.join()
    members.settled(3, 3)
    calls = [list(member.hooks.called) for member in (one, two)]
    victim = members.client.cluster.get_group_coordinator(members.name).id
    now = members.client.cluster.handler.now
    kafka3.kill(victim)
    try:
        longest, ends = 0.0, now() + 8
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
        members.leave(three)
        members.settled(3, 3)
        assert "on_lost" not in [*one.hooks.names(), *two.hooks.names()]
    finally:
        kafka3.start(victim)


@pytest.mark.matrix
def test_a_coordinator_that_hangs_holds_up_no_call(members3: Members, kafka3: KafkaCluster) -> None:
    """It accepts connections, and says nothing; the member's share stays, and goes on when it answers again."""
    members = members3
    one = members.join()
    members.settled(6)
    now = members.client.cluster.handler.now
    victim = members.client.cluster.get_group_coordinator(members.name).id
    kafka3.pause(victim)
    try:
        longest, ends = 0.0, now() + 7
        while now() < ends:
            began = now()
            one.serve(0.1)
            longest = max(longest, now() - began)
            members.client.cluster.handler.sleep(0.02)
        assert len(one.share) == 6
        assert longest < 5
    finally:
        kafka3.resume(victim)
    two = members.join()
    members.settled(3, 3)
    assert two.hooks.names()[0] == "on_added"


@pytest.mark.matrix
def test_an_answer_that_is_lost_comes_again(members3: Members) -> None:
    """The connection of heartbeats is cut again and again, while members come and go."""
    members = members3
    one = members.join()
    members.settled(6)
    for _ in range(4):
        two = members.join()
        ends = time.monotonic() + 1
        while time.monotonic() < ends:
            for member in (one, two):
                pulse = member.subscriber.heartbeats._thread
                if pulse is not None and pulse._run is not None:
                    pulse._run.cut()
                member.serve(0.02)
        members.settled(3, 3)
        members.leave(two)
        members.settled(6)
    assert "on_lost" not in one.hooks.names()


@pytest.mark.matrix
def test_a_static_member_whose_join_was_not_answered_has_its_place_all_the_same(members3: Members) -> None:
    members = members3
    one = members.join(group_instance_id="one")
    heartbeats = one.subscriber.heartbeats
    ask = heartbeats._heartbeat_call
    cut: list[Any] = []

    def lost(place: Any) -> Any:
        call = ask(place)

        def answered(response: Any) -> None:
            if len(cut) < 2 and not response.error_code:
                cut.append(response)
                call.failed(SocketDisconnectedError("the answer is lost"))
            else:
                call.answered(response)

        return call._replace(answered=answered)

    heartbeats._heartbeat_call = lost
    members.settled(6)
    assert len(cut) == 2
    assert one.hooks.names()[0] == "on_added"


@pytest.mark.matrix
def test_dying_coordinators_lose_no_message(kafka3: KafkaCluster, concurrency: Concurrency) -> None:
    with KafkaClient(kafka3.hosts, **concurrency(), socket_timeout_ms=4000) as client:
        kill_coordinators(kafka3, History(client, protocol="consumer"))


def test_heartbeats_go_on_while_the_application_computes(kafka: KafkaCluster) -> None:
    """A hub that is blocked beats on, by a native thread; the group hears of a join meanwhile."""
    with KafkaClient(hosts=kafka.hosts, use_greenlets=True) as client:
        members = Members(client, defaults={"protocol": "consumer"})
        one = members.join()
        members.settled(6)
        joined = one.subscriber.heartbeats.joins
        time.sleep(2)  # blocks the hub: eight heartbeats are due
        members.settled(6)
        assert one.subscriber.heartbeats.joins == joined
        assert "on_lost" not in one.hooks.names()
        members.leave()


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_forked_child_is_a_member_of_its_own(kafka: KafkaCluster) -> None:
    with KafkaClient(hosts=kafka.hosts) as client:
        members = Members(client, defaults={"protocol": "consumer"})
        one = members.join()
        members.settled(6)
        reading, writing = os.pipe()
        child = os.fork()
        if not child:
            try:
                os.close(reading)
                deadline = time.monotonic() + 20
                while len(one.share) != 3 and time.monotonic() < deadline:
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
        assert "'on_lost'" in told, told
        assert told.endswith("'on_added']"), told
        assert "on_lost" not in one.hooks.names()
        members.leave()


@pytest.mark.matrix
def test_a_member_whose_heartbeats_stop_is_replaced(members3: Members) -> None:
    members = members3
    one, two = members.join(), members.join()
    members.settled(3, 3)
    share = frozenset(one.share)
    heartbeats = one.subscriber.heartbeats
    place = heartbeats.target
    heartbeats.set_target(None)  # a network that loses heartbeats
    members.forget_at(place, one)
    members.until(lambda: len(two.share) == 6, among=[two])
    heartbeats.set_target(place._replace(group=place.group))
    members.settled(3, 3)
    assert ("on_lost", share) in one.hooks.called
    until(members.client.cluster.handler, lambda: one.subscriber.is_stable)
