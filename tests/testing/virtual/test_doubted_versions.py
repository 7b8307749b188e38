"""A broker whose versions are in doubt is asked once more: no call waits for that longer than its time, in virtual time."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

from pykafka import KafkaClient
from pykafka.common import OffsetAndMetadata, TopicPartition
from pykafka.coordinator.consumer import ConsumerCoordinator
from pykafka.exceptions import KafkaException, ResponseTimeoutError, UnsupportedVersion
from pykafka.network.api_versions import ASK_AGAIN_S
from pykafka.network.known_versions import forget_hints
from pykafka.network.node import Node
from pykafka.protocol import wire
from pykafka.testing import FakeCluster
from pykafka.testing.virtual import Scheduler, VirtualHandler
from tests.support.groups import Reader

#: The time of a call, and what it may take beyond that (s).
TIMEOUT_S, SLACK_S = 0.3, 0.05
#: What a member leaves for one quick answer at the end of a call (s).
LEAST_S = 0.1
LACKING = wire.DescribeClusterRequest


def _called(node: Node) -> None:
    node.call(LACKING(), timeout_ms=round(TIMEOUT_S * 1000), strict=True)


def _bounded(node: Node) -> None:
    node.send(LACKING(), timeout_ms=round(TIMEOUT_S * 1000))


def _chosen(node: Node) -> None:
    node.api_version(LACKING, timeout_ms=round(TIMEOUT_S * 1000))


def _has(node: Node) -> None:
    if not node.has(LACKING, round(TIMEOUT_S * 1000)):
        raise UnsupportedVersion("the broker lacks it, and has said so twice")


@pytest.mark.parametrize("call", [_called, _bounded, _chosen, _has])
def test_a_call_for_an_api_that_seems_to_lack_ends_in_time(
    scheduler: Scheduler, virtual: VirtualHandler, call: Callable[[Node], None]
) -> None:
    """It waited for the answer for up to ten seconds. The next call has that answer, also if its own time is shorter."""

    def program() -> tuple[list[float], list[type[Any]]]:
        with (
            FakeCluster(brokers=1, handler=virtual, versions={"DescribeCluster": None}) as cluster,
            KafkaClient(cluster.hosts, handler=virtual) as client,
        ):
            node = client.cluster.brokers[1]
            node.channel("main").open()
            cluster.pause(1)
            took, errors = [], []
            for _ in range(2):
                began = virtual.now()
                with pytest.raises(KafkaException) as caught:
                    call(node)
                took.append(virtual.now() - began)
                errors.append(caught.type)
                cluster.resume(1)
                virtual.sleep(0.1)
            return took, errors

    took, errors = scheduler.run(program)
    assert errors == [ResponseTimeoutError, UnsupportedVersion]
    assert max(took) <= TIMEOUT_S + SLACK_S


def test_a_call_to_a_broker_that_was_taken_for_0_8_2_ends_in_time(
    scheduler: Scheduler, virtual: VirtualHandler
) -> None:
    """It waited for three seconds to hear whether the broker is newer by now."""

    def program() -> float:
        with (
            FakeCluster(brokers=1, handler=virtual, as_version="0.8.2") as cluster,
            KafkaClient(cluster.hosts, handler=virtual, broker_version="0.8.2") as client,
        ):
            node = client.cluster.brokers[1]
            node.channel("main").open()
            virtual.sleep(ASK_AGAIN_S + 1)
            cluster.pause(1)
            began = virtual.now()
            with pytest.raises(ResponseTimeoutError):
                node.call(wire.MetadataRequest(topics=[]), timeout_ms=round(TIMEOUT_S * 1000), strict=True)
            return virtual.now() - began

    assert scheduler.run(program) <= TIMEOUT_S + SLACK_S


def _joins(client: KafkaClient) -> object:
    with client.consumer("t", group="g", protocol="consumer") as consumer:
        return consumer.poll(timeout=TIMEOUT_S)


def _lists_transactions(client: KafkaClient) -> object:
    return client.admin.list_transactions(timeout_ms=round(TIMEOUT_S * 1000))


def _describes_producers(client: KafkaClient) -> object:
    return client.admin.describe_producers([TopicPartition("t", 0)], timeout_ms=round(TIMEOUT_S * 1000))


@pytest.mark.parametrize("call", [_joins, _lists_transactions, _describes_producers])
def test_calls_of_old_brokers_for_new_apis_end_in_time(
    scheduler: Scheduler, virtual: VirtualHandler, call: Callable[[KafkaClient], object]
) -> None:
    """They waited for the second answer for up to ten seconds; `wakeup()` and `close()` did not end that."""

    def program() -> float:
        with (
            FakeCluster(brokers=1, topics={"t": 1}, handler=virtual, as_version="2.4.1") as cluster,
            KafkaClient(cluster.hosts, handler=virtual) as client,
        ):
            client.cluster.find_leaders([("t", 0)])
            client.cluster.brokers[1].channel("main").open()
            with cluster.hold("ApiVersions"):
                began = virtual.now()
                with suppress(ResponseTimeoutError):
                    call(client)
                took = virtual.now() - began
            virtual.sleep(1)
            with pytest.raises(UnsupportedVersion):
                call(client)
            return took

    assert scheduler.run(program) <= 2 * TIMEOUT_S
    assert scheduler.errors == []


def _polls(protocol: str) -> Callable[[KafkaClient], Any]:
    def call(client: KafkaClient) -> Any:
        consumer = client.consumer("orders", group="readers", protocol=protocol)
        return lambda: consumer.poll(timeout=TIMEOUT_S)

    return call


def _describes(client: KafkaClient) -> Any:
    return lambda: client.admin.describe_groups("readers", timeout_ms=round(TIMEOUT_S * 1000))


def _leaves(client: KafkaClient) -> Any:
    consumer = client.share_consumer("orders", group="readers")
    with suppress(KafkaException):
        consumer.poll(timeout=TIMEOUT_S)
    return lambda: consumer.close(timeout=TIMEOUT_S)


def _commits(client: KafkaClient) -> Any:
    member = ConsumerCoordinator(client, Reader("orders"), group_id="readers", api_version=(0, 9))
    offsets = {TopicPartition("orders", 0): OffsetAndMetadata(1)}
    return lambda: member.offsets.commit(offsets, timeout_ms=round(TIMEOUT_S * 1000))


@pytest.mark.parametrize(
    ("api", "call"),
    [
        ("JoinGroup", _polls("auto")),
        ("JoinGroup", _polls("classic")),
        ("ConsumerGroupHeartbeat", _polls("consumer")),
        ("DescribeGroups", _describes),
        ("ShareGroupHeartbeat", _leaves),
        ("OffsetCommit", _commits),
    ],
    ids=["auto", "classic", "consumer", "admin", "shares", "kafka-python"],
)
def test_a_call_of_the_application_ends_in_time_if_its_broker_seems_to_lack_an_api(
    scheduler: Scheduler, virtual: VirtualHandler, api: str, call: Callable[[KafkaClient], Any]
) -> None:
    """Members of groups, share groups and admin asked the broker once more for as long as that took."""

    def program() -> float:
        with (
            FakeCluster(brokers=1, topics={"orders": 1}, handler=virtual, versions={api: None}) as cluster,
            KafkaClient(cluster.hosts, handler=virtual) as client,
        ):
            client.cluster.brokers[1].channel("main").open()
            with cluster.hold("ApiVersions"):
                make = call(client)
                began = virtual.now()
                with suppress(KafkaException):
                    make()
                return virtual.now() - began

    assert scheduler.run(program) <= TIMEOUT_S + LEAST_S + SLACK_S


def _looks_up(client: KafkaClient) -> object:
    return client.cluster.list_offsets({("orders", 0): -2}, timeout_ms=round(TIMEOUT_S * 1000))


def _begins(client: KafkaClient) -> object:
    producer = client.producer(transactional_id="t")
    return lambda: producer.init_transactions(timeout=TIMEOUT_S)


def _reads(protocol: str) -> Callable[[KafkaClient], object]:
    return lambda client: client.consumer("orders", group="readers", protocol=protocol).poll(timeout=TIMEOUT_S)


@pytest.mark.parametrize(
    "call", [_reads("classic"), _reads("consumer"), _reads("auto"), _describes, _begins, _looks_up]
)
def test_a_broker_that_may_be_old_keeps_no_call(
    scheduler: Scheduler, virtual: VirtualHandler, call: Callable[[KafkaClient], Any]
) -> None:
    """Eight connections show that a broker beside newer ones is 0.8.2, with pauses: `poll(0.3)` took five seconds."""

    def program() -> float:
        with (
            FakeCluster(brokers=2, handler=virtual) as cluster,
            KafkaClient(cluster.hosts, handler=virtual) as client,
        ):
            cluster.create_topic("orders", 1)
            cluster.set_coordinator("readers", 2)
            cluster.set_coordinator("t", 2, "transaction")
            cluster.set_leader("orders", 0, 2)
            client.cluster.find_leaders([("orders", 0)])
            client.cluster.brokers[1].channel("main").open()
            cluster.cut("ApiVersions", broker=2, times=1_000)
            began = virtual.now()
            with suppress(KafkaException):
                made = call(client)
                if callable(made):
                    made()
            return virtual.now() - began

    assert scheduler.run(program) <= TIMEOUT_S + LEAST_S + SLACK_S


@pytest.mark.parametrize("timeout", [0.0, 0.1, 0.5])
@pytest.mark.parametrize("newer", [True, False], ids=["beside newer ones", "alone"])
def test_calls_with_little_time_find_out_that_a_broker_is_old(
    scheduler: Scheduler, virtual: VirtualHandler, timeout: float, newer: bool
) -> None:
    """A worker finds out for all of them: each call would begin anew."""

    def program() -> tuple[float, int]:
        with FakeCluster(brokers=2, topics={"orders": 1}, handler=virtual, as_version="0.8.2") as cluster:
            client = KafkaClient(cluster.hosts, handler=virtual, broker_version="0.8.2")
            with client.producer() as producer:
                producer.produce("orders", b"x")
            client.close()
            forget_hints()
            with KafkaClient(cluster.hosts, handler=virtual) as client:
                if newer:
                    client.cluster._known_versions._newer.add("elsewhere:9092")
                for node in client.cluster.brokers.values():
                    node.drop_connections()
                    node.versions.found = None
                consumer = client.consumer(auto_offset_reset="earliest")
                consumer.assign([TopicPartition("orders", 0)], timeout=timeout)
                longest, ends = 0.0, virtual.now() + 20
                while virtual.now() < ends:
                    began = virtual.now()
                    records = consumer.poll(timeout=timeout)
                    longest = max(longest, virtual.now() - began)
                    if records:
                        return longest, len(records)
                    virtual.sleep(0.05)
                return longest, 0

    longest, count = scheduler.run(program)
    assert count == 1
    assert longest <= timeout + LEAST_S + SLACK_S
