"""A member of a group that reads many topics: shares, patterns, topics that come and go, and what goes wrong."""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterator
from typing import Any

import gevent
import pytest

from pykafka import KafkaClient
from pykafka.exceptions import (
    FencedInstanceId,
    InconsistentGroupProtocol,
    ShareLostError,
)
from pykafka.groups.classic.heartbeat import Report
from tests.brokers import KafkaCluster
from tests.support.inside import take_report
from tests.support.subscribers import Member, Members, put_out
from tests.support.topics import create_topic

pytestmark = [pytest.mark.kafka, pytest.mark.needs("groups")]


@pytest.fixture
def members(client: KafkaClient) -> Iterator[Members]:
    """Yield a group of members of two topics of three partitions."""
    group = Members(client)
    yield group
    group.leave()


def test_members_share_topics_and_hand_over_in_order(members: Members) -> None:
    one = members.join()
    one.serve(None)
    assert one.share == members.keys()
    assert one.hooks.called == [("on_assigned", frozenset(members.keys()))]
    two = members.join()
    one.hooks.then["on_revoked_all"] = lambda keys: one.commit(keys, 5)
    members.settled(2, 4)
    assert one.hooks.names() == ["on_assigned", "on_revoked_all", "on_assigned"]
    assert one.hooks.called[1][1] == members.keys()
    # what stays goes on where it was; what is new does not
    assert (one.hooks.kept[-1], two.hooks.kept[-1]) == (frozenset(one.share), frozenset())
    assert {found.offset for found in one.offsets.fetch(list(members.keys())).values()} == {5}
    assert (one.identity.generation_id, one.identity.member_id) == (one.subscriber.generation, one.subscriber.member_id)
    share = frozenset(one.share)
    members.leave(one)
    assert one.hooks.called[-1] == ("on_revoked_all", share)
    assert (one.identity.generation_id, one.identity.member_id) == (-1, "")
    members.settled(6)


def test_a_call_keeps_its_deadline_and_the_next_one_goes_on(members: Members) -> None:
    one = members.join()
    one.serve(None)
    two = members.join()
    now = members.client.cluster.handler.now
    for _ in range(5):  # one does nothing: two waits for it
        started = now()
        two.serve(0.05)
        assert now() - started < 1
    assert two.subscriber.needs_poll
    assert not two.share
    sent = two.subscriber.pending_join.sent
    two.serve(0.05)
    assert two.subscriber.pending_join.sent is sent is not None  # the same JoinGroup
    members.settled(2, 4)
    assert two.hooks.names() == ["on_assigned"]


@pytest.mark.later("greenlets")
def test_topics_are_shared_out_by_the_assignor_that_all_know(members: Members) -> None:
    one = members.join(assignor=["range", "roundrobin"])
    members.join(assignor="roundrobin")
    members.settled(3, 3)
    assert one.subscriber.membership.protocol == "roundrobin"
    three = members.join(assignor="range")
    with pytest.raises(InconsistentGroupProtocol):
        members.until(lambda: three.share)
    members.leave(three)
    members.settled(3, 3)


def test_members_may_read_different_topics(members: Members) -> None:
    first, second = members.topics
    one, two = members.join(first), members.join(second)
    members.settled(3, 3)
    assert (one.share, two.share) == (members.keys(first), members.keys(second))
    one.subscriber.subscribe([first, second])
    members.until(lambda: one.share >= members.keys(first) and len(one.share) + len(two.share) == 6)
    two.subscriber.leave()
    assert (two.share, two.subscriber.needs_poll, two.subscriber.topics) == (set(), False, frozenset())
    members.members.remove(two)
    members.settled(6)
    two.subscriber.subscribe([second])  # and comes back
    members.members.append(two)
    members.until(lambda: two.share)


@pytest.mark.later("greenlets")
def test_a_topic_is_read_as_soon_as_it_exists(members: Members) -> None:
    name = f"later-{uuid.uuid4().hex[:8]}"
    one = members.join(members.topics[0], name)
    members.settled(3, keys=members.keys(members.topics[0]))
    create_topic(members.client, 2, name=name)
    members.until(lambda: one.share == members.keys(members.topics[0], name))


@pytest.mark.needs("partitions")
@pytest.mark.matrix
def test_partitions_and_topics_that_match_are_read_as_they_come(members: Members) -> None:
    prefix = f"orders-{uuid.uuid4().hex[:8]}"
    first = create_topic(members.client, 1, name=f"{prefix}-a").name
    create_topic(members.client, 1, name=f"not-{prefix}-a")
    one, two = members.join(re.compile(f"{prefix}-.*")), members.join(f"^{prefix}-.*")
    members.settled(0, 1, keys=members.keys(first))
    second = create_topic(members.client, 3, name=f"{prefix}-b").name
    members.until(lambda: one.share | two.share == members.keys(first, second))
    members.client.admin.create_partitions({first: 4})
    members.until(lambda: len(one.share | two.share) == 7)
    assert not one.share & two.share
    lost: set[Any] = set()
    for member in (one, two):
        member.hooks.then["on_lost"] = lost.update
        member.hooks.then["on_revoked_all"] = member.commit  # which the coordinator refuses for a topic that is gone
    members.client.admin.delete_topics([second])
    members.until(lambda: len(one.share | two.share) == 4, 60)
    assert {key.topic for key in lost} == {second}


