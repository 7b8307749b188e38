"""Topics that are made anew with fewer or more partitions while they are read, or deleted, beside others that stay."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from pykafka import KafkaClient, StartRules
from pykafka.common import OffsetType, TopicPartition
from pykafka.exceptions import TopicRecreatedError, UnknownTopicId, UnknownTopicOrPartition
from tests.brokers import KafkaCluster
from tests.support.topics import create_topic, delete_topic, make_anew
from tests.support.waiting import until

pytestmark = [pytest.mark.timeout(200), pytest.mark.needs("topic ids")]

#: How long the records of a test may take to come (s).
LIMIT_S = 60.0


def fill(client: KafkaClient, topic: str, partitions: int, count: int, mark: str) -> Counter[bytes]:
    """Write so many messages to each partition."""
    values = [(id_, f"{mark}.{topic}.{id_}.{number}".encode()) for id_ in range(partitions) for number in range(count)]
    with client.producer() as producer:
        for id_, value in values:
            producer.produce(topic, value, partition=id_)
    return Counter(value for _, value in values)


def gather(take: Callable[[], list[Any]], wanted: Counter[bytes]) -> Counter[bytes]:
    """Read until as many values have come as are wanted, or the time is up."""
    found: Counter[bytes] = Counter()
    deadline = time.monotonic() + LIMIT_S
    while found.total() < wanted.total() and time.monotonic() < deadline:
        found.update(message.value for message in take())
    return found


class Topics:
    """A topic that is made anew by another client, and one that stays.

    :param client: the other one
    :param before: how many partitions the first topic has
    """

    def __init__(self, client: KafkaClient, before: int) -> None:
        self._other = client
        self.changing = create_topic(client, before).name
        self.staying = create_topic(client, 3).name
        self.old = self.fill(self.changing, before, "old") + self.fill(self.staying, 3, "old")

    def fill(self, topic: str, partitions: int, mark: str) -> Counter[bytes]:
        return fill(self._other, topic, partitions, 10, mark)

    def make_anew(self, partitions: int) -> Counter[bytes]:
        """Make the first topic anew, and write to both."""
        make_anew(self._other, self.changing, partitions)
        return self.fill(self.changing, partitions, "new") + self.fill(self.staying, 3, "new")


@pytest.fixture
def other(kafka: KafkaCluster) -> Any:
    """Yield a client besides that of the test."""
    with KafkaClient(hosts=kafka.hosts) as other:
        yield other


@pytest.mark.parametrize("partitions", [2, 8], ids=["fewer", "more"])
@pytest.mark.parametrize("group", [None, "classic"])
@pytest.mark.on_asyncio
@pytest.mark.later("threads-classic", "greenlets-None-more", "asyncio-classic", "asyncio-None-more")
def test_the_new_topic_and_the_other_are_read(
    client: KafkaClient, other: KafkaClient, partitions: int, group: str
) -> None:
    topics = Topics(other, 6)
    options: dict[str, Any] = {"group": topics.changing, "protocol": group} if group else {}
    with client.consumer(topics.changing, topics.staying, metadata_max_age_ms=1000, **options) as consumer:
        assert gather(lambda: consumer.poll(timeout=1), topics.old) == topics.old
        wanted = topics.make_anew(partitions)
        assert gather(lambda: consumer.poll(timeout=1), wanted) == wanted

        def shares() -> int:
            consumer.poll(timeout=0.1)
            return len([key for key in consumer.assignment() if key.topic == topics.changing])

        # what the new topic has may be read before the group has its partitions shared out anew
        until(client.cluster.handler, lambda: shares() == partitions)


@pytest.mark.parametrize("rule", ["earliest", "latest", "nearest"])
@pytest.mark.later("greenlets-earliest", "greenlets-latest", "threads-nearest")
def test_named_partitions_that_are_left_are_read(client: KafkaClient, other: KafkaClient, rule: Any) -> None:
    """Those that are gone wait, and after a while `poll` raises of each of them; the others are not held up."""
    topics = Topics(other, 6)
    keys = [TopicPartition(topics.changing, id_) for id_ in range(6)]
    keys += [TopicPartition(topics.staying, id_) for id_ in range(3)]
    gone: set[Any] = set()

    def poll() -> list[Any]:
        try:
            return consumer.poll(timeout=0.1)
        except (UnknownTopicOrPartition, UnknownTopicId) as error:
            gone.add((error.topic, error.partition))
            return []

    rules = StartRules(no_commit="earliest", out_of_range=rule)
    with client.consumer(metadata_max_age_ms=1000, start=rules) as consumer:
        consumer.assign(keys)
        assert gather(poll, topics.old) == topics.old
        wanted = topics.make_anew(2)
        assert gather(poll, wanted) == wanted
        assert consumer.assignment() == sorted(keys)
        client.cluster.socket_timeout_ms = 500  # what lasts for so long is raised
        until(client.cluster.handler, lambda: poll() or gone == set(keys[2:6]))
        make_anew(other, topics.changing, 6)
        wanted = topics.fill(topics.changing, 6, "newest")
        assert gather(poll, wanted) == wanted


@pytest.mark.later("threads")
def test_without_a_reset_the_partitions_that_are_left_are_raised(client: KafkaClient, other: KafkaClient) -> None:
    topics = Topics(other, 6)
    raised: set[Any] = set()

    def poll() -> list[Any]:
        try:
            return consumer.poll(timeout=0.1)
        except TopicRecreatedError as error:
            key = TopicPartition(error.topic or "", -1 if error.partition is None else error.partition)
            raised.add(key)
            consumer.seek(key, 0)
            return []

    rules = StartRules(no_commit="earliest", out_of_range="raise")
    with client.consumer(topics.changing, topics.staying, metadata_max_age_ms=1000, start=rules) as consumer:
        assert gather(poll, topics.old) == topics.old
        wanted = topics.make_anew(2)
        assert gather(poll, wanted) == wanted
    assert raised == {(topics.changing, 0), (topics.changing, 1)}


@pytest.mark.parametrize("kind", ["whole", "named", "managed"])
@pytest.mark.later("greenlets")
def test_consumers_of_one_topic(client: KafkaClient, other: KafkaClient, kind: str) -> None:
    topics = Topics(other, 6)
    topic = client.topics[topics.changing]
    options: dict[str, Any] = {
        "auto_offset_reset": OffsetType.EARLIEST,
        "consumer_timeout_ms": 100,
        "metadata_max_age_ms": 500,
    }
    kinds: dict[str, Callable[[], Any]] = {
        "whole": lambda: topic.get_simple_consumer(**options),
        "named": lambda: topic.get_simple_consumer(partitions=list(topic.partitions.values()), **options),
        "managed": lambda: topic.get_balanced_consumer(topic.name, managed=True, **options),
    }
    with kinds[kind]() as consumer:
        old = Counter({value: count for value, count in topics.old.items() if topic.name.encode() in value})
        assert gather(consumer.consume_batch, old) == old
        topics.make_anew(2)
        new = Counter(f"new.{topic.name}.{id_}.{number}".encode() for id_ in range(2) for number in range(10))
        assert gather(consumer.consume_batch, new) == new
        if kind != "named":
            until(client.cluster.handler, lambda: consumer.consume_batch() or sorted(consumer.partitions) == [0, 1])


@pytest.mark.later("threads")
def test_a_topic_that_is_gone_for_good_does_not_hold_up_the_others(client: KafkaClient, other: KafkaClient) -> None:
    topics = Topics(other, 3)
    gone = 0

    def poll() -> list[Any]:
        nonlocal gone
        try:
            return consumer.poll(timeout=0.1)
        except (UnknownTopicOrPartition, UnknownTopicId):
            gone += 1
            return []

    with client.consumer(topics.changing, topics.staying, metadata_max_age_ms=1000) as consumer:
        assert gather(poll, topics.old) == topics.old
        delete_topic(other, topics.changing)
        wanted = topics.fill(topics.staying, 3, "new")
        assert gather(poll, wanted) == wanted
        client.cluster.socket_timeout_ms = 500
        until(client.cluster.handler, lambda: poll() or gone)
        wanted = topics.fill(topics.staying, 3, "newest")
        assert gather(poll, wanted) == wanted


@pytest.mark.needs("assigning")
@pytest.mark.later("greenlets")
def test_a_group_of_the_next_generation(client: KafkaClient, other: KafkaClient) -> None:
    topics = Topics(other, 6)
    with client.consumer(
        topics.changing, topics.staying, metadata_max_age_ms=1000, group=topics.changing, protocol="consumer"
    ) as consumer:
        assert gather(lambda: consumer.poll(timeout=1), topics.old) == topics.old
        wanted = topics.make_anew(2)
        assert gather(lambda: consumer.poll(timeout=1), wanted) == wanted
