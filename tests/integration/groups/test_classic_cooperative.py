"""Cooperative members (KIP-429): what stays is never revoked, nothing is owned twice, and commits pass through rebalances."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import gevent
import pytest

from pykafka import KafkaClient
from pykafka.exceptions import FencedInstanceId, ShareLostError
from pykafka.groups.classic.heartbeat import Report
from tests.brokers import KafkaCluster
from tests.support.inside import background_join, take_report
from tests.support.subscribers import Member, Members, put_out

pytestmark = [pytest.mark.kafka, pytest.mark.needs("groups")]

COOPERATIVE = "cooperative-sticky"


@pytest.fixture
def members(client: KafkaClient) -> Iterator[Members]:
    """Yield a group of members of two topics of three partitions."""
    group = Members(client, defaults={"assignor": COOPERATIVE})
    yield group
    group.leave()


def test_only_what_goes_is_released(members: Members) -> None:
    one = members.join()
    one.serve(None)
    assert one.hooks.called == [("on_added", frozenset(members.keys()))]
    one.hooks.then["on_revoked"] = lambda keys: one.commit(keys, 5)
    two = members.join()
    members.settled(3, 3)
    released = [keys for name, keys in one.hooks.called if name == "on_revoked"]
    assert released == [frozenset(two.share)]
    assert set(one.hooks.names()) == {"on_added", "on_revoked"}
    assert next(keys for name, keys in one.hooks.called[1:] if name == "on_added") == frozenset()
    assert set(two.hooks.names()) == {"on_added"}
    assert {found.offset for found in one.offsets.fetch(list(two.share)).values()} == {5}
    share = frozenset(two.share)
    members.leave(two)
    assert two.hooks.called[-1] == ("on_revoked_all", share)
    members.settled(6)
    assert one.hooks.called[-1] == ("on_added", share)


def test_a_call_of_a_member_with_a_share_waits_for_nobody_and_its_commits_pass(members: Members) -> None:
    now = members.client.cluster.handler.now
    one = members.join()
    members.join()
    members.settled(3, 3)
    three = members.join()
    three.serve(0.1)
    members.until(
        lambda: background_join(one.subscriber) is not None, among=[one, three]
    )  # two makes no call, so the group waits
    for _ in range(5):
        started = now()
        one.subscriber.poll(None)
        assert now() - started < 0.5
        assert not one.subscriber.needs_poll
        assert len(one.share) == 3
        one.commit(one.share, 7)
    members.settled(2, 2, 2)


def test_a_commit_between_join_and_sync_is_made_by_the_member_of_the_next_generation(
    members: Members, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The leader stalls before it shares out; commits of the others wait for that, and are made."""
    handler = members.client.cluster.handler
    one = members.join()
    members.settled(6)
    two = members.join()
    members.settled(3, 3)
    assign, held, go_on = one.subscriber._assignors.assign, handler.Event(), handler.Event()

    def stalled(*arguments: Any) -> Any:
        held.set()
        go_on.wait(20)
        return assign(*arguments)

    monkeypatch.setattr(one.subscriber._assignors, "assign", stalled)
    generation, kept = two.identity.generation_id, sorted(two.share)
    three = members.join()
    members.until(held.is_set)
    member = generation, two.identity.member_id
    worker = handler.spawn(lambda: two.offsets.commit(dict.fromkeys(kept, 9), identity=member))
    handler.sleep(0.5)
    assert worker.is_alive()
    go_on.set()
    assert worker.join(10)
    assert worker.error is None
    assert two.identity.generation_id == generation + 1
    assert {found.offset for found in two.offsets.fetch(kept).values()} == {9}
    members.settled(2, 2, 2)
    lost = [key for key in kept if key not in two.share]
    stays = [key for key in kept if key in two.share]
    with pytest.raises(ShareLostError) as caught:  # what went is not committed any more, what stayed is
        two.offsets.commit(dict.fromkeys(kept, 11), identity=member)
    assert set(caught.value.failures) == set(lost)
    assert {found.offset for found in two.offsets.fetch(stays).values()} == {11}
    assert len(three.share) == 2


@pytest.mark.matrix
def test_a_member_that_was_out_loses_its_share_and_joins_again(members: Members) -> None:
    one = members.join(max_poll_interval_ms=600)
    one.serve(None)
    share = frozenset(one.share)
    members.client.cluster.handler.sleep(1.5)
    one.serve(None)
    assert one.hooks.called == [("on_added", share), ("on_lost", share), ("on_added", share)]


class Broken(Exception):
    """The error of a listener."""


