"""Members of the next-generation protocol (KIP-848): what stays is never revoked, and commits are the owner's."""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterator
from typing import Any

import gevent
import pytest

from pykafka import KafkaClient, SubscriptionPattern
from pykafka.admin import GroupType
from pykafka.exceptions import (
    FencedInstanceId,
    InvalidRegularExpression,
    ShareLostError,
    UnreleasedInstanceId,
    UnsupportedAssignor,
)
from pykafka.groups.kip848 import heartbeats
from tests.brokers import KafkaCluster
from tests.support.subscribers import Members
from tests.support.topics import create_topic

pytestmark = [pytest.mark.kafka, pytest.mark.needs("assigning"), pytest.mark.timeout(120)]

CONSUMER: dict[str, Any] = {"protocol": "consumer"}


@pytest.fixture
def members(client: KafkaClient) -> Iterator[Members]:
    """Yield a group of members of two topics of three partitions."""
    group = Members(client, defaults=CONSUMER)
    yield group
    group.leave()


@pytest.mark.on_asyncio
def test_only_what_goes_is_released_and_committed_before(members: Members) -> None:
    one = members.join()
    members.settled(6)
    members.settled(6)
    one.hooks.then["on_revoked"] = lambda keys: one.commit(keys, 5)
    two = members.join()
    members.settled(3, 3)
    released = [keys for name, keys in one.hooks.called if name == "on_revoked"]
    assert released == [frozenset(two.share)]
    assert set(one.hooks.names()) == {"on_added", "on_revoked"}
    assert set(two.hooks.names()) == {"on_added"}
    assert {found.offset for found in one.offsets.fetch(list(two.share)).values()} == {5}
    share = frozenset(two.share)
    members.leave(two)
    assert two.hooks.called[-1] == ("on_revoked_all", share)
    members.settled(6)
    assert one.hooks.called[-1] == ("on_added", share)


@pytest.mark.later("threads")
def test_a_member_with_a_share_waits_for_nobody_and_its_commits_pass(members: Members) -> None:
    """One makes no call for a while; the others read and commit on."""
    now = members.client.cluster.handler.now
    one, two = members.join(), members.join()
    members.settled(3, 3)
    three = members.join()
    for _ in range(20):
        started = now()
        one.serve(None)
        assert now() - started < 0.5
        one.commit(one.share, 7)
        three.serve(0.05)
    assert len(two.share) == 3
    members.settled(2, 2, 2)


@pytest.mark.later("greenlets")
def test_commits_of_a_former_epoch_are_made_for_what_has_stayed(members: Members) -> None:
    one = members.join()
    members.settled(6)
    identity, before = (one.identity.generation_id, one.identity.member_id), sorted(one.share)
    members.join()
    members.settled(3, 3)
    assert one.identity.generation_id > identity[0]
    kept = [key for key in before if key in one.share]
    one.offsets.commit(dict.fromkeys(kept, 9), identity=identity)
    assert {found.offset for found in one.offsets.fetch(kept).values()} == {9}
    with pytest.raises(ShareLostError) as caught:
        one.offsets.commit(dict.fromkeys(before, 11), identity=identity)
    assert set(caught.value.failures) == set(before) - set(kept)
    assert {found.offset for found in one.offsets.fetch(kept).values()} == {11}


@pytest.mark.later("greenlets")
def test_a_member_that_the_group_has_dropped_loses_its_share_and_joins_again(members: Members) -> None:
    one, two = members.join(), members.join()
    members.settled(3, 3)
    identity, share = (one.identity.generation_id, one.identity.member_id), frozenset(one.share)
    members.forget(one)
    members.until(lambda: len(two.share) == 6, among=[two])
    with pytest.raises(ShareLostError):
        one.offsets.commit(dict.fromkeys(share, 3), identity=identity)
    members.settled(3, 3)
    assert ("on_lost", share) in one.hooks.called
    assert one.hooks.names()[-1] == "on_added"
    with pytest.raises(ShareLostError):  # of a former membership, though it may have the partitions again
        one.offsets.commit(dict.fromkeys(share, 3), identity=identity)


@pytest.mark.later("greenlets")
def test_a_member_that_takes_nothing_leaves_and_joins_again(members: Members) -> None:
    one = members.join(max_poll_interval_ms=1000)
    two = members.join()
    members.settled(3, 3)
    share = frozenset(one.share)
    members.until(lambda: len(two.share) == 6, among=[two])
    members.settled(3, 3)
    assert ("on_lost", share) in one.hooks.called


def test_a_member_whose_group_was_deleted_joins_again(members: Members) -> None:
    one = members.join()
    members.settled(6)
    members.forget(one)
    members.client.admin.delete_groups(members.name)
    one.subscriber.heartbeats.hurry()
    members.until(lambda: "on_lost" in one.hooks.names())
    members.settled(6)


