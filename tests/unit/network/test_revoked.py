"""Credentials that stop working while a producer and a consumer run, and that work again later."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest

from pykafka import KafkaClient, MessagesNotDelivered, Scram
from pykafka.exceptions import KafkaException, SaslAuthenticationFailed, TokenUnavailableError, TopicNotFoundError
from pykafka.handlers import Handler
from pykafka.producer.producer_id import ProducerIds
from pykafka.protocol import wire
from tests.support.sasl import USERS, SaslBroker
from tests.support.scripted import TOPIC, batch

LIMIT = 30.0
ALICE = Scram("alice", USERS["alice"])


class Broker(SaslBroker):
    """A broker that leads its partition, or says that nobody does."""

    leads = True

    def _metadata(self) -> wire.MetadataResponse:
        told = super()._metadata()
        if not self.leads:
            told.topics[0].partitions[0].leader_id = -1
        return told


@pytest.fixture
def broker() -> Iterator[Broker]:
    """Yield a broker whose sessions last half a second; restore its users."""
    before = dict(USERS)
    with Broker(lifetime_ms=500, records=batch([b"a"] * 5)) as broker:
        yield broker
    USERS.update(before)


@pytest.mark.later("threads")
def test_a_producer_reports_it_by_name_and_goes_on_later(broker: SaslBroker, handler: Handler) -> None:
    with KafkaClient(broker.hosts, handler=handler, sasl=ALICE, socket_timeout_ms=2000) as client:
        producer = client.topics[TOPIC].get_producer(
            delivery_timeout_ms=1000, linger_ms=1, enable_idempotence=False, required_acks=1
        )
        producer.produce(b"first")
        producer.flush()
        right, USERS["alice"] = USERS["alice"], "another"
        handler.sleep(0.6)
        started = handler.now()
        with pytest.raises(MessagesNotDelivered, match="SaslAuthenticationFailed: the broker refuses the login"):
            producer.produce(b"second")
            producer.flush()
        assert handler.now() - started < 15
        USERS["alice"] = right
        deadline = handler.now() + LIMIT
        while True:
            try:
                producer.produce(b"third")
                producer.flush()
                break
            except MessagesNotDelivered:  # the pause before the next login is not over
                assert handler.now() < deadline
        producer.stop()


@pytest.mark.later("gevent")
def test_a_message_waits_for_a_login_that_is_accepted(broker: SaslBroker, handler: Handler) -> None:
    """It goes once the client is let in again: no refused login counts as a try. The end of the connection is one."""
    failed = []
    with KafkaClient(broker.hosts, handler=handler, sasl=ALICE, socket_timeout_ms=2000) as client:
        producer = client.topics[TOPIC].get_producer(
            delivery_timeout_ms=30_000,
            linger_ms=1,
            enable_idempotence=False,
            required_acks=1,
            max_retries=1,
            on_delivery=lambda error, _: failed.append(error),
        )
        producer.produce(b"first")
        producer.flush()
        right, USERS["alice"] = USERS["alice"], "another"
        handler.sleep(0.6)
        producer.produce(b"second")
        handler.sleep(1)
        assert failed == [None]
        USERS["alice"] = right
        producer.stop()
    assert failed == [None, None]


class Refusing:
    """A cluster that refuses the first login."""

    socket_timeout_ms = 1000
    listener = None

    def __init__(self, handler: Handler) -> None:
        self.handler = handler
        self.errors: list[KafkaException] = [SaslAuthenticationFailed("no"), TokenUnavailableError("none")]

    def call(self, request: Any) -> Any:
        """Answer InitProducerId."""
        if self.errors:
            raise self.errors.pop()
        return wire.InitProducerIdResponse(producer_id=7, producer_epoch=0)


def test_a_refused_login_does_not_end_idempotence(handler: Handler) -> None:
    """A producer that was not told to be idempotent does without only where the cluster refuses the id itself."""
    cluster: Any = Refusing(handler)
    identity = ProducerIds(cluster, None)
    with pytest.raises(TokenUnavailableError):
        identity.get(-1)
    with pytest.raises(SaslAuthenticationFailed):
        identity.get(-1)
    assert identity.get(-1) == (7, 0)


def test_a_partition_without_leader_names_why_none_gets_known(broker: Broker, handler: Handler) -> None:
    """A broker that is shut down says first that it leads no more; then it comes back, and lets nobody in."""
    with KafkaClient(broker.hosts, handler=handler, sasl=ALICE, socket_timeout_ms=1000) as client:
        topic = client.topics[TOPIC]
        producer = topic.get_producer(delivery_timeout_ms=1000, linger_ms=1, enable_idempotence=False, required_acks=1)
        producer.produce(b"first")
        producer.flush()
        consumer = topic.get_simple_consumer(consumer_timeout_ms=200, fetch_wait_max_ms=100)
        broker.leads = False
        client.update_cluster()
        assert topic.partitions[0].leader is None
        USERS["alice"] = "another"
        deadline = handler.now() + LIMIT
        told = ""
        while "SaslAuthenticationFailed" not in told:
            assert handler.now() < deadline, told
            producer.produce(b"second")
            with pytest.raises(MessagesNotDelivered) as lost:
                producer.flush()
            told = str(lost.value)
        with pytest.raises(SaslAuthenticationFailed, match="the broker refuses the login"):
            while handler.now() < deadline:
                consumer.consume()
        with suppress(KafkaException):
            producer.stop()
        consumer.stop()


@pytest.mark.later("threads")
def test_a_partition_without_leader_is_fetched_once_the_client_is_let_in_again(
    broker: Broker, handler: Handler
) -> None:
    """No leader is known, and the login refused: the consumer goes on asking for metadata."""
    with KafkaClient(broker.hosts, handler=handler, sasl=ALICE, socket_timeout_ms=1000) as client:
        consumer = client.topics[TOPIC].get_simple_consumer(consumer_timeout_ms=200, fetch_wait_max_ms=100)
        assert len([consumer.consume() for _ in range(5)]) == 5
        broker.leads = False
        client.update_cluster()
        right, USERS["alice"] = USERS["alice"], "another"
        deadline = handler.now() + LIMIT  # the connection ends as its login is not renewed
        with pytest.raises(SaslAuthenticationFailed):
            while handler.now() < deadline:
                consumer.consume()
        handler.sleep(1.5)
        USERS["alice"], broker.leads = right, True
        broker.records += batch([b"b"], base_offset=5)
        found = None
        while found is None:
            assert handler.now() < deadline
            with suppress(SaslAuthenticationFailed):
                found = consumer.consume()
        assert found.value == b"b"
        consumer.stop()


def test_a_topic_that_cannot_be_asked_for_is_not_called_missing(broker: SaslBroker, handler: Handler) -> None:
    with KafkaClient(broker.hosts, handler=handler, sasl=ALICE, socket_timeout_ms=2000) as client:
        USERS["alice"] = "another"
        handler.sleep(0.6)
        deadline = handler.now() + LIMIT
        told: list[KafkaException] = []
        # the connection ends as its login is not renewed; the next one is refused
        while not any(isinstance(error, SaslAuthenticationFailed) for error in told):
            assert handler.now() < deadline
            with pytest.raises(KafkaException) as caught:
                _ = client.topics["another"]
            told.append(caught.value)
            handler.sleep(0.02)
    assert not [error for error in told if isinstance(error, TopicNotFoundError)]


@pytest.mark.later("gevent")
def test_a_consumer_raises_it_by_name_and_goes_on_later(broker: SaslBroker, handler: Handler) -> None:
    with KafkaClient(broker.hosts, handler=handler, sasl=ALICE, socket_timeout_ms=1500) as client:
        consumer = client.topics[TOPIC].get_simple_consumer(consumer_timeout_ms=200, fetch_wait_max_ms=100)
        for _ in range(5):
            message = consumer.consume()
            assert message is not None
            assert message.value == b"a"
        right, USERS["alice"] = USERS["alice"], "another"
        deadline = handler.now() + LIMIT
        with pytest.raises(SaslAuthenticationFailed, match="the broker refuses the login"):
            while handler.now() < deadline:
                consumer.consume()
        USERS["alice"] = right
        broker.records += batch([b"b"], base_offset=5)
        found = None
        while found is None:
            assert handler.now() < deadline
            try:
                found = consumer.consume()
            except SaslAuthenticationFailed:
                continue
        assert found.value == b"b"
        consumer.stop()
