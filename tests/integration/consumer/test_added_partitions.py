"""Partitions that a topic gets while it is consumed are read, too, from their beginning."""

from __future__ import annotations

import itertools
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from pykafka import KafkaClient, ManagedBalancedConsumer
from pykafka.common import OffsetType
from pykafka.protocol import wire
from pykafka.topic import Topic
from tests.brokers import KafkaCluster
from tests.support.groups import Group
from tests.support.topics import create_topic
from tests.support.waiting import until

pytestmark = [pytest.mark.timeout(120), pytest.mark.needs("partitions")]

SOON: dict[str, Any] = {"metadata_max_age_ms": 300, "consumer_timeout_ms": 20_000}


@pytest.fixture
def add(client: KafkaClient, kafka: KafkaCluster) -> Iterator[Callable[[Topic, int, int], Counter[bytes]]]:
    """Yield what adds partitions to a topic, and messages to each of them, without the client of the test knowing."""
    with KafkaClient(hosts=kafka.hosts) as other:

        def add_and_fill(topic: Topic, first: int, count: int) -> Counter[bytes]:
            if first:
                wanted = wire.CreatePartitionsRequest.Topic(name=topic.name, count=first + count, assignments=None)
                controller = other.cluster.controller_broker
                assert controller is not None
                answer = controller.call(wire.CreatePartitionsRequest(topics=[wanted], timeout_ms=10_000))
                assert [result.error_code for result in answer.results] == [0]
            until(other.cluster.handler, lambda: led(other, topic.name) == first + count)
            with other.topics[topic.name].get_producer(
                partitioner=lambda partitions, key: next(one for one in partitions if one.id == int(key))
            ) as producer:
                values = [
                    (b"%d" % id_, b"%d.%d" % (id_, number))
                    for id_ in range(first, first + count)
                    for number in range(5)
                ]
                for key, value in values:
                    producer.produce(value, partition_key=key)
            return Counter(value for _, value in values)

        yield add_and_fill


def led(client: KafkaClient, name: str) -> int:
    client.update_cluster()
    return sum(partition.leader is not None for partition in client.topics[name].partitions.values())


def drain(consumer: Any, count: int) -> Counter[bytes]:
    found: Counter[bytes] = Counter()
    while found.total() < count and (message := consumer.consume()) is not None:
        found[message.value] += 1
    return found


@pytest.mark.parametrize("use_rdkafka", [False, True], ids=["own", "rdkafka"])
@pytest.mark.parametrize("reset", [OffsetType.EARLIEST, OffsetType.LATEST], ids=["earliest", "latest"])
def test_a_simple_consumer_reads_them_from_their_beginning(
    client: KafkaClient, add: Any, use_rdkafka: bool, reset: int
) -> None:
    """It read what there was when it was made: two thirds of the messages were never seen, without a word."""
    topic = create_topic(client, 1)
    group = f"g-{uuid.uuid4().hex[:8]}"
    with topic.get_simple_consumer(
        group, use_rdkafka=use_rdkafka, auto_offset_reset=reset, auto_commit_enable=True, **SOON
    ) as consumer:
        values = add(topic, 0, 1)
        assert drain(consumer, 5) == values
        values = add(topic, 1, 2)
        assert drain(consumer, 10) == values
        assert sorted(consumer.partitions) == [0, 1, 2]
        assert consumer.held_offsets == {0: 4, 1: 4, 2: 4}
    assert {id_: found.offset for id_, found in consumer.fetch_offsets()} == {0: 5, 1: 5, 2: 5}


