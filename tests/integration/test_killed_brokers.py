"""The kill test: a broker is killed every few seconds, and no acknowledged message is lost, doubled, or out of order."""

from __future__ import annotations

import random
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer

from pykafka import KafkaClient
from pykafka.common import TopicPartition
from pykafka.exceptions import OffsetsNotCommitted
from tests.brokers import KafkaCluster
from tests.support.loops import Concurrency
from tests.support.topics import create_topic

pytestmark = [pytest.mark.kafka, pytest.mark.needs("static"), pytest.mark.timeout(900)]

TOPICS, PARTITIONS, KEYS, MEMBERS = 3, 3, 12, 3
#: How often each producer writes one message for each key of each topic (s).
PACE_S = 0.1
#: How long what was written may take to arrive after the last kill (s).
SETTLE_S = 120.0
#: Of the members of both clients; all else is as the clients have it.
SESSION = {"session_timeout_ms": 6000, "heartbeat_interval_ms": 500}


class Progress:
    """The times at which something has happened to each partition, as the longest pause between two.

    State: each of its users calls it under the one lock of this object.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._last: dict[tuple[str, int], float] = {}
        self.longest = 0.0

    def note(self, topic: str, partition: int) -> None:
        """Note that something has happened now."""
        now = time.monotonic()
        with self._lock:
            before = self._last.get((topic, partition))
            self._last[topic, partition] = now
            if before is not None:
                self.longest = max(self.longest, now - before)


class Traffic:
    """The messages of one client: written by its producer, read by the members of its group.

    :param name: which begins its values
    :param topics: that both clients write to
    """

    def __init__(self, name: str, topics: list[str]) -> None:
        self.name, self.topics = name, topics
        self.stopping = threading.Event()
        self.acknowledged: list[tuple[str, bytes]] = []
        self.failed: Counter[str] = Counter()
        self.read: Counter[tuple[str, bytes]] = Counter()
        self.acks, self.arrivals = Progress(), Progress()
        self.troubles: Counter[str] = Counter()

    def messages(self) -> Iterator[tuple[str, bytes, bytes]]:
        """Yield topic, key and value, one for each key and topic at a time."""
        number = 0
        while not self.stopping.is_set():
            for topic in self.topics:
                for key in range(KEYS):
                    yield topic, b"%d" % key, b"%s-%d-%d" % (self.name.encode(), key, number)
            number += 1

    def has_arrived(self, topic: str, partition: int, value: bytes) -> None:
        """Note a record that a member was given."""
        if value.startswith(self.name.encode()):
            self.read[topic, value] += 1
            self.arrivals.note(topic, partition)

    @property
    def missing(self) -> set[tuple[str, bytes]]:
        """The acknowledged messages that no member was given."""
        return {one for one in self.acknowledged if one not in self.read}

    def report(self) -> str:
        """Return figures."""
        again = self.read.total() - len(self.read)
        return (
            f"{self.name}: {len(self.acknowledged)} acknowledged, {dict(self.failed)} failed, longest pause of a partition "
            f"{self.acks.longest:.2f} s; read {len(self.read)}, {again} again, longest pause {self.arrivals.longest:.2f} s"
            f"; {dict(self.troubles)}"
        )


class Ours(Traffic):
    """This package's producer and members: their workers are the handler's.

    :param client: on any kind of concurrency
    """

    def __init__(self, client: KafkaClient, topics: list[str]) -> None:
        super().__init__("ours", topics)
        self._client, self._handler = client, client.cluster.handler
        self._ended = False
        self._group = f"{topics[0]}-ours"
        self._readers = [self._handler.spawn(self._consume) for _ in range(MEMBERS)]
        self._writer = self._handler.spawn(self._produce)

    def _produce(self) -> None:
        with self._client.producer() as producer:
            for count, (topic, key, value) in enumerate(self.messages(), 1):
                producer.produce(topic, value, key=key, on_delivery=self._told)
                if count % (KEYS * TOPICS) == 0:
                    self._handler.sleep(PACE_S)

    def _told(self, error: Any, delivery: Any) -> None:
        if error is not None:
            self.failed[type(error).__name__] += 1
            return
        self.acknowledged.append((delivery.topic, delivery.value))
        self.acks.note(delivery.topic, delivery.partition)

    def _consume(self) -> None:
        options: dict[str, Any] = {"assignor": "cooperative-sticky", "auto_commit": True, **SESSION}
        with self._client.consumer(*self.topics, group=self._group, **options) as consumer:
            while not self._ended:
                try:
                    for record in consumer.poll(500, 0.2):
                        self.has_arrived(record.topic, record.partition, record.value or b"")
                except OffsetsNotCommitted as error:  # read again, by whoever has the partition
                    self.troubles[type(error).__name__] += 1

    def flushed(self) -> None:
        """Wait until all that was written is acknowledged."""
        self.stopping.set()
        assert self._writer.join(SETTLE_S), "messages are not acknowledged yet"
        if self._writer.error is not None:
            raise self._writer.error

    def close(self) -> None:
        """End all; an error of a worker is raised."""
        self.stopping.set()
        self._ended = True
        for worker in (self._writer, *self._readers):
            assert worker.join(60)
            if worker.error is not None:
                raise worker.error


class Theirs(Traffic):
    """The same by confluent-kafka, on threads of its own."""

    def __init__(self, hosts: str, topics: list[str]) -> None:
        super().__init__("theirs", topics)
        self._hosts, self._ended = hosts, threading.Event()
        self._group = f"{topics[0]}-theirs"
        self._threads = [threading.Thread(target=self._consume) for _ in range(MEMBERS)]
        self._threads.append(threading.Thread(target=self._produce))
        for thread in self._threads:
            thread.start()

    def _produce(self) -> None:
        config: Any = {
            "bootstrap.servers": self._hosts,
            "enable.idempotence": True,
            "partitioner": "murmur2_random",
            "linger.ms": 0,
            "log_level": 2,
        }
        producer = Producer(config)
        for count, (topic, key, value) in enumerate(self.messages(), 1):
            producer.produce(topic, value, key=key, on_delivery=self._told)
            if count % (KEYS * TOPICS) == 0:
                end = time.monotonic() + PACE_S
                while (left := end - time.monotonic()) > 0:
                    producer.poll(left)
        producer.flush(SETTLE_S)

    def _told(self, error: KafkaError | None, message: Any) -> None:
        if error is not None:
            self.failed[error.name()] += 1
            return
        self.acknowledged.append((message.topic(), message.value()))
        self.acks.note(message.topic(), message.partition())

    def _consume(self) -> None:
        config: Any = {
            "bootstrap.servers": self._hosts,
            "group.id": self._group,
            "partition.assignment.strategy": "cooperative-sticky",
            "auto.offset.reset": "earliest",
            "log_level": 2,
            "session.timeout.ms": SESSION["session_timeout_ms"],
            "heartbeat.interval.ms": SESSION["heartbeat_interval_ms"],
        }
        consumer = Consumer(config)
        consumer.subscribe(self.topics)
        while not self._ended.is_set():
            try:
                found = consumer.consume(500, 0.2)
            except KafkaException as error:
                self.troubles[str(error)] += 1
                continue
            for message in found:
                problem = message.error()
                if problem is None:
                    self.has_arrived(message.topic() or "", message.partition() or 0, message.value() or b"")
                else:
                    self.troubles[problem.name()] += 1
        consumer.close()

    def close(self) -> None:
        """End all."""
        self.stopping.set()
        self._ended.set()
        for thread in self._threads:
            thread.join(60)


class Killer(threading.Thread):
    """Kills a broker at random every four to eight seconds, and starts it again.

    :param kills: how many
    """

    def __init__(self, cluster: KafkaCluster, kills: int) -> None:
        super().__init__()
        self._cluster, self._kills = cluster, kills
        self._chance = random.Random()
        self.killed: Counter[int] = Counter()
        self.error: BaseException | None = None

    def run(self) -> None:
        """Kill, and let the cluster be whole at the end."""
        try:
            for _ in range(self._kills):
                following = time.monotonic() + self._chance.uniform(4, 8)
                victim = self._chance.choice(self._cluster.broker_ids)
                self._cluster.kill(victim)
                self.killed[victim] += 1
                time.sleep(self._chance.uniform(0, 3))
                self._cluster.start(victim)
                time.sleep(max(0.0, following - time.monotonic()))
        except BaseException as error:
            self.error = error
            raise


def log_of(client: KafkaClient, topics: list[str], least: int) -> dict[tuple[str, int], list[tuple[bytes, bytes]]]:
    """Return key and value of all messages of each partition, in the order of the log."""
    found: dict[tuple[str, int], list[tuple[bytes, bytes]]] = defaultdict(list)
    ends: dict[TopicPartition, int] = {}
    with client.consumer(*topics) as consumer:
        keys = [TopicPartition(name, id_) for name in topics for id_ in range(PARTITIONS)]
        ends = {key: consumer.position(key) + lag for key, lag in consumer.lag(*keys).items()}
        assert sum(ends.values()) >= least, "the log is shorter than what was acknowledged"
        while any(consumer.position(key) < end for key, end in ends.items()):
            for record in consumer.poll(5000, 5):
                found[record.topic, record.partition].append((record.key or b"", record.value or b""))
    return found


def check_log(
    client: KafkaClient, traffic: Traffic, log: dict[tuple[str, int], list[tuple[bytes, bytes]]]
) -> tuple[int, int, int]:
    """Return how many acknowledged messages the log lacks, how many it has twice, and how many are before a former one."""
    mine = traffic.name.encode()
    counts = Counter(
        (topic, value) for (topic, _), found in log.items() for _, value in found if value.startswith(mine)
    )
    lost = sum(1 for one in traffic.acknowledged if one not in counts)
    last: dict[tuple[str, bytes], int] = {}
    disordered = 0
    for (topic, _), found in log.items():
        for key, value in found:
            if value.startswith(mine):
                number = int(value.rpartition(b"-")[2])
                disordered += number < last.get((topic, key), -1)
                last[topic, key] = number
    return lost, counts.total() - len(counts), disordered


@pytest.mark.later("greenlets")
@pytest.mark.parametrize(
    "kills", [5, *(pytest.param(50, id=turn, marks=pytest.mark.matrix) for turn in ("first", "second"))]
)
def test_no_acknowledged_message_is_lost(
    kafka3: KafkaCluster, concurrency: Concurrency, kills: int, record_property: Any
) -> None:
    """By idempotent producers to several topics, and to cooperative members; beside confluent-kafka, for the pauses."""
    with KafkaClient(kafka3.hosts, **concurrency()) as client:
        topics = [create_topic(client, PARTITIONS, 3, {"min.insync.replicas": "2"}).name for _ in range(TOPICS)]
        handler = client.cluster.handler
        killer = Killer(kafka3, kills)
        ours, theirs = Ours(client, topics), Theirs(kafka3.hosts, topics)
        try:
            handler.sleep(3)
            killer.start()
            while killer.is_alive():
                handler.sleep(0.2)
            assert killer.error is None, killer.error
            theirs.stopping.set()
            ours.flushed()
            end = time.monotonic() + SETTLE_S
            while ours.missing and time.monotonic() < end:
                handler.sleep(0.5)
            handler.sleep(8)  # theirs too, as far as they come in that time
        finally:
            theirs.close()
            ours.close()
        log = log_of(client, topics, len(ours.acknowledged))
        # lost, doubled, disordered, unread
        results = {one.name: (*check_log(client, one, log), len(one.missing)) for one in (ours, theirs)}
        text = f"{killer.killed.total()} kills; {ours.report()}; {theirs.report()}; {results}"
        record_property("kills", text)
        print(text)
        assert results["ours"] == (0, 0, 0, 0), text
        assert not ours.failed, text
        assert ours.acknowledged
