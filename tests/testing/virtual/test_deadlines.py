"""Calls end by their time-out, whatever stage a fault meets them in."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

from pykafka import KafkaClient
from pykafka.admin import ConfigResource, NewTopic
from pykafka.common import TopicPartition
from pykafka.exceptions import (
    ConsumerStoppedException,
    DeliveryUnknownError,
    KafkaException,
    MessagesNotDelivered,
    ResponseTimeoutError,
)
from pykafka.groups.coordinator_connection import CoordinatorConnection
from pykafka.groups.listener import RebalanceListener
from pykafka.handlers import Handler
from pykafka.network.node import Node
from pykafka.network.requests import CHECK_AFTER_S
from pykafka.protocol import wire
from pykafka.protocol.consumer_protocol import ConsumerProtocolSubscription
from pykafka.testing import FakeCluster
from pykafka.testing.virtual import Network, NetworkFaults, Scheduler, VirtualHandler

#: The time-out of each call, of requests, and what a call past its time may take for one quick answer (s).
TIMEOUT_S, SOCKET_S, QUICK_S = 1.0, 3.0, 0.3
TIMEOUT_MS = int(TIMEOUT_S * 1000)
ADMIN_APIS = (
    "CreateTopics",
    "DeleteTopics",
    "DeleteRecords",
    "DescribeGroups",
    "ListGroups",
    "IncrementalAlterConfigs",
)
APIS = (
    "JoinGroup",
    "FindCoordinator",
    "OffsetCommit",
    "OffsetFetch",
    "ListOffsets",
    "Metadata",
    "Produce",
    "InitProducerId",
    "AddPartitionsToTxn",
    "EndTxn",
    "ShareAcknowledge",
    "ShareGroupHeartbeat",
    "ConsumerGroupHeartbeat",
    "LeaveGroup",
)
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
    for api in (*APIS, *ADMIN_APIS):
        cluster.throttle(api, 20_000)


def _stop(cluster: FakeCluster, network: Network) -> None:
    for broker in cluster.broker_ids:
        cluster.stop(broker)


FAULTS: list[Fault] = [_pause, _cut_and_pause, _pause_coordinator, _slow, _slow_answers, _throttle, _stop]


def _assigned(client: KafkaClient) -> Any:
    consumer = client.consumer(group="readers")
    consumer.assign(PARTITIONS)
    consumer.poll(3, 2.0)
    return consumer


def _subscribed(client: KafkaClient, **options: Any) -> Any:
    consumer = client.consumer(group="readers", **options)
    consumer.subscribe("orders")
    return consumer


def _unread(client: KafkaClient) -> Any:
    consumer = client.consumer(group="readers")
    consumer.assign(PARTITIONS)
    return consumer


def _joined(client: KafkaClient) -> Any:
    consumer = _subscribed(client)
    while len(consumer.assignment()) < len(PARTITIONS):
        consumer.poll(3, 1.0)
    return consumer


def _producer(client: KafkaClient, **options: Any) -> Any:
    producer = client.producer(retry_backoff_ms=50, **options)
    for partition in range(len(PARTITIONS)):
        producer.produce("orders", b"0", partition=partition)
    producer.flush()
    return producer


def _transaction(client: KafkaClient) -> Any:
    producer = client.producer(transactional_id="t")
    producer.begin_transaction()
    producer.produce("orders", b"x", partition=1)
    producer.flush()
    return producer


def _flushed(producer: Any) -> None:
    producer.produce("orders", b"x", partition=1)
    producer.flush(timeout=TIMEOUT_S)


def _closed(producer: Any) -> None:
    producer.produce("orders", b"x", partition=1)
    producer.close(timeout=TIMEOUT_S)


def _share(client: KafkaClient) -> Any:
    consumer = client.share_consumer(group="workers")
    consumer.subscribe("orders")
    consumer.poll(timeout=1.0)
    return consumer


def _admin(client: KafkaClient) -> Any:
    client.admin.list_groups()
    return client.admin


CALLS: dict[str, tuple[Callable[[KafkaClient], Any], Callable[[Any], object]]] = {
    "commit": (_assigned, lambda consumer: consumer.commit(timeout=TIMEOUT_S)),
    "position": (_unread, lambda consumer: consumer.position(PARTITIONS[1], timeout=TIMEOUT_S)),
    "lag": (_assigned, lambda consumer: consumer.lag(timeout=TIMEOUT_S)),
    "explain_start": (_assigned, lambda consumer: consumer.explain_start(timeout=TIMEOUT_S)),
    "assign": (_assigned, lambda consumer: consumer.assign([TopicPartition("other", 0)], timeout=TIMEOUT_S)),
    "close of a consumer": (_joined, lambda consumer: consumer.close(timeout=TIMEOUT_S)),
    "unsubscribe": (_joined, lambda consumer: consumer.unsubscribe(timeout=TIMEOUT_S)),
    "committed": (_assigned, lambda consumer: consumer.committed(*PARTITIONS, timeout=TIMEOUT_S)),
    "first poll, classic": (
        lambda client: _subscribed(client, protocol="classic"),
        lambda consumer: consumer.poll(10, TIMEOUT_S),
    ),
    "first poll, KIP-848": (
        lambda client: _subscribed(client, protocol="consumer"),
        lambda consumer: consumer.poll(10, TIMEOUT_S),
    ),
    "create_topics": (_admin, lambda admin: admin.create_topics(NewTopic("more", 2), timeout_ms=TIMEOUT_MS)),
    "delete_topics": (_admin, lambda admin: admin.delete_topics("other", timeout_ms=TIMEOUT_MS)),
    "delete_records": (_admin, lambda admin: admin.delete_records({PARTITIONS[0]: 0}, timeout_ms=TIMEOUT_MS)),
    "describe_groups": (_admin, lambda admin: admin.describe_groups("readers", timeout_ms=TIMEOUT_MS)),
    "list_groups": (_admin, lambda admin: admin.list_groups(timeout_ms=TIMEOUT_MS)),
    "alter_configs": (
        _admin,
        lambda admin: admin.alter_configs(
            {ConfigResource.topic("orders"): {"retention.ms": "1000"}}, timeout_ms=TIMEOUT_MS
        ),
    ),
    "commit of a share consumer": (_share, lambda consumer: consumer.commit(timeout=TIMEOUT_S)),
    "close of a share consumer": (_share, lambda consumer: consumer.close(timeout=TIMEOUT_S)),
    "poll of a share consumer": (_share, lambda consumer: consumer.poll(timeout=TIMEOUT_S)),
    "partitions_for": (_producer, lambda producer: producer.partitions_for("other", timeout=TIMEOUT_S)),
    "produce": (
        lambda client: _producer(client, max_block_ms=TIMEOUT_MS),
        lambda producer: producer.produce("other", b"x"),
    ),
    "flush": (_producer, _flushed),
    "close of a producer": (_producer, _closed),
    "init_transactions": (
        lambda client: client.producer(transactional_id="t"),
        lambda producer: producer.init_transactions(timeout=TIMEOUT_S),
    ),
    "commit_transaction": (_transaction, lambda producer: producer.commit_transaction(timeout=TIMEOUT_S)),
    "abort_transaction": (_transaction, lambda producer: producer.abort_transaction(timeout=TIMEOUT_S)),
    "Delivery.get": (_producer, lambda producer: producer.produce("orders", b"x", partition=1).get(TIMEOUT_S)),
}


#: What leaving the group may take besides (s).
LEAVE_S = {"close of a consumer": 5.0, "unsubscribe": 5.0}


def _time_of(name: str, fault: Fault, network: Network, virtual: VirtualHandler, calls: int = 1) -> float:
    """Return how long the longest of some calls takes (s); the first begins with a fault."""
    made, call = CALLS[name]
    with FakeCluster(3, {"orders": 4, "other": 1}, handler=virtual) as cluster:
        client = KafkaClient(cluster.hosts, handler=virtual, socket_timeout_ms=int(SOCKET_S * 1000))
        subject = made(client)
        fault(cluster, network)
        took = 0.0
        for _ in range(calls):
            began = virtual.now()
            with suppress(KafkaException):
                call(subject)
            took = max(took, virtual.now() - began)
        network.faults = NetworkFaults()
        network.heal()
        cluster.heal()
        with suppress(KafkaException):
            client.close()
        return took


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
@pytest.mark.parametrize("name", CALLS)
def test_a_call_ends_in_time(
    scheduler: Scheduler, network: Network, virtual: VirtualHandler, name: str, fault: Fault
) -> None:
    """Connects, versions, coordinators and answers had a whole time each, and throttling counted against none."""
    assert scheduler.run(_time_of, name, fault, network, virtual) < TIMEOUT_S + LEAVE_S.get(name, 0.0) + QUICK_S


@pytest.mark.parametrize("name", CALLS)
def test_calls_of_throttled_connections_end_in_time(
    scheduler: Scheduler, network: Network, virtual: VirtualHandler, name: str
) -> None:
    """The first answer says for how long the client has to be quiet: the next `lag()` waited until then."""
    took = scheduler.run(_time_of, name, _throttle, network, virtual, 3)
    assert took < TIMEOUT_S + LEAVE_S.get(name, 0.0) + QUICK_S


@pytest.mark.parametrize("name", CALLS)
def test_a_call_ends_in_time_if_its_connection_ends_as_it_sends(
    scheduler: Scheduler, network: Network, virtual: VirtualHandler, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A request that cannot be sent on the connection that it has found goes by another, for which its caller waits."""
    send = Node.send

    def arm(cluster: FakeCluster, network: Network) -> None:
        caller = scheduler.current
        virtual.sleep(2 * CHECK_AFTER_S)

        def cut(node: Node, *args: Any, **options: Any) -> Any:
            if scheduler.current is caller:
                monkeypatch.setattr(Node, "send", send)
                _cut_and_pause(cluster, network)
                virtual.sleep(0.001)
            return send(node, *args, **options)

        monkeypatch.setattr(Node, "send", cut)

    assert scheduler.run(_time_of, name, arm, network, virtual) < TIMEOUT_S + LEAVE_S.get(name, 0.0) + QUICK_S


