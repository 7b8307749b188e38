"""Clients that are connected only to brokers with old metadata: they find the one broker that knows the new leaders."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import pytest

from pykafka import KafkaClient
from pykafka.common import TopicPartition
from pykafka.handlers import Handler
from pykafka.metadata.brokers import QUICK_CONNECT_MS
from pykafka.metadata.elections import metadata_request
from pykafka.producer.sender import CHECK_AGE_S
from pykafka.protocol.records import RecordBatchBuilder
from pykafka.testing import FakeCluster
from pykafka.testing.virtual import Network, Scheduler, VirtualHandler

#: With ids of topics and leader epochs, and hints at leaders (KIP-951); without hints; without ids; without epochs.
RELEASES = ["4.4", "2.8.2", "2.4.1", "1.1.1"]
TOPIC, REPLICATED = "orders", "replicated"
#: The one broker that is not cut off.
CURRENT = 3
#: A broker that has no connection either.
SILENT = 4
#: How long a client may take to find a leader that has moved (s).
BOUND_S = 5.0
#: How long a test waits for it (s).
PATIENCE_S = 60.0
#: How old metadata becomes that nothing else makes a client doubt (ms).
MAX_AGE_MS = 1_000

Fault = Callable[[FakeCluster], None]
Program = Callable[[Handler, str, Fault], float]
T = TypeVar("T")


def _virtually(seed: int, program: Callable[[Handler], T]) -> T:
    scheduler = Scheduler(seed, busy_limit=20)
    handler = VirtualHandler(scheduler, Network(scheduler))
    result: T = scheduler.run(lambda: program(handler))
    return result


def _cut_off(cluster: FakeCluster) -> None:
    """Move both partitions to the broker that has no connection yet, behind the back of all others."""
    for broker in cluster.broker_ids:
        if broker != CURRENT:
            cluster.isolate(broker)
    for partition in (0, 1):
        cluster.set_leader(TOPIC, partition, CURRENT)


def _cluster(handler: Handler, release: str) -> FakeCluster:
    cluster = FakeCluster(4, {TOPIC: 2}, handler=handler, as_version=release)
    cluster.set_leader(TOPIC, 0, 1)
    cluster.set_leader(TOPIC, 1, 2)
    return cluster


def _seeds(cluster: FakeCluster) -> str:
    """Return the first broker's address alone: a client of it connects to the leaders besides."""
    return cluster.hosts.split(",")[0]


def _produced(handler: Handler, release: str, cut_off: Fault) -> float:
    """Return how long a message took whose leader had moved (s)."""
    with (
        _cluster(handler, release) as cluster,
        KafkaClient(_seeds(cluster), handler=handler, socket_timeout_ms=2_000) as client,
        client.producer() as producer,
    ):
        for partition in (0, 1):
            producer.produce(TOPIC, b"before", partition=partition).get(10)
        cut_off(cluster)
        began = handler.now()
        producer.produce(TOPIC, b"after", partition=0).get(PATIENCE_S)
        return handler.now() - began


def _consumed(handler: Handler, release: str, cut_off: Fault) -> float:
    """Return how long the messages took that the new leader has (s)."""
    with (
        _cluster(handler, release) as cluster,
        KafkaClient(cluster.hosts, handler=handler) as other,
        KafkaClient(_seeds(cluster), handler=handler, socket_timeout_ms=2_000) as client,
        other.producer() as producer,
        client.consumer(auto_offset_reset="earliest") as consumer,
    ):
        consumer.assign([TopicPartition(TOPIC, 0), TopicPartition(TOPIC, 1)])
        for partition in (0, 1):
            producer.produce(TOPIC, b"before", partition=partition).get(10)
        count = 0
        while count < 2:
            count += len(consumer.poll(timeout=1))
        cut_off(cluster)
        producer.produce(TOPIC, b"after", partition=0).get(PATIENCE_S)
        began = handler.now()
        while not any(record.value == b"after" for record in consumer.poll(timeout=1)):
            assert handler.now() - began < PATIENCE_S
        return handler.now() - began


@pytest.mark.parametrize("program", [_produced, _consumed])
def test_a_client_of_old_brokers_finds_the_current_one(handler: Handler, program: Program) -> None:
    """It asked the connected brokers alone, for as long as they were cut off."""
    assert program(handler, "2.8.2", _cut_off) < BOUND_S


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize("program", [_produced, _consumed])
def test_it_does_so_of_each_release(program: Program, release: str, seed: int) -> None:
    assert _virtually(seed, lambda handler: program(handler, release, _cut_off)) < BOUND_S


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("program", [_produced, _consumed])
def test_a_silent_broker_costs_its_turn_alone(program: Program, seed: int) -> None:
    """The next request goes to the next broker, not to the silent one again."""

    def cut_off(cluster: FakeCluster) -> None:
        _cut_off(cluster)
        cluster.pause(SILENT)

    assert _virtually(seed, lambda handler: program(handler, "2.8.2", cut_off)) < BOUND_S + 2 * QUICK_CONNECT_MS / 1000


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("program", [_produced, _consumed])
def test_old_brokers_may_know_of_no_leader(program: Program, seed: int) -> None:
    """They were cut off during an election, which for a while is no reason to ask others."""

    def cut_off(cluster: FakeCluster) -> None:
        for partition in (0, 1):
            cluster.set_leader(TOPIC, partition, None)
        _cut_off(cluster)

    assert _virtually(seed, lambda handler: program(handler, "2.8.2", cut_off)) < 6 * BOUND_S


