"""Coordinators that are cut off from the controller, and do not know of their successors: clients find these, in virtual time.

Such a broker goes on: it answers heartbeats, and names itself when it is asked who coordinates. But replicas copy from its
successor, so what it writes is never in sync, and its answer to all that has to be written is late, or an error.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from pykafka import KafkaClient
from pykafka.common import TopicPartition
from pykafka.exceptions import GroupIdNotFound
from pykafka.protocol import wire
from pykafka.protocol.schema import Response
from pykafka.testing import FakeCluster
from pykafka.testing.call import Call
from pykafka.testing.virtual import Scheduler, VirtualHandler

GROUP, TOPIC, ID = "readers", "orders", "payments"
KEY = TopicPartition(TOPIC, 0)
KEYS = (("group", GROUP), ("transaction", ID))
FORMER, PRESENT = 1, 2
#: What a coordinator has to write.
WRITES = ("OffsetCommit", "InitProducerId", "AddPartitionsToTxn", "EndTxn", "AddOffsetsToTxn", "TxnOffsetCommit")
#: How late the former one answers these: brokers wait for replicas so long if offsets are written, or a transaction (s).
OFFSETS_S, TRANSACTION_S = 5.0, 60.0
#: The client's time-out for requests, and the time for finding the successor besides one request to the former one (s).
SOCKET_S, SLACK_S = 20.0, 2.0
#: The time without a heartbeat after which a member is out (s), and how often a member reads and commits.
SESSION_S, COMMITS = 10.0, 30
CLASSIC: dict[str, Any] = {"heartbeat_interval_ms": 500, "session_timeout_ms": int(SESSION_S * 1000)}
#: Gives the coordinators a successor, of which the former one does not hear.
CutOff = Callable[[], None]
Program = Callable[[KafkaClient, CutOff], Any]


def _beat(call: Call) -> Response | None:
    """Answer the heartbeat of a member as a coordinator does that knows it."""
    request: Any = call.request
    if call.node.node_id != FORMER:
        return None
    if isinstance(request, wire.HeartbeatRequest):
        return wire.HeartbeatResponse()
    if isinstance(request, wire.ConsumerGroupHeartbeatRequest) and request.member_epoch > 0:
        return wire.ConsumerGroupHeartbeatResponse(
            member_id=request.member_id, member_epoch=request.member_epoch, heartbeat_interval_ms=500
        )
    return None


def _cut_off(cluster: FakeCluster, error: str, latency_s: float) -> None:
    cluster.isolate(FORMER)
    for kind, key in KEYS:
        cluster.set_coordinator(key, PRESENT, kind)
    cluster.on_request(_beat)
    for api in WRITES:
        cluster.fail(api, error, times=1_000_000, broker=FORMER, latency_ms=int(latency_s * 1000))


def _committed(client: KafkaClient, cut_off: CutOff) -> Any:
    with client.consumer(group=GROUP, auto_commit=False) as consumer:
        consumer.assign([KEY])
        consumer.commit({KEY: 1})
        cut_off()
        consumer.commit({KEY: 2})
        return consumer.committed(KEY)[KEY]


def _begun(client: KafkaClient, cut_off: CutOff) -> Any:
    with client.producer(transactional_id=ID) as producer:
        cut_off()
        with producer.transaction():
            return producer.produce(TOPIC, b"one")


def _ended(client: KafkaClient, cut_off: CutOff) -> Any:
    with client.producer(transactional_id=ID) as producer, producer.transaction():
        delivery = producer.produce(TOPIC, b"one")
        producer.flush()
        cut_off()
        return delivery


def _with_offsets(client: KafkaClient, cut_off: CutOff) -> Any:
    with client.consumer(group=GROUP, auto_commit=False) as consumer, client.producer(transactional_id=ID) as producer:
        consumer.assign([KEY])
        consumer.commit({KEY: 1})
        producer.begin_transaction()
        producer.send_offsets(consumer, {KEY: 2})
        cut_off()
        producer.send_offsets(consumer, {KEY: 3})
        producer.commit_transaction()
        return consumer.committed(KEY)[KEY]


@pytest.mark.parametrize(
    ("program", "error", "latency_s", "former"),
    [
        pytest.param(_committed, "COORDINATOR_NOT_AVAILABLE", OFFSETS_S, 1, id="commit"),
        pytest.param(_committed, "REQUEST_TIMED_OUT", OFFSETS_S, 1, id="commit before Kafka 4.0"),
        pytest.param(_committed, "COORDINATOR_NOT_AVAILABLE", TRANSACTION_S, 1, id="commit without an answer"),
        pytest.param(_begun, "COORDINATOR_NOT_AVAILABLE", TRANSACTION_S, 1, id="begin"),
        pytest.param(_ended, "COORDINATOR_NOT_AVAILABLE", TRANSACTION_S, 1, id="end"),
        pytest.param(_with_offsets, "REQUEST_TIMED_OUT", OFFSETS_S, 2, id="offsets in a transaction"),
    ],
)
@pytest.mark.parametrize("others", [False, True], ids=["connected to it alone", "connected to others"])
def test_a_client_finds_the_successor_of_a_coordinator_that_does_not_know_it(
    scheduler: Scheduler,
    virtual: VirtualHandler,
    program: Program,
    error: str,
    latency_s: float,
    former: int,
    others: bool,
) -> None:
    """It asked that broker who coordinates, which named itself, for as long as it was cut off.

    :param former: how many coordinators are asked that are cut off
    """

    def run() -> tuple[Any, float]:
        with FakeCluster(4, {TOPIC: 1}, handler=virtual) as cluster:
            cluster.set_leader(TOPIC, 0, FORMER)
            for kind, key in KEYS:
                cluster.set_coordinator(key, FORMER, kind)
            hosts = cluster.hosts.split(",")[0]
            began: list[float] = []
            with KafkaClient(hosts, handler=virtual, socket_timeout_ms=int(SOCKET_S * 1000)) as client:

                def cut_off() -> None:
                    for broker in client.cluster.brokers.values():
                        if others or broker.id == FORMER:
                            broker.channel("main").open()
                        else:
                            broker.drop_connections()
                    began.append(virtual.now())
                    _cut_off(cluster, error, latency_s)

                result = program(client, cut_off)
                return result, virtual.now() - began[0]

    result, took = scheduler.run(run)
    assert result
    assert took < former * min(latency_s, SOCKET_S) + SLACK_S


@pytest.mark.parametrize(
    "options", [{"protocol": "consumer"}, {"protocol": "classic", **CLASSIC}], ids=lambda of: of["protocol"]
)
def test_heartbeats_follow_a_commit_that_has_found_the_successor(
    scheduler: Scheduler, virtual: VirtualHandler, options: dict[str, Any]
) -> None:
    """They stayed at the former coordinator, so that the group put the member out, and its next commit failed."""

    def run() -> set[int]:
        with FakeCluster(4, {TOPIC: 1}, handler=virtual) as cluster:
            cluster.set_leader(TOPIC, 0, PRESENT)
            cluster.set_coordinator(GROUP, FORMER)
            cluster.set_group_settings(
                consumer_heartbeat_interval_ms=500, consumer_session_timeout_ms=int(SESSION_S * 1000)
            )
            with (
                KafkaClient(cluster.hosts, handler=virtual) as client,
                client.consumer(TOPIC, group=GROUP, auto_commit=False, **options) as consumer,
            ):
                while not consumer.assignment():
                    consumer.poll(timeout=0.5)
                consumer.commit({KEY: 1})
                _cut_off(cluster, "COORDINATOR_NOT_AVAILABLE", OFFSETS_S)
                for offset in range(COMMITS):
                    consumer.poll(timeout=1.0)
                    consumer.commit({KEY: offset})
                    if offset == 2:
                        cluster.track_requests()
                return {one.broker for one in cluster.requests() if "Heartbeat" in one.api}

    assert scheduler.run(run) == {PRESENT}


def test_a_coordinator_that_a_broker_cut_off_does_not_list_is_found(
    scheduler: Scheduler, virtual: VirtualHandler
) -> None:
    """The client asked the broker that it was connected to each time, which had not heard that the coordinator is up again."""

    def run() -> None:
        with (
            FakeCluster(3, {TOPIC: 1}, handler=virtual) as cluster,
            KafkaClient(cluster.hosts.split(",")[1], handler=virtual) as client,
        ):
            cluster.stop(3)
            cluster.isolate(2)
            cluster.start(3)
            cluster.set_coordinator(GROUP, 3)
            client.cluster.brokers[2].channel("main").open()
            client.cluster.update([])
            assert 3 not in client.cluster.brokers
            with pytest.raises(GroupIdNotFound):
                client.admin.describe_groups([GROUP], timeout_ms=5_000)

    scheduler.run(run)
