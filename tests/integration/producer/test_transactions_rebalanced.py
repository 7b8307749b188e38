"""Transactions whose consumer loses partitions: nothing is doubled, whenever the producer hears of the consumer."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from pykafka import KafkaClient, KafkaConsumer, KafkaProducer, ProducerRecord, Record, TopicPartition, aio, exactly_once
from pykafka.exceptions import RebalanceInProgress, TransactionAbortableError
from tests.brokers import KafkaCluster
from tests.integration.producer.test_transactions import committed, unique
from tests.support.inside import engine_of
from tests.support.topics import create_topic

pytestmark = [pytest.mark.kafka, pytest.mark.needs("stable offsets"), pytest.mark.timeout(200)]
PARTITIONS = 4
COUNT = 40
#: Members that hear of a rebalance soon.
QUICK: Any = {"heartbeat_interval_ms": 200}
#: The ways of a group to share out.
WAYS: list[Any] = [
    pytest.param(QUICK, id="range"),
    pytest.param({**QUICK, "assignor": "cooperative-sticky"}, id="cooperative"),
    pytest.param({"protocol": "consumer"}, id="kip848", marks=pytest.mark.needs("assigning")),
]


def topics(client: KafkaClient) -> tuple[str, str, str]:
    """Return the names of a topic with numbers, of one to write to, and of a group."""
    given, made = create_topic(client, partitions=PARTITIONS).name, create_topic(client).name
    with client.producer() as producer:
        for number in range(COUNT):
            producer.produce(given, b"%d" % number, partition=number % PARTITIONS)
    return given, made, unique()


def read_all(consumer: KafkaConsumer) -> list[Record]:
    """Return all records of the topic."""
    found: list[Record] = []
    while len(found) < COUNT:
        found += consumer.poll(COUNT, timeout=20)
    return found


def share_with(consumer: KafkaConsumer, other: KafkaConsumer) -> list[Record]:
    """Join another member, which takes half of the partitions; return what it reads."""
    found: list[Record] = []
    ended = threading.Event()

    def join() -> None:
        while not ended.is_set():
            found.extend(other.poll(COUNT, timeout=0.1))

    worker: Any = other._handler.spawn(join, name="other member")
    try:
        for _ in range(600):
            consumer.poll(1, timeout=0.05)
            if len(consumer.assignment()) == len(other.assignment()) == PARTITIONS // 2:
                break
        assert len(consumer.assignment()) == PARTITIONS // 2
    finally:
        ended.set()
        worker.join(20)
    return found


def copy(producer: KafkaProducer, consumer: KafkaConsumer, given: str, made: str) -> None:
    """Copy what is left of the topic, in transactions."""
    keys = [TopicPartition(given, number) for number in range(PARTITIONS)]
    while sum(one.offset for one in consumer.committed(*keys).values() if one is not None) < COUNT:
        records = consumer.poll(COUNT, timeout=0.5)
        if records:
            with producer.transaction(consumer):
                for record in records:
                    producer.produce(made, record.value)
                producer.send_offsets(consumer)


def once(client: KafkaClient, made: str) -> None:
    """Check that each number is committed once."""
    assert Counter(committed(client, made)) == Counter(b"%d" % number for number in range(COUNT))


@pytest.mark.later("greenlets-range", "greenlets-cooperative", "threads-kip848")
@pytest.mark.parametrize("options", WAYS)
def test_the_first_transaction_notices_a_rebalance(client: KafkaClient, options: dict[str, Any]) -> None:
    given, made, group = topics(client)
    with (
        client.producer(transactional_id=group) as producer,
        client.consumer(given, group=group, **options) as consumer,
    ):
        producer.begin_transaction()
        for record in read_all(consumer):
            producer.produce(made, record.value)
        with client.consumer(given, group=group, **options) as other:
            share_with(consumer, other)
            with pytest.raises(TransactionAbortableError, match="read") as caught:
                producer.send_offsets(consumer)
            assert isinstance(caught.value.__cause__, RebalanceInProgress)
            with pytest.raises(TransactionAbortableError):
                producer.commit_transaction()
            producer.abort_transaction()
        copy(producer, consumer, given, made)
    once(client, made)


@pytest.mark.matrix
def test_also_where_the_records_were_read_before_it_began(client: KafkaClient) -> None:
    given, made, group = topics(client)
    with client.producer(transactional_id=group) as producer, client.consumer(given, group=group, **QUICK) as consumer:
        producer.init_transactions()
        records = read_all(consumer)
        with client.consumer(given, group=group, **QUICK) as other:
            share_with(consumer, other)
        with pytest.raises(TransactionAbortableError), producer.transaction(consumer):
            for record in records:
                producer.produce(made, record.value)
            producer.send_offsets(consumer)
        copy(producer, consumer, given, made)
    once(client, made)


@pytest.mark.later("greenlets")
def test_also_where_all_partitions_have_come_back(client: KafkaClient) -> None:
    """Lost and regained between the call that reads and `send_offsets`; by offsets that the application names, too."""
    given, made, group = topics(client)
    with client.producer(transactional_id=group) as producer, client.consumer(given, group=group, **QUICK) as consumer:
        producer.begin_transaction()
        for record in read_all(consumer):
            producer.produce(made, record.value)
        with client.consumer(given, group=group, **QUICK) as other:
            share_with(consumer, other)
        while len(consumer.assignment()) < PARTITIONS:
            consumer.poll(1, timeout=0.1)
        ends = {TopicPartition(given, number): COUNT // PARTITIONS for number in range(PARTITIONS)}
        with pytest.raises(TransactionAbortableError, match="read"):
            producer.send_offsets(consumer, ends)
        producer.abort_transaction()
        copy(producer, consumer, given, made)
    once(client, made)


@pytest.mark.matrix
def test_offsets_of_a_partition_of_another_member_are_refused(client: KafkaClient) -> None:
    given, made, group = topics(client)
    with client.producer(transactional_id=group) as producer, client.consumer(given, group=group, **QUICK) as consumer:
        copy(producer, consumer, given, made)
        with client.consumer(given, group=group, **QUICK) as other:
            share_with(consumer, other)
            (theirs, *_) = other.assignment()
            with pytest.raises(TransactionAbortableError, match="has not given"), producer.transaction():
                producer.send_offsets(consumer, {theirs: 1})
        ends = consumer.committed(theirs)[theirs]
        assert ends is not None
        assert ends.offset == COUNT // PARTITIONS
    once(client, made)


@pytest.mark.matrix
def test_a_rebalance_that_takes_nothing_uncommitted_aborts_nothing(client: KafkaClient) -> None:
    """The last transaction has committed all that goes, and the rest is read on."""
    given, made, group = topics(client)
    with client.producer(transactional_id=group) as producer, client.consumer(given, group=group, **QUICK) as consumer:
        copy(producer, consumer, given, made)
        with client.consumer(given, group=group, **QUICK) as other:
            assert not share_with(consumer, other)
            with producer.transaction(consumer):
                producer.send_offsets(consumer)
    once(client, made)


@pytest.mark.matrix
def test_several_consumers_one_of_which_loses_partitions(client: KafkaClient) -> None:
    given, made, group = topics(client)
    more = create_topic(client).name
    with client.producer() as plain:
        plain.produce(more, b"0")
    with (
        client.producer(transactional_id=group) as producer,
        client.consumer(given, group=group, **QUICK) as consumer,
        client.consumer(more, group=unique()) as second,
    ):
        producer.begin_transaction()
        for record in read_all(consumer):
            producer.produce(made, record.value)
        assert second.poll(1, timeout=20)
        with client.consumer(given, group=group, **QUICK) as other:
            share_with(consumer, other)
            producer.send_offsets(second)
            with pytest.raises(TransactionAbortableError):
                producer.send_offsets(consumer)
            producer.abort_transaction()
        assert second.poll(1, timeout=20)  # it was put back as well
        copy(producer, consumer, given, made)
    once(client, made)


@pytest.mark.later("greenlets")
def test_a_share_that_is_being_given_away_is_not_left_out(client: KafkaClient) -> None:
    """A call that reads has ended in the middle of a rebalance: the partitions are put by, and had no offsets."""
    given, made, group = topics(client)
    with client.producer(transactional_id=group) as producer, client.consumer(given, group=group, **QUICK) as consumer:
        producer.begin_transaction()
        for record in read_all(consumer):
            producer.produce(made, record.value)
        engine_of(consumer).suspend_assignment(list(engine_of(consumer).partitions))
        with pytest.raises(TransactionAbortableError):
            producer.send_offsets(consumer)
        producer.abort_transaction()
        engine_of(consumer).resume_assignment([TopicPartition(given, number) for number in range(PARTITIONS)])
        copy(producer, consumer, given, made)
    once(client, made)


@pytest.mark.later("greenlets")
def test_partitions_that_the_application_gives_up(client: KafkaClient) -> None:
    """Without a membership, too: `assign()` to others before the offsets are sent."""
    given, made, group = topics(client)
    with client.producer(transactional_id=group) as producer, client.consumer(group=group) as consumer:
        consumer.assign([TopicPartition(given, number) for number in range(PARTITIONS)])
        with pytest.raises(TransactionAbortableError), producer.transaction(consumer):
            for record in read_all(consumer):
                producer.produce(made, record.value)
            consumer.assign([TopicPartition(given, 0)])
            producer.send_offsets(consumer)
        consumer.assign([TopicPartition(given, number) for number in range(PARTITIONS)])
        copy(producer, consumer, given, made)
    once(client, made)


@pytest.mark.later("greenlets")
def test_a_listener_may_commit_what_goes(client: KafkaClient) -> None:
    """`on_revoked` sends the offsets and commits, while the partitions are still this member's."""
    given, made, group = topics(client)
    with client.producer(transactional_id=group) as producer:

        class Listener:
            consumer: KafkaConsumer
            is_open = False

            def on_revoked(self, _: Any) -> None:
                if self.is_open:
                    self.is_open = False
                    producer.send_offsets(self.consumer)
                    producer.commit_transaction()

        listener = Listener()
        with client.consumer(given, group=group, listener=listener, **QUICK) as consumer:
            listener.consumer = consumer
            producer.begin_transaction()
            listener.is_open = True
            for record in read_all(consumer):
                producer.produce(made, record.value)
            with client.consumer(given, group=group, **QUICK) as other:
                assert not share_with(consumer, other)
            with producer.transaction(consumer):
                producer.send_offsets(consumer)
    once(client, made)


