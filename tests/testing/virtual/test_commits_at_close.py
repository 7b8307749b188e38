"""Commits that a listener begins while its consumer closes, and the coordinator moves, in virtual time."""

from __future__ import annotations

from typing import Any

import pytest

from pykafka import KafkaClient
from pykafka.common import TopicPartition
from pykafka.testing import FakeCluster
from pykafka.testing.virtual import Scheduler, VirtualHandler

ORDERS = TopicPartition("orders", 0)
#: The time-out of requests: shorter than the pause before a commit is tried again (s).
SOCKET_S = 0.5
#: What leaving the group may take besides, and one quick answer behind a look-up (s).
LEAVE_S, QUICK_S = 5.0, 0.11


class Committing:
    """A listener that commits without a wait when its partitions go.

    :param consumer: set when there is one
    """

    def __init__(self) -> None:
        self.consumer: Any = None
        self.ended: list[BaseException | None] = []

    def on_assigned(self, partitions: list[TopicPartition]) -> None:
        """Nothing to do."""

    def on_revoked(self, partitions: list[TopicPartition]) -> None:
        """Commit one record of each."""
        self.consumer.commit_async(dict.fromkeys(partitions, 1), lambda error, _: self.ended.append(error))


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
@pytest.mark.parametrize(
    ("timeout", "fault", "is_committed"), [(5.0, "moves", True), (0.2, "moves", False), (0.2, "is paused", False)]
)
def test_a_listeners_commit_has_the_time_of_close(
    scheduler: Scheduler, virtual: VirtualHandler, protocol: str, timeout: float, fault: str, is_committed: bool
) -> None:
    """It had the socket timeout, however long or short `close()` was to take."""

    def program() -> tuple[int, bool]:
        options: dict[str, Any] = {"socket_timeout_ms": int(SOCKET_S * 1000)}
        with (
            FakeCluster(brokers=3, handler=virtual) as cluster,
            KafkaClient(cluster.hosts, handler=virtual, **options) as client,
        ):
            cluster.create_topic(ORDERS.topic, 1, 3)
            cluster.set_coordinator("readers", 1)
            with client.producer() as producer:
                producer.produce(ORDERS.topic, b"one").get()
            listener = Committing()
            consumer = listener.consumer = client.consumer(
                ORDERS.topic, group="readers", protocol=protocol, listener=listener, auto_offset_reset="earliest"
            )
            while not consumer.poll(1, timeout=1.0):
                pass
            if fault == "moves":
                cluster.set_coordinator("readers", 2)
            else:
                cluster.pause(1)
            began = virtual.now()
            consumer.close(timeout)
            is_in_time = virtual.now() - began < timeout + LEAVE_S + QUICK_S
            cluster.resume(1)
            other = client.consumer(group="readers")
            found = other.committed(ORDERS, timeout=5.0)[ORDERS]
            return -1 if found is None or listener.ended != [None] else found.offset, is_in_time

    offset, is_in_time = scheduler.run(program)
    assert is_in_time
    if is_committed:
        assert offset == 1
