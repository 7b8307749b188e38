"""Calls about transactions from several workers at once: each looks at the state when its turn has come."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from pykafka import KafkaClient, KafkaProducer, exactly_once
from pykafka.exceptions import ProducerStoppedException, TransactionStateError
from tests.integration.producer.test_transactions import committed, unique
from tests.support.inside import coordinator_of, engine_of, transactions_of
from tests.support.topics import create_topic

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.needs("stable offsets"),
    pytest.mark.timeout(200),
    pytest.mark.on_asyncio,
]


@contextmanager
def slow(producer: KafkaProducer, step: str) -> Iterator[tuple[Any, Any]]:
    """Hold a request to the coordinator; the value is an event for its beginning, and one that lets it go on."""
    assert transactions_of(producer) is not None
    coordinator: Any = coordinator_of(transactions_of(producer))
    request = getattr(coordinator, step)
    begun, go_on = producer._handler.Event(), producer._handler.Event()

    def held(*arguments: object) -> Any:
        begun.set()
        assert go_on.wait(20)
        return request(*arguments)

    setattr(coordinator, step, held)
    try:
        yield begun, go_on
    finally:
        go_on.set()
        delattr(coordinator, step)


class Beside:
    """A call in a worker of its own.

    :param client: whose handler has the worker
    :param call: what it does
    """

    def __init__(self, client: KafkaClient, call: Callable[[], object]) -> None:
        self.error: BaseException | None = None
        self._call = call
        self._worker: Any = client.cluster.handler.spawn(self._run, name="beside")

    def _run(self) -> None:
        try:
            self._call()
        except Exception as error:  # noqa: BLE001 - `end` raises it
            self.error = error

    def end(self) -> None:
        """Wait for its end, and raise its error."""
        assert self._worker.join(30)
        if self.error is not None:
            raise self.error


@pytest.mark.later("abort", "greenlets-commit")
@pytest.mark.parametrize("ends", ["commit", "abort"])
def test_close_while_another_worker_ends_the_transaction(client: KafkaClient, ends: str) -> None:
    """It raised TransactionStateError, as it had read the state before its turn."""
    topic = create_topic(client).name
    producer = client.producer(transactional_id=unique())
    producer.begin_transaction()
    producer.produce(topic, b"1").get(20)
    with slow(producer, "end") as (begun, go_on):
        call = producer.commit_transaction if ends == "commit" else producer.abort_transaction
        other = Beside(client, call)
        assert begun.wait(20)
        closing = Beside(client, producer.close)
        client.cluster.handler.sleep(0.2)
        go_on.set()
        other.end()
        closing.end()
    assert committed(client, topic) == ([b"1"] if ends == "commit" else [])


@pytest.mark.later("greenlets")
def test_close_while_another_worker_begins(client: KafkaClient) -> None:
    """A transaction that has begun meanwhile is not left open."""
    topic = create_topic(client).name
    producer = client.producer(transactional_id=unique())
    with slow(producer, "init") as (begun, go_on):
        other = Beside(client, producer.begin_transaction)
        assert begun.wait(20)
        closing = Beside(client, producer.close)
        client.cluster.handler.sleep(0.2)
        go_on.set()
        other.end()
        closing.end()
    with pytest.raises(ProducerStoppedException):
        producer.commit_transaction()
    assert committed(client, topic) == []


@pytest.mark.later("threads", "asyncio")
def test_a_block_that_may_not_begin_leaves_the_other_alone(client: KafkaClient) -> None:
    """It had looked before the other one began, was refused then, and aborted the other's transaction."""
    topic = create_topic(client).name
    with client.producer(transactional_id=unique()) as producer:
        with slow(producer, "init") as (begun, go_on):
            first = Beside(client, producer.begin_transaction)
            assert begun.wait(20)

            def enter() -> None:
                with producer.transaction():
                    pytest.fail("it has begun within another")

            second = Beside(client, enter)
            client.cluster.handler.sleep(0.2)
            go_on.set()
            first.end()
            with pytest.raises(TransactionStateError, match="a transaction is open"):
                second.end()
        producer.produce(topic, b"1")
        producer.commit_transaction()
    assert committed(client, topic) == [b"1"]


