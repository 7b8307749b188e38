"""Fetch sessions (KIP-227) on real brokers: opened, evicted, lost, and never at the cost of a message."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from pykafka import KafkaClient
from pykafka.broker import Broker
from pykafka.handlers import Handler
from pykafka.protocol import wire
from pykafka.topic import Topic
from tests.brokers import KafkaCluster
from tests.support.features import KAFKA_VERSION
from tests.support.topics import create_topic, take

pytestmark = [pytest.mark.kafka, pytest.mark.slow, pytest.mark.timeout(300), pytest.mark.needs("alterations")]

OPTIONS: dict[str, Any] = {"consumer_timeout_ms": 200, "fetch_error_backoff_ms": 100}


@pytest.fixture(scope="module")
def racks() -> Iterator[KafkaCluster]:
    """Yield a broker with room for few sessions: recent releases divide them among eight caches."""
    config = {
        "max.incremental.fetch.session.cache.slots": 8,
        "min.incremental.fetch.session.eviction.ms": 1,
    }
    with KafkaCluster(KAFKA_VERSION, config=config) as cluster:
        yield cluster


@pytest.fixture
def requests(monkeypatch: pytest.MonkeyPatch) -> list[wire.FetchRequest]:
    """Collect the Fetch requests of all clients."""
    seen: list[wire.FetchRequest] = []
    send = Broker.send

    def noted(self: Broker, request: Any, *args: Any, **kwargs: Any) -> Any:
        if isinstance(request, wire.FetchRequest):
            seen.append(request)
        return send(self, request, *args, **kwargs)

    monkeypatch.setattr(Broker, "send", noted)
    return seen


def fill(topic: Topic, first: int, count: int) -> list[bytes]:
    values = [b"%d" % number for number in range(first, first + count)]
    with topic.get_producer(required_acks=-1, linger_ms=5, pending_timeout_ms=60_000) as producer:
        for value in values:
            producer.produce(value)
    return values


def test_a_session_names_only_what_has_changed(client: KafkaClient, requests: list[wire.FetchRequest]) -> None:
    topic = create_topic(client, partitions=20)
    values = fill(topic, 0, 200)
    with topic.get_simple_consumer(**OPTIONS) as consumer:
        assert sorted(take(consumer, 200)) == sorted(values)  # type: ignore[type-var]
        del requests[:]
        assert consumer.consume_batch() == []
        quiet = [request for request in requests if request.session_id]
        assert len(quiet) == len(requests) > 0
        assert not any(request.topics or request.forgotten_topics_data for request in quiet[1:])
        more = fill(topic, 200, 1)
        assert take(consumer, 1) == more
        del requests[:]
    named = [part for request in requests for one in request.topics for part in one.partitions]
    assert len(named) <= 1


def test_consumers_that_evict_each_others_sessions_lose_nothing(
    handler: Handler, racks: KafkaCluster, requests: list[wire.FetchRequest]
) -> None:
    with KafkaClient(hosts=racks.hosts, handler=handler) as client:
        topic = create_topic(client, partitions=5)
        # each with a fetch worker, and so a session, of its own
        parts = list(topic.partitions.values())
        sizes = [1 + number % 5 for number in range(12)]
        consumers = [
            topic.get_simple_consumer(fetch_wait_max_ms=20 + number, partitions=parts[:size], **OPTIONS)
            for number, size in enumerate(sizes)
        ]
        wanted: list[set[bytes | None]] = [set() for _ in consumers]
        found: list[list[bytes | None]] = [[] for _ in consumers]
        try:
            for turn in range(10):
                with topic.get_producer(
                    required_acks=-1, linger_ms=5, partitioner=lambda parts, key: parts[int(key)]
                ) as producer:
                    for number in range(50):
                        value = b"%d.%d" % (turn, number)
                        producer.produce(value, partition_key=b"%d" % (number % 5))
                        for index, size in enumerate(sizes):
                            if number % 5 < size:
                                wanted[index].add(value)
                for index, consumer in enumerate(consumers):
                    found[index] += [message.value for message in consumer.consume_batch(block=False)]
            for index, consumer in enumerate(consumers):
                found[index] += take(consumer, len(wanted[index]) - len(found[index]))
        finally:
            for consumer in consumers:
                consumer.stop()
    for index in range(len(sizes)):
        assert len(found[index]) == len(wanted[index])
        assert set(found[index]) == wanted[index]
    assert any(request.session_epoch > 0 for request in requests)
    assert any(request.session_epoch == 0 for request in requests[60:]), "nobody was evicted"


def test_a_consumer_ends_its_session(client: KafkaClient, requests: list[wire.FetchRequest]) -> None:
    topic = create_topic(client)
    values = fill(topic, 0, 5)
    with topic.get_simple_consumer(**OPTIONS) as consumer:
        assert take(consumer, 5) == values
        assert consumer.consume_batch() == []
    deadline = time.monotonic() + 30
    while requests[-1].session_epoch != -1 and time.monotonic() < deadline:
        client.cluster.handler.sleep(0.1)
    assert requests[-1].session_epoch == -1
    assert requests[-1].session_id > 0


@pytest.mark.later("gevent")
def test_a_broker_that_restarts_has_forgotten_the_session(handler: Handler, racks: KafkaCluster) -> None:
    with KafkaClient(hosts=racks.hosts, handler=handler) as client:
        topic = create_topic(client, partitions=3)
        values = fill(topic, 0, 30)
        with topic.get_simple_consumer(**OPTIONS) as consumer:
            found = take(consumer, 30)
            racks.kill(1)
            racks.start(1)
            more = fill(topic, 30, 30)
            found += take(consumer, 30)
        assert sorted(found) == sorted(values + more)  # type: ignore[type-var]
        assert threading.active_count() < 50
