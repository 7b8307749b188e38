"""Members of one group, for tests of both kinds of balanced consumers and of coordinators."""

from __future__ import annotations

import time
import uuid
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from typing import Any, Generic, NamedTuple, TypeVar

from pykafka import BalancedConsumer, KafkaClient, ManagedBalancedConsumer
from pykafka.common import OffsetAndMetadata, TopicPartition
from pykafka.compat.group_consumer import GroupConsumer
from pykafka.handlers import Handler
from pykafka.testing import FakeCluster
from pykafka.topic import Topic
from tests.brokers import KafkaCluster
from tests.support.topics import create_topic
from tests.support.waiting import until

M = TypeVar("M", bound=GroupConsumer)


def close_before_the_answer(
    kafka: KafkaCluster | FakeCluster,
    handler: Handler,
    poll: Callable[[], object],
    close: Callable[[], object],
    has_sent: Callable[[], object] = lambda: True,
) -> None:
    """Close a consumer while the one broker is paused: it gets what joins and what leaves at the same time.

    :param poll: what joins the group
    :param has_sent: whether the request to join is on its way
    """
    (broker,) = kafka.broker_ids
    kafka.pause(broker)
    try:
        polling = handler.spawn(poll, name="polls")
        until(handler, has_sent)
        handler.sleep(0.5)
        closing = handler.spawn(close)
        handler.sleep(0.5)
    finally:
        kafka.resume(broker)
    assert closing.join(20)
    assert closing.error is None
    assert polling.join(5)


class Group(Generic[M]):
    """Members of one group, made as the test calls for them.

    :param kind: of consumer
    :param client: whose
    :param partitions: of the topic that they share
    :param settings: of each member, unless `join` is told otherwise
    """

    def __init__(self, kind: type[M], client: KafkaClient, partitions: int = 3, **settings: Any) -> None:
        self.kind, self.client = kind, client
        self.settings = {
            "consumer_timeout_ms": 10_000,
            "auto_commit_enable": True,
            "rebalance_backoff_ms": 300,
            **settings,
        }
        self.name = f"g-{uuid.uuid4().hex[:8]}"
        self.topic: Topic = create_topic(client, partitions)
        self.members: list[M] = []

    def join(self, topic: Topic | None = None, **kwargs: Any) -> M:
        managed = issubclass(self.kind, ManagedBalancedConsumer)
        settings = {**self.settings, **kwargs}
        member = (topic or self.topic).get_balanced_consumer(self.name, managed=managed, **settings)
        assert isinstance(member, self.kind)
        self.members.append(member)
        return member

    def all_partitions(self) -> list[TopicPartition]:
        return [TopicPartition(self.topic.name, id_) for id_ in self.topic.partitions]

    def produce(self, count: int, start: int = 0) -> Counter[bytes | None]:
        """Produce a number of values, all different, and return them."""
        values = [b"%d" % number for number in range(start, start + count)]
        with self.topic.get_producer(linger_ms=1) as producer:
            for value in values:
                producer.produce(value)
        return Counter(values)

    def until(self, happened: Callable[[], object], seconds: float = 20) -> None:
        """Wait for a condition while the members' workers go on."""
        deadline = time.monotonic() + seconds
        while not happened():
            assert time.monotonic() < deadline, f"shares: {self.shares()}"
            self.client.cluster.handler.sleep(0.02)

    def shares(self) -> list[list[int]]:
        """Return the members' partitions, by id."""
        return [sorted(member.partitions) for member in self.members]

    def sizes(self, *sizes: int) -> None:
        """Wait until the members' shares are this large, and divide the topic."""

        def divided() -> bool:
            found = [id_ for share in self.shares() for id_ in share]
            whole = sorted(found) == sorted(self.topic.partitions)
            return whole and sorted(map(len, self.shares())) == sorted(sizes)

        self.until(divided)

    def drain(self, count: int, *forgiven: type[Exception]) -> Counter[bytes | None]:
        """Consume a number of messages with all members in turn, and mark them as processed.

        :param forgiven: errors that a member may raise in between
        """
        found: Counter[bytes | None] = Counter()

        def done() -> bool:
            for member in self.members:
                with suppress(*forgiven):
                    while found.total() < count and (message := member.consume(block=False)) is not None:
                        found[message.value] += 1
            return found.total() >= count

        self.until(done)
        for member in self.members:
            consumer = member._consumer
            if consumer is not None:  # what the next call for messages does first
                consumer._buffers.begin_call()
        return found


class Reader:
    """A subscription that reads nothing, and records its calls."""

    def __init__(self, *topics: str) -> None:
        self.names: set[str] = set(topics)
        self.share: set[TopicPartition] = set()
        self.consumed: dict[TopicPartition, OffsetAndMetadata] = {}
        self.told: dict[TopicPartition, OffsetAndMetadata] = {}
        self.lost: list[set[TopicPartition]] = []

    def topics(self) -> Collection[str]:
        return self.names

    def assigned_partitions(self) -> Collection[TopicPartition]:
        return self.share

    def consumed_offsets(self) -> Mapping[TopicPartition, OffsetAndMetadata]:
        return {partition: offset for partition, offset in self.consumed.items() if partition in self.share}

    def revoked(self, partitions: Collection[TopicPartition]) -> None:
        self.lost.append(set(partitions))

    def assigned(self, partitions: Collection[TopicPartition]) -> None:
        self.share = set(partitions)

    def committed(self, partition: TopicPartition, offset: OffsetAndMetadata) -> None:
        self.told[partition] = offset


class Place(NamedTuple):
    """Where brokers are, and a ZooKeeper for groups: theirs, or one that they know nothing of."""

    hosts: str
    zookeeper: str


Balanced = Group[BalancedConsumer]


def balanced(client: KafkaClient, place: Place, partitions: int = 3) -> Balanced:
    """Return a group through ZooKeeper, without members."""
    return Group(BalancedConsumer, client, partitions, zookeeper_hosts=place.zookeeper)
