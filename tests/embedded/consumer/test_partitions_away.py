"""A partition without a leader, and a silent broker: calls about positions know the other partitions, and end in time."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from pykafka import KafkaClient
from pykafka.common import TopicPartition
from pykafka.embedded import EmbeddedCluster
from pykafka.exceptions import (
    KafkaException,
    LeaderNotFoundError,
    OffsetsNotCommitted,
    ResponseTimeoutError,
    TopicAuthorizationFailed,
)
from tests.embedded.consumer.test_kafkaconsumer import cluster, fill, make
from tests.support.inside import engine_of

__all__ = ["cluster", "make"]
pytestmark = [pytest.mark.timeout(120), pytest.mark.on_asyncio]

#: The socket timeout of clients here: no call below may take that long (s).
SOCKET_S = 20.0
#: By when `close()` with a short time has ended (s): its workers may wait longer.
CLOSED_S = 4.0


@pytest.fixture
def client(concurrency: Callable[[], dict[str, Any]], cluster: EmbeddedCluster) -> Iterator[KafkaClient]:
    client = KafkaClient(cluster.hosts, socket_timeout_ms=int(SOCKET_S * 1000), **concurrency())
    try:
        yield client
    finally:
        for broker in (1, 2):
            cluster.set_latency(broker, 0)
        client.close()


@pytest.fixture
def topic(client: KafkaClient, make: Any, cluster: EmbeddedCluster) -> str:
    """Return a topic of three partitions with ten messages each; broker 2 leads partition 1."""
    name: str = make(3)
    for number in range(3):
        cluster.set_leader(name, number, 2 if number == 1 else 1)
        fill(client, name, 10, number)
    return name


def keys(topic: str) -> list[TopicPartition]:
    return [TopicPartition(topic, number) for number in range(3)]


def read(consumer: Any, count: int) -> None:
    found = 0
    while found < count:
        found += len(consumer.poll(timeout=10))


def test_a_partition_without_a_leader_holds_up_nothing(
    client: KafkaClient, topic: str, cluster: EmbeddedCluster, caplog: pytest.LogCaptureFixture
) -> None:
    handler = client.cluster.handler
    zero, one, two = keys(topic)
    cluster.set_leader(topic, 1, None)
    client.cluster.update([topic])
    began = handler.now()
    with client.consumer(topic) as consumer:
        assert handler.now() - began < SOCKET_S / 2
        assert consumer.position(zero) == consumer.position(two) == 0
        with caplog.at_level(logging.WARNING):
            assert consumer.lag() == {zero: 10, two: 10}
        assert "as their position is not known, 1 partitions" in caplog.text
        read(consumer, 20)
        assert consumer.lag() == consumer.lag(zero, two) == {zero: 0, two: 0}
        consumer.seek(one, 3)
        with caplog.at_level(logging.WARNING):
            assert consumer.lag() == {zero: 0, two: 0}
        assert "lag() leaves out 1 partitions" in caplog.text
        with pytest.raises(LeaderNotFoundError):
            consumer.lag(zero, one, timeout=5)
        consumer.seek_to_beginning(one)
        with pytest.raises(ResponseTimeoutError):
            consumer.position(one, timeout=0.2)
        with pytest.raises(ResponseTimeoutError):
            consumer.lag(one, timeout=0.2)
        found = {start.partition: start for start in consumer.explain_start()}
        assert [found[number].rule for number in range(3)] == ["position", "unknown", "position"]
        assert found[1].offset is None
        assert "no broker leads" in found[1].reason
        with pytest.raises(LeaderNotFoundError):
            consumer.explain_start(one)
        cluster.set_leader(topic, 1, 2)
        read(consumer, 10)
    assert handler.now() - began < SOCKET_S / 2


def test_assign_waits_for_no_partition_without_a_leader(
    client: KafkaClient, topic: str, cluster: EmbeddedCluster
) -> None:
    handler = client.cluster.handler
    cluster.set_leader(topic, 1, None)
    client.cluster.update([topic])
    with client.consumer(auto_offset_reset="latest") as consumer:
        began = handler.now()
        consumer.assign(keys(topic))
        assert handler.now() - began < SOCKET_S / 2
        fill(client, topic, 1, 0)  # behind the end that is known by now
        assert consumer.one(10) is not None


def test_a_silent_broker_costs_no_figure_of_others(client: KafkaClient, topic: str, cluster: EmbeddedCluster) -> None:
    handler = client.cluster.handler
    zero, one, two = keys(topic)
    with client.consumer(topic) as consumer, client.consumer() as other:
        assert consumer.lag() == dict.fromkeys(keys(topic), 10)
        cluster.set_latency(2, 60_000)
        began = handler.now()
        assert consumer.lag(timeout=0.5) == {zero: 10, two: 10}
        with pytest.raises(ResponseTimeoutError):
            consumer.lag(one, timeout=0.3)
        assert [start.rule for start in other.explain_start(zero, two, timeout=5)] == ["no_commit"] * 2
        with pytest.raises(ResponseTimeoutError):
            other.explain_start(one, timeout=0.3)
        other.assign(keys(topic))
        assert other.position(zero, timeout=5) == 0
        assert len(other.poll(timeout=5)) > 0
        other.assign([one], timeout=0.3)
        with pytest.raises(ResponseTimeoutError):
            other.lag(timeout=0.3) or other.lag(one, timeout=0.3)
        assert handler.now() - began < SOCKET_S / 2


def test_a_slow_leader_gives_a_start_and_delays_no_other(
    client: KafkaClient, topic: str, cluster: EmbeddedCluster
) -> None:
    handler = client.cluster.handler
    zero, one, _ = keys(topic)
    cluster.set_latency(2, 1_500)
    with client.consumer() as consumer:
        consumer.assign(keys(topic))
        began = handler.now()
        while handler.now() - began < 4:  # longer and longer searches for the start of the other one
            consumer.seek_to_beginning(zero)
            assert consumer.position(zero, timeout=3) == 0
            handler.sleep(0.1)
        assert consumer.position(one, timeout=SOCKET_S) == 0
        read(consumer, 30)
        began = handler.now()
    assert handler.now() - began < SOCKET_S / 2


def test_a_silent_coordinator_keeps_no_call(client: KafkaClient, topic: str, cluster: EmbeddedCluster) -> None:
    handler = client.cluster.handler
    zero = TopicPartition(topic, 0)
    groups = (f"{topic}-{number}" for number in range(100))
    group = next(name for name in groups if client.cluster.get_group_coordinator(name).id == 2)
    cluster.set_latency(2, 60_000)
    began = handler.now()
    with client.consumer(group=group) as consumer:
        consumer.assign(keys(topic))
        assert handler.now() - began < SOCKET_S / 2
        for _ in range(3):  # while a worker connects to the coordinator, with more time
            handler.sleep(0.5)
            begins = handler.now()
            with pytest.raises(KafkaException):
                consumer.committed(timeout=0.2)
            with pytest.raises(KafkaException):
                consumer.explain_start(zero, timeout=0.2)
            assert handler.now() - begins < 2
        consumer.seek_to_beginning(zero)  # this needs no commit
        assert consumer.position(zero, timeout=5) == 0
        read(consumer, 10)
    assert handler.now() - began < SOCKET_S


def test_no_broker_answers(client: KafkaClient, make: Any, cluster: EmbeddedCluster) -> None:
    handler = client.cluster.handler
    name = make(1)
    unknown = make(1)
    fill(client, name, 3)
    with (
        client.consumer(name) as consumer,
        client.producer() as producer,
        client.producer(transactional_id=f"of {name}") as transacting,
        client.share_consumer(group="shared") as sharing,
    ):
        assert consumer.position(TopicPartition(name, 0)) == 0
        for broker in (1, 2):
            cluster.set_latency(broker, 60_000)
        began = handler.now()
        calls: list[Callable[[], Any]] = [
            lambda: consumer.lag(timeout=0.3),
            lambda: consumer.lag(TopicPartition(name, 0), timeout=0.3),
            lambda: consumer.explain_start(TopicPartition(name, 0), TopicPartition(unknown, 0), timeout=0.3),
            lambda: consumer.subscribe(unknown, timeout=0.3),
            lambda: consumer.assign([TopicPartition(unknown, 0)], timeout=0.3),
            lambda: producer.partitions_for(unknown, timeout=0.3),
            lambda: transacting.begin_transaction(timeout=0.3),
            lambda: sharing.subscribe(unknown, timeout=0.3),
        ]
        for call in calls:
            with pytest.raises(KafkaException):
                call()
            assert handler.now() - began < SOCKET_S / 2
        began = handler.now()
        consumer.close(timeout=0.3)  # its workers wait for answers
        assert handler.now() - began < CLOSED_S
        for broker in (1, 2):
            cluster.set_latency(broker, 0)


def test_position_raises_no_error_of_others(client: KafkaClient, topic: str, monkeypatch: pytest.MonkeyPatch) -> None:
    zero, one, _ = keys(topic)
    with client.consumer(topic) as consumer:
        engine = engine_of(consumer)
        errors: list[KafkaException] = [
            TopicAuthorizationFailed(topic="another", partition=0),
            TopicAuthorizationFailed(topic=topic, partition=1),
            OffsetsNotCommitted("of commit_async()", {}),
        ]
        for error in errors:
            engine.worker_failed(error)
        consumer.seek_to_beginning(zero)
        assert consumer.position(zero) == 0
        for error in errors:  # calls that read raise them all
            with pytest.raises(type(error)):
                consumer.one(5)
        away = LeaderNotFoundError(topic=topic, partition=1)
        monkeypatch.setattr(engine, "find_starts", lambda wanted, limit_ms: ({}, dict.fromkeys(wanted, away)))
        consumer.seek_to_beginning(one)
        engine.worker_failed(errors[1])
        with pytest.raises(TopicAuthorizationFailed):
            consumer.position(one)


def test_timeouts_are_checked(client: KafkaClient, topic: str) -> None:
    with client.consumer(topic) as consumer, client.producer() as producer:
        calls: list[Callable[..., Any]] = [
            consumer.lag,
            consumer.explain_start,
            lambda timeout: consumer.subscribe(topic, timeout=timeout),
            lambda timeout: consumer.assign([], timeout=timeout),
            lambda timeout: consumer.unsubscribe(timeout=timeout),
            lambda timeout: producer.partitions_for(topic, timeout=timeout),
        ]
        for call in calls:
            with pytest.raises(ValueError, match="timeout"):
                call(timeout=-1)
            call(timeout=float("inf"))
