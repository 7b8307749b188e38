"""The protocols beside each other: "auto", groups that move from one to the other online, and members of other clients."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest
from confluent_kafka import Consumer

from pykafka import KafkaClient, SubscriptionPattern
from pykafka.common import TopicPartition
from pykafka.exceptions import GroupIdNotFound, UnsupportedVersion
from pykafka.groups.classic.membership import ClassicMembership
from pykafka.groups.kip848.membership import ConsumerGroupMembership
from tests.brokers import KafkaCluster
from tests.integration.groups.test_classic_mixed import JavaMember
from tests.support.loops import Concurrency
from tests.support.subscribers import Member, Members

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(180)]

BY_BROKER = pytest.mark.needs("assigning")


@pytest.fixture
def members(client: KafkaClient) -> Iterator[Members]:
    group = Members(client)
    yield group
    group.leave()


def kind(member: Member) -> type[Any] | None:
    """Return the class of the membership that "auto" has chosen."""
    chosen = member.subscriber.chosen
    return None if chosen is None else type(chosen)


def shared(members: Members, *sizes: int) -> None:
    """Make calls until shares have these sizes, and divide all partitions, whatever the members' generations."""
    members.until(
        lambda: (
            sorted(key for one in members.members for key in one.share) == sorted(members.keys())
            and sorted(len(one.share) for one in members.members) == sorted(sizes)
        )
    )


@BY_BROKER
def test_auto_takes_the_next_generation_where_the_group_has_no_classic_members(members: Members) -> None:
    members.defaults = {"protocol": "auto"}
    one, two = members.join(), members.join()
    shared(members, 3, 3)
    assert {kind(one), kind(two)} == {ConsumerGroupMembership}
    members.leave()
    classic = members.join(protocol="classic", assignor="range")  # the group is empty, and keeps its offsets
    classic.serve(None)
    three = members.join(assignor="range")
    shared(members, 2, 4)
    assert kind(three) is ClassicMembership
    members.leave(classic, three)
    four = members.join(assignor="sticky")
    four.serve(None)
    assert kind(four) is ClassicMembership


@pytest.mark.needs("groups")
@pytest.mark.lacks("assigning")
def test_old_brokers_have_the_classic_protocol_alone(members: Members) -> None:
    one = members.join(protocol="auto")
    one.serve(None)
    assert kind(one) is ClassicMembership
    members.leave(one)
    for topics, protocol in ((members.topics, "consumer"), ([SubscriptionPattern("t.*")], "auto")):
        two = Member(members.client, f"{members.name}-2", topics, protocol=protocol)
        with pytest.raises(UnsupportedVersion, match=r"4\.0"):
            two.serve(None)
        two.subscriber.leave()


@BY_BROKER
@pytest.mark.later("greenlets")
def test_a_live_group_moves_to_the_next_generation_and_back(members: Members) -> None:
    """Each member is replaced in turn, by what a rolling restart does; the cluster permits both by default."""
    classic: dict[str, Any] = {"protocol": "classic", "assignor": "range"}
    consumer: dict[str, Any] = {"protocol": "consumer", "assignor": "range"}
    members.join(**classic)
    members.join(**classic)
    shared(members, 2, 4)
    for options in (consumer, classic):
        for _ in range(2):
            one = members.members[0]
            one.hooks.then["on_revoked_all"] = partial(one.commit, offset=5)
            members.leave(one)
            members.join(**options)
            shared(members, 2, 4)
    assert not [told for one in members.members for told in one.hooks.called if told[0] == "on_lost"]
    offsets = members.members[0].offsets.fetch(sorted(members.keys()))
    assert {found.offset for found in offsets.values()} == {5}


@BY_BROKER
@pytest.mark.matrix
def test_a_group_that_may_not_move(concurrency: Concurrency) -> None:
    config = {"group.consumer.migration.policy": "disabled"}
    with KafkaCluster(config=config) as kafka, KafkaClient(kafka.hosts, **concurrency()) as client:
        members = Members(client)
        one = members.join(protocol="classic")
        one.serve(None)
        two = members.join(protocol="consumer")
        with pytest.raises(GroupIdNotFound, match="migration"):
            two.serve(None)
        members.leave(two)
        three = members.join(protocol="auto")
        shared(members, 2, 4)
        assert kind(three) is ClassicMembership
        members.leave()
        # The group changes below a member: it is of the classic protocol when the member joins again.
        four = members.join(protocol="auto")
        four.serve(None)
        assert kind(four) is ConsumerGroupMembership
        chosen: Any = four.subscriber.chosen
        place = chosen.heartbeats.target
        chosen.heartbeats.set_target(None)
        assert place.broker.call(chosen.heartbeats.leaving(place, None), "forget").error_code == 0
        five = members.join(protocol="classic")
        five.serve(None)
        chosen.heartbeats.set_target(place._replace(group=place.group))
        shared(members, 2, 4)
        assert kind(four) is ClassicMembership
        assert "on_lost" in four.hooks.names()
        members.leave()


@BY_BROKER
@pytest.mark.needs("latest")
@pytest.mark.later("greenlets")
@pytest.mark.parametrize("first", ["ours", "theirs"])
def test_shares_a_group_with_confluent_kafka(members: Members, kafka: KafkaCluster, first: str) -> None:
    theirs = Consumer({"bootstrap.servers": kafka.hosts, "group.id": members.name, "group.protocol": "consumer"})
    members.defaults = {"protocol": "consumer"}

    def have() -> set[TopicPartition]:
        theirs.poll(0.05)
        return {TopicPartition(part.topic, part.partition) for part in theirs.assignment()}

    try:
        if first == "ours":
            members.join().serve(None)
        theirs.subscribe(members.topics)
        if first == "theirs":
            members.until(lambda: len(have()) == 6)
            members.join()
        one = members.members[0]

        def divided() -> bool:
            share = have()
            return share | one.share == members.keys() and not share & one.share and len(one.share) == 3

        members.until(divided)
    finally:
        theirs.close()
    members.settled(6)


@pytest.mark.matrix
@BY_BROKER
@pytest.mark.needs("latest")
@pytest.mark.parametrize("first", ["ours", "theirs"])
@pytest.mark.parametrize("protocol", ["consumer", None])
def test_shares_a_group_with_the_java_client(
    members: Members, kafka: KafkaCluster, first: str, protocol: str | None
) -> None:
    """Java's member takes part by either protocol, which makes the group one of both."""
    members.defaults = {"protocol": "consumer"}
    if first == "ours":
        members.join().serve(None)
    theirs = JavaMember(kafka.hosts, members.name, members.topics, protocol=protocol)
    try:
        if first == "theirs":
            members.until(lambda: len(theirs.share) == 6, 60)
            members.join()
        one = members.members[0]

        def divided() -> bool:
            whole = theirs.share | one.share == members.keys() and not theirs.share & one.share
            return whole and abs(len(theirs.share) - len(one.share)) <= 2

        members.until(divided, 60)
        members.client.admin.create_partitions({members.topics[0]: 5})
        members.until(lambda: len(members.keys()) == 8)
        members.until(divided, 60)
    finally:
        theirs.close()
    members.until(lambda: len(one.share) == 8)