@pytest.mark.parametrize("leave_ms", [400, 650, 900, 1_900])
def test_leaving_a_group_without_brokers_ends_in_time(
    scheduler: Scheduler, virtual: VirtualHandler, leave_ms: int
) -> None:
    """The last pause between two attempts went beyond the deadline, by up to a second."""

    def program() -> float:
        with (
            FakeCluster(1, {"orders": 4}, handler=virtual) as cluster,
            KafkaClient(cluster.hosts, handler=virtual) as client,
        ):
            connection = CoordinatorConnection(client.cluster, "readers", 100)
            connection.find()
            cluster.stop(1)

            def leave(coordinator: Node, deadline: float) -> int:
                connection.call(wire.LeaveGroupRequest(), coordinator, deadline)
                raise AssertionError("it is down")

            began = virtual.now()
            connection.leave_by(leave, "m", leave_ms)
            return virtual.now() - began

    assert scheduler.run(program) < leave_ms / 1000 + QUICK_S / 2


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
@pytest.mark.parametrize("timeout", [0.0, 0.1])
@pytest.mark.parametrize("latency_ms", [30.0, 120.0])
def test_calls_with_less_time_than_the_way_takes_read(
    scheduler: Scheduler, network: Network, virtual: VirtualHandler, protocol: str, timeout: float, latency_ms: float
) -> None:
    """Each call connected, and asked for coordinator, metadata and the names of topics, anew: such a consumer never joined."""

    def program() -> tuple[int, float]:
        with FakeCluster(3, {"orders": 4}, handler=virtual) as cluster:
            cluster.set_coordinator("readers", 2)
            client = KafkaClient(cluster.hosts, handler=virtual)
            producer = client.producer()
            for partition in PARTITIONS:
                producer.produce("orders", b"x", partition=partition.partition)
            producer.flush()
            consumer = _subscribed(client, protocol=protocol, auto_offset_reset="earliest")
            network.faults = NetworkFaults(latency_ms=(latency_ms, latency_ms + 10))
            network.cut_all()
            read, longest, end = 0, 0.0, virtual.now() + 30
            while virtual.now() < end and read < len(PARTITIONS):
                began = virtual.now()
                read += len(consumer.poll(10, timeout))
                longest = max(longest, virtual.now() - began)
                virtual.sleep(0.02)
            network.faults = NetworkFaults()
            client.close()
            return read, longest

    read, longest = scheduler.run(program)
    assert read == len(PARTITIONS)
    assert longest < timeout + 2 * QUICK_S


