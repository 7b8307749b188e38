"""Transactions of confluent-kafka's producer, read with and without what was never committed."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import confluent_kafka
import pytest

from pykafka import KafkaClient, SimpleConsumer
from pykafka.common import OffsetType
from pykafka.topic import Topic
from tests.brokers import KafkaCluster
from tests.support.topics import create_topic

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.timeout(400),
    pytest.mark.needs("transactions"),
]

#: Ten times what a fetch waits at the broker (ms): what has not come by then does not come.
SOON_MS = 1000


class Transactions:
    """Transactional producers of one topic, by name; each with at most one transaction at a time."""

    def __init__(self, hosts: str, topic: Topic) -> None:
        self._hosts = hosts
        self._topic = topic.name
        self._producers: dict[str, Any] = {}

    def write(self, name: str, *values: bytes, codec: str = "none") -> None:
        producer = self._producers.get(name)
        if producer is None:
            producer = self._producers[name] = confluent_kafka.Producer(
                {
                    "bootstrap.servers": self._hosts,
                    "transactional.id": f"{self._topic}-{name}",
                    "compression.type": codec,
                    "linger.ms": 0,
                }
            )
            producer.init_transactions(30)
            producer.begin_transaction()
        for value in values:
            producer.produce(self._topic, value, partition=0)
        assert producer.flush(30) == 0

    def commit(self, name: str) -> None:
        self._producers[name].commit_transaction(30)
        self._producers[name].begin_transaction()

    def abort(self, name: str) -> None:
        self._producers[name].abort_transaction(30)
        self._producers[name].begin_transaction()

    def forget(self) -> None:
        """Drop the producers, which ends them."""
        self._producers.clear()


@pytest.fixture
def topic(client: KafkaClient) -> Topic:
    return create_topic(client, 1)


@pytest.fixture
def transactions(kafka: KafkaCluster, topic: Topic) -> Iterator[Transactions]:
    transactions = Transactions(kafka.hosts, topic)
    yield transactions
    transactions.forget()


def take(consumer: SimpleConsumer, count: int) -> list[bytes | None]:
    """Consume so many values, however long they take to come, and see that no more come soon."""
    values: list[bytes | None] = []
    deadline = time.monotonic() + 30
    while len(values) < count and time.monotonic() < deadline:
        message = consumer.consume()
        values += [message.value] if message is not None else []
    return values + [message.value for message in consumer]


def read(topic: Topic, level: str, count: int) -> list[bytes | None]:
    with topic.get_simple_consumer(isolation_level=level, consumer_timeout_ms=SOON_MS) as consumer:
        return take(consumer, count)


def plain(topic: Topic, *values: bytes) -> None:
    with topic.get_sync_producer() as producer:
        for value in values:
            producer.produce(value)


@pytest.mark.later("threads")
def test_committed_aborted_and_interleaved_transactions(topic: Topic, transactions: Transactions) -> None:
    transactions.write("a", b"a1", b"a2")
    transactions.write("b", b"b1")
    plain(topic, b"plain 1")
    transactions.write("a", b"a3")
    transactions.commit("b")
    transactions.abort("a")
    transactions.write("a", b"a4")
    transactions.write("b", b"b2")
    transactions.commit("a")
    plain(topic, b"plain 2")
    transactions.abort("b")
    transactions.write("c", b"c1", codec="lz4")
    transactions.abort("c")
    everything = [b"a1", b"a2", b"b1", b"plain 1", b"a3", b"a4", b"b2", b"plain 2", b"c1"]
    assert read(topic, "read_uncommitted", 9) == everything
    assert read(topic, "read_committed", 4) == [b"b1", b"plain 1", b"a4", b"plain 2"]


@pytest.mark.later("threads")
def test_what_is_still_open_is_waited_for(topic: Topic, transactions: Transactions) -> None:
    plain(topic, b"before")
    transactions.write("a", b"a1")
    plain(topic, b"behind")
    consumer = topic.get_simple_consumer(isolation_level="read_committed", consumer_timeout_ms=SOON_MS)
    try:
        assert take(consumer, 1) == [b"before"]
        assert consumer.held_offsets == {0: 0}
        transactions.commit("a")
        assert take(consumer, 2) == [b"a1", b"behind"]
    finally:
        consumer.stop()


def test_positions_pass_over_aborted_transactions(
    client: KafkaClient, topic: Topic, transactions: Transactions
) -> None:
    transactions.write("a", *[b"%d" % number for number in range(500)])
    transactions.abort("a")
    plain(topic, b"behind")
    consumer = topic.get_simple_consumer(
        "readers", isolation_level="read_committed", consumer_timeout_ms=10_000, queued_max_messages=10
    )
    message = consumer.consume()
    assert message is not None
    assert message.value == b"behind"
    consumer.commit_offsets()
    consumer.stop()
    transactions.write("a", b"again")
    transactions.abort("a")
    consumer = topic.get_simple_consumer("readers", isolation_level="read_committed", consumer_timeout_ms=SOON_MS)
    deadline = time.monotonic() + 30
    while consumer._partitions[consumer.partitions[0]].position < 504 and time.monotonic() < deadline:
        assert consumer.consume() is None
    assert consumer._partitions[consumer.partitions[0]].position == 504  # 502 messages, 2 markers
    consumer.stop()


@pytest.mark.later("greenlets")
def test_the_end_is_the_first_open_transaction(topic: Topic, transactions: Transactions) -> None:
    plain(topic, b"before")
    transactions.write("a", b"a1")
    consumers = {
        level: topic.get_simple_consumer(
            isolation_level=level,
            auto_offset_reset=OffsetType.LATEST,
            reset_offset_on_start=True,
            consumer_timeout_ms=SOON_MS,
        )
        for level in ("read_committed", "read_uncommitted")
    }
    transactions.commit("a")
    plain(topic, b"behind")
    wanted = {"read_committed": [b"a1", b"behind"], "read_uncommitted": [b"behind"]}
    found = {level: take(consumer, len(wanted[level])) for level, consumer in consumers.items()}
    for consumer in consumers.values():
        consumer.stop()
    assert found == wanted


def managed(topic: Topic, **options: Any) -> Any:
    return topic.get_balanced_consumer("shared", managed=True, **options)


def by_librdkafka(topic: Topic, **options: Any) -> Any:
    return topic.get_simple_consumer(use_rdkafka=True, **options)


@pytest.mark.parametrize("make", [managed, by_librdkafka])
def test_other_consumers_take_it_too(topic: Topic, transactions: Transactions, make: Callable[..., Any]) -> None:
    transactions.write("a", b"a1")
    transactions.abort("a")
    transactions.write("a", b"a2")
    transactions.commit("a")
    consumer = make(topic, isolation_level="read_committed", consumer_timeout_ms=8000)
    try:
        message = consumer.consume()
        assert message is not None
        assert message.value == b"a2"
    finally:
        consumer.stop()


def test_levels_are_refused_by_name(topic: Topic) -> None:
    with pytest.raises(ValueError, match="isolation_level must be"):
        topic.get_simple_consumer(isolation_level="committed")


@pytest.mark.needs("stable offsets")
@pytest.mark.parametrize("ends", ["commit", "abort"])
@pytest.mark.parametrize("kind", ["simple", "managed", "librdkafka"])
@pytest.mark.later("managed-abort", "librdkafka-abort")
@pytest.mark.later(
    "greenlets-managed-commit", "threads-librdkafka-commit", "greenlets-simple-abort", "threads-simple-commit"
)
def test_offsets_that_a_transaction_is_about_to_commit_are_waited_for(
    client: KafkaClient, kafka: KafkaCluster, topic: Topic, kind: str, ends: str
) -> None:
    """A consumer began at the offset before it, and read again what the transaction had dealt with."""
    with topic.get_producer() as producer:
        for number in range(10):
            producer.produce(b"%d" % number)
    name = f"g-{topic.name}"
    settings = {"bootstrap.servers": kafka.hosts, "group.id": name}
    reader = confluent_kafka.Consumer(settings)
    group = reader.consumer_group_metadata()
    first = topic.get_simple_consumer(name, consumer_timeout_ms=10_000)
    assert [first.consume().offset for _ in range(2)] == [0, 1]  # type: ignore[union-attr]
    first.commit_offsets()
    first.stop()
    writer = confluent_kafka.Producer({"bootstrap.servers": kafka.hosts, "transactional.id": name})
    writer.init_transactions(30)
    writer.begin_transaction()
    writer.send_offsets_to_transaction([confluent_kafka.TopicPartition(topic.name, 0, 7)], group, 30)

    started: list[Any] = []

    def start() -> None:
        options: dict[str, Any] = {"consumer_timeout_ms": 30_000}
        if kind == "managed":
            started.append(topic.get_balanced_consumer(name, managed=True, heartbeat_interval_ms=300, **options))
        else:
            started.append(topic.get_simple_consumer(name, use_rdkafka=kind == "librdkafka", **options))

    handler = client.cluster.handler
    worker = handler.spawn(start)
    handler.sleep(1.5)
    assert not started
    if ends == "commit":
        handler.offload(writer.commit_transaction, 30)
    else:
        handler.offload(writer.abort_transaction, 30)
    assert worker.join(60)
    with started[0] as consumer:
        message = consumer.consume()
        assert message is not None
        assert message.offset == (7 if ends == "commit" else 2)
    reader.close()
