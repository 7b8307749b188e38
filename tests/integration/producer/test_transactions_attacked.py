"""Transactions on real brokers, where something goes wrong at a bad moment: nothing is lost, doubled or left open."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from pykafka import KafkaClient, KafkaProducer
from pykafka.exceptions import (
    ProducerFencedError,
    ResponseTimeoutError,
    TransactionAbortableError,
    TransactionStateError,
    TransactionUnfinishedError,
)
from tests.integration.producer.test_transactions import committed, unique
from tests.support.inside import coordinator_of, engine_of, membership_of, transactions_of
from tests.support.topics import create_topic

pytestmark = [pytest.mark.kafka, pytest.mark.needs("stable offsets"), pytest.mark.timeout(200)]


@contextmanager
def failing(producer: KafkaProducer, step: str, error: BaseException) -> Iterator[Callable[[], None]]:
    """Make requests to the coordinator of the transaction fail within the block, or until its value is called."""
    assert transactions_of(producer) is not None
    coordinator: Any = coordinator_of(transactions_of(producer))

    def fail(*_: object) -> None:
        raise error

    setattr(coordinator, step, fail)
    try:
        yield lambda: vars(coordinator).pop(step)
    finally:
        vars(coordinator).pop(step, None)


def is_open(client: KafkaClient, name: str) -> bool:
    """Return whether the coordinator has an open transaction."""
    found = client.admin.list_transactions()
    return any(one.transactional_id == name and "ongoing" in str(one.state).lower() for one in found)


@pytest.mark.needs("listed transactions")
@pytest.mark.parametrize("step", ["flush", "end"])
def test_close_ends_a_commit_that_was_interrupted(client: KafkaClient, step: str) -> None:
    """Before EndTxn was sent it is an abort; afterwards the commit is completed."""
    topic, name = create_topic(client).name, unique()
    producer = client.producer(transactional_id=name)
    producer.begin_transaction()
    producer.produce(topic, b"1").get(20)
    if step == "flush":
        engine: Any = engine_of(producer)
        engine.wait_all = lambda *_, **__: 1
        with pytest.raises(TransactionUnfinishedError):
            producer.commit_transaction()
        del engine.wait_all
    else:
        with failing(producer, "end", KeyboardInterrupt()), pytest.raises(KeyboardInterrupt):
            producer.commit_transaction()
    producer.close()
    assert not is_open(client, name)
    assert committed(client, topic) == ([] if step == "flush" else [b"1"])


def test_a_purge_is_no_way_to_commit_a_part(client: KafkaClient) -> None:
    topic = create_topic(client).name
    with client.producer(transactional_id=unique(), linger_ms=5000) as producer:
        with pytest.raises(TransactionAbortableError, match=r"purge\(\)"), producer.transaction():
            producer.produce(topic, b"1")
            assert producer.purge() == 1
        with producer.transaction():
            assert producer.purge() == 0
            producer.produce(topic, b"2")
    assert committed(client, topic) == [b"2"]


@pytest.mark.parametrize("how", ["unfinished", "fenced"])
def test_an_abort_that_fails_puts_the_consumer_back_once(client: KafkaClient, how: str) -> None:
    """Records that are read after it are read again only if it is aborted as well."""
    given, made, group = create_topic(client).name, create_topic(client).name, unique()
    with client.producer() as plain:
        plain.produce_many(given, [b"%d" % number for number in range(10)])
    producer = client.producer(transactional_id=group)
    with client.consumer(given, group=group) as consumer:
        records = consumer.poll(4, timeout=20)
        lost = ResponseTimeoutError("no answer")
        with failing(producer, "end", lost), pytest.raises(KeyError) as caught, producer.transaction(consumer):
            producer.produce(made, records[0].value).get(20)
            if how == "fenced":
                client.producer(transactional_id=group).init_transactions()
            raise KeyError
        assert "could not be aborted" in caught.value.__notes__[0]
        if how == "fenced":
            with pytest.raises(ProducerFencedError):
                producer.begin_transaction()
            producer.close()
            producer = client.producer(transactional_id=group)
        while records := consumer.poll(3, timeout=3):
            with producer.transaction(consumer):
                for record in records:
                    producer.produce(made, record.value)
                producer.send_offsets(consumer)
    producer.close()
    assert committed(client, made) == [b"%d" % number for number in range(10)]


def test_the_failed_messages_of_a_fenced_producer_are_not_told_instead(client: KafkaClient) -> None:
    topic, name = create_topic(client).name, unique()
    with pytest.raises(ProducerFencedError), client.producer(transactional_id=name) as zombie:
        zombie.begin_transaction()
        zombie.produce(topic, b"1").get(20)
        with client.producer(transactional_id=name) as producer:
            producer.init_transactions()
        failed = zombie.produce(topic, b"2")
        with pytest.raises(TransactionAbortableError):
            zombie.commit_transaction()
        assert failed.error is not None
        zombie.abort_transaction()


@pytest.mark.parametrize("now", [-1, 7])
def test_a_rebalance_within_a_transaction_aborts_it(client: KafkaClient, now: int) -> None:
    """Also one that the coordinator would not see: the member has joined again, or names no generation."""
    topic, group = create_topic(client).name, unique()
    with client.producer() as plain:
        plain.produce(topic, b"1")
    with client.producer(transactional_id=unique()) as producer, client.consumer(topic, group=group) as consumer:
        assert consumer.poll(10, timeout=20)
        member: Any = membership_of(consumer).identity
        before = member.generation_id
        with pytest.raises(TransactionAbortableError, match="generation"), producer.transaction(consumer):
            member.generation_id = now
            producer.send_offsets(consumer)
        member.generation_id = before
        assert [record.value for record in consumer.poll(10, timeout=20)] == [b"1"]


@pytest.mark.parametrize("error", [ResponseTimeoutError("no answer"), KeyboardInterrupt()])
def test_a_begin_that_fails_puts_the_consumer_back(client: KafkaClient, error: BaseException) -> None:
    """Records that were read for that transaction are in none, and the next commit must not skip them."""
    given, made, group = create_topic(client).name, create_topic(client).name, unique()
    with client.producer() as plain:
        plain.produce_many(given, [b"%d" % number for number in range(10)])
    with client.producer(transactional_id=group) as producer, client.consumer(given, group=group) as consumer:
        assert len(consumer.poll(4, timeout=20)) == 4
        raised = TransactionUnfinishedError if isinstance(error, Exception) else KeyboardInterrupt
        with failing(producer, "init", error), pytest.raises(raised), producer.transaction(consumer):
            pytest.fail("it has begun")
        while records := consumer.poll(3, timeout=3):
            with producer.transaction(consumer):
                for record in records:
                    producer.produce(made, record.value)
                producer.send_offsets(consumer)
    assert committed(client, made) == [b"%d" % number for number in range(10)]


def test_a_begin_that_is_interrupted_leaves_nothing_open(client: KafkaClient) -> None:
    topic = create_topic(client).name
    with client.producer(transactional_id=unique()) as producer:
        engine: Any = engine_of(producer)
        opens, engine.open = engine.open, lambda: (_ for _ in ()).throw(KeyboardInterrupt)
        with pytest.raises(KeyboardInterrupt), producer.transaction():
            pytest.fail("it has begun")
        engine.open = opens
        with producer.transaction():
            with pytest.raises(TransactionStateError, match="a transaction is open"), producer.transaction():
                pytest.fail("it has begun within another")
            producer.produce(topic, b"1")
    assert committed(client, topic) == [b"1"]


def test_consumers_that_cannot_be_put_back_are_refused_at_once(client: KafkaClient) -> None:
    topic = create_topic(client).name
    with client.producer(transactional_id=unique()) as producer:
        with client.consumer(topic, group=unique(), auto_commit=True) as consumer:
            with pytest.raises(ValueError, match="auto_commit"):
                producer.transaction(consumer)
        simple: Any = client.topics[topic].get_simple_consumer(auto_start=False)
        with pytest.raises(TypeError, match=r"client\.consumer.*SimpleConsumer"):
            producer.transaction(simple)
        with pytest.raises(TypeError, match=r"client\.consumer.*SimpleConsumer"), producer.transaction():
            producer.send_offsets(simple)
        simple.stop()
