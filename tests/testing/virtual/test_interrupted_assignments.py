"""Members whose call an interrupt ends while they take partitions: the next calls read what was assigned meanwhile."""

from __future__ import annotations

from typing import Any

import pytest

from pykafka import KafkaClient
from pykafka.common import TopicPartition
from pykafka.testing import FakeCluster
from pykafka.testing.virtual import Network, Scheduler, VirtualHandler
from pykafka.testing.virtual.zookeeper import ZooKeeper

GROUP, TOPIC = "readers", "orders"
#: How long members have to divide the partitions (s): sessions, and so shares of members that are gone, last for 4 s.
SOON_S = 6.0
PROTOCOLS: dict[str, dict[str, Any]] = {
    "consumer": {"protocol": "consumer"},
    "cooperative": {
        "protocol": "classic",
        "assignor": "cooperative-sticky",
        "heartbeat_interval_ms": 200,
        "session_timeout_ms": 6_000,
    },
    "eager": {"protocol": "classic", "heartbeat_interval_ms": 200, "session_timeout_ms": 6_000},
    "zookeeper": {"protocol": "zookeeper", "zookeeper_hosts": "anywhere:2181", "session_timeout_ms": 4_000},
}


class Interrupted(BaseException):
    """Ctrl-C, or a greenlet's timeout."""


class Listener:
    """A listener of which one call, with so many partitions, takes a while, and is interrupted in that."""

    def __init__(self, handler: VirtualHandler, count: int) -> None:
        self.handler = handler
        self.count = count
        self.waits = False
        self.has_waited = False

    def on_assigned(self, partitions: list[TopicPartition]) -> None:
        """Wait for the interrupt, once."""
        if len(partitions) == self.count and not self.has_waited:
            self.waits = self.has_waited = True
            try:
                self.handler.sleep(2.0)
            finally:
                self.waits = False


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("count", [0, 2, 4])
def test_partitions_that_come_behind_an_interrupt_are_read(
    scheduler: Scheduler, network: Network, virtual: VirtualHandler, protocol: str, count: int
) -> None:
    """A member of ZooKeeper's groups never read them: it held them, and so did nobody else."""
    options: dict[str, Any] = {"group": GROUP, "auto_offset_reset": "earliest", **PROTOCOLS[protocol]}
    listener = Listener(virtual, count)

    def program() -> None:
        network.zookeeper = server = ZooKeeper(virtual)
        with (
            FakeCluster(1, {TOPIC: 4}, handler=virtual) as cluster,
            KafkaClient(cluster.hosts, handler=virtual) as client,
            KafkaClient(cluster.hosts, handler=virtual) as other,
        ):
            cluster.set_group_settings(consumer_heartbeat_interval_ms=200, initial_rebalance_delay_ms=0)
            with client.producer() as producer:
                for partition in range(4):
                    producer.produce(TOPIC, b"%d" % partition, partition=partition).get()
            # the other members have all partitions, or half of them, and leave while the first one is in its hook
            others = [other.consumer(TOPIC, **options) for _ in range({0: 4, 2: 1, 4: 0}[count])]
            ends = virtual.now() + SOON_S
            while virtual.now() < ends and sum(len(one.assignment()) for one in others) < (4 if others else 0):
                for one in others:
                    one.poll(timeout=0.05)
            consumer = client.consumer(TOPIC, listener=listener, **options)
            seen: set[int] = set()

            def read() -> None:
                while not stopping.is_set():
                    try:
                        seen.update(record.partition for record in consumer.poll(timeout=0.1))
                    except Interrupted:
                        continue

            stopping = virtual.Event()
            reader: Any = virtual.spawn(read)
            ends = virtual.now() + SOON_S
            while virtual.now() < ends and not listener.waits:
                for one in others:
                    one.poll(timeout=0.05)
                virtual.sleep(0.05)
            for one in others:
                virtual.spawn(one.close)
            virtual.sleep(0.5)
            if listener.waits:
                scheduler.throw(reader, Interrupted())
            virtual.sleep(SOON_S)
            stopping.set()
            assert reader.join(SOON_S)
            assert len(consumer.assignment()) == 4
            consumer.close()
            assert listener.has_waited or count != 2
        server.close()
        virtual.sleep(1)

    scheduler.run(program)
    assert scheduler.errors == []
    assert scheduler.leftovers == []