@pytest.mark.later("threads")
def test_a_static_member_comes_back_to_its_share(members: Members) -> None:
    one, two = members.join(), members.join(group_instance_id="two")
    members.settled(3, 3)
    share, told = frozenset(two.share), len(one.hooks.called)
    members.leave(two)
    again = members.join(group_instance_id="two")
    members.settled(3, 3)
    assert again.share == share
    assert len(one.hooks.called) == told


@pytest.mark.matrix
def test_a_second_member_of_an_instance_id_waits_for_the_first(
    members: Members, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = members.join(group_instance_id="one")
    one.serve(None)
    two = members.join(group_instance_id="one")
    members.until(lambda: two.subscriber.heartbeats._unreleased_since is not None)
    monkeypatch.setattr(heartbeats, "UNRELEASED_S", 0.1)
    with pytest.raises(UnreleasedInstanceId, match="group_instance_id"):
        members.until(lambda: False, 20)
    monkeypatch.setattr(heartbeats, "UNRELEASED_S", 60)
    members.leave(one)
    members.settled(6)
    assert set(two.hooks.names()) == {"on_added"}


@pytest.mark.later("greenlets")
def test_a_static_member_whose_place_was_taken_ends(members: Members) -> None:
    one = members.join(group_instance_id="one")
    members.settled(6)
    share = frozenset(one.share)
    heartbeats = one.subscriber.heartbeats
    place = heartbeats.target
    heartbeats.set_target(None)  # first: a heartbeat behind the request would get FENCED_MEMBER_EPOCH
    assert place.broker.call(heartbeats.leaving(place, None), "forget").error_code == 0
    again = members.join(group_instance_id="one")
    members.until(lambda: len(again.share) == 6, among=[again])
    heartbeats.set_target(place._replace(group=place.group))
    with pytest.raises(FencedInstanceId):
        members.until(lambda: False, 20, among=[one])
    assert one.hooks.called[-1] == ("on_lost", share)
    with pytest.raises(FencedInstanceId):
        one.subscriber.poll(None)
    members.leave(one)
    members.settled(6)


def test_a_subscription_that_changes_before_the_assignment_is_reported(members: Members) -> None:
    """The coordinator waited for the member to give back partitions that the member had not reported yet."""
    first, second = members.topics
    one = members.join(first)
    one.hooks.then["on_added"] = lambda _: one.subscriber.subscribe([second])
    one.serve(None)
    for _ in range(10):
        one.serve(None)  # at once, before the heartbeat thread may run
    members.settled(3, keys=members.keys(second))


@pytest.mark.on_asyncio
def test_the_broker_matches_a_pattern(members: Members) -> None:
    begin = f"re-{members.name}"
    create_topic(members.client, 2, name=f"{begin}-a")
    create_topic(members.client, 1, name=f"other-{begin}")
    # A coordinator that does not know a new topic yet matches patterns again after 10 s at the earliest: let it know this one.
    first = members.join(f"{begin}-a")
    members.settled(2, keys=members.keys(f"{begin}-a"))
    members.leave(first)
    one = members.join(SubscriptionPattern(f"{begin}-[ab]"))
    one.serve(None)
    members.until(lambda: one.share == members.keys(f"{begin}-a"))
    assert one.subscriber.topics == {f"{begin}-a"}
    one.subscriber.subscribe([members.topics[0]])
    members.settled(3, keys=members.keys(members.topics[0]))
    one.subscriber.subscribe(SubscriptionPattern("(unclosed"))
    with pytest.raises(InvalidRegularExpression, match="RE2"):
        members.until(lambda: False, 20)
    one.subscriber.subscribe([members.topics[0]])
    members.settled(3, keys=members.keys(members.topics[0]))


@pytest.mark.later("greenlets")
def test_a_compiled_pattern_is_matched_here(members: Members) -> None:
    one = members.join(re.compile("|".join(members.topics)))
    one.serve(None)
    members.settled(6)


@pytest.mark.later("threads")
def test_subscriptions_change_and_partitions_are_added(members: Members) -> None:
    first, second = members.topics
    one = members.join()
    members.settled(6)
    one.subscriber.subscribe([first])
    members.settled(3, keys=members.keys(first))
    assert one.hooks.called[-1] == ("on_revoked", frozenset(members.keys(second)))
    one.subscriber.subscribe([first, second])
    members.settled(6)
    members.client.admin.create_partitions({first: 5})
    members.until(lambda: len(one.share) == 8)
    name = f"later-{members.name}"
    one.subscriber.subscribe([first, name])
    one.serve()
    create_topic(members.client, 2, name=name)
    members.until(lambda: len(one.share) == 7)


def test_a_topic_that_is_dropped_and_subscribed_again_at_once_is_read(members: Members) -> None:
    """Also if no heartbeat went out in between, so that the coordinator's answer is the same as before."""
    first, second = members.topics
    one = members.join()
    members.settled(6)
    for _ in range(5):
        one.subscriber.subscribe([first])
        one.serve()
        assert one.share == members.keys(first)
        one.subscriber.subscribe([first, second])
        members.settled(6)


@pytest.mark.later("greenlets")
def test_assignors_are_names_of_the_broker(members: Members) -> None:
    """With range, partitions of one number stay together."""
    one, two = members.join(assignor="range"), members.join(assignor="range")
    members.settled(2, 4)
    for member in (one, two):
        numbers = [sorted(key.partition for key in member.share if key.topic == name) for name in members.topics]
        assert numbers[0] == numbers[1]
    members.leave()
    one = members.join(assignor="unheard-of")
    with pytest.raises(UnsupportedAssignor, match="uniform"):
        one.serve(None)
    members.leave(one)


class Broken(Exception):
    """The error of a listener."""


@pytest.mark.parametrize("hook", ["on_revoked", "on_added"])
@pytest.mark.later("greenlets")
def test_a_listener_s_error_is_raised_and_the_share_is_right(members: Members, hook: str) -> None:
    one = members.join()
    members.settled(6)

    def fail(keys: Any) -> None:
        del one.hooks.then[hook]
        raise Broken(hook)

    two = members.join()
    if hook == "on_added":
        members.settled(3, 3)
        members.leave(two)
    one.hooks.then[hook] = fail
    sizes = (3, 3) if hook == "on_revoked" else (6,)
    with pytest.raises(Broken, match=hook):
        members.settled(*sizes)
    members.settled(*sizes)


def test_a_hook_may_leave(members: Members) -> None:
    one = members.join()
    members.settled(6)
    one.hooks.then["on_revoked"] = lambda keys: one.subscriber.leave()
    two = members.join()
    members.until(lambda: len(two.share) == 6)
    assert one.hooks.names()[-2:] == ["on_added", "on_revoked"]
    assert not one.subscriber.needs_poll


@pytest.mark.later("on_added")
@pytest.mark.parametrize("hook", ["on_revoked", "on_added"])
def test_a_timeout_in_a_listener_runs_it_again(kafka: KafkaCluster, hook: str) -> None:
    with KafkaClient(hosts=kafka.hosts, use_greenlets=True) as client:
        members = Members(client, defaults=CONSUMER)
        one = members.join()
        members.settled(6)
        two = members.join()
        if hook == "on_added":
            members.settled(3, 3)
        before = len(one.hooks.called)
        one.hooks.then[hook] = lambda keys: gevent.sleep(10)
        if hook == "on_added":
            members.leave(two)
        with pytest.raises(gevent.Timeout), gevent.Timeout(3):
            members.settled(7)
        del one.hooks.then[hook]
        assert one.subscriber.needs_poll
        name, keys = one.hooks.called[-1]
        one.hooks.share = one.hooks.share | keys if name == "on_revoked" else one.hooks.share - keys
        members.settled(*([3, 3] if hook == "on_revoked" else [6]))
        assert one.hooks.called[before:].count((name, keys)) == 2
        members.leave()


@pytest.mark.later("greenlets")
def test_what_is_unsubscribed_within_the_call_of_another_worker_ends_it(members: Members) -> None:
    handler = members.client.cluster.handler
    members.join(group_instance_id="one").serve(None)
    two = members.join(group_instance_id="one")  # has to wait
    worker = handler.spawn(lambda: two.serve(None))
    handler.sleep(0.3)
    assert worker.is_alive()
    members.leave(two)
    assert worker.join(5)
    assert worker.error is None


def test_a_configuration_names_the_protocol(kafka: KafkaCluster) -> None:
    """By Java's names; an argument wins."""
    given = {
        "bootstrap.servers": kafka.hosts,
        "group.protocol": "consumer",
        "group.remote.assignor": "range",
        "transaction.timeout.ms": "5000",
    }
    with KafkaClient.from_config(given) as client:
        topic, group = create_topic(client).name, f"g-{uuid.uuid4().hex[:8]}"
        with client.consumer(topic, group=group) as consumer:
            consumer.poll(timeout=1)
            described = client.admin.describe_groups([group])[group]
            assert (described.type, described.assignor) == (GroupType.CONSUMER, "range")
        with client.consumer(topic, group=f"{group}-old", protocol="classic") as consumer:
            consumer.poll(timeout=1)
            assert client.admin.describe_groups([f"{group}-old"])[f"{group}-old"].type is GroupType.CLASSIC
        with client.producer(transactional_id=group) as producer:
            producer.init_transactions()
            assert client.admin.describe_transactions([group])[group].timeout_ms == 5000
