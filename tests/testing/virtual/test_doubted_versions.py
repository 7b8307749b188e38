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


def _looked_for(node: Node) -> None:
    if not node.has(LACKING, round(TIMEOUT_S * 1000)):
        raise UnsupportedVersion


@pytest.mark.parametrize("call", [_called, _bounded, _chosen, _looked_for])
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
