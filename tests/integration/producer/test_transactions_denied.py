"""Transactions that ACLs keep from their transactional id, a group or a topic: what is told, and what goes on after that."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from pykafka import KafkaClient, Scram
from pykafka.admin import AclBinding, AclFilter, AclOperation, PatternType, Permission, ResourceType
from pykafka.exceptions import (
    GroupAuthorizationFailed,
    KafkaException,
    TopicAuthorizationFailed,
    TransactionAbortableError,
    TransactionalIdAuthorizationFailed,
    TransactionFatalError,
)
from tests.brokers import KafkaCluster
from tests.integration.producer.test_transactions import committed, unique
from tests.support.topics import create_topic

pytestmark = [pytest.mark.kafka, pytest.mark.needs("stable offsets"), pytest.mark.timeout(200)]
#: The user, whose ACLs no other test has.
USER = "bob"


@pytest.fixture
def bob(concurrency: Callable[[], dict[str, Any]], secure_kafka: KafkaCluster) -> Iterator[KafkaClient]:
    """Yield a client that ACLs may keep out."""
    assert secure_kafka.sasl is not None
    login = Scram(USER, dict(secure_kafka.sasl.users)[USER])
    with KafkaClient(secure_kafka.hosts_of("SASL_PLAINTEXT"), sasl=login, **concurrency()) as client:
        yield client


@contextmanager
def denied(
    cluster: KafkaCluster,
    kind: ResourceType,
    name: str,
    operation: AclOperation,
    pattern: PatternType = PatternType.LITERAL,
) -> Iterator[None]:
    """Keep the user out within the block."""
    with KafkaClient(cluster.hosts) as client:
        client.admin.create_acls(AclBinding(kind, name, f"User:{USER}", operation, Permission.DENY, pattern=pattern))
        try:
            yield
        finally:
            client.admin.delete_acls(AclFilter(name=name))


def until_kept_out(attempt: Callable[[], object], error: type[KafkaException]) -> KafkaException:
    """Return what a call raises, once the ACL has reached the broker."""
    for _ in range(100):
        try:
            attempt()
        except error as found:
            return found
    raise AssertionError(f"no {error.__name__}")


def test_the_transactional_id(bob: KafkaClient, secure_kafka: KafkaCluster) -> None:
    topic, name = create_topic(bob).name, unique()
    producer = bob.producer(transactional_id=name)
    with producer.transaction():
        producer.produce(topic, b"before")
    with denied(secure_kafka, ResourceType.TRANSACTIONAL_ID, name, AclOperation.WRITE):

        def attempt() -> None:
            with producer.transaction():
                producer.produce(topic, b"denied")

        found = until_kept_out(attempt, TransactionFatalError)
        assert name in str(found)
        assert "ask for an ACL" in str(found)
        with pytest.raises(TransactionFatalError, match="make another"):
            producer.begin_transaction()
        producer.close()
        with bob.producer(transactional_id=name) as other:
            with pytest.raises(TransactionFatalError, match="transactional id") as caught:
                other.init_transactions()
            assert isinstance(caught.value.__cause__, TransactionalIdAuthorizationFailed)
    with bob.producer(transactional_id=name) as producer, producer.transaction():
        producer.produce(topic, b"after")
    values = committed(bob, topic)
    assert (values[0], values[-1]) == (b"before", b"after")


def test_a_topic(bob: KafkaClient, secure_kafka: KafkaCluster) -> None:
    """The transaction can be aborted, nothing of it is committed, and the producer goes on."""
    kept, shut = create_topic(bob).name, create_topic(bob).name
    with bob.producer(transactional_id=unique()) as producer:
        with producer.transaction():
            producer.produce(shut, b"before")
        with denied(secure_kafka, ResourceType.TOPIC, shut, AclOperation.WRITE):
            taken: list[bytes] = []

            def attempt() -> None:
                with producer.transaction():
                    producer.produce(kept, b"with %d" % len(taken))
                    producer.produce(shut, b"denied")
                taken.append(b"with %d" % len(taken))

            found = until_kept_out(attempt, TransactionAbortableError)
            assert isinstance(found.__cause__, TopicAuthorizationFailed)
            assert shut in str(found)
            with producer.transaction():
                producer.produce(kept, b"alone")
    assert committed(bob, kept) == [*taken, b"alone"]


def test_a_group(bob: KafkaClient, secure_kafka: KafkaCluster) -> None:
    """The offsets are refused: the transaction is aborted, and its records are read again when the ACL is gone."""
    given, made, group = create_topic(bob).name, create_topic(bob).name, unique()
    with bob.producer() as plain:
        plain.produce_many(given, [b"1", b"2", b"3"])
    with bob.producer(transactional_id=group) as producer, bob.consumer(given, group=group) as consumer:
        records = consumer.poll(1, timeout=20)
        with denied(secure_kafka, ResourceType.GROUP, group, AclOperation.ALL):

            def attempt() -> None:
                with producer.transaction(consumer):
                    producer.produce(made, b"denied")
                    producer.send_offsets(consumer)
                    raise KeyError

            while True:
                try:
                    found = until_kept_out(attempt, TransactionAbortableError)
                    break
                except KeyError:
                    continue
            assert isinstance(found.__cause__, GroupAuthorizationFailed)
            assert group in str(found) or "group" in str(found).lower()
        values = []
        for _ in range(60):
            try:
                records = consumer.poll(10, timeout=1)
            except KafkaException:
                continue
            if not records:
                continue
            with producer.transaction(consumer):
                for record in records:
                    producer.produce(made, record.value)
                    values.append(record.value)
                producer.send_offsets(consumer)
            if len(values) >= 3:
                break
    assert committed(bob, made) == [b"1", b"2", b"3"]
