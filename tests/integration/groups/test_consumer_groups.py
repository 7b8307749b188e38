"""`client.consumer(..., group=...)`: members of one group read each message, in order, through rebalances of all kinds."""

from __future__ import annotations

import re
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from pykafka import KafkaClient
from pykafka.common import TopicPartition
from pykafka.exceptions import (
    ConsumerStoppedException,
    GroupCoordinatorNotAvailable,
    OffsetsNotCommitted,
    ShareLostError,
)
from pykafka.groups.listener import RebalanceListener
from pykafka.kafkaconsumer import KafkaConsumer
from tests.support.inside import engine_of, listener_of, membership_of
from tests.support.protocols import quick_member
from tests.support.topics import create_topic
from tests.support.waiting import until

pytestmark = [pytest.mark.kafka, pytest.mark.needs("groups")]

Consumer = KafkaConsumer[Any, Any]


class Committer(RebalanceListener):
    """Commits in time what was returned, and records what it is told."""

    def __init__(self) -> None:
        self.consumer: Consumer | None = None
        self.told: list[tuple[str, set[TopicPartition]]] = []

    def on_revoked(self, partitions: list[TopicPartition]) -> None:
        self.told.append(("revoked", set(partitions)))
        assert self.consumer is not None
        self.consumer.commit()

    def on_assigned(self, partitions: list[TopicPartition]) -> None:
        self.told.append(("assigned", set(partitions)))

    def on_lost(self, partitions: list[TopicPartition]) -> None:
        self.told.append(("lost", set(partitions)))


class Readers:
    """Consumers of one group, which the test has read in turn, and what they have read."""

    def __init__(self, client: KafkaClient, partitions: int = 3, topics: int = 2) -> None:
        self.client = client
        self.group = f"g-{uuid.uuid4().hex[:8]}"
        self.topics = [create_topic(client, partitions).name for _ in range(topics)]
        self.consumers: list[Consumer] = []
        self.produced = 0
        self.read: Counter[bytes | None] = Counter()
        self.offsets: dict[tuple[Consumer, TopicPartition], int] = {}

    def keys(self) -> set[TopicPartition]:
        found = self.client.cluster.topics
        return {TopicPartition(name, id_) for name in self.topics for id_ in found[name].partitions}

    def join(self, *topics: Any, committing: bool = True, **options: Any) -> Consumer:
        listener = Committer() if committing else None
        settings = {"listener": listener, **quick_member(options)}
        consumer = self.client.consumer(*(topics or self.topics), group=self.group, **settings)
        if listener is not None:
            listener.consumer = consumer
        self.consumers.append(consumer)
        return consumer

    def produce(self, count: int) -> None:
        """Produce so many values to each topic, all different."""
        for name in self.topics:
            with self.client.topics[name].get_producer(linger_ms=1) as producer:
                for number in range(self.produced, self.produced + count):
                    producer.produce(b"%s %d" % (name.encode(), number))
        self.produced += count

    def turn(self, timeout: float = 0.05, most: int = 7) -> None:
        """Make one call on each consumer."""
        for consumer in list(self.consumers):
            for record in consumer.poll(most, timeout):
                self.read[record.value] += 1

    def until(self, happened: Callable[[], object], seconds: float = 30) -> None:
        def turned() -> object:
            self.turn()
            return happened()

        until(self.client.cluster.handler, turned, seconds)

    def shared(self, *sizes: int) -> None:
        def divided() -> bool:
            shares = [consumer.assignment() for consumer in self.consumers]
            found = [key for share in shares for key in share]
            return sorted(found) == sorted(self.keys()) and sorted(map(len, shares)) == sorted(sizes)

        self.until(divided)

    def all_values(self) -> set[bytes]:
        return {b"%s %d" % (name.encode(), number) for name in self.topics for number in range(self.produced)}

    def close(self, *consumers: Consumer) -> None:
        for consumer in consumers or tuple(self.consumers):
            consumer.close()
            self.consumers.remove(consumer)


@pytest.fixture
def readers(client: KafkaClient) -> Iterator[Readers]:
    group = Readers(client)
    yield group
    group.close()