@pytest.mark.parametrize("after_s", [0.85, 0.88, 0.91])
def test_a_member_that_is_closed_while_it_connects_does_not_join(
    scheduler: Scheduler, network: Network, virtual: VirtualHandler, after_s: float
) -> None:
    """It connected anew, and asked to join after `close()` had begun."""
    asked: list[str] = []

    def program() -> float:
        with FakeCluster(3, {"orders": 4}, handler=virtual) as cluster:
            cluster.set_coordinator("readers", 2)
            cluster.on_request(lambda call: asked.append(type(call.request).__name__))
            client = KafkaClient(cluster.hosts, handler=virtual)
            consumer = _subscribed(client, protocol="classic")
            network.faults = NetworkFaults(latency_ms=(60.0, 70.0))

            def read() -> None:
                with pytest.raises(ConsumerStoppedException):
                    consumer.poll(10, 20.0)

            worker = virtual.spawn(read)
            virtual.sleep(after_s)
            began = virtual.now()
            consumer.close(5)
            took = virtual.now() - began
            assert worker.join(5)
            client.close()
            return took

    took = scheduler.run(program)
    assert "FindCoordinatorRequest" in asked
    assert "JoinGroupRequest" not in asked
    assert took < QUICK_S


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
@pytest.mark.parametrize("idempotent", [True, False])
def test_a_message_is_reported_by_its_delivery_timeout(
    scheduler: Scheduler, network: Network, virtual: VirtualHandler, fault: Fault, idempotent: bool
) -> None:
    """Its sender connected, looked leaders up, wrote, or waited for an answer, for up to two socket time-outs more."""
    reports: list[float] = []

    def program() -> float:
        with FakeCluster(3, {"orders": 4}, handler=virtual) as cluster:
            client = KafkaClient(cluster.hosts, handler=virtual, socket_timeout_ms=int(SOCKET_S * 1000))
            producer = client.producer(delivery_timeout_ms=int(TIMEOUT_S * 1000), enable_idempotence=idempotent)
            producer.produce("orders", b"0", partition=0).get()
            fault(cluster, network)
            began = virtual.now()
            for partition in PARTITIONS * 2:
                value = b"x" * 300_000
                producer.produce(
                    "orders", value, partition=partition.partition, on_delivery=lambda *_: reports.append(virtual.now())
                )
            virtual.sleep(TIMEOUT_S + 2 * SOCKET_S)
            network.faults = NetworkFaults()
            network.heal()
            cluster.heal()
            with suppress(KafkaException):
                client.close()
            return max(reports) - began

    assert scheduler.run(program) < TIMEOUT_S + QUICK_S
    assert len(reports) == 2 * len(PARTITIONS)


