"""`client.producer()` and `client.consumer()` of a principal that may not describe, write or read a topic."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from pykafka import KafkaClient, Scram, TopicPartition
from pykafka.admin import AclBinding, AclFilter, AclOperation, Permission, ResourceType
from pykafka.exceptions import TopicAuthorizationFailed
from tests.brokers import KafkaCluster
from tests.support.topics import create_topic
from tests.support.waiting import until

pytestmark = [pytest.mark.kafka, pytest.mark.on_asyncio, pytest.mark.needs("scram users")]


@pytest.fixture
def alice(secure_kafka: KafkaCluster) -> Iterator[KafkaClient]:
    """Yield a client that may do everything."""
    with KafkaClient(secure_kafka.hosts) as client:
        yield client


@pytest.fixture
def bob(secure_kafka: KafkaCluster, concurrency: Callable[[], dict[str, Any]]) -> Iterator[KafkaClient]:
    """Yield a client whose rights the tests take and give."""
    assert secure_kafka.sasl is not None
    login = Scram("bob", secure_kafka.sasl.users["bob"])
    with KafkaClient(secure_kafka.hosts_of("SASL_PLAINTEXT"), sasl=login, **concurrency()) as client:
        yield client


def deny(alice: KafkaClient, bob: KafkaClient, topic: str, operation: AclOperation) -> None:
    bindings = [AclBinding(ResourceType.TOPIC, topic, "User:bob", operation, Permission.DENY)]
    if operation is not AclOperation.ALL:  # a topic that has any binding is hidden from all others
        bindings.append(AclBinding(ResourceType.TOPIC, topic, "User:bob", AclOperation.DESCRIBE, Permission.ALLOW))
    alice.admin.create_acls(bindings)
    if operation is AclOperation.ALL:
        until(bob.cluster.handler, lambda: not bob.admin.describe_topics(topic, raise_errors=False))


def told(error: TopicAuthorizationFailed, topic: str) -> None:
    """Check that an error says what is forbidden, and what to do."""
    assert error.topic == topic
    assert topic in str(error)
    assert "ACL" in str(error)


@pytest.mark.parametrize("operation", [AclOperation.ALL, AclOperation.WRITE])
def test_a_producer_tells_and_goes_on(alice: KafkaClient, bob: KafkaClient, operation: AclOperation) -> None:
    denied, other = create_topic(alice).name, create_topic(alice).name
    deny(alice, bob, denied, operation)
    with bob.producer(linger_ms=0, max_block_ms=10_000) as producer:
        with pytest.raises(TopicAuthorizationFailed) as caught:
            producer.produce(denied, b"refused").get(20)
        told(caught.value, denied)
        assert producer.produce(other, b"elsewhere").get(20).offset == 0
        alice.admin.delete_acls(AclFilter(name=denied))

        def written() -> bool:
            try:
                return producer.produce(denied, b"granted").get(20).offset >= 0
            except TopicAuthorizationFailed:
                return False

        until(bob.cluster.handler, written)
    with alice.consumer(denied, consumer_timeout_ms=2000) as consumer:
        assert [record.value for record in consumer] == [b"granted"]


@pytest.mark.parametrize("operation", [AclOperation.ALL, AclOperation.READ])
def test_a_consumer_tells_and_goes_on(alice: KafkaClient, bob: KafkaClient, operation: AclOperation) -> None:
    denied, other = create_topic(alice).name, create_topic(alice).name
    with alice.producer() as producer:
        for topic in (denied, other):
            producer.produce(topic, topic.encode(), partition=0)
    deny(alice, bob, denied, operation)
    handler = bob.cluster.handler
    with bob.consumer() as consumer:
        errors: list[TopicAuthorizationFailed] = []
        seen: list[bytes | None] = []

        def read() -> bool:
            try:
                seen.extend(record.value for record in consumer.poll(timeout=1))
            except TopicAuthorizationFailed as error:
                errors.append(error)
            return False

        try:
            consumer.subscribe(denied, other)
        except TopicAuthorizationFailed as error:
            errors.append(error)
            consumer.assign([TopicPartition(other, 0)])
        until(handler, lambda: read() or (bool(errors) and bool(seen)))
        told(errors[0], denied)
        assert seen == [other.encode()]  # the other topic is read
        alice.admin.delete_acls(AclFilter(name=denied))
        if TopicPartition(denied, 0) not in consumer.assignment():

            def granted() -> bool:
                try:
                    consumer.assign([TopicPartition(denied, 0)])
                except TopicAuthorizationFailed:
                    return False
                return True

            until(handler, granted)
        until(handler, lambda: read() or denied.encode() in seen)
        assert seen.count(denied.encode()) == 1