@pytest.mark.parametrize("use_rdkafka", [False, True], ids=["own", "rdkafka"])
@pytest.mark.parametrize("keyed", [False, True], ids=["in turn", "by key"])
def test_a_producer_has_them_as_soon_as_its_client_knows(
    client: KafkaClient, add: Any, use_rdkafka: bool, keyed: bool
) -> None:
    """A producer saw new partitions of another's metadata only with the next refresh of all topics, or never."""
    topic = create_topic(client, 1)
    partitioner = (lambda partitions, key: partitions[int(key) % len(partitions)]) if keyed else None
    with topic.get_producer(
        use_rdkafka=use_rdkafka, partitioner=partitioner, linger_ms=0, delivery_reports=keyed
    ) as producer:
        for _ in range(3):
            assert producer.produce(b"before", partition_key=b"5").partition_id == 0
        producer.flush()
        add(topic, 1, 2)
        client.cluster.refresh_older(0.0, [topic.name])  # as a consumer of this client does
        made = [producer.produce(b"after", partition_key=b"%d" % number) for number in range(12)]
        producer.flush()
        found = Counter(message.partition_id for message in made)
        assert set(found) == {0, 1, 2}
        assert max(found.values()) <= 6
        if keyed:
            assert [message.partition_id for message in made] == [number % 3 for number in range(12)]
            assert not any(producer.get_delivery_report(timeout=10)[1] for _ in range(15))


@pytest.mark.later("threads")
def test_partitions_that_were_asked_for_stay_those(client: KafkaClient, add: Any) -> None:
    topic = create_topic(client, 1)
    alone = topic.get_simple_consumer(partitions=[topic.partitions[0]], **SOON | {"consumer_timeout_ms": 3000})
    whole = topic.get_simple_consumer(**SOON)
    with alone, whole:
        values = add(topic, 0, 1)
        more = add(topic, 1, 1)
        assert drain(whole, 10) == values + more
        assert drain(alone, 10) == values
        assert list(alone.partitions) == [0]


def test_where_the_group_has_been_is_where_it_goes_on(client: KafkaClient, add: Any) -> None:
    topic = create_topic(client, 1)
    group = f"g-{uuid.uuid4().hex[:8]}"
    with topic.get_simple_consumer(group, **SOON | {"metadata_max_age_ms": 600_000}) as consumer:
        add(topic, 1, 1)
        client.update_cluster()  # of which the consumer hears all the same
        other = topic.get_simple_consumer(group, partitions=[topic.partitions[1]], auto_start=False)
        other.commit_offsets([(topic.partitions[1], 3)])
        assert drain(consumer, 2).keys() <= {b"1.%d" % number for number in range(5)}


def test_a_consumer_made_later_sees_them_at_once(client: KafkaClient, add: Any) -> None:
    topic = create_topic(client, 1)
    values = add(topic, 1, 1)
    until(client.cluster.handler, lambda: client.cluster.refresh_schedule.age([topic.name]) > 0.3)
    with topic.get_simple_consumer(**SOON) as consumer:
        assert sorted(consumer.partitions) == [0, 1]
        assert drain(consumer, 5) == values


@pytest.mark.later("greenlets")
def test_an_idle_client_asks_once_an_interval(client: KafkaClient, monkeypatch: pytest.MonkeyPatch) -> None:
    topics = [create_topic(client, 3) for _ in range(3)]
    cluster, handler = client.cluster, client.cluster.handler
    asked: list[float] = []
    real = cluster.ask_metadata

    def ask(*args: Any) -> Any:
        asked.append(handler.now())
        return real(*args)

    monkeypatch.setattr(cluster, "ask_metadata", ask)
    consumers = [topic.get_simple_consumer(metadata_max_age_ms=1500, consumer_timeout_ms=100) for topic in topics]
    del asked[:]
    until(handler, lambda: len(asked) >= 3)
    assert all(later - earlier >= 1.5 for earlier, later in itertools.pairwise(asked))
    for consumer in consumers:
        consumer.stop()


@pytest.mark.needs("groups")
@pytest.mark.parametrize("reset", [OffsetType.EARLIEST, OffsetType.LATEST], ids=["earliest", "latest"])
def test_a_group_that_the_brokers_keep_shares_them_out(client: KafkaClient, add: Any, reset: int) -> None:
    """Its leader noticed after five minutes, and where it began with the latest messages, it had lost the first."""
    group = Group(
        ManagedBalancedConsumer, client, 1, heartbeat_interval_ms=200, auto_offset_reset=reset, metadata_max_age_ms=300
    )
    group.join()
    group.join()
    group.sizes(0, 1)
    values = add(group.topic, 0, 1)
    assert group.drain(5) == values
    more = add(group.topic, 1, 3)
    group.sizes(2, 2)
    assert group.drain(15) == more
    for member in group.members:
        member.stop()
