"""Static members that come back with other topics: they read these, and no record of the former ones."""

from __future__ import annotations

from collections.abc import Callable, Collection
from contextlib import suppress
from typing import Any

import pytest

from pykafka import ManagedBalancedConsumer
from pykafka.broker import Broker
from pykafka.common import TopicPartition
from pykafka.coordinator.consumer import ConsumerCoordinator
from pykafka.exceptions import ResponseTimeoutError
from pykafka.protocol import wire
from tests.integration.groups.test_consumer_groups import Readers, readers
from tests.support.groups import Group, Reader
from tests.support.inside import follower_of, membership_of
from tests.support.topics import create_topic
from tests.support.waiting import until

__all__ = ["readers"]

pytestmark = [pytest.mark.kafka, pytest.mark.needs("static")]

CLASSIC: dict[str, Any] = {"protocol": "classic"}
COOPERATIVE: dict[str, Any] = {"protocol": "classic", "assignor": "cooperative-sticky"}
CONSUMER: dict[str, Any] = {"protocol": "consumer"}
PROTOCOLS = [
    pytest.param(CLASSIC, id="classic"),
    pytest.param(COOPERATIVE, id="cooperative"),
    pytest.param(CONSUMER, id="consumer", marks=pytest.mark.needs("assigning")),
]


class Recorder(Reader):
    """A subscription that records each share."""

    def __init__(self, *topics: str) -> None:
        super().__init__(*topics)
        self.given: list[set[TopicPartition]] = []

    def assigned(self, partitions: Collection[TopicPartition]) -> None:
        super().assigned(partitions)
        self.given.append(set(partitions))


def topics_of(keys: Any) -> set[str]:
    return {key.topic for key in keys}


def values(readers: Readers, *topics: str) -> set[bytes]:
    return {value for value in readers.all_values() if value.split()[0].decode() in topics}


@pytest.mark.parametrize("options", PROTOCOLS)
@pytest.mark.parametrize("alone", [True, False], ids=["leader", "follower"])
@pytest.mark.on_asyncio
def test_a_static_member_that_comes_back_with_another_topic_reads_that_one(
    readers: Readers, options: dict[str, Any], alone: bool
) -> None:
    readers.produce(10)
    a, b = readers.topics
    if not alone:
        readers.join(a, group_instance_id="leader", **options)
        readers.until(readers.consumers[0].assignment)
    one = readers.join(a, group_instance_id="host-1", **options)
    readers.until(lambda: one.assignment() and values(readers, a) == set(readers.read))
    readers.close(one)
    readers.produce(10)
    again = readers.join(b, group_instance_id="host-1", **options)
    read: list[Any] = []

    def has_read() -> bool:
        if not alone:
            readers.consumers[0].poll(timeout=0.05)
        read.extend(again.poll(timeout=0 if alone else 0.05))
        assert topics_of(again.assignment()) <= {b}
        return len(read) >= 20

    until(readers.client.cluster.handler, has_read, 20)
    assert {record.topic for record in read} == {b}
    if not alone:
        readers.until(lambda: len(readers.consumers[0].assignment()) == 3)


@pytest.mark.parametrize("options", PROTOCOLS)
@pytest.mark.parametrize("alone", [True, False], ids=["leader", "follower"])
@pytest.mark.later("greenlets-leader", "greenlets-follower-cooperative", "greenlets-follower-consumer")
def test_a_static_member_that_comes_back_with_one_topic_more_reads_both(
    readers: Readers, options: dict[str, Any], alone: bool
) -> None:
    readers.produce(10)
    a, b = readers.topics
    if not alone:
        readers.join(a, group_instance_id="leader", **options)
        readers.until(readers.consumers[0].assignment)
    one = readers.join(a, group_instance_id="host-1", **options)
    readers.until(lambda: one.assignment() and values(readers, a) == set(readers.read))
    readers.close(one)
    again = readers.join(a, b, group_instance_id="host-1", **options)
    readers.until(lambda: set(readers.read) == readers.all_values())
    assert topics_of(again.assignment()) >= {b}
    assert set(readers.read.values()) == {1}


@pytest.mark.parametrize("options", PROTOCOLS[:2])
def test_a_static_member_that_comes_back_with_another_pattern_reads_its_topics(
    readers: Readers, options: dict[str, Any]
) -> None:
    readers.produce(10)
    a, b = readers.topics
    one = readers.join(f"^{a}", group_instance_id="host-1", **options)
    readers.until(lambda: one.assignment() and values(readers, a) == set(readers.read))
    readers.close(one)
    readers.produce(10)
    readers.read.clear()
    readers.join(f"^{b}", group_instance_id="host-1", **options)
    readers.until(lambda: set(readers.read) == values(readers, b))


