"""Many members on one client: they share its connections and its thread of heartbeats, and nobody's trouble is another's."""

from __future__ import annotations

import socket
import uuid
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest

from pykafka import KafkaClient
from pykafka.broker import Broker
from pykafka.common import TopicPartition
from pykafka.exceptions import ConsumerStoppedException
from pykafka.groups.heartbeat_thread import HeartbeatThread
from pykafka.kafkaconsumer import KafkaConsumer
from pykafka.network.channel import LENT
from tests.brokers import KafkaCluster
from tests.support.inside import membership_of
from tests.support.loops import Concurrency
from tests.support.topics import create_topic
from tests.support.waiting import CutOff, cut_off, until

pytestmark = [pytest.mark.kafka, pytest.mark.needs("groups")]

Consumer = KafkaConsumer[Any, Any]
SESSION_MS = 6000


class Crowd:
    """Members of some groups, each of which reads in a worker of its own.

    :param client: that all share
    :param members: how many, in as many groups as there are
    :param partitions: of the topic, which each group reads as a whole
    """

    def __init__(self, client: KafkaClient, members: int, groups: int, **options: Any) -> None:
        self.client = client
        self.handler = client.cluster.handler
        self.topic = create_topic(client, partitions=members // groups).name
        self.groups = [f"{self.topic}-{number}-{uuid.uuid4().hex[:6]}" for number in range(groups)]
        settings = {
            "assignor": "cooperative-sticky",
            "session_timeout_ms": SESSION_MS,
            "heartbeat_interval_ms": 1000,
            **options,
        }
        self.consumers = [
            client.consumer(self.topic, group=self.groups[number % groups], **settings) for number in range(members)
        ]
        self.read: Counter[tuple[str, bytes | None]] = Counter()
        self.errors: list[BaseException] = []
        self.stopping = self.handler.Event()
        self.workers = [
            self.handler.spawn(self._read, self.groups[number % groups], one)
            for number, one in enumerate(self.consumers)
        ]

    def _read(self, group: str, consumer: Consumer) -> None:
        try:
            while not self.stopping.is_set():
                for record in consumer.poll(timeout=1.0):
                    self.read[group, record.value] += 1
        except ConsumerStoppedException:
            return
        except BaseException as error:
            self.errors.append(error)
            raise

    @property
    def brokers(self) -> list[Broker]:
        return list(self.client.cluster.brokers.values())

    def pulses(self) -> list[HeartbeatThread]:
        """Return the pulses that beat."""
        found = [broker._shared.get("heartbeats") for broker in self.brokers]
        return [pulse for pulse in found if pulse is not None and pulse.is_alive]

    def connections(self, lent: bool = False) -> list[str]:
        """Return the names of the channels that are connected, of those that are lent or of the others."""
        return [
            name
            for broker in self.brokers
            for name, channel in broker._channels
            if channel.connected and name.startswith(LENT) == lent
        ]

    def generations(self) -> list[int]:
        found = []
        for consumer in self.consumers:
            shares: Any = membership_of(consumer)
            found.append(shares.generation)
        return found

    def joined(self) -> bool:
        return all(len(consumer.assignment()) == 1 for consumer in self.consumers) and not self.errors

    def divided(self) -> bool:
        """Return whether the shares of each group are the topic."""
        keys = {TopicPartition(self.topic, id_) for id_ in self.client.cluster.topics[self.topic].partitions}
        shares: dict[str, list[TopicPartition]] = {group: [] for group in self.groups}
        for number, consumer in enumerate(self.consumers):
            shares[self.groups[number % len(self.groups)]] += consumer.assignment()
        return all(sorted(share) == sorted(keys) for share in shares.values())

    def produce(self, text: bytes) -> set[bytes]:
        """Produce a value to each partition, and return them."""
        values = set()
        with self.client.topics[self.topic].get_producer(partitioner=_by_key, linger_ms=5) as producer:
            for id_ in self.client.cluster.topics[self.topic].partitions:
                values.add(b"%s %d" % (text, id_))
                producer.produce(b"%s %d" % (text, id_), partition_key=b"%d" % id_)
        return values

    def close(self, seconds: float = 20) -> None:
        self.stopping.set()
        for worker in self.workers:
            assert worker.join(10)
        closing = [self.handler.spawn(consumer.close) for consumer in self.consumers]
        deadline = self.handler.now() + seconds
        assert all(worker.join(max(0.0, deadline - self.handler.now())) for worker in closing)
        self.consumers = []


def _by_key(partitions: Any, key: bytes) -> Any:
    return next(one for one in partitions if one.id == int(key))


@pytest.fixture
def client(kafka: KafkaCluster, concurrency: Concurrency) -> Iterator[KafkaClient]:
    with KafkaClient(kafka.hosts, **concurrency()) as made:
        yield made


def cut(connection: Any) -> None:
    """End a connection as a network does, from below."""
    stream = None if connection is None else connection._stream
    if stream is not None:
        with suppress(OSError):
            stream.socket.shutdown(socket.SHUT_RDWR)


def committed_offset(consumer: Consumer, key: TopicPartition) -> int:
    found = consumer.committed(key)[key]
    assert found is not None
    return found.offset


@pytest.mark.on_asyncio
def test_sixty_members_join_stay_rebalance_read_and_leave(client: KafkaClient) -> None:
    _live(Crowd(client, 60, 4), 1.0)


def _live(crowd: Crowd, seconds: float) -> None:
    """Check that members join, stay for some time, and go on when one of them leaves."""
    until(crowd.handler, crowd.joined, 120)
    assert [len(pulse) for pulse in crowd.pulses()] == [len(crowd.consumers)]
    values = crowd.produce(b"first")
    everything = {(group, value) for group in crowd.groups for value in values}
    until(crowd.handler, lambda: set(crowd.read) == everything)
    generations = crowd.generations()
    crowd.handler.sleep(seconds)
    assert crowd.generations() == generations  # nobody was out
    assert len(crowd.connections()) <= 5
    leaver = crowd.consumers.pop(0)
    crowd.groups.append(crowd.groups.pop(0))  # the others keep theirs
    leaver.commit()
    leaver.close()
    until(crowd.handler, crowd.divided, 60)
    values = crowd.produce(b"second")
    everything |= {(group, value) for group in crowd.groups for value in values}
    until(crowd.handler, lambda: set(crowd.read) == everything)
    assert [key for key, times in crowd.read.items() if times > 1] == []
    crowd.close()
    assert crowd.errors == []
    assert crowd.pulses() == []


def test_a_cut_of_the_shared_connections_costs_nobody_the_membership_or_a_commit(client: KafkaClient) -> None:
    crowd = Crowd(client, 20, 4, heartbeat_interval_ms=200, auto_commit=False)
    until(crowd.handler, crowd.joined, 60)
    generations = crowd.generations()
    committed: Counter[int] = Counter()
    failed: list[BaseException] = []
    ending = crowd.handler.Event()

    def commit(number: int) -> None:
        key = crowd.consumers[number].assignment()[0]
        while not ending.is_set():
            try:
                crowd.consumers[number].commit({key: committed[number] + 1})
                committed[number] += 1
            except BaseException as error:
                failed.append(error)
                raise

    committing = [crowd.handler.spawn(commit, number) for number in range(len(crowd.consumers))]
    for _ in range(10):
        crowd.handler.sleep(0.25)
        for broker in crowd.brokers:
            requests = broker.channel("offsets").requests
            if requests is not None:
                cut(requests.shared.connection)
        for pulse in crowd.pulses():
            run = pulse._run
            assert run is not None
            cut(run._connection)
    crowd.handler.sleep(1.5)
    ending.set()
    assert all(worker.join(10) for worker in committing)
    assert failed == []
    assert crowd.generations() == generations
    for number, consumer in enumerate(crowd.consumers):
        key = consumer.assignment()[0]
        assert committed_offset(consumer, key) == committed[number] > 0
    crowd.close()
    assert crowd.errors == []


@pytest.mark.later("threads")
def test_a_timeout_within_a_commit_is_nobody_elses(client: KafkaClient) -> None:
    """On greenlets; threads have no such timeouts, and their case shows the rest."""
    crowd = Crowd(client, 8, 2, auto_commit=False)
    until(crowd.handler, crowd.joined, 60)
    one, *others = crowd.consumers
    key = one.assignment()[0]
    failed: list[BaseException] = []
    ending = crowd.handler.Event()
    counts: Counter[int] = Counter()

    def commit(number: int) -> None:
        key = others[number].assignment()[0]
        while not ending.is_set():
            try:
                counts[number] += 1
                others[number].commit({key: counts[number]})
            except BaseException as error:
                failed.append(error)
                raise

    committing = [crowd.handler.spawn(commit, number) for number in range(len(others))]
    for tenths in range(60):
        if crowd.handler.cooperative:
            with suppress(CutOff), cut_off(crowd.handler, tenths / 10_000):
                one.commit({key: tenths})
        else:
            one.commit({key: tenths})
    ending.set()
    assert all(worker.join(10) for worker in committing)
    assert failed == []
    one.commit({key: 7})
    assert committed_offset(one, key) == 7
    for number, consumer in enumerate(others):
        its = consumer.assignment()[0]
        assert committed_offset(consumer, its) == counts[number]
    crowd.close()
    assert crowd.errors == []


@pytest.mark.on_asyncio
def test_a_member_that_stops_while_it_waits_to_join_holds_nobody_up(client: KafkaClient) -> None:
    crowd = Crowd(client, 4, 2)
    until(crowd.handler, crowd.joined, 60)
    slow = crowd.client.consumer(
        crowd.topic, group=f"{crowd.topic}-slow", session_timeout_ms=SESSION_MS, heartbeat_interval_ms=1000
    )
    until(crowd.handler, lambda: bool(slow.poll(timeout=0.2) or slow.assignment()))
    # it makes no call, so whoever joins its group waits
    waiting = crowd.client.consumer(
        crowd.topic, group=f"{crowd.topic}-slow", session_timeout_ms=SESSION_MS, heartbeat_interval_ms=1000
    )
    with suppress(ConsumerStoppedException):
        waiting.poll(timeout=1.5)
    assert waiting.assignment() == []
    assert len(crowd.connections(lent=True)) >= 1
    generations = crowd.generations()
    began = crowd.handler.now()
    waiting.close()
    assert crowd.handler.now() - began < 8  # leaving a group may take 5 s
    slow.poll(timeout=1)
    until(crowd.handler, lambda: bool(slow.poll(timeout=0.2) or len(slow.assignment()) == 2))
    slow.close()
    assert crowd.generations() == generations
    crowd.close()
    assert crowd.errors == []


@pytest.mark.matrix
@pytest.mark.timeout(240)
@pytest.mark.on_asyncio
def test_a_coordinator_that_hangs_holds_up_its_own_groups_only(concurrency: Concurrency) -> None:
    config = {"offsets.topic.replication.factor": 1, "offsets.topic.num.partitions": 2}
    with KafkaCluster(brokers=2, config=config) as kafka, KafkaClient(kafka.hosts, **concurrency()) as client:
        crowd = Crowd(client, 40, 20, heartbeat_interval_ms=500)
        until(crowd.handler, crowd.joined, 60)
        assert len(crowd.pulses()) == 2
        links: list[Any] = [membership_of(consumer) for consumer in crowd.consumers]
        hung = next(shares.coordinator.id for shares in links if shares.coordinator.id != 1)
        well = [shares for shares in links if shares.coordinator.id != hung]
        kafka.pause(hung)
        try:
            generations = [shares.generation for shares in well]
            for _ in range(20):
                crowd.handler.sleep(0.5)
                assert not any(shares.sender.heartbeat.session_expired() for shares in well)
            assert [shares.generation for shares in well] == generations
        finally:
            kafka.resume(hung)
        until(crowd.handler, crowd.joined, 60)
        crowd.close(40)
        assert crowd.errors == []
