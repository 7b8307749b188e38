"""Brokers that name a former coordinator, cut off from the controller as they are: clients find the present one."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from pykafka import KafkaClient
from pykafka.common import TopicPartition
from pykafka.protocol import wire
from pykafka.testing import FakeCluster
from pykafka.testing.call import Call
from pykafka.testing.virtual import Scheduler, VirtualHandler

GROUP, TOPIC, ID = "readers", "orders", "payments"
KEYS = (("group", GROUP), ("transaction", ID))
#: Coordinators, and the brokers that clients are connected to; the others know where the coordinator is.
FORMER, PRESENT, CURRENT = 1, 2, 4
#: How long a client may take to find the coordinator (s).
BOUND_S = 6.0
#: How long a test waits for that (s).
PATIENCE_S = 20.0
OPTIONS: dict[str, Any] = {"heartbeat_interval_ms": 500, "session_timeout_ms": 6_000}
HEARTBEATS = {wire.HeartbeatRequest, wire.ConsumerGroupHeartbeatRequest, wire.ShareGroupHeartbeatRequest}
#: Moves the coordinators; it returns what the new one is asked from then on.
Move = Callable[[], set[type[Any]]]


def _move(cluster: FakeCluster) -> set[type[Any]]:
    """Move the coordinators; all brokers but one name the former ones. Return what the new one is asked from now on."""
    asked: set[type[Any]] = set()

    def answer(call: Call, response: Any) -> Any:
        if isinstance(response, wire.FindCoordinatorResponse) and call.node.node_id != CURRENT:
            former = call.state.nodes[FORMER]
            response.node_id, response.host, response.port = FORMER, former.host, former.port
        if call.node.node_id == PRESENT:
            asked.add(type(call.request))
        return response

    for kind, key in KEYS:
        cluster.set_coordinator(key, PRESENT, kind)
    cluster.on_answer(answer)
    return asked


def _committed(client: KafkaClient, move: Move) -> Any:
    with client.consumer(group=GROUP, auto_commit=False) as consumer:
        consumer.assign([TopicPartition(TOPIC, 0)])
        consumer.commit({TopicPartition(TOPIC, 0): 1})
        move()
        consumer.commit({TopicPartition(TOPIC, 0): 2})
        return consumer.committed(TopicPartition(TOPIC, 0))[TopicPartition(TOPIC, 0)]


def _consumed(client: KafkaClient, move: Move, protocol: str) -> Any:
    with client.consumer(TOPIC, group=GROUP, protocol=protocol, **OPTIONS) as consumer:
        return _heartbeats(consumer, move)


def _shared(client: KafkaClient, move: Move) -> Any:
    with client.share_consumer(TOPIC, group=GROUP) as consumer:
        return _heartbeats(consumer, move)


def _heartbeats(consumer: Any, move: Move) -> Any:
    while not consumer.assignment():
        consumer.poll(timeout=0.5)
    asked = move()
    for _ in range(round(PATIENCE_S / 0.5)):
        if asked & HEARTBEATS:
            break
        consumer.poll(timeout=0.5)
    return consumer.assignment()


def _in_transaction(client: KafkaClient, move: Move) -> Any:
    with client.producer(transactional_id=ID) as producer:
        for _ in range(2):
            producer.begin_transaction()
            delivery = producer.produce(TOPIC, b"one")
            producer.commit_transaction()
            move()
        return delivery.done


def _offsets_in_transaction(client: KafkaClient, move: Move) -> Any:
    key = TopicPartition(TOPIC, 0)
    with client.consumer(group=GROUP, auto_commit=False) as consumer, client.producer(transactional_id=ID) as producer:
        consumer.assign([key])
        consumer.commit({key: 1})
        move()
        producer.begin_transaction()
        producer.send_offsets(consumer, {key: 2})
        producer.commit_transaction()
        return consumer.committed(key)[key]


@pytest.mark.parametrize(
    "program",
    [
        _committed,
        partial(_consumed, protocol="consumer"),
        partial(_consumed, protocol="classic"),
        _shared,
        _in_transaction,
        _offsets_in_transaction,
    ],
    ids=["commit", "kip848", "classic", "share", "transaction", "offsets in a transaction"],
)
def test_a_client_of_brokers_that_are_cut_off_finds_the_coordinator(
    scheduler: Scheduler, virtual: VirtualHandler, program: Callable[[KafkaClient, Move], Any]
) -> None:
    """It asked the connected ones alone, which named the former coordinator each time."""

    def run() -> tuple[Any, float]:
        with FakeCluster(4, {TOPIC: 1}, handler=virtual) as cluster:
            cluster.set_leader(TOPIC, 0, FORMER)
            for kind, key in KEYS:
                cluster.set_coordinator(key, FORMER, kind)
            cluster.set_group_settings(consumer_heartbeat_interval_ms=500)
            moved_at: list[float] = []
            with KafkaClient(cluster.hosts.split(",")[0], handler=virtual, socket_timeout_ms=5_000) as client:

                def move() -> set[type[Any]]:
                    client.cluster.brokers[FORMER].channel("main").open()
                    client.cluster.brokers[CURRENT].drop_connections()
                    moved_at.append(virtual.now())
                    return _move(cluster)

                result = program(client, move)
                return result, virtual.now() - moved_at[0]

    result, took = scheduler.run(run)
    assert result
    assert took < BOUND_S
