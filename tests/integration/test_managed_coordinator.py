"""`ConsumerCoordinator` on a real broker: membership, offsets, and other clients' members in the same group."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from pykafka import KafkaClient
from pykafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from pykafka.coordinator.consumer import ConsumerCoordinator
from pykafka.coordinator.subscription import OffsetAndMetadata, TopicPartition
from pykafka.exceptions import OffsetsNotCommitted
from pykafka.topic import Topic
from tests.brokers import KafkaCluster
from tests.integration.groups import Reader
from tests.topics import create_topic

pytestmark = [pytest.mark.kafka, pytest.mark.needs("groups")]


@pytest.fixture(params=[False, True], ids=["threads", "greenlets"])
def client(request: pytest.FixtureRequest, kafka: KafkaCluster) -> Iterator[KafkaClient]:
    with KafkaClient(hosts=kafka.hosts, use_greenlets=request.param) as client:
        yield client


@pytest.fixture
def topic(client: KafkaClient) -> Topic:
    return create_topic(client, 3)


@pytest.fixture
def make(client: KafkaClient) -> Iterator[Callable[..., tuple[ConsumerCoordinator, Reader]]]:
    """Make coordinators of one group; what is still a member at the end leaves."""
    made: list[ConsumerCoordinator] = []
    group = f"g-{uuid.uuid4().hex[:8]}"

    def make(*topics: str, **configs: Any) -> tuple[ConsumerCoordinator, Reader]:
        reader = Reader(*topics)
        settings = {"group_id": group, "heartbeat_interval_ms": 200, "enable_auto_commit": False, **configs}
        coordinator = ConsumerCoordinator(client, reader, None, **settings)
        made.append(coordinator)
        return coordinator, reader

    yield make
    for coordinator in made:
        coordinator.close(autocommit=False)


def together(client: KafkaClient, present: ConsumerCoordinator, new: ConsumerCoordinator) -> None:
    """Have a new member join, which takes the present one's taking part."""
    worker = client.cluster.handler.spawn(new.poll, 20_000)
    deadline = time.monotonic() + 30
    while worker.is_alive():
        assert time.monotonic() < deadline
        present.poll(10_000)
        client.cluster.handler.sleep(0.05)
    assert worker.error is None
    assert present.generation == new.generation


def test_members_join_commit_and_leave(
    client: KafkaClient, topic: Topic, make: Callable[..., tuple[ConsumerCoordinator, Reader]]
) -> None:
    first, reader = make(topic.name)
    assert first.need_rejoin()
    assert first.coordinator_unknown()
    first.poll()
    whole = {TopicPartition(topic.name, id_) for id_ in range(3)}
    assert (reader.share, first.need_rejoin(), first.coordinator_unknown()) == (whole, False, False)
    reader.consumed = {partition: OffsetAndMetadata(7, "seven") for partition in whole}
    first.commit_offsets_sync(reader.consumed)
    assert first.fetch_committed_offsets(whole) == reader.consumed
    second, other = make(topic.name)
    together(client, first, second)
    assert reader.share | other.share == whole
    assert reader.share.isdisjoint(other.share)
    assert other.told == {partition: OffsetAndMetadata(7, "seven") for partition in other.share}
    assert whole in reader.lost
    second.close()
    assert (second.generation, second.member_id) == (-1, "")
    deadline = time.monotonic() + 10
    while not first.need_rejoin():
        assert time.monotonic() < deadline
        client.cluster.handler.sleep(0.05)
    first.poll()
    assert reader.share == whole


def test_a_commit_s_callback_gets_the_response_or_the_error(
    topic: Topic, make: Callable[..., tuple[ConsumerCoordinator, Reader]]
) -> None:
    coordinator, _ = make(topic.name)
    coordinator.poll()
    seen: list[Any] = []
    good = {TopicPartition(topic.name, 0): OffsetAndMetadata(3)}
    response = coordinator.commit_offsets_async(good, lambda *told: seen.append(told)).get(timeout=10)
    assert response.topics[topic.name][0].err == 0
    assert seen == [(good, response)]
    coordinator.membership.generation_id += 1
    future = coordinator.commit_offsets_async(good, lambda *told: seen.append(told))
    with pytest.raises(Exception, match="ILLEGAL_GENERATION"):
        future.get(timeout=10)
    assert isinstance(seen[1][1], Exception)
    with pytest.raises(OffsetsNotCommitted) as caught:
        coordinator.commit_offsets_sync(good)
    assert caught.value.failures == {(topic.name, 0): OffsetAndMetadata(3)}
    assert coordinator.need_rejoin()
    coordinator.poll()
    coordinator.commit_offsets_sync(good)


def test_auto_commit_commits_regularly_and_at_close(
    client: KafkaClient, topic: Topic, make: Callable[..., tuple[ConsumerCoordinator, Reader]]
) -> None:
    told: list[Any] = []
    coordinator, reader = make(
        topic.name,
        enable_auto_commit=True,
        auto_commit_interval_ms=200,
        default_offset_commit_callback=lambda offsets, response: told.append(offsets),
    )
    coordinator.poll()
    partition = TopicPartition(topic.name, 1)
    reader.consumed = {partition: OffsetAndMetadata(5)}
    deadline = time.monotonic() + 10
    while not told:
        assert time.monotonic() < deadline
        client.cluster.handler.sleep(0.05)
    assert coordinator.fetch_committed_offsets([partition]) == {partition: OffsetAndMetadata(5)}
    reader.consumed = {partition: OffsetAndMetadata(9)}
    coordinator.close()
    assert coordinator.fetch_committed_offsets([partition]) == {partition: OffsetAndMetadata(9)}


def test_a_changed_subscription_is_joined_for(
    client: KafkaClient, topic: Topic, make: Callable[..., tuple[ConsumerCoordinator, Reader]]
) -> None:
    coordinator, reader = make(topic.name, assignors=[RoundRobinPartitionAssignor])
    coordinator.poll()
    more = create_topic(client, 2)
    reader.names = {topic.name, more.name}
    assert coordinator.need_rejoin()
    coordinator.poll()
    assert {partition.topic for partition in reader.share} == reader.names
    assert len(reader.share) == 5
    assert coordinator.membership.protocol == "roundrobin"
