"""Transactional producers, the package's own and confluent-kafka's, against a fake cluster."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from pykafka import KafkaClient
from pykafka.admin import TransactionState
from pykafka.common import OffsetType
from pykafka.exceptions import (
    ConcurrentTransactions,
    ResponseTimeoutError,
    TransactionAbortableError,
    TransactionFatalError,
)
from pykafka.testing import FakeCluster

TOPIC = "orders"
PARTITIONS = 3
WAIT_S = 20.0


@pytest.fixture(params=[1, 2])
def cluster(request: pytest.FixtureRequest) -> Iterator[FakeCluster]:
    """A cluster with version 1 of transactions, as before Kafka 4.0, and one with version 2."""
    with FakeCluster(brokers=3, topics={TOPIC: PARTITIONS}) as cluster:
        with cluster._locked() as state:
            state.features.set("transaction.version", request.param)
        yield cluster


@pytest.fixture
def client(cluster: FakeCluster) -> Iterator[KafkaClient]:
    client = KafkaClient(hosts=cluster.hosts)
    yield client
    client.close()


def values(cluster: FakeCluster, isolation: str = "read_committed") -> list[bytes]:
    """Return the values that a consumer reads until the end of each partition, sorted."""
    consumer = Consumer(
        {
            "bootstrap.servers": cluster.hosts,
            "group.id": "readers",
            "isolation.level": isolation,
            "enable.partition.eof": True,
            "enable.auto.commit": False,
        }
    )
    consumer.assign([TopicPartition(TOPIC, index, 0) for index in range(PARTITIONS)])
    found: list[bytes] = []
    ended: set[int | None] = set()
    try:
        while len(ended) < PARTITIONS:
            message = consumer.poll(WAIT_S)
            assert message is not None
            error = message.error()
            if error is None:
                found.append(message.value() or b"")
            else:
                assert error.code() == KafkaError._PARTITION_EOF
                ended.add(message.partition())
    finally:
        consumer.close()
    return sorted(found)


def state_of(cluster: FakeCluster, name: str) -> TransactionState:
    with cluster._locked() as state:
        return state.transactions.by_id[name].state


def test_what_is_committed_is_read_and_what_is_aborted_is_not(cluster: FakeCluster, client: KafkaClient) -> None:
    with client.producer(transactional_id="billing") as producer:
        for number in range(6):
            producer.begin_transaction()
            for index in range(PARTITIONS):
                producer.produce(TOPIC, f"{number}-{index}".encode(), partition=index)
            producer.flush()
            (producer.abort_transaction if number % 2 else producer.commit_transaction)()
    assert values(cluster) == sorted(
        f"{number}-{index}".encode() for number in (0, 2, 4) for index in range(PARTITIONS)
    )
    assert len(values(cluster, "read_uncommitted")) == 6 * PARTITIONS


def test_the_next_producer_fences_the_one_before(cluster: FakeCluster, client: KafkaClient) -> None:
    with client.producer(transactional_id="billing") as first:
        first.begin_transaction()
        first.produce(TOPIC, b"first", partition=0)
        first.flush()
        with client.producer(transactional_id="billing") as second, second.transaction():
            second.produce(TOPIC, b"second", partition=0)
        with pytest.raises((TransactionFatalError, TransactionAbortableError)):
            first.commit_transaction()
    assert values(cluster) == [b"second"]


def test_a_transaction_that_takes_too_long_is_aborted(cluster: FakeCluster, client: KafkaClient) -> None:
    with client.producer(transactional_id="billing", transaction_timeout_ms=10_000) as producer:
        producer.begin_transaction()
        producer.produce(TOPIC, b"late", partition=0)
        producer.flush()
        with cluster._locked() as state:
            state.waiters.advance(10_000)
            state.waiters._run_due()
        assert state_of(cluster, "billing") == TransactionState.COMPLETE_ABORT
        with pytest.raises((TransactionFatalError, TransactionAbortableError)):
            producer.commit_transaction()
    assert values(cluster) == []


@pytest.mark.parametrize("release", ["0.8.2", "0.9", "0.10"])
def test_brokers_before_transactions_are_named(release: str) -> None:
    with FakeCluster(brokers=2, as_version=release) as cluster, KafkaClient(hosts=cluster.hosts) as client:
        with client.producer(transactional_id="t", max_block_ms=2_000) as producer:
            with pytest.raises(TransactionFatalError, match="transactions need brokers of Kafka 0.11 or later"):
                producer.begin_transaction()


def test_held_markers_hold_the_next_transaction_up(cluster: FakeCluster, client: KafkaClient) -> None:
    with client.producer(transactional_id="billing") as producer:
        producer.begin_transaction()
        producer.produce(TOPIC, b"one", partition=0)
        cluster.hold_markers()
        producer.commit_transaction()
        assert state_of(cluster, "billing") == TransactionState.PREPARE_COMMIT
        assert values(cluster) == []
        with cluster._locked() as state:
            # A producer of version 1 or 2 gets CONCURRENT_TRANSACTIONS until then.
            state.waiters.after(100, state.transactions.release_markers)
        producer.begin_transaction()
        producer.produce(TOPIC, b"two", partition=0)
        producer.commit_transaction()
    assert values(cluster) == [b"one", b"two"]


def test_a_message_that_waits_for_held_markers_fails_with_that_reason(
    cluster: FakeCluster, client: KafkaClient
) -> None:
    with client.producer(transactional_id="billing", delivery_timeout_ms=500) as producer:
        producer.begin_transaction()
        producer.produce(TOPIC, b"one", partition=0)
        cluster.hold_markers()
        producer.commit_transaction()
        producer.begin_transaction()
        with pytest.raises((ResponseTimeoutError, ConcurrentTransactions), match="transaction") as raised:
            producer.produce(TOPIC, b"two", partition=0).get(WAIT_S)
        assert "the broker may be overloaded" not in str(raised.value)
        cluster.release_markers()
        producer.abort_transaction()
    assert values(cluster) == [b"one"]


def test_released_markers_are_read_at_once(cluster: FakeCluster, client: KafkaClient) -> None:
    with client.producer(transactional_id="billing") as producer:
        cluster.hold_markers()
        with producer.transaction():
            producer.produce(TOPIC, b"one", partition=0)
        assert values(cluster) == []
        cluster.release_markers()
        assert state_of(cluster, "billing") == TransactionState.COMPLETE_COMMIT
        assert values(cluster) == [b"one"]


def test_offsets_are_committed_with_the_transaction(cluster: FakeCluster, client: KafkaClient) -> None:
    with client.producer() as plain:
        for number in range(4):
            plain.produce(TOPIC, b"%d" % number, partition=0)
        plain.flush()
    with (
        client.consumer(TOPIC, group="copiers", auto_commit=False, auto_offset_reset=OffsetType.EARLIEST) as consumer,
        client.producer(transactional_id="copier") as producer,
    ):
        with producer.transaction(consumer):
            for record in consumer.poll(4, timeout=WAIT_S):
                producer.produce(TOPIC, b"copy of " + (record.value or b""), partition=1)
            producer.send_offsets(consumer)
        with cluster._locked() as state:
            offset = state.offsets.get("copiers", TOPIC, 0)
            assert offset is not None
            copied = offset.offset
    assert [value for value in values(cluster) if value.startswith(b"copy")] == [
        b"copy of %d" % number for number in range(copied)
    ]


def test_confluent_producers_commit_abort_and_are_fenced(cluster: FakeCluster) -> None:
    settings = {"bootstrap.servers": cluster.hosts, "transactional.id": "billing"}
    first = Producer(settings)
    first.init_transactions(WAIT_S)
    for number in range(4):
        first.begin_transaction()
        first.produce(TOPIC, b"%d" % number, partition=0)
        (first.abort_transaction if number % 2 else first.commit_transaction)(WAIT_S)
    first.begin_transaction()
    first.produce(TOPIC, b"lost", partition=0)
    first.flush(WAIT_S)
    second = Producer(settings)
    second.init_transactions(WAIT_S)
    with pytest.raises(KafkaException) as caught:
        first.commit_transaction(WAIT_S)
    assert caught.value.args[0].code() in (KafkaError._FENCED, KafkaError.INVALID_PRODUCER_EPOCH)
    assert values(cluster) == [b"0", b"2"]


def test_confluent_sends_offsets_of_a_group(cluster: FakeCluster) -> None:
    producer = Producer({"bootstrap.servers": cluster.hosts, "transactional.id": "billing"})
    producer.init_transactions(WAIT_S)
    consumer = Consumer({"bootstrap.servers": cluster.hosts, "group.id": "copiers", "enable.auto.commit": False})
    try:
        for offset, end in ((3, producer.commit_transaction), (7, producer.abort_transaction)):
            producer.begin_transaction()
            producer.produce(TOPIC, b"%d" % offset, partition=1)
            position = [TopicPartition(TOPIC, 0, offset)]
            producer.send_offsets_to_transaction(position, consumer.consumer_group_metadata(), WAIT_S)
            end(WAIT_S)
        assert [found.offset for found in consumer.committed([TopicPartition(TOPIC, 0)], WAIT_S)] == [3]
    finally:
        consumer.close()
    assert values(cluster) == [b"3"]