@pytest.mark.later("greenlets")
def test_members_come_and_go_and_each_message_is_read_once(readers: Readers) -> None:
    readers.produce(300)
    one = readers.join()
    readers.until(lambda: readers.read.total() > 40)
    readers.join()
    readers.shared(2, 4)
    readers.produce(100)
    three = readers.join()
    readers.shared(2, 2, 2)
    readers.until(lambda: readers.read.total() > 300)
    readers.close(three)
    readers.shared(2, 4)
    readers.close(one)
    readers.shared(6)
    readers.produce(20)
    readers.until(lambda: set(readers.read) == readers.all_values())
    readers.turn(0.5)
    assert set(readers.read.values()) == {1}


def test_iteration_takes_part(readers: Readers) -> None:
    readers.produce(50)
    one = readers.join(consumer_timeout_ms=1000)
    assert {record.value for record in one} == readers.all_values()
    assert one.subscription() == sorted(readers.topics)
    assert one.lag() == dict.fromkeys(readers.keys(), 0)
    one.commit()
    committed = {key: found.offset for key, found in one.committed().items() if found is not None}
    assert sum(committed.values()) == 100
    assert [consumer for consumer in (one,) if consumer.assignment() != sorted(readers.keys())] == []


@pytest.mark.later("greenlets")
def test_what_stays_goes_on_where_it_was_without_a_commit(readers: Readers) -> None:
    readers.produce(100)
    one = readers.join(committing=False)
    readers.until(lambda: readers.read.total() == 200)
    two = readers.join(committing=False)
    readers.shared(2, 4)
    kept = set(one.assignment())
    readers.until(lambda: not sum((one.lag() | two.lag()).values()))
    again = sum(count > 1 for count in readers.read.values())
    assert again == 200 - sum(one.position(key) for key in kept)  # those of what moved alone
    assert 0 < len(kept) < 6


@pytest.mark.later("greenlets")
def test_auto_commit_commits_before_the_share_goes(readers: Readers) -> None:
    readers.produce(100)
    readers.join(committing=False, auto_commit=True, auto_commit_interval_ms=60_000)
    readers.until(lambda: readers.read.total() > 60)
    readers.join(committing=False, auto_commit=True, auto_commit_interval_ms=60_000)
    readers.shared(2, 4)
    readers.until(lambda: set(readers.read) == readers.all_values())
    readers.turn(0.3)
    assert set(readers.read.values()) == {1}
    readers.close()
    three = readers.join()
    readers.turn(2)
    assert three.assignment()
    assert set(readers.read.values()) == {1}


def told(consumer: Consumer) -> list[str]:
    """Return what the listener of a consumer was told."""
    listener = listener_of(consumer).on_revoked.__self__
    return [name for name, _ in listener.told]


def test_a_listener_may_seek(readers: Readers) -> None:
    readers.produce(30)

    class FromTen(RebalanceListener):
        def on_assigned(self, partitions: list[TopicPartition]) -> None:
            for key in partitions:
                one.seek(key, 5)

    one = readers.join(listener=FromTen(), committing=False)
    readers.until(lambda: one.assignment() and sum(one.lag().values()) == 0)
    assert readers.read.total() == 60 - 5 * 6


@pytest.mark.later("greenlets")
def test_a_member_that_stalls_is_told_what_it_lost(readers: Readers) -> None:
    readers.produce(30)
    one = readers.join(max_poll_interval_ms=700, session_timeout_ms=6000)
    record = one.one(10)
    assert record is not None
    readers.client.cluster.handler.sleep(1.5)
    with pytest.raises(ShareLostError, match="max_poll_interval_ms") as caught:
        one.commit(record)
    assert list(caught.value.failures.values()) == [record.offset + 1]
    readers.read[record.value] -= 1
    readers.until(lambda: set(readers.read) == readers.all_values())
    assert told(one)[:3] == ["assigned", "lost", "assigned"]
    assert readers.read[record.value] == 0 or min(readers.read.values()) == 1


@pytest.mark.later("greenlets")
def test_long_iterations_are_signs_of_life(readers: Readers) -> None:
    readers.produce(60)
    one = readers.join(max_poll_interval_ms=1000, queued_max_messages=1000, consumer_timeout_ms=1000)
    seen = 0
    for _ in one:  # all from the buffer, for longer than the interval
        seen += 1
        readers.client.cluster.handler.sleep(0.02)
    assert seen == 120
    assert one.assignment()
    assert told(one) == ["assigned"]