def test_internal_topics_are_read_only_by_name(members: Members) -> None:
    one = members.join(re.compile(r".*offsets"))
    one.serve(None)
    assert one.share == set()
    members.leave(one)
    two = members.join("__consumer_offsets")
    two.serve(None)
    assert {key.topic for key in two.share} == {"__consumer_offsets"}


@pytest.mark.matrix
def test_a_member_that_stalls_loses_its_share_and_joins_again(members: Members) -> None:
    one = members.join(max_poll_interval_ms=600, session_timeout_ms=6000)
    one.serve(None)
    share, generation = frozenset(one.share), one.identity.generation_id
    members.client.cluster.handler.sleep(1.5)
    assert one.subscriber.needs_poll
    with pytest.raises(ShareLostError, match=r"out of the group .* max_poll_interval_ms") as caught:
        one.commit(share)
    assert set(caught.value.failures) == set(share)
    one.serve(None)
    assert one.hooks.names() == ["on_assigned", "on_lost", "on_assigned"]
    assert one.hooks.called[1][1] == share == one.share
    assert one.hooks.kept[-1] == frozenset()
    assert one.identity.generation_id != generation or one.identity.member_id
    one.commit(share)
    with one.subscriber.awaiting():  # waiting for messages is no stall
        members.client.cluster.handler.sleep(1.2)
        assert not one.subscriber.sender.idle


class Broken(Exception):
    """The error of a listener."""


@pytest.mark.parametrize("hook", ["on_revoked_all", "on_assigned", "on_lost"])
def test_a_listener_s_error_is_raised_once_the_rebalance_is_over(members: Members, hook: str) -> None:
    one = members.join(max_poll_interval_ms=6000)
    one.serve(None)

    def fail(keys: Any) -> None:
        del one.hooks.then[hook]
        raise Broken(hook)

    one.hooks.then[hook] = fail
    if hook == "on_lost":
        put_out(one.subscriber)
        take_report(one.subscriber, _idle(one))
    else:
        one.subscriber.request_rejoin()
    with pytest.raises(Broken, match=hook):
        one.serve(None)
    assert one.share == members.keys()
    assert one.hooks.names() == ["on_assigned", "on_lost" if hook == "on_lost" else "on_revoked_all", "on_assigned"]
    one.serve(None)
    assert not one.subscriber.sender.idle


def _idle(member: Member) -> Report:
    return Report(member.subscriber.generation, member.subscriber.member_id, 0, "", None, idle=True)


@pytest.mark.parametrize("hook", ["on_revoked_all", "on_assigned"])
def test_a_timeout_in_a_listener_runs_it_again(kafka: KafkaCluster, hook: str) -> None:
    with KafkaClient(hosts=kafka.hosts, use_greenlets=True) as client:
        members = Members(client)
        one = members.join()
        one.serve(None)
        one.hooks.then[hook] = lambda keys: gevent.sleep(10)
        one.subscriber.request_rejoin()
        with pytest.raises(gevent.Timeout), gevent.Timeout(0.3):
            one.serve(None)
        del one.hooks.then[hook]
        assert one.subscriber.needs_poll
        one.serve(None)
        assert one.share == members.keys()
        calls = one.hooks.names()
        assert calls.count(hook) == (2 if hook == "on_revoked_all" else 3)
        assert one.hooks.kept[-1] == members.keys()
        members.leave()


@pytest.mark.needs("ids")
@pytest.mark.matrix
def test_leaving_ends_a_join_of_another_worker(members: Members) -> None:
    handler = members.client.cluster.handler
    one = members.join()
    one.serve(None)
    two = members.join()
    worker = handler.spawn(two.serve, None)
    handler.sleep(0.3)  # two waits for one, which makes no call
    started = handler.now()
    members.leave(two)
    assert handler.now() - started < 5
    assert worker.join(5)
    assert worker.error is None
    members.settled(6)


def test_a_hook_may_leave(members: Members) -> None:
    one = members.join()
    one.serve(None)
    one.hooks.then["on_revoked_all"] = lambda keys: one.subscriber.leave()
    one.subscriber.request_rejoin()
    one.serve(None)
    assert (one.share, one.subscriber.needs_poll, one.subscriber.member_id) == (set(), False, "")
    assert one.hooks.names() == ["on_assigned", "on_revoked_all"]


@pytest.mark.needs("static")
@pytest.mark.later("greenlets")
def test_a_static_member_comes_back_to_its_share_and_a_second_one_puts_it_out(members: Members) -> None:
    one = members.join(group_instance_id="one")
    two = members.join(group_instance_id="two")
    members.settled(2, 4)
    share, generation = set(two.share), one.subscriber.generation
    members.leave(two)
    again = members.join(group_instance_id="two")
    members.settled(2, 4)
    assert (again.share, again.subscriber.generation) == (share, generation)
    rival = members.join(group_instance_id="two")
    rival.serve(None)
    for _ in range(2):
        with pytest.raises(FencedInstanceId, match="'two'"):
            for _ in range(50):
                again.serve()
                members.client.cluster.handler.sleep(0.05)
        assert again.share == set()
    assert again.hooks.names() == ["on_assigned", "on_lost"]
    with pytest.raises(ShareLostError, match="another member has joined as 'two'"):
        again.commit(share)
    members.leave(one, again, rival)
