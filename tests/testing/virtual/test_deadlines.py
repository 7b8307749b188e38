"""Calls end by their time-out, whatever stage a fault meets them in."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from pykafka import KafkaClient
from pykafka.common import TopicPartition
from pykafka.exceptions import DeliveryUnknownError, KafkaException, MessagesNotDelivered
from pykafka.testing import FakeCluster
from pykafka.testing.virtual import Network, NetworkFaults, Scheduler, VirtualHandler

#: The time-out of each call, of requests, and what a call past its time may take for one quick answer (s).
TIMEOUT_S, SOCKET_S, QUICK_S = 1.0, 3.0, 0.3
PARTITIONS = [TopicPartition("orders", number) for number in range(4)]

Fault = Callable[[FakeCluster, Network], object]


def _pause(cluster: FakeCluster, network: Network) -> None:
    for broker in cluster.broker_ids:
        cluster.pause(broker)


def _cut_and_pause(cluster: FakeCluster, network: Network) -> None:
    _pause(cluster, network)
    network.cut_all()


def _pause_coordinator(cluster: FakeCluster, network: Network) -> None:
    cluster.set_coordinator("readers", 2)
    cluster.pause(2)


def _slow(cluster: FakeCluster, network: Network) -> None:
    """Connect in half a second, and get the broker's versions after another one."""
    network.faults = NetworkFaults(latency_ms=(400.0, 700.0))
    network.cut_all()


def _slow_answers(cluster: FakeCluster, network: Network) -> None:
    for broker in cluster.broker_ids:
        cluster.latency(broker, 900)
    network.cut_all()


def _throttle(cluster: FakeCluster, network: Network) -> None:
    for api in ("JoinGroup", "FindCoordinator", "OffsetCommit", "Metadata"):
        cluster.throttle(api, 20_000)


FAULTS: list[Fault] = [_pause, _cut_and_pause, _pause_coordinator, _slow, _slow_answers, _throttle]


def _assigned(client: KafkaClient) -> Any:
    consumer = client.consumer(group="readers")
    consumer.assign(PARTITIONS)
    consumer.poll(3, 2.0)
    return consumer


def _subscribed(client: KafkaClient, **options: Any) -> Any:
    consumer = client.consumer(group="readers", **options)
    consumer.subscribe("orders")
    return consumer


def _producer(client: KafkaClient) -> Any:
    producer = client.producer(retry_backoff_ms=50)
    producer.produce("orders", b"0", partition=0)
    producer.flush()
    return producer


CALLS: dict[str, tuple[Callable[[KafkaClient], Any], Callable[[Any], object]]] = {
    "commit": (_assigned, lambda consumer: consumer.commit(timeout=TIMEOUT_S)),
    "committed": (_assigned, lambda consumer: consumer.committed(*PARTITIONS, timeout=TIMEOUT_S)),
    "first poll, classic": (
        lambda client: _subscribed(client, protocol="classic"),
        lambda consumer: consumer.poll(10, TIMEOUT_S),
    ),
    "first poll, KIP-848": (
        lambda client: _subscribed(client, protocol="consumer"),
        lambda consumer: consumer.poll(10, TIMEOUT_S),
    ),
    "Delivery.get": (_producer, lambda producer: producer.produce("orders", b"x", partition=1).get(TIMEOUT_S)),
}


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
@pytest.mark.parametrize("name", CALLS)
def test_a_call_ends_in_time(
    scheduler: Scheduler, network: Network, virtual: VirtualHandler, name: str, fault: Fault
) -> None:
    """Connects, versions, coordinators and answers had a whole time each, and throttling counted against none."""
    make, call = CALLS[name]

    def program() -> float:
        with FakeCluster(3, {"orders": 4}, handler=virtual) as cluster:
            client = KafkaClient(cluster.hosts, handler=virtual, socket_timeout_ms=int(SOCKET_S * 1000))
            subject = make(client)
            fault(cluster, network)
            began = virtual.now()
            try:
                call(subject)
            except KafkaException:
                pass
            took = virtual.now() - began
            network.faults = NetworkFaults()
            network.heal()
            cluster.heal()
            try:
                client.close()
            except KafkaException:
                pass
            return took

    assert scheduler.run(program) < TIMEOUT_S + QUICK_S


@pytest.mark.parametrize("idempotent", [True, False])
def test_close_says_what_may_be_stored(scheduler: Scheduler, virtual: VirtualHandler, idempotent: bool) -> None:
    """A batch without sequence numbers that was on the wire got ProducerStoppedException, as if it were not stored."""

    def program() -> list[BaseException]:
        with (
            FakeCluster(1, {"orders": 1}, handler=virtual) as cluster,
            KafkaClient(cluster.hosts, handler=virtual) as client,
        ):
            producer = client.producer(enable_idempotence=idempotent)
            producer.produce("orders", b"0").get(5)
            cluster.hold("Produce")
            producer.produce("orders", b"1")
            with pytest.raises(MessagesNotDelivered) as caught:
                producer.close(1)
            cluster.heal()
            return [error for _, error in caught.value.failures]

    assert [type(error) for error in scheduler.run(program)] == [DeliveryUnknownError]
