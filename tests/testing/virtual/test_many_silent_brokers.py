"""Brokers that hang cost their own items: what others know is there as soon as it would be without them."""

from __future__ import annotations

from typing import Any

import pytest

from pykafka import KafkaClient
from pykafka.admin import OffsetSpec
from pykafka.common import TopicPartition
from pykafka.exceptions import KafkaException
from pykafka.testing import FakeCluster
from pykafka.testing.virtual import Network, Scheduler, VirtualHandler

BROKERS = 8
#: The time of each call of admin, and what brokers that are fine may take (s).
ADMIN_S, QUICK_S = 8.0, 0.5
PARTITIONS = [TopicPartition("orders", number) for number in range(BROKERS)]
GROUPS = [f"group-{number}" for number in range(BROKERS)]


def _led(cluster: FakeCluster) -> None:
    """Give each broker a partition and a group."""
    for number in range(BROKERS):
        cluster.set_leader("orders", number, number + 1)
        cluster.set_coordinator(GROUPS[number], number + 1)


def _silence(cluster: FakeCluster, network: Network, how: str, *brokers: int) -> None:
    addresses = cluster.hosts.split(",")
    for broker in brokers:
        cluster.pause(broker)
        if how == "no connect":
            network.unreachable.add(addresses[broker - 1])
    if how != "no answer":
        network.cut_all()


ADMIN_CALLS: dict[str, Any] = {
    "list_offsets": lambda admin, **options: admin.list_offsets(
        dict.fromkeys(PARTITIONS, OffsetSpec.latest()), **options
    ),
    "delete_records": lambda admin, **options: admin.delete_records(dict.fromkeys(PARTITIONS, 0), **options),
    "describe_producers": lambda admin, **options: admin.describe_producers(PARTITIONS, **options),
}


@pytest.mark.parametrize("how", ["no versions", "no connect"])
@pytest.mark.parametrize("silent", [4, 7])
@pytest.mark.parametrize("name", ADMIN_CALLS)
def test_a_call_of_admin_has_what_brokers_know_that_are_fine(
    scheduler: Scheduler, network: Network, virtual: VirtualHandler, name: str, silent: int, how: str
) -> None:
    """It connected to one broker after another, with three seconds for each that hangs: no time was left for the others."""
    asked: list[float] = []

    def program() -> Any:
        with FakeCluster(BROKERS, {"orders": BROKERS}, handler=virtual) as cluster:
            _led(cluster)
            client = KafkaClient(cluster.hosts, handler=virtual, socket_timeout_ms=5_000)
            client.cluster.brokers[BROKERS].channel("main").open(1_000)
            client.cluster.update(["orders"])
            _silence(cluster, network, how, *range(1, silent + 1))
            began = virtual.now()
            cluster.on_answer(lambda call, *_: asked.append(virtual.now() - began))
            found = ADMIN_CALLS[name](client.admin, timeout_ms=int(ADMIN_S * 1000), raise_errors=False)
            network.heal()
            cluster.heal()
            client.close()
            return found

    found = scheduler.run(program)
    assert sorted(found) == PARTITIONS[silent:]
    assert sorted(found.errors) == PARTITIONS[:silent]
    assert all(isinstance(error, KafkaException) for error in found.errors.values())
    assert len([at for at in asked if at < QUICK_S]) >= BROKERS - silent
