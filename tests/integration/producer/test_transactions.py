"""Transactions on real brokers, read with read_committed: commits, aborts, fences, offsets, interruptions."""

from __future__ import annotations

import asyncio
import uuid

import pytest

from pykafka import KafkaClient, aio
from pykafka.exceptions import (
    ProducerFencedError,
    TransactionAbortableError,
    TransactionAbortedError,
    TransactionStateError,
)
from pykafka.handlers import Handler
from tests.brokers import KafkaCluster
from tests.support.inside import membership_of
from tests.support.topics import create_topic

pytestmark = [pytest.mark.kafka, pytest.mark.needs("stable offsets"), pytest.mark.timeout(200)]


def unique() -> str:
    """Return a name that nobody else has."""
    return f"x-{uuid.uuid4().hex[:12]}"


def committed(client: KafkaClient, topic: str) -> list[bytes]:
    """Return the values of committed messages."""
    with client.consumer(topic, isolation_level="read_committed", consumer_timeout_ms=1000) as consumer:
        return [record.value or b"" for record in consumer]


def test_committed_messages_alone_are_read(client: KafkaClient) -> None:
    topic = create_topic(client, partitions=3).name
    with client.producer(transactional_id=unique()) as producer:
        for number in range(4):
            with producer.transaction():
                for each in range(50):
                    producer.produce(topic, b"%d-%d" % (number, each), key=b"%d" % each)
        with pytest.raises(KeyError, match="mine"), producer.transaction():
            sent = producer.produce(topic, b"sent")
            producer.flush()
            dropped = producer.produce(topic, b"dropped")
            raise KeyError("mine")
        assert sent.error is None
        assert isinstance(dropped.error, TransactionAbortedError)
        with producer.transaction():
            assert producer.produce(topic, b"last").get(20).done
    found = committed(client, topic)
    assert sorted(found) == sorted([b"%d-%d" % (n, each) for n in range(4) for each in range(50)] + [b"last"])


def test_calls_that_do_not_fit_are_refused(client: KafkaClient) -> None:
    topic = create_topic(client).name
    with client.producer() as plain, pytest.raises(TransactionStateError, match="transactional_id"):
        plain.begin_transaction()
    with client.producer(transactional_id=unique()) as producer:
        with pytest.raises(TransactionStateError, match="begin_transaction"):
            producer.produce(topic, b"too early")
        with pytest.raises(TransactionStateError):
            producer.commit_transaction()
        producer.begin_transaction()
        with pytest.raises(TransactionStateError, match="commit_transaction"):
            producer.begin_transaction()
        producer.commit_transaction()
        with pytest.raises(TransactionStateError), producer.transaction():
            producer.commit_transaction()
            producer.produce(topic, b"too late")


def test_a_predecessor_is_fenced_and_its_transaction_ended(client: KafkaClient) -> None:
    topic, name = create_topic(client).name, unique()
    zombie = client.producer(transactional_id=name)
    zombie.begin_transaction()
    zombie.produce(topic, b"zombie").get(20)
    with client.producer(transactional_id=name) as producer:
        producer.init_transactions()
        with pytest.raises(ProducerFencedError, match=name):
            zombie.commit_transaction()
        with pytest.raises(ProducerFencedError):
            zombie.begin_transaction()
        zombie.close()
        with producer.transaction():
            producer.produce(topic, b"successor")
    assert committed(client, topic) == [b"successor"]


def test_a_message_that_fails_makes_the_transaction_abortable(client: KafkaClient) -> None:
    topic = create_topic(client, config={"max.message.bytes": "1000"}).name
    with client.producer(transactional_id=unique()) as producer:
        with pytest.raises(TransactionAbortableError) as caught, producer.transaction():
            producer.produce(topic, b"fits")
            producer.produce(topic, bytes(5000))
        assert caught.value.__cause__ is not None
        with producer.transaction():
            producer.produce(topic, b"after")
    assert committed(client, topic) == [b"after"]


def test_offsets_are_committed_with_the_messages_or_not_at_all(client: KafkaClient) -> None:
    given, made, group = create_topic(client, partitions=2).name, create_topic(client).name, unique()
    with client.producer() as plain:
        plain.produce_many(given, [b"%d" % number for number in range(100)])
    attempts = 0
    with (
        client.producer(transactional_id=unique()) as producer,
        client.consumer(given, group=group) as consumer,
    ):
        while records := consumer.poll(20, timeout=3):
            try:
                with producer.transaction(consumer):
                    for record in records:
                        producer.produce(made, record.value)
                    attempts += 1
                    if attempts in (1, 4):
                        raise KeyError("before the offsets")
                    producer.send_offsets(consumer)
                    if attempts in (2, 5):
                        raise KeyError("after the offsets")
            except KeyError:
                continue
        assert sum(one.offset for one in consumer.committed().values() if one is not None) == 100
    assert sorted(committed(client, made), key=int) == [b"%d" % number for number in range(100)]