@pytest.mark.needs("partitions")
@pytest.mark.later("threads")
def test_a_pattern_follows_topics(readers: Readers) -> None:
    prefix = f"orders-{uuid.uuid4().hex[:8]}"
    readers.topics = [create_topic(readers.client, 2, name=f"{prefix}-a").name]
    readers.join(re.compile(f"{prefix}-.*"))
    readers.join(f"^{prefix}-.*")
    readers.produce(20)
    readers.until(lambda: set(readers.read) == readers.all_values())
    readers.topics.append(create_topic(readers.client, 3, name=f"{prefix}-b").name)
    readers.produce(20)
    readers.topics.sort()
    readers.until(lambda: readers.read.total() >= 60)
    readers.client.admin.create_partitions({f"{prefix}-a": 5})
    readers.until(lambda: len(readers.keys()) == 8)
    readers.shared(3, 5)


def test_subscribe_again_and_unsubscribe(readers: Readers) -> None:
    first, second = readers.topics
    readers.produce(10)
    one = readers.join(first)
    readers.until(lambda: readers.read.total() == 10)
    one.subscribe(first, second)
    readers.until(lambda: readers.read.total() == 20)
    assert set(readers.read.values()) == {1}
    one.unsubscribe()
    assert (one.assignment(), one.subscription(), one.poll(timeout=0.1)) == ([], [], [])
    one.subscribe(second)
    readers.produce(5)
    readers.until(lambda: readers.read.total() == 25)
    assert one.assignment() == [TopicPartition(second, id_) for id_ in range(3)]
    one.assign([TopicPartition(first, 0)])
    assert one.subscription() == []


@pytest.mark.needs("ids")
@pytest.mark.later("greenlets")
def test_close_ends_a_join_in_another_worker(readers: Readers) -> None:
    handler = readers.client.cluster.handler
    readers.join()
    readers.shared(6)
    two = readers.join()
    ended: list[Any] = []

    def read() -> None:
        try:
            ended.append(list(two))
        except ConsumerStoppedException as error:
            ended.append(error)

    worker = handler.spawn(read)
    handler.sleep(0.5)  # it waits for the first, which makes no call
    readers.close(two)
    assert worker.join(10)
    assert worker.error is None
    assert ended == [[]]


def test_a_failed_commit_before_revocation_is_raised(readers: Readers, monkeypatch: pytest.MonkeyPatch) -> None:
    readers.produce(30)
    one = readers.join(committing=False, auto_commit=True, auto_commit_interval_ms=60_000, protocol="classic")
    readers.until(lambda: readers.read.total() > 5)
    assert engine_of(one).commits is not None

    def refuse(*args: Any) -> None:
        raise OffsetsNotCommitted("refused by the test", {})

    monkeypatch.setattr(engine_of(one).commits, "commit_at_stop", refuse)
    membership_of(one).request_rejoin()
    with pytest.raises(OffsetsNotCommitted, match="refused by the test"):
        one.poll(1, 10)
    monkeypatch.undo()
    assert one.assignment() == sorted(readers.keys())


@pytest.mark.parametrize("auto", [False, True])
@pytest.mark.later("greenlets")
def test_a_commit_names_one_generation_in_all_its_attempts(
    readers: Readers, monkeypatch: pytest.MonkeyPatch, auto: bool
) -> None:
    """A rebalance between two attempts must not commit an old offset of a partition that another member has now."""
    readers.produce(10)
    one = readers.join(committing=False, auto_commit=auto, auto_commit_interval_ms=60_000)
    readers.until(lambda: readers.read.total() == 20)
    commits = engine_of(one).commits
    assert commits is not None
    named: list[Any] = []
    once, member = commits.group._commit_once, commits.group.membership
    generation = member.generation_id

    def attempt(offsets: Any, metadata: Any, of: Any, identity: Any, deadline: float) -> Any:
        named.append(identity)
        if len(named) == 1:
            member.generation_id += 1  # as a rebalance in the meantime does
            raise GroupCoordinatorNotAvailable("made by the test")
        return once(offsets, metadata, of, identity, deadline)

    monkeypatch.setattr(commits.group, "_commit_once", attempt)
    if auto:
        commits.auto_commit()
    else:
        one.commit()
    assert named == [(generation, member.member_id)] * 2
    member.generation_id = generation
