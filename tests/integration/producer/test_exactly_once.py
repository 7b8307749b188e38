"""`exactly_once`: what it handles again, what ends it, and what it refuses; on threads, greenlets and asyncio."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

import pytest

from pykafka import KafkaClient, ProducerRecord, Record, aio, exactly_once
from pykafka.exceptions import (
    MessageSizeTooLarge,
    ProducerFencedError,
    ResponseTimeoutError,
    TransactionAbortableError,
    TransactionStateError,
)
from tests.brokers import KafkaCluster
from tests.integration.producer.test_transactions import committed, unique
from tests.integration.producer.test_transactions_attacked import failing
from tests.support.inside import coordinator_of, membership_of, transactions_of
from tests.support.topics import create_topic

pytestmark = [pytest.mark.kafka, pytest.mark.needs("stable offsets"), pytest.mark.timeout(200)]
NUMBERS = [b"%d" % number for number in range(20)]
OPTIONS: Any = {"isolation_level": "read_committed", "consumer_timeout_ms": 3000}


def topics(client: KafkaClient) -> tuple[str, str, str]:
    """Return the names of a topic with numbers, of one to write to, and of a group."""
    given, made = create_topic(client).name, create_topic(client).name
    with client.producer() as producer:
        producer.produce_many(given, NUMBERS)
    return given, made, unique()


def same(value: Any, _: Record) -> Any:
    """Return a value, whatever the record is."""
    return value


def test_what_fails_is_handled_again(client: KafkaClient) -> None:
    """A commit without an answer, a begin without a coordinator, a rebalance."""
    given, made, group = topics(client)
    calls = 0
    with (
        client.producer(transactional_id=group, max_block_ms=3000) as producer,
        client.consumer(given, group=group, **OPTIONS) as consumer,
    ):
        coordinator: Any = coordinator_of(transactions_of(producer))
        begin: Any = transactions_of(producer)
        member: Any = None

        def no_answer(*_: object) -> None:
            del coordinator.end
            raise ResponseTimeoutError("no answer")

        def no_coordinator(**_: object) -> None:
            del begin.begin
            raise ResponseTimeoutError("no coordinator")

        def each(record: Record) -> list[ProducerRecord] | ProducerRecord | None:
            nonlocal calls, member
            calls += 1
            if calls == 2:
                coordinator.end = no_answer
            elif calls == 7:
                begin.begin = no_coordinator
            elif calls == 15:  # the last one of a transaction
                member = membership_of(consumer).identity
                member.generation_id += 1
            elif member is not None:
                member.generation_id -= 1
                member = None
            number = int(record.value or b"")
            if number % 3 == 0:
                return None
            one = ProducerRecord(record.value, key=b"k", headers={"h": b"1"}, topic=made)
            return one if number % 3 == 1 else [one, one]

        assert exactly_once(consumer, producer, each, max_records=5) == 20
    assert calls > 20
    assert committed(client, made) == [one for one in NUMBERS for _ in range(int(one) % 3)]


def test_what_no_attempt_mends_ends_it(client: KafkaClient) -> None:
    """Nothing of the transaction that failed is committed, and all before it is."""
    given, made, group = topics(client)
    with (
        client.producer(transactional_id=group, max_request_size=2_000_000) as producer,
        client.consumer(given, group=group, **OPTIONS) as consumer,
    ):

        def large(record: Record) -> ProducerRecord:
            value = bytes(1_500_000) if record.value == b"7" else record.value
            return ProducerRecord(value, topic=made)

        with pytest.raises(TransactionAbortableError) as caught:
            exactly_once(consumer, producer, large, max_records=5)
        assert isinstance(caught.value.__cause__, MessageSizeTooLarge)

        def mine(record: Record) -> ProducerRecord:
            if record.value == b"12":
                raise ResponseTimeoutError("of another client")
            return ProducerRecord(record.value, topic=made)

        with pytest.raises(ResponseTimeoutError, match="of another client"):
            exactly_once(consumer, producer, mine, max_records=5)
        bad: Any
        for bad in (3, [b"1"], ProducerRecord(b"1")):
            with pytest.raises((TypeError, ValueError), match="ProducerRecord"):
                exactly_once(consumer, producer, partial(same, bad))
        assert exactly_once(consumer, producer, lambda one: ProducerRecord(one.value, topic=made)) == 10
    assert committed(client, made) == NUMBERS


def test_a_zombie_ends(client: KafkaClient) -> None:
    given, made, group = topics(client)
    with client.consumer(given, group=group, **OPTIONS) as consumer:
        zombie = client.producer(transactional_id=group)
        successor = client.producer(transactional_id=group)

        def each(record: Record) -> ProducerRecord:
            if record.value == b"7":
                successor.init_transactions()
            return ProducerRecord(record.value, topic=made)

        with pytest.raises(ProducerFencedError):
            exactly_once(consumer, zombie, each, max_records=5)
        zombie.close()
        assert exactly_once(consumer, successor, lambda one: ProducerRecord(one.value, topic=made)) == 15
        successor.close()
    assert committed(client, made) == NUMBERS


def test_it_ends_when_the_consumer_is_closed(client: KafkaClient) -> None:
    given, made, group = topics(client)
    with client.producer(transactional_id=group) as producer:
        consumer = client.consumer(given, group=group, isolation_level="read_committed")

        def each(record: Record) -> ProducerRecord:
            if record.value == b"7":
                consumer.close()
            return ProducerRecord(record.value, topic=made)

        assert exactly_once(consumer, producer, each, max_records=5) == 5
    assert committed(client, made) == NUMBERS[:5]


def test_what_does_not_fit_is_refused(client: KafkaClient) -> None:
    topic = create_topic(client).name
    with client.producer(transactional_id=unique()) as producer, client.producer() as plain:
        with client.consumer(topic, group=unique()) as consumer:
            with pytest.raises(ValueError, match="read_committed"):
                exactly_once(consumer, producer, lambda _: None)
            with pytest.raises(TypeError, match="producer"):
                exactly_once(consumer, consumer, lambda _: None)
            with pytest.raises(TypeError, match="consumer"):
                exactly_once(producer, producer, lambda _: None)
        with client.consumer(topic, group=unique(), **OPTIONS) as consumer:
            with pytest.raises(TransactionStateError, match="transactional_id"):
                exactly_once(consumer, plain, lambda _: None)
        with client.consumer(topic, group=unique(), auto_commit=True, **OPTIONS) as consumer:
            with pytest.raises(ValueError, match="auto_commit"):
                exactly_once(consumer, producer, lambda _: None)


def test_on_an_event_loop(kafka: KafkaCluster) -> None:
    """Coroutine functions and plain ones; a cancelled one, one that raises, and a commit without an answer."""

    async def main() -> None:
        async with aio.KafkaClient(kafka.hosts) as client:
            given, made, group = unique(), unique(), unique()
            async with client.producer() as plain:
                await plain.produce_many(given, NUMBERS)
            async with (
                client.producer(transactional_id=group, max_block_ms=3000) as producer,
                client.consumer(given, group=group, **OPTIONS) as consumer,
            ):
                reached = asyncio.Event()

                async def hangs(record: Record) -> ProducerRecord:
                    if record.value == b"7":
                        reached.set()
                        await asyncio.sleep(60)
                    return ProducerRecord(record.value, topic=made)

                task = asyncio.create_task(aio.exactly_once(consumer, producer, hangs, max_records=5))
                await asyncio.wait_for(reached.wait(), 30)
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task

                def raises(record: Record) -> ProducerRecord:
                    if record.value == b"12":
                        raise ResponseTimeoutError("of another client")
                    return ProducerRecord(record.value, topic=made)

                with pytest.raises(ResponseTimeoutError, match="of another client"):
                    await aio.exactly_once(consumer, producer, raises, max_records=5)
                inner: Any = producer
                with failing(inner._inner, "end", ResponseTimeoutError("no answer")) as again:
                    asyncio.get_running_loop().call_later(4, again)
                    done = await aio.exactly_once(consumer, producer, lambda one: ProducerRecord(one.value, topic=made))
                assert done == 10
            async with client.consumer(made, isolation_level="read_committed", consumer_timeout_ms=1000) as reader:
                assert [record.value async for record in reader] == NUMBERS

    asyncio.run(main())