@pytest.mark.parametrize("hook", ["on_revoked", "on_added", "on_lost"])
def test_a_listener_s_error_is_raised_and_the_share_is_right(members: Members, hook: str) -> None:
    one = members.join()
    one.serve(None)

    def fail(keys: Any) -> None:
        del one.hooks.then[hook]
        raise Broken(hook)

    one.hooks.then[hook] = fail
    if hook == "on_lost":
        put_out(one.subscriber)
        subscriber = one.subscriber
        take_report(subscriber, Report(subscriber.generation, subscriber.member_id, 0, "", None, idle=True))
        with pytest.raises(Broken, match=hook):
            one.serve(None)
    else:
        members.join()
        with pytest.raises(Broken, match=hook):
            members.settled(3, 3)
        members.settled(3, 3)


def test_a_hook_may_leave(members: Members) -> None:
    one = members.join()
    one.serve(None)
    one.hooks.then["on_revoked"] = lambda keys: one.subscriber.leave()
    two = members.join()
    members.until(lambda: len(two.share) == 6, among=[one, two])
    assert one.hooks.names() == ["on_added", "on_revoked"]
    assert (one.subscriber.needs_poll, one.subscriber.member_id) == (False, "")


@pytest.mark.parametrize("hook", ["on_revoked", "on_added"])
def test_a_timeout_in_a_listener_runs_it_again(kafka: KafkaCluster, hook: str) -> None:
    with KafkaClient(hosts=kafka.hosts, use_greenlets=True) as client:
        members = Members(client, defaults={"assignor": COOPERATIVE})
        one = members.join()
        one.serve(None)
        one.hooks.then[hook] = lambda keys: gevent.sleep(10)
        two = members.join()
        with pytest.raises(gevent.Timeout), gevent.Timeout(3):
            members.settled(3, 3)
        del one.hooks.then[hook]
        assert one.subscriber.needs_poll
        one.hooks.share |= {key for name, keys in one.hooks.called[-1:] if name == "on_revoked" for key in keys}
        one.hooks.share -= {key for name, keys in one.hooks.called[-1:] if name == "on_added" for key in keys}
        members.settled(3, 3)
        assert one.hooks.names().count(hook) >= 2
        assert two.hooks.names().count("on_revoked") == 0
        members.leave()


@pytest.mark.needs("ids")
def test_leaving_ends_a_join_that_goes_on_aside(members: Members) -> None:
    handler = members.client.cluster.handler
    one, two = members.join(), members.join()
    members.settled(3, 3)
    three = members.join()
    members.until(lambda: background_join(one.subscriber) is not None, among=[one, three])
    started = handler.now()
    members.leave(one)
    assert handler.now() - started < 3
    members.settled(3, 3)
    assert len(two.share) == 3


@pytest.mark.needs("static")
def test_a_fenced_member_ends_also_while_it_joins(members: Members) -> None:
    one, two = members.join(group_instance_id="one"), members.join()
    members.settled(3, 3)
    three = members.join()
    members.until(lambda: background_join(one.subscriber) is not None, among=[one, three])
    share = frozenset(one.share)
    again = Member(members.client, members.name, members.topics, group_instance_id="one", assignor=COOPERATIVE)
    with pytest.raises(FencedInstanceId):
        members.until(lambda: again.serve(0.05), among=[one, three])
    assert one.hooks.called[-1] == ("on_lost", share)
    members.leave(one)
    members.members.append(again)
    members.settled(2, 2, 2)
    assert len(two.share) == 2


@pytest.mark.later("greenlets")
def test_a_group_of_range_becomes_cooperative_in_two_bounces(members: Members) -> None:
    both = [COOPERATIVE, "range"]
    for assignor in ("range", "range", both, both, COOPERATIVE, COOPERATIVE):
        if len(members.members) == 2:
            members.leave(members.members[0])
        members.join(assignor=assignor)
        members.until(lambda: sorted(key for one in members.members for key in one.share) == sorted(members.keys()))
    members.settled(3, 3)


def test_topics_that_are_no_longer_read_are_released_and_the_others_stay(members: Members) -> None:
    first, second = members.topics
    one = members.join()
    one.serve(None)
    one.subscriber.subscribe([first])
    members.settled(3, keys=members.keys(first))
    assert one.hooks.called[1] == ("on_revoked", frozenset(members.keys(second)))
    one.subscriber.subscribe([first, second])
    members.settled(6)
    assert one.hooks.called[-1] == ("on_added", frozenset(members.keys(second)))


def test_a_signal_of_threads_is_no_worker_too_few(members: Members) -> None:
    """Every rebalance aside ends its worker."""
    one = members.join()
    one.serve(None)
    for _ in range(3):
        two = members.join()
        members.settled(3, 3)
        members.leave(two)
        members.settled(6)
    handler = members.client.cluster.handler
    handler.sleep(0.1)
    assert not [worker for worker in threading.enumerate() if "Joining" in worker.name]
