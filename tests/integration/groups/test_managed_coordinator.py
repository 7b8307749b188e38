"""`ConsumerCoordinator` on a real broker: membership, offsets, and other clients' members in the same group."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from pykafka import KafkaClient
from pykafka.common import OffsetAndMetadata, TopicPartition
from pykafka.consumer.committed_offsets import GroupOffsets
from pykafka.coordinator.consumer import ConsumerCoordinator
from pykafka.exceptions import OffsetsNotCommitted, ResponseTimeoutError
from pykafka.groups.assignors.range_and_roundrobin import RoundRobinPartitionAssignor
from pykafka.topic import Topic
from tests.support.groups import Reader
from tests.support.topics import create_topic
from tests.support.waiting import until

pytestmark = [pytest.mark.kafka, pytest.mark.needs("groups")]


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
    """Join a new member while the present one goes on polling, as the rebalance needs both."""
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
    coordinator.offsets.assigned_as = (coordinator.generation, coordinator.member_id)
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


@pytest.mark.later("threads")
def test_a_poll_takes_no_longer_than_it_may_and_goes_on_next_time(
    client: KafkaClient, topic: Topic, make: Callable[..., tuple[ConsumerCoordinator, Reader]]
) -> None:
    """It waited for the others for as long as they took, whatever its timeout."""
    first, _ = make(topic.name)
    first.poll(20_000)
    second, reader = make(topic.name)
    started = time.monotonic()
    for _ in range(2):
        with pytest.raises(ResponseTimeoutError, match="not a member within"):
            second.poll(timeout_ms=1000)
    assert time.monotonic() - started < 8
    assert second.pending_join.sent is not None
    member = second.member_id
    together(client, first, second)
    assert member in {second.member_id, ""}  # which brokers before 2.2 tell at the end
    assert len(reader.share) in {1, 2}
    assert first.generation == 2


def test_a_commit_callback_that_raises_ends_nothing(
    client: KafkaClient, topic: Topic, make: Callable[..., tuple[ConsumerCoordinator, Reader]]
) -> None:
    """It ended auto-commit for good, without a word."""
    told: list[Any] = []

    def fail(offsets: Any, response: Any) -> None:
        told.append(offsets)
        raise LookupError("the callback's")

    coordinator, reader = make(
        topic.name, enable_auto_commit=True, auto_commit_interval_ms=100, default_offset_commit_callback=fail
    )
    coordinator.poll(20_000)
    partition = TopicPartition(topic.name, 1)
    for offset in (5, 9):
        before = len(told)
        reader.consumed = {partition: OffsetAndMetadata(offset)}
        while len(told) < before + 2:
            client.cluster.handler.sleep(0.05)
        assert coordinator.fetch_committed_offsets([partition]) == {partition: OffsetAndMetadata(offset)}


def test_what_was_consumed_of_a_share_that_is_lost_is_not_committed(
    client: KafkaClient, topic: Topic, make: Callable[..., tuple[ConsumerCoordinator, Reader]]
) -> None:
    """The group was empty, so that a commit without membership was taken, and put it back: 200 to 20."""
    coordinator, reader = make(topic.name)
    coordinator.poll(20_000)
    partition = TopicPartition(topic.name, 1)
    reader.consumed = {partition: OffsetAndMetadata(20)}
    coordinator.commit_consumed()
    broker = client.cluster.get_group_coordinator(coordinator.group_id)
    assert broker.leave_group(uuid.uuid4(), coordinator.group_id, coordinator.member_id).error_code == 0
    until(client.cluster.handler, coordinator.need_rejoin)
    # others have been there meanwhile
    GroupOffsets(client.cluster, coordinator.group_id, 100, 3).commit({TopicPartition(topic.name, 1): 200})
    with pytest.raises(OffsetsNotCommitted):
        coordinator.commit_consumed()
    with pytest.raises(OffsetsNotCommitted):
        coordinator.commit_offsets_sync(reader.consumed)
    assert coordinator.fetch_committed_offsets([partition]) == {partition: OffsetAndMetadata(200)}
    coordinator.poll(20_000)
    assert reader.told[partition].offset == 200
    reader.consumed = {partition: OffsetAndMetadata(210)}
    coordinator.commit_consumed()
