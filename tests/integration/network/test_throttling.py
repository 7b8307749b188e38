"""Quotas of real brokers: what is sent under them is stored once, and what is read comes without an error."""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from pykafka import KafkaClient
from pykafka.admin import QuotaEntity
from pykafka.common import OffsetType
from pykafka.consumer.engine import ConsumerEngine
from pykafka.handlers import Handler
from tests.brokers import KafkaCluster
from tests.support.topics import create_topic
from tests.support.waiting import until

pytestmark = [pytest.mark.kafka, pytest.mark.slow, pytest.mark.needs("quotas")]

#: Of each message (bytes): so that a few are more than a quota allows in its window of eleven seconds.
SIZE = 30_000


@pytest.fixture
def bounded(kafka: KafkaCluster, handler: Handler) -> Callable[..., KafkaClient]:
    """Return a function that makes a client with quotas of its own."""

    def make(**quotas: float) -> KafkaClient:
        client_id = f"slow-{uuid.uuid4().hex}"
        with KafkaClient(kafka.hosts) as client:
            client.admin.alter_client_quotas({QuotaEntity(client_id=client_id): quotas})
        # a second: much less than the brokers throttle
        return KafkaClient(kafka.hosts, handler=handler, client_id=client_id, socket_timeout_ms=1000)

    return make


def _make_topic(kafka: KafkaCluster) -> str:
    with KafkaClient(kafka.hosts) as client:
        return create_topic(client).name


def _throttled(client: KafkaClient) -> bool:
    client.update_cluster()
    return any(broker.throttled_for() > 0 for broker in client.brokers.values())


def _next(consumer: Any) -> bytes:
    message = consumer.consume()
    assert message is not None
    return bytes(message.value)


def _stored(kafka: KafkaCluster, topic: str) -> Counter[bytes]:
    with KafkaClient(kafka.hosts) as client:
        consumer = client.topics[topic].get_simple_consumer(consumer_timeout_ms=2000)
        found = Counter(bytes(message.value or b"")[:2] for message in consumer)
        consumer.stop()
    return found


@pytest.mark.later("gevent")
def test_what_is_produced_too_fast_is_stored_once(kafka: KafkaCluster, bounded: Callable[..., KafkaClient]) -> None:
    name = _make_topic(kafka)
    with bounded(producer_byte_rate=20_000) as client:
        options: dict[str, Any] = {"ack_timeout_ms": 1000, "max_request_size": 40_000, "pending_timeout_ms": 60_000}
        producer = client.topics[name].get_producer(linger_ms=50, **options)
        for number in range(10):
            producer.produce(b"%02d" % number + bytes(SIZE))
        producer.stop()
        with client.topics[name].get_sync_producer(**options) as producer:
            producer.produce(b"10" + bytes(SIZE))
    assert _stored(kafka, name) == Counter(b"%02d" % number for number in range(11))


@pytest.mark.later("threads")
def test_what_is_consumed_too_fast_comes_without_an_error(
    kafka: KafkaCluster, bounded: Callable[..., KafkaClient], monkeypatch: pytest.MonkeyPatch
) -> None:
    name = _make_topic(kafka)
    with KafkaClient(kafka.hosts) as client, client.topics[name].get_producer(max_request_size=40_000) as producer:
        for number in range(10):
            producer.produce(b"%02d" % number + bytes(SIZE))
    failed: list[BaseException] = []
    monkeypatch.setattr(ConsumerEngine, "worker_failed", lambda _, error: failed.append(error))
    with bounded(consumer_byte_rate=25_000) as client:
        consumer = client.topics[name].get_simple_consumer(fetch_message_max_bytes=SIZE, consumer_timeout_ms=40_000)
        assert [_next(consumer)[:2] for _ in range(10)] == [b"%02d" % number for number in range(10)]
        assert not failed
        consumer.stop()


@pytest.mark.later("gevent")
def test_every_request_may_be_throttled(kafka: KafkaCluster, bounded: Callable[..., KafkaClient]) -> None:
    name = _make_topic(kafka)
    with bounded(request_percentage=0.2) as client:
        until(client.cluster.handler, lambda: _throttled(client))
        producer = client.topics[name].get_producer(linger_ms=0)
        for number in range(10):
            producer.produce(b"%02d" % number)
        producer.stop()
        consumer = client.topics[name].get_balanced_consumer(
            f"g-{name}", managed=True, consumer_timeout_ms=40_000, auto_offset_reset=OffsetType.EARLIEST
        )
        assert [_next(consumer) for _ in range(10)] == [b"%02d" % number for number in range(10)]
        consumer.commit_offsets()
        consumer.stop()
    assert _stored(kafka, name) == Counter(b"%02d" % number for number in range(10))
