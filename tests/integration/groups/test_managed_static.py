"""Static members (KIP-345): a restart is no rebalance, and two with the same id do not both run."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Any

import pytest

from pykafka import KafkaClient, ManagedBalancedConsumer
from pykafka.coordinator.consumer import ConsumerCoordinator
from pykafka.exceptions import ConsumerStoppedException, FencedInstanceId, OffsetsNotCommitted, UnsupportedVersion
from tests.brokers import KafkaCluster
from tests.support.groups import Group, Reader
from tests.support.loops import Concurrency

pytestmark = [pytest.mark.kafka, pytest.mark.needs("static")]

Static = Group[ManagedBalancedConsumer]


@pytest.fixture
def group(concurrency: Concurrency, kafka: KafkaCluster) -> Iterator[Static]:
    with KafkaClient(hosts=kafka.hosts, **concurrency()) as client:
        yield Group(ManagedBalancedConsumer, client, session_timeout_ms=6000, heartbeat_interval_ms=200)


def test_a_restarted_member_gets_its_share_back_without_a_rebalance(group: Static) -> None:
    values = group.produce(90)
    heard: list[Any] = []
    one = group.join(group_instance_id="one", post_rebalance_callback=lambda *told: heard.append(told))
    two = group.join(group_instance_id=b"two")
    group.sizes(1, 2)
    found = group.drain(60)
    share, generation, told = set(two.partitions), one._generation_id, len(heard)
    two.stop()
    group.members.remove(two)
    again = group.join(group_instance_id="two")
    assert set(again.partitions) == share
    group.client.cluster.handler.sleep(1)
    assert (one._generation_id, again._generation_id, len(heard)) == (generation, generation, told)
    assert found + group.drain(30) == values
    again.commit_offsets()
    # whoever led the group may be the one that comes back
    share = set(one.partitions)
    one.stop()
    group.members.remove(one)
    group.join(group_instance_id="one")
    group.sizes(1, 2)
    assert set(group.members[-1].partitions) == share
    assert again._generation_id == group.members[-1]._generation_id == generation
    for member in group.members:
        member.stop()


@pytest.mark.later("greenlets")
def test_who_does_not_come_back_within_the_session_is_replaced(group: Static) -> None:
    one = group.join(group_instance_id="one")
    two = group.join(group_instance_id="two")
    group.sizes(1, 2)
    two.stop()
    group.members.remove(two)
    group.client.cluster.handler.sleep(1)
    assert len(one.partitions) < 3
    group.sizes(3)


def test_a_second_one_with_the_same_id_puts_the_first_out(group: Static) -> None:
    group.produce(30)
    first = group.join(group_instance_id="same")
    assert group.drain(10).total() == 10
    second = group.join(group_instance_id="same")
    with pytest.raises(FencedInstanceId, match="group_instance_id of its own"):
        group.until(lambda: first.consume() is None)
    group.until(lambda: not first._running)
    with pytest.raises(OffsetsNotCommitted, match="FENCED_INSTANCE_ID"):  # of what it had consumed
        first.consume()
    with pytest.raises(ConsumerStoppedException):
        first.consume()
    assert first.partitions == {}
    first.stop()
    group.members.remove(first)
    generation = second._generation_id
    assert group.drain(30).total() == 30  # the ten once more: they were not committed
    group.client.cluster.handler.sleep(1)
    assert second._generation_id == generation
    assert len(second.partitions) == 3


def test_a_coordinator_raises_it_too(group: Static) -> None:
    def make() -> ConsumerCoordinator:
        return ConsumerCoordinator(
            group.client,
            Reader(group.topic.name),
            group_id=group.name,
            group_instance_id="same",
            heartbeat_interval_ms=100,
            enable_auto_commit=False,
        )

    first, second = make(), make()
    try:
        first.ensure_active_group(10_000)
        second.ensure_active_group(10_000)
        with pytest.raises(FencedInstanceId, match="same"):
            group.until(first.need_rejoin)
        assert not second.need_rejoin()
    finally:
        first.close()
        second.close()


@pytest.mark.parametrize("wrong", ["", "a b", ".", "x" * 250])
def test_an_id_that_brokers_refuse_is_refused_at_once(group: Static, wrong: str) -> None:
    with pytest.raises(ValueError, match="group_instance_id"):
        group.join(group_instance_id=wrong)


@pytest.mark.slow
@pytest.mark.matrix
def test_brokers_without_static_members_are_named() -> None:
    with KafkaCluster("1.1.1") as kafka, KafkaClient(hosts=kafka.hosts) as client:
        topic = client.topics[f"t-{uuid.uuid4().hex[:8]}"]
        with pytest.raises(UnsupportedVersion, match=r"Kafka 2\.3"):
            topic.get_balanced_consumer("g", managed=True, group_instance_id="one")