@pytest.mark.parametrize("idempotent", [True, False])
def test_an_old_batch_cuts_no_connection_of_others(
    scheduler: Scheduler, virtual: VirtualHandler, idempotent: bool
) -> None:
    """A request had the time that its oldest batch had left, at whose end its connection ended."""
    asked: list[str] = []

    def program() -> list[Any]:
        with (
            FakeCluster(1, {"orders": 2}, handler=virtual) as cluster,
            KafkaClient(cluster.hosts, handler=virtual, socket_timeout_ms=1_000) as client,
        ):
            producer = client.producer(
                delivery_timeout_ms=6_000, ack_timeout_ms=5_000, linger_ms=5_000, enable_idempotence=idempotent
            )
            for partition in (0, 1):
                producer.produce("orders", b"0", partition=partition).get()
            cluster.on_request(lambda call: asked.append(type(call.request).__name__))
            hold = cluster.hold("Produce")
            old = producer.produce("orders", b"old", partition=0)
            virtual.sleep(3.0)
            young = producer.produce("orders", b"young", partition=1)
            with suppress(ResponseTimeoutError):
                producer.flush(0.1)  # in one request
            virtual.sleep(4.2)
            with pytest.raises(KafkaException) as caught:
                old.get(0)
            hold.release()
            young.get(1.0)
            producer.produce("orders", b"next", partition=0).get(1.0)
            return [type(caught.value), young.offset, [record.value for record in cluster.records("orders", 0)]]

    given_up, offset, values = scheduler.run(program)
    assert given_up is (DeliveryUnknownError if idempotent else ResponseTimeoutError)
    assert offset == 1
    assert "ApiVersionsRequest" not in asked
    assert values == [b"0", b"old", b"next"]