def test_a_consumer_that_commits_by_itself_is_refused(client: KafkaClient) -> None:
    topic = create_topic(client).name
    with (
        client.producer(transactional_id=unique()) as producer,
        client.consumer(topic, group=unique(), auto_commit=True) as consumer,
        pytest.raises(ValueError, match="auto_commit"),
        producer.transaction(),
    ):
        producer.send_offsets(consumer)


def test_offsets_of_a_member_that_is_out_are_refused(client: KafkaClient) -> None:
    topic, group = create_topic(client).name, unique()
    with client.producer() as plain:
        plain.produce(topic, b"1")
    with client.producer(transactional_id=unique()) as producer, client.consumer(topic, group=group) as consumer:
        assert consumer.poll(10, timeout=20)
        membership_of(consumer).identity.generation_id += 1  # as after a rebalance unseen
        with pytest.raises(TransactionAbortableError, match="(?i)generation"), producer.transaction(consumer):
            producer.send_offsets(consumer)
        membership_of(consumer).identity.generation_id -= 1
        assert [record.value for record in consumer.poll(10, timeout=20)] == [b"1"]


@pytest.mark.later("gevent")
def test_a_leader_is_killed_within_a_transaction(kafka3: KafkaCluster, handler: Handler) -> None:
    """The transaction commits once the next leader is there."""
    with KafkaClient(kafka3.hosts, handler=handler) as client:
        topic = create_topic(client, partitions=2, replicas=3).name
        leader = client.topics[topic].partitions[0].leader
        assert leader is not None
        with client.producer(transactional_id=unique()) as producer:
            with producer.transaction():
                producer.produce(topic, b"0", partition=0)
            try:
                with producer.transaction():
                    producer.produce(topic, b"1", partition=0).get(30)
                    kafka3.kill(leader.id)
                    producer.produce(topic, b"2", partition=0)
                with pytest.raises(KeyError), producer.transaction():
                    producer.produce(topic, b"3", partition=0)
                    raise KeyError
                with producer.transaction():
                    producer.produce(topic, b"4", partition=0)
            finally:
                kafka3.start(leader.id)
        assert committed(client, topic) == [b"0", b"1", b"2", b"4"]


def test_a_greenlets_timeout_aborts(kafka: KafkaCluster) -> None:
    gevent = pytest.importorskip("gevent")
    with KafkaClient(kafka.hosts, use_greenlets=True) as client:
        topic = create_topic(client).name
        with client.producer(transactional_id=unique()) as producer:
            with pytest.raises(gevent.Timeout), gevent.Timeout(1), producer.transaction():
                producer.produce(topic, b"in time").get(20)
                gevent.sleep(5)
            with producer.transaction():
                producer.produce(topic, b"after")
        assert committed(client, topic) == [b"after"]


def test_a_cancellation_aborts(kafka: KafkaCluster) -> None:
    """On asyncio: a task is cancelled in the block, and the consumer reads the records again."""

    async def main() -> None:
        async with aio.KafkaClient(kafka.hosts) as client:
            given, made, group = unique(), unique(), unique()
            async with client.producer() as plain:
                await (await plain.produce(given, b"1"))
            async with (
                client.producer(transactional_id=group) as producer,
                client.consumer(given, group=group) as consumer,
            ):

                async def work(pause: float) -> None:
                    records = await consumer.poll(10, timeout=20)
                    async with producer.transaction(consumer):
                        for record in records:
                            await producer.produce(made, record.value)
                        await producer.flush()
                        await asyncio.sleep(pause)
                        await producer.send_offsets(consumer)

                task = asyncio.create_task(work(60))
                await asyncio.wait([task], timeout=4)
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task
                await work(0)
                assert [one.offset for one in (await consumer.committed()).values() if one is not None] == [1]
            async with client.consumer(made, isolation_level="read_committed", consumer_timeout_ms=1000) as reader:
                assert [record.value async for record in reader] == [b"1"]

    asyncio.run(main())
