"""Listeners that leave the group from within their calls, for each protocol of groups, in virtual time."""

from __future__ import annotations

from typing import Any

import pytest

from pykafka import KafkaClient
from pykafka.common import TopicPartition
from pykafka.exceptions import ConsumerStoppedException
from pykafka.testing import FakeCluster
from pykafka.testing.virtual import Network, Scheduler, VirtualHandler
from pykafka.testing.virtual.zookeeper import ZooKeeper
from tests.support.memberships import PROTOCOLS

GROUP, TOPIC = "readers", "orders"
#: How long members have to divide the partitions anew (s).
SOON_S = 5.0


class Leaver:
    """A listener that closes its consumer, or leaves the group and joins again, in the first of some calls."""

    def __init__(self, method: str, how: str) -> None:
        self.method = method
        self.how = how
        self.consumer: Any = None
        self.errors: list[Exception] = []
        self.has_left = False

    def on_assigned(self, partitions: list[TopicPartition]) -> None:
        """Leave, perhaps."""
        self._leave("on_assigned", partitions)

    def on_revoked(self, partitions: list[TopicPartition]) -> None:
        """Leave, perhaps."""
        self._leave("on_revoked", partitions)

    def on_lost(self, partitions: list[TopicPartition]) -> None:
        """Leave, perhaps."""
        self._leave("on_lost", partitions)

    def _leave(self, method: str, partitions: list[TopicPartition]) -> None:
        if method != self.method or self.has_left or not partitions:
            return
        self.has_left = True
        if self.how == "close":
            self.consumer.close()
        else:
            self.consumer.unsubscribe()
            self.consumer.subscribe(TOPIC)


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("method", ["on_assigned", "on_revoked", "on_lost"])
@pytest.mark.parametrize("how", ["close", "unsubscribe"])
def test_a_listener_may_leave_the_group(
    scheduler: Scheduler, network: Network, virtual: VirtualHandler, protocol: str, method: str, how: str
) -> None:
    """A member of ZooKeeper's groups went on with the change that its listener had ended: KeyError, or a new session."""
    options: dict[str, Any] = {"group": GROUP, **PROTOCOLS[protocol]}
    if method == "on_lost":  # by an application that is idle for long
        options["max_poll_interval_ms"] = 1_000
    listener = Leaver(method, how)

    def poll(consumer: Any) -> bool:
        """Poll; return whether the consumer is open."""
        try:
            consumer.poll(timeout=0.1)
        except ConsumerStoppedException:
            return False
        return True

    def program() -> list[int]:
        network.zookeeper = server = ZooKeeper(virtual)
        with (
            FakeCluster(brokers=1, topics={TOPIC: 4}, handler=virtual) as cluster,
            KafkaClient(cluster.hosts, handler=virtual) as client,
            KafkaClient(cluster.hosts, handler=virtual) as other,
        ):
            cluster.set_group_settings(consumer_heartbeat_interval_ms=200)
            first = listener.consumer = client.consumer(TOPIC, listener=listener, **options)
            second = other.consumer(TOPIC, **{**options, "max_poll_interval_ms": 300_000})
            is_open = True
            while is_open and not listener.has_left and len(first.assignment()) < 4:
                is_open = poll(first)
            if method == "on_lost":
                virtual.sleep(3.0)
            ends = virtual.now() + SOON_S
            counts = [0, 0]
            while virtual.now() < ends:
                is_open = is_open and poll(first)
                poll(second)
                counts = [len(first.assignment()) if is_open else 0, len(second.assignment())]
            assert listener.has_left
            assert is_open is (how == "unsubscribe")
            first.close()
            second.close()
        server.close()
        virtual.sleep(1)
        return counts

    assert scheduler.run(program) == ([0, 4] if how == "close" else [2, 2])
    assert scheduler.errors == []
    assert scheduler.leftovers == []