class SlowListener(RebalanceListener):
    """Takes a second to prepare for the loss of partitions."""

    def __init__(self, handler: Handler) -> None:
        self._handler = handler

    def on_revoked(self, partitions: list[TopicPartition]) -> None:
        self._handler.sleep(1.0)


def test_a_member_that_leaves_joins_with_its_topics(scheduler: Scheduler, virtual: VirtualHandler) -> None:
    """Its last join named no topics, if the group rebalanced again: others got its partitions before its last commit."""
    joins: list[list[str]] = []

    def note(call: Any) -> None:
        if isinstance(call.request, wire.JoinGroupRequest):
            metadata = ConsumerProtocolSubscription.from_bytestring(bytes(call.request.protocols[0].metadata))
            joins.append([str(name) for name in metadata.topic_names])

    def program() -> None:
        with (
            FakeCluster(1, {"orders": 4}, handler=virtual) as cluster,
            KafkaClient(cluster.hosts, handler=virtual) as client,
        ):
            consumer: Any = client.consumer(
                group="readers",
                protocol="classic",
                assignor="cooperative-sticky",
                listener=SlowListener(virtual),
            )
            consumer.subscribe("orders")
            while not consumer.assignment():
                consumer.poll(1, 0.5)
            cluster.on_request(note)
            cluster.fail("SyncGroup", "REBALANCE_IN_PROGRESS", latency_ms=500)
            consumer.enforce_rebalance("a test")
            consumer.poll(1, 0.2)
            consumer.close()

    scheduler.run(program)
    assert joins == [["orders"], ["orders"]]


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


@pytest.mark.parametrize("timeout", [0.0, 0.1, TIMEOUT_S])
def test_a_partition_that_metadata_lacks_keeps_no_call(
    scheduler: Scheduler, virtual: VirtualHandler, timeout: float
) -> None:
    """Each call that asked for it took the socket timeout of each broker; it is read when brokers answer again."""

    def program() -> None:
        with (
            FakeCluster(brokers=2, topics={"orders": 2}, handler=virtual) as cluster,
            KafkaClient(cluster.hosts, handler=virtual) as other,
            KafkaClient(cluster.hosts, handler=virtual, socket_timeout_ms=int(SOCKET_S * 1000)) as client,
        ):
            cluster.set_group_settings(consumer_heartbeat_interval_ms=200)
            consumer = client.consumer("orders", group="readers", protocol="consumer")

            def poll_until(count: int, seconds: float = 5.0) -> float:
                """Poll until the consumer has so many partitions, or the time is up; return how long the longest call took."""
                longest, ends = 0.0, virtual.now() + seconds
                while len(consumer.assignment()) < count and virtual.now() < ends:
                    began = virtual.now()
                    consumer.poll(timeout=timeout)
                    longest = max(longest, virtual.now() - began)
                    virtual.sleep(0.05)
                return longest

            poll_until(2)
            is_held = False
            held = cluster.hold("Metadata", when=lambda _: is_held)
            other.admin.create_partitions({"orders": 4})
            is_held = True
            assert poll_until(4) <= timeout + QUICK_S
            assert len(consumer.assignment()) == 2
            held.release()
            is_held = False
            poll_until(4)
            assert len(consumer.assignment()) == 4
            consumer.close()

    scheduler.run(program)


@pytest.mark.parametrize("transactional", [True, False])
def test_the_first_message_to_silent_leaders_waits_for_all_of_them_together(
    scheduler: Scheduler, network: Network, virtual: VirtualHandler, transactional: bool
) -> None:
    """The producer of a topic asked each of up to 16 leaders for a socket time-out, one behind the other, as it began."""

    def program() -> float:
        with FakeCluster(3, {"orders": 4}, handler=virtual) as cluster:
            client = KafkaClient(cluster.hosts, handler=virtual, socket_timeout_ms=int(SOCKET_S * 1000))
            options: dict[str, Any] = {"transactional_id": "t1"} if transactional else {"enable_idempotence": True}
            producer = client.producer(**options)
            assert client.topics["orders"].partitions
            if transactional:
                producer.init_transactions()
                producer.begin_transaction()
            _cut_and_pause(cluster, network)
            began = virtual.now()
            producer.produce("orders", b"0")
            took = virtual.now() - began
            cluster.heal()
            client.close()
            return took

    assert scheduler.run(program) < SOCKET_S + QUICK_S