@pytest.mark.parametrize("alone", [True, False], ids=["leader", "follower"])
@pytest.mark.later("greenlets")
def test_brokers_that_say_less_of_static_members_do(
    readers: Readers, alone: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Speak as with Kafka 2.3: a description without instance ids, and no answer to the leader that it leads."""
    highest = {
        wire.JoinGroupRequest: 5,
        wire.SyncGroupRequest: 3,
        wire.HeartbeatRequest: 3,
        wire.LeaveGroupRequest: 2,
        wire.DescribeGroupsRequest: 3,
    }
    api_version = Broker.api_version

    def lower(broker: Broker, kind: Any, *args: Any, **options: Any) -> int:
        return min(api_version(broker, kind, *args, **options), highest.get(kind, 99))

    monkeypatch.setattr(Broker, "api_version", lower)
    readers.produce(10)
    a, b = readers.topics
    if not alone:
        readers.join(a, group_instance_id="leader", **CLASSIC)
        readers.until(readers.consumers[0].assignment)
    one = readers.join(a, group_instance_id="host-1", **CLASSIC)
    readers.until(lambda: one.assignment() and values(readers, a) == set(readers.read))
    for topics in ((b,), (b, a)):
        readers.close(one)
        one = readers.join(*topics, group_instance_id="host-1", **CLASSIC)
        readers.produce(10)
        readers.until(lambda: set(readers.read) >= values(readers, *topics))  # noqa: B023 - called at once
        assert topics_of(one.assignment()) <= set(topics)


@pytest.mark.parametrize("options", PROTOCOLS[:2])
@pytest.mark.later("greenlets")
def test_a_static_member_that_comes_back_with_its_topics_causes_no_rebalance(
    readers: Readers, options: dict[str, Any]
) -> None:
    a, b = readers.topics
    (spare,) = (create_topic(readers.client, 1).name,)
    leader = readers.join(a, b, spare, group_instance_id="leader", **options)
    one = readers.join(a, b, spare, group_instance_id="host-1", **options)
    readers.until(
        lambda: one.assignment() and leader.assignment() and len({*one.assignment(), *leader.assignment()}) == 7
    )
    readers.until(lambda: follower_of(leader).is_stable and follower_of(one).is_stable)
    before = leader.assignment(), one.assignment(), _generation(leader)
    for _ in range(2):
        readers.close(one)
        one = readers.join(a, b, spare, group_instance_id="host-1", **options)
        readers.until(one.assignment)
        readers.client.cluster.handler.sleep(0.5)
        readers.turn()
        assert (leader.assignment(), one.assignment(), _generation(leader)) == before


def _generation(consumer: Any) -> int:
    return int(membership_of(consumer).generation)


@pytest.mark.parametrize("alone", [True, False], ids=["leader", "follower"])
def test_a_managed_consumer_that_comes_back_to_another_topic_of_its_group_reads_it(
    group: Group[ManagedBalancedConsumer], alone: bool
) -> None:
    group.settings |= {"session_timeout_ms": 6000}
    other = create_topic(group.client, 2)
    with other.get_producer(linger_ms=1) as producer:
        producer.produce(b"other")
    if not alone:
        group.join(group_instance_id="leader")
    one = group.join(group_instance_id="host-1")
    group.until(lambda: one.partitions)
    one.stop()
    group.members.remove(one)
    again = group.join(other, group_instance_id="host-1")
    group.until(lambda: len(again.partitions) == 2)
    message = again.consume()
    assert message is not None
    assert message.value == b"other"
    if not alone:
        group.until(lambda: len(group.members[0].partitions) == 3)
    for member in group.members:
        member.stop()


@pytest.mark.parametrize("alone", [True, False], ids=["leader", "follower"])
def test_a_documented_coordinator_that_comes_back_with_another_topic_is_given_that_one(
    group: Group[ManagedBalancedConsumer], alone: bool
) -> None:
    other = create_topic(group.client, 2)

    def make(topic: str, instance_id: str) -> tuple[ConsumerCoordinator, Recorder]:
        reader = Recorder(topic)
        options: dict[str, Any] = {
            "group_id": group.name,
            "group_instance_id": instance_id,
            "heartbeat_interval_ms": 100,
            "session_timeout_ms": 6000,
            "enable_auto_commit": False,
        }
        return ConsumerCoordinator(group.client, reader, **options), reader

    made = [] if alone else [make(group.topic.name, "leader")]
    one, reader = make(group.topic.name, "host-1")
    made.append((one, reader))

    def have(condition: Callable[[], object]) -> None:
        def polled() -> object:
            for member, _ in made:
                with suppress(ResponseTimeoutError):  # it waits for the other one
                    member.poll(100)
            return condition()

        until(group.client.cluster.handler, polled, 20)

    try:
        have(lambda: reader.share and not one.need_rejoin())
        made.remove((one, reader))
        one.close()
        again, told = make(other.name, "host-1")
        made.append((again, told))
        have(lambda: told.share)
        assert told.given == [{TopicPartition(other.name, 0), TopicPartition(other.name, 1)}]
    finally:
        for member, _ in made:
            member.close()