def _written(client: KafkaClient, cluster: FakeCluster, handler: Handler) -> float:
    """Return how long records were acknowledged, one each 100 ms, that are lost (s)."""
    count = int(PATIENCE_S * 10)
    with client.producer(acks=1, linger_ms=0) as producer:
        producer.produce(REPLICATED, b"before").get(10)
        _replace(cluster)
        for _ in range(count):
            producer.produce(REPLICATED, b"after").get(10)
            handler.sleep(0.1)
    cluster.heal()
    return (count + 1 - len(cluster.records(REPLICATED))) / 10


def _read(client: KafkaClient, cluster: FakeCluster, handler: Handler) -> float:
    """Return how late a record was read (s)."""
    with client.consumer(metadata_max_age_ms=MAX_AGE_MS) as consumer:
        consumer.assign([TopicPartition(REPLICATED, 0)])
        assert not consumer.poll(timeout=1)
        _replace(cluster)
        began = handler.now()
        batch = RecordBatchBuilder()
        batch.append(handler.time_ms(), None, b"after", None)
        with cluster._locked() as state:
            (partition,) = state.topics[REPLICATED].partitions
            partition.log.append(b"".join(batch.build(0)), state.now_ms(), partition.leader_epoch)
            state.waiters.wake(partition)
        while not consumer.poll(timeout=0.1):
            assert handler.now() - began < PATIENCE_S
        return handler.now() - began


def _delivered(client: KafkaClient, cluster: FakeCluster, handler: Handler) -> float:
    """Return how long a record took that all replicas in sync have (s): it times out at the former leader."""
    with client.producer() as producer:
        producer.produce(REPLICATED, b"before").get(10)
        _replace(cluster)
        began = handler.now()
        producer.produce(REPLICATED, b"after").get(PATIENCE_S)
    assert [record.value for record in cluster.records(REPLICATED)] == [b"before", b"after"]
    return handler.now() - began


def _replace(cluster: FakeCluster) -> None:
    cluster.isolate(1)
    cluster.set_leader(REPLICATED, 0, CURRENT)


@pytest.mark.parametrize("program", [_written, _read])
@pytest.mark.parametrize("release", RELEASES[:2])  # without topic ids, an old answer may count
def test_a_former_leader_that_refuses_nothing_is_left(
    release: str, program: Callable[[KafkaClient, FakeCluster, Handler], float]
) -> None:
    """A client that was connected to that broker alone asked it alone for metadata, for as long as it was cut off."""

    def run(handler: Handler) -> float:
        with (
            FakeCluster(4, handler=handler, as_version=release) as cluster,
            KafkaClient(_seeds(cluster), handler=handler, metadata_max_age_ms=MAX_AGE_MS) as client,
        ):
            cluster.create_topic(REPLICATED, 1, 4)
            return program(client, cluster, handler)

    assert 0 < _virtually(1, run) <= MAX_AGE_MS / 1000 + 2 * CHECK_AGE_S


@pytest.mark.parametrize("seed", range(3))
def test_a_former_leader_whose_requests_time_out_is_left(seed: int) -> None:
    """The producer believed what it knew until the metadata was five minutes old: its messages were too old by then."""

    def run(handler: Handler) -> float:
        with (
            FakeCluster(4, handler=handler) as cluster,
            KafkaClient(_seeds(cluster), handler=handler, socket_timeout_ms=2_000) as client,
        ):
            cluster.create_topic(REPLICATED, 1, 4)
            return _delivered(client, cluster, handler)

    assert _virtually(seed, run) < 2 * PATIENCE_S / 3


@pytest.mark.parametrize("seed", range(3))
def test_a_healthy_cluster_costs_no_connection(seed: int) -> None:
    """Whichever connected broker is asked about a leader that refuses, its answer helps."""

    def connected(client: KafkaClient) -> set[int]:
        return {id_ for id_, broker in client.brokers.items() if broker.stands}

    def program(handler: Handler) -> bool:
        with (
            _cluster(handler, "2.8.2") as cluster,
            KafkaClient(_seeds(cluster), handler=handler, socket_timeout_ms=2_000) as client,
            client.producer() as producer,
        ):
            for partition in (0, 1):
                producer.produce(TOPIC, b"x", partition=partition).get(10)
            before = connected(client)
            for leader in (2, 1, 2):
                cluster.set_leader(TOPIC, 0, leader)
                producer.produce(TOPIC, b"x", partition=0).get(10)
            return connected(client) == before

    assert _virtually(seed, program)


@pytest.mark.parametrize("release", RELEASES)
def test_a_wait_for_a_topic_asks_the_others(release: str) -> None:
    """It asked the connected broker for ever, which saw no leader of the topic when it was cut off."""

    def program(handler: Handler) -> float:
        with (
            _cluster(handler, release) as cluster,
            KafkaClient(_seeds(cluster), handler=handler, socket_timeout_ms=2_000) as client,
        ):
            client.cluster.call(metadata_request([TOPIC]))
            cluster.set_leader(TOPIC, 0, None)
            for broker in cluster.broker_ids:
                if broker != CURRENT:
                    cluster.isolate(broker)
            cluster.set_leader(TOPIC, 0, CURRENT)
            began = handler.now()
            assert client.cluster.wait_for_topic(TOPIC, int(PATIENCE_S * 1000)).partitions
            return handler.now() - began

    assert _virtually(1, program) < BOUND_S