@pytest.mark.later("range", "threads-cooperative", "kip848")
@pytest.mark.parametrize("options", WAYS)
def test_exactly_once_shares_its_partitions(client: KafkaClient, options: dict[str, Any]) -> None:
    """A second copier joins in the middle; each output is there once."""
    given, made, group = topics(client)
    reading: dict[str, Any] = {"isolation_level": "read_committed", "consumer_timeout_ms": 4000, **options}
    counts: list[int] = []

    def run(name: str, fn: Callable[[Record], ProducerRecord]) -> None:
        with (
            client.producer(transactional_id=f"{group}-{name}") as producer,
            client.consumer(given, group=group, **reading) as consumer,
        ):
            counts.append(exactly_once(consumer, producer, fn, max_records=3))

    handler = client.cluster.handler
    workers: list[Any] = []

    def each(record: Record) -> ProducerRecord:
        if record.value == b"10":
            workers.append(handler.spawn(run, "second", plain, name="second"))
        handler.sleep(0.1)
        return plain(record)

    def plain(record: Record) -> ProducerRecord:
        return ProducerRecord(record.value, topic=made)

    run("first", each)
    for worker in workers:
        worker.join(60)
    assert len(workers) == 1
    assert sum(counts) == COUNT
    once(client, made)


def test_on_an_event_loop(kafka: KafkaCluster) -> None:
    async def main() -> None:
        with KafkaClient(kafka.hosts) as blocking:
            given, made, group = topics(blocking)
        async with aio.KafkaClient(kafka.hosts) as client:
            async with (
                client.producer(transactional_id=group) as producer,
                client.consumer(given, group=group, **QUICK) as consumer,
                client.consumer(given, group=group, **QUICK) as other,
            ):
                await producer.begin_transaction()
                count = 0
                while count < COUNT:
                    for record in await consumer.poll(COUNT, timeout=20):
                        await producer.produce(made, record.value)
                        count += 1
                while len(await consumer.assignment()) != PARTITIONS // 2:
                    await asyncio.gather(other.poll(1, timeout=0.1), consumer.poll(1, timeout=0.1))
                with pytest.raises(TransactionAbortableError, match="read"):
                    await producer.send_offsets(consumer)
                await producer.abort_transaction()
            async with client.consumer(made, isolation_level="read_committed", consumer_timeout_ms=500) as reader:
                assert [record async for record in reader] == []

    asyncio.run(main())
