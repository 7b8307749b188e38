"""Transactions of which brokers refuse a batch for good: they can be aborted, and the producer goes on, on every release."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest

from pykafka import KafkaClient
from pykafka.admin import NewTopic
from pykafka.common import OffsetType
from pykafka.exceptions import KafkaException, TransactionAbortableError, TransactionFatalError
from pykafka.kafkaproducer import KafkaProducer
from pykafka.testing import FakeCluster

NAME = "billing"
#: Those before Kafka 2.5 give a producer no new epoch; since 4.0 each transaction has its own.
Release = pytest.mark.parametrize("cluster", ["0.11", "1.1", "2.8", "3.9", "4.3"], indirect=True)
#: The length of a message that topics do not take.
TOO_LARGE = 2_000_000


@pytest.fixture
def cluster(request: pytest.FixtureRequest) -> Iterator[FakeCluster]:
    with FakeCluster(brokers=1, topics={"copies": 2}, as_version=request.param) as cluster:
        yield cluster


@pytest.fixture
def client(cluster: FakeCluster) -> Iterator[KafkaClient]:
    with KafkaClient(cluster.hosts) as client:
        yield client


@pytest.fixture
def producer(client: KafkaClient) -> Iterator[KafkaProducer[Any, Any]]:
    options: dict[str, Any] = {
        "max_request_size": 5_000_000,
        "delivery_timeout_ms": 3_000,
        "linger_ms": 0,
        "batch_size": 100,
    }
    with client.producer(transactional_id=NAME, **options) as producer:
        yield producer


def committed(client: KafkaClient) -> list[bytes]:
    """Return what is committed to partition 0."""
    options: dict[str, Any] = {"isolation_level": "read_committed", "auto_offset_reset": OffsetType.EARLIEST}
    with client.consumer("copies", **options) as reader:
        return [record.value or b"" for record in reader.poll(100, timeout=1) if record.partition == 0]


@Release
@pytest.mark.parametrize("place", [0, 2, 7], ids=["first", "third", "last"])
def test_a_message_that_is_too_large_costs_its_transaction_alone(
    client: KafkaClient, producer: KafkaProducer[Any, Any], place: int
) -> None:
    """Those behind it are refused for their numbers, which the next transaction has anew."""
    expected = []
    for turn in range(3):
        producer.begin_transaction()
        with suppress(KafkaException):  # it may be refused before the others are written
            for number in range(8):
                value = b"x" * TOO_LARGE if number == place else b"lost" * 20
                producer.produce("copies", value, partition=0)  # a batch each
                if number == 0 and turn == 1:  # so that several are on their way
                    producer.flush()
                producer.produce("copies", b"lost", partition=1)
        with pytest.raises(TransactionAbortableError, match=r"abort_transaction\(\).*MESSAGE_TOO_LARGE|max\.message"):
            producer.commit_transaction()
        producer.abort_transaction()
        with producer.transaction():
            for number in range(3):
                expected.append(b"%d-%d" % (turn, number))
                producer.produce("copies", expected[-1], partition=0)
                producer.produce("copies", b"kept", partition=1)
    assert committed(client) == expected


@pytest.mark.parametrize("cluster", ["0.11", "1.1"], indirect=True)
def test_numbers_of_batches_that_may_be_written_are_not_used_again(
    cluster: FakeCluster, client: KafkaClient, producer: KafkaProducer[Any, Any]
) -> None:
    """A broker takes another batch under the numbers of one that it has for the same one, and would not write it."""
    with producer.transaction():
        producer.produce("copies", b"first", partition=0)
    producer.begin_transaction()
    cut = cluster.cut("Produce", "after", times=1000)
    producer.produce("copies", b"aborted", partition=0)
    with pytest.raises(TransactionAbortableError):
        producer.commit_transaction()
    cut.end()
    with pytest.raises(TransactionFatalError, match="needs another epoch, which brokers give from Kafka 2.5 on"):
        producer.abort_transaction()
    producer.close()
    with client.producer(transactional_id=NAME) as following, following.transaction():
        following.produce("copies", b"second", partition=0)
    assert committed(client) == [b"first", b"second"]


@pytest.mark.parametrize("cluster", ["0.11", "1.1"], indirect=True)
@pytest.mark.parametrize("before", [1, 3])
def test_a_log_that_has_forgotten_the_producer_ends_it(
    client: KafkaClient, producer: KafkaProducer[Any, Any], before: int
) -> None:
    """It refuses the next number, and would refuse it in each further transaction."""
    for _ in range(before):
        with producer.transaction():
            producer.produce("copies", b"first", partition=0)
    client.admin.delete_topics(["copies"])
    client.admin.create_topics(NewTopic("copies", 2, 1))
    producer.begin_transaction()
    producer.produce("copies", b"refused", partition=0)
    with pytest.raises(TransactionAbortableError, match="gap"):
        producer.commit_transaction()
    with pytest.raises(TransactionFatalError, match="close it, and make another"):
        producer.abort_transaction()
    producer.close()
    with client.producer(transactional_id=NAME) as following, following.transaction():
        following.produce("copies", b"second", partition=0)
    assert committed(client) == [b"second"]
