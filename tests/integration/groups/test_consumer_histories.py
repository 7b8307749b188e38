"""The history of a group, checked: no message lost, none read by two members of one generation, none twice in good order."""

from __future__ import annotations

import uuid
from collections import Counter, defaultdict
from typing import Any, NamedTuple

import pytest

from pykafka import KafkaClient
from pykafka.common import TopicPartition
from pykafka.exceptions import OffsetsNotCommitted
from pykafka.groups.listener import RebalanceListener
from pykafka.kafkaconsumer import KafkaConsumer
from tests.brokers import KafkaCluster
from tests.support.inside import engine_of
from tests.support.loops import Concurrency
from tests.support.topics import create_topic

pytestmark = [pytest.mark.kafka, pytest.mark.needs("groups"), pytest.mark.timeout(600)]


class Read(NamedTuple):
    """One record that a member was given."""

    generation: int
    member: str
    key: TopicPartition
    offset: int


class Reader(RebalanceListener):
    """A member on a worker of its own: reads, commits at revocation, and writes down what it reads."""

    def __init__(self, history: History) -> None:
        self.history = history
        self.stopping = history.handler.Event()
        self.stalled_until = 0.0
        self.lost = 0
        self.consumer: KafkaConsumer[Any, Any] = history.client.consumer(
            *history.topics,
            group=history.group,
            listener=self,
            heartbeat_interval_ms=100,
            session_timeout_ms=6000,
            **history.options,
        )
        self.worker = history.handler.spawn(self.run)

    def on_revoked(self, partitions: list[TopicPartition]) -> None:
        try:
            self.consumer.commit()
        except OffsetsNotCommitted:
            if not self.history.may_fail:
                raise

    def on_lost(self, partitions: list[TopicPartition]) -> None:
        self.lost += 1

    def run(self) -> None:
        handler = self.history.handler
        member = engine_of(self.consumer).membership
        with self.consumer:
            while not self.stopping.is_set():
                for record in self.consumer.poll(20, 0.1):
                    key = TopicPartition(record.topic, record.partition)
                    self.history.reads.append(Read(member.generation_id, member.member_id, key, record.offset))
                while handler.now() < self.stalled_until:
                    handler.sleep(0.05)

    def stop(self) -> None:
        self.stopping.set()
        assert self.worker.join(60)
        if self.worker.error is not None:
            raise self.worker.error


class History:
    """A group whose members come and go while a producer writes; what each has read, in one list."""

    def __init__(self, client: KafkaClient, max_poll_interval_ms: int = 60_000, **options: Any) -> None:
        self.client, self.handler = client, client.cluster.handler
        self.options: dict[str, Any] = {"max_poll_interval_ms": max_poll_interval_ms, **options}
        #: Whether commits may fail, as their coordinator is killed.
        self.may_fail = False
        self.group = f"g-{uuid.uuid4().hex[:8]}"
        self.topics = [create_topic(client, 3).name, create_topic(client, 2).name]
        self.reads: list[Read] = []
        self.readers: list[Reader] = []
        self.ends: Counter[TopicPartition] = Counter()

    def produce(self, count: int) -> None:
        """Produce so many messages to each partition."""
        with self.client.producer(linger_ms=0) as producer:
            for name in self.topics:
                for id_ in self.client.cluster.topics[name].partitions:
                    for _ in range(count):
                        producer.produce(name, b"x", partition=id_)
                    self.ends[TopicPartition(name, id_)] += count

    def join(self) -> Reader:
        self.readers.append(Reader(self))
        return self.readers[-1]

    def leave(self, reader: Reader) -> None:
        self.readers.remove(reader)
        reader.stop()

    def until_read(self, seconds: float = 60) -> None:
        """Wait until each message was read by somebody."""
        deadline = self.handler.now() + seconds
        while self.missing():
            assert self.handler.now() < deadline, self.missing()
            for reader in self.readers:
                assert reader.worker.is_alive(), reader.worker.error
            self.handler.sleep(0.05)

    def missing(self) -> dict[TopicPartition, int]:
        """Return how many messages of each partition nobody has read."""
        seen = defaultdict(set)
        for read in self.reads:
            seen[read.key].add(read.offset)
        return {key: end - len(seen[key]) for key, end in self.ends.items() if len(seen[key]) < end}

    def check(self, once: bool) -> None:
        """Check all that was read.

        :param once: whether all members left in good order, so that no message was read twice
        """
        owners: dict[tuple[int, TopicPartition], set[str]] = defaultdict(set)
        last: dict[tuple[str, int, TopicPartition], int] = {}
        for read in self.reads:
            owners[read.generation, read.key].add(read.member)
            mine = read.member, read.generation, read.key
            assert read.offset == last.get(mine, read.offset - 1) + 1, read  # in order, and none left out
            last[mine] = read.offset
        assert [found for found in owners.items() if len(found[1]) > 1] == []
        counts = Counter((read.key, read.offset) for read in self.reads)
        assert not self.missing()
        if once:
            assert max(counts.values()) == 1, [found for found in counts.items() if found[1] > 1][:10]

    def rebalances(self, rounds: int) -> None:
        """Start and stop members, by turns that the seed of the handler decides."""
        for _ in range(rounds):
            self.produce(10)
            if len(self.readers) < 2 or (len(self.readers) < 4 and self.handler.random.random() < 0.5):
                self.join()
            else:
                self.leave(self.handler.random.choice(self.readers))
            self.handler.sleep(self.handler.random.random() * 0.4)


def finish(history: History, once: bool) -> int:
    """End a history, check it, and return how many generations it had."""
    try:
        history.until_read()
    finally:
        for reader in list(history.readers):
            history.leave(reader)
    history.check(once)
    return max(read.generation for read in history.reads)


def stall(history: History) -> None:
    """Stall members in turn for longer than they may be between two polls, a second, and check the end."""
    history.join()
    history.join()
    for _ in range(8):
        history.produce(10)
        reader = history.handler.random.choice(history.readers)
        reader.stalled_until = history.handler.now() + 2
        history.handler.sleep(2.5)
    readers = list(history.readers)
    finish(history, once=False)
    assert sum(reader.lost for reader in readers) >= 4


def kill_coordinators(kafka3: KafkaCluster, history: History) -> None:
    """Kill the coordinator three times while members come and go, and check the end."""
    history.may_fail = True
    history.join()
    history.join()
    for _ in range(3):
        history.rebalances(3)
        victim = history.client.cluster.get_group_coordinator(history.group).id
        kafka3.kill(victim)
        try:
            history.handler.sleep(3)
            history.join()
        finally:
            kafka3.start(victim)
        history.leave(history.readers[0])
    finish(history, once=False)


@pytest.mark.later("threads")
def test_members_that_come_and_go_in_good_order_read_each_message_once(client: KafkaClient) -> None:
    history = History(client)
    history.join()
    history.rebalances(8)
    assert finish(history, once=True) >= 5


@pytest.mark.matrix
def test_two_hundred_rebalances(client: KafkaClient) -> None:
    history = History(client)
    history.join()
    history.rebalances(200)
    assert finish(history, once=True) >= 150


@pytest.mark.matrix
def test_members_that_stall_lose_no_message(client: KafkaClient) -> None:
    stall(History(client, max_poll_interval_ms=1000))


@pytest.mark.matrix
def test_dying_coordinators_lose_no_message(kafka3: KafkaCluster, concurrency: Concurrency) -> None:
    with KafkaClient(kafka3.hosts, **concurrency(), socket_timeout_ms=4000) as client:
        kill_coordinators(kafka3, History(client))