@pytest.mark.later("greenlets", "asyncio")
def test_a_block_ends_the_transaction_that_it_has_begun(client: KafkaClient) -> None:
    """And not one that another worker began when the block had ended its own."""
    topic = create_topic(client).name
    with client.producer(transactional_id=unique()) as producer:
        with producer.transaction():
            producer.produce(topic, b"1")
            producer.commit_transaction()
            Beside(client, producer.begin_transaction).end()
            producer.produce(topic, b"2")
        producer.abort_transaction()
        with pytest.raises(KeyError), producer.transaction():
            producer.commit_transaction()
            Beside(client, producer.begin_transaction).end()
            producer.produce(topic, b"3")
            raise KeyError
        producer.commit_transaction()
    assert committed(client, topic) == [b"1", b"3"]


@pytest.mark.later("greenlets", "threads")
def test_offsets_are_taken_when_the_turn_has_come(client: KafkaClient) -> None:
    """A call that waits while another worker aborts sends nothing: what it would have sent is read again."""
    given, group = create_topic(client).name, unique()
    with client.producer() as plain:
        plain.produce_many(given, [b"%d" % number for number in range(10)])
    with client.producer(transactional_id=group) as producer, client.consumer(given, group=group) as consumer:
        producer.begin_transaction()
        producer.send_offsets(consumer)
        assert len(consumer.poll(10, timeout=20)) == 10
        producer.send_offsets(consumer)
        with slow(producer, "end") as (begun, go_on):
            aborting = Beside(client, producer.abort_transaction)
            assert begun.wait(20)
            sending = Beside(client, lambda: producer.send_offsets(consumer))
            client.cluster.handler.sleep(0.2)
            go_on.set()
            aborting.end()
            with pytest.raises(TransactionStateError, match="begin_transaction"):
                sending.end()
        assert len(consumer.poll(10, timeout=20)) == 10


@pytest.mark.matrix
def test_a_flush_beside_a_commit_opens_nothing(client: KafkaClient) -> None:
    """`flush()` takes messages again, and that is right within a transaction alone."""
    topic = create_topic(client).name
    with client.producer(transactional_id=unique()) as producer:
        producer.begin_transaction()
        producer.produce(topic, b"1")
        with slow(producer, "end") as (begun, go_on):
            other = Beside(client, producer.commit_transaction)
            assert begun.wait(20)
            producer.flush()
            assert engine_of(producer).accumulator.closed
            with pytest.raises(TransactionStateError):
                producer.produce(topic, b"2")
            go_on.set()
            other.end()
    assert committed(client, topic) == [b"1"]


@pytest.mark.later("greenlets")
@pytest.mark.no_loop("ZooKeeper needs threads or greenlets")
def test_a_group_that_zookeeper_keeps_is_refused_by_name(client: KafkaClient) -> None:
    """`exactly_once` began again every two seconds, without an end and without an error."""
    topic = create_topic(client).name
    options: Any = {"protocol": "zookeeper", "zookeeper_hosts": "127.0.0.1:1", "isolation_level": "read_committed"}
    with (
        client.producer(transactional_id=unique()) as producer,
        client.consumer(topic, group=unique(), **options) as consumer,
    ):
        with pytest.raises(ValueError, match=r"exactly_once\(\).*zookeeper"):
            exactly_once(consumer, producer, lambda _: None)
        with pytest.raises(ValueError, match=r"transaction\(\).*zookeeper"):
            producer.transaction(consumer)
        producer.begin_transaction()
        with pytest.raises(ValueError, match=r"send_offsets\(\).*zookeeper"):
            producer.send_offsets(consumer)
        producer.abort_transaction()


@pytest.mark.later("greenlets", "asyncio")
def test_a_consumer_without_a_group_is_refused_by_name(client: KafkaClient) -> None:
    topic = create_topic(client).name
    with (
        client.producer(transactional_id=unique()) as producer,
        client.consumer(topic, isolation_level="read_committed") as consumer,
    ):
        with pytest.raises(ValueError, match=r"exactly_once\(\).*group="):
            exactly_once(consumer, producer, lambda _: None)
        with pytest.raises(ValueError, match=r"transaction\(\).*group="):
            producer.transaction(consumer)
        with pytest.raises(ValueError, match=r"send_offsets\(\).*group="), producer.transaction():
            producer.send_offsets(consumer)
