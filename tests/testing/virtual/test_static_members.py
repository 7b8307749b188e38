"""Static members that are closed, and come back by the same `group_instance_id`, in virtual time."""

from __future__ import annotations

from typing import Any

import pytest

from pykafka import KafkaClient, KafkaConsumer
from pykafka.common import TopicPartition
from pykafka.testing import FakeCluster
from pykafka.testing.virtual import Scheduler, VirtualHandler

SESSION_MS, POLL_S = 6_000, 0.3
PROTOCOLS: list[dict[str, Any]] = [
    {"protocol": "classic", "assignor": "range"},
    {"protocol": "classic", "assignor": "cooperative-sticky"},
    {"protocol": "consumer"},
]


class Counting:
    """A listener that counts how often partitions come and go."""

    def __init__(self) -> None:
        self.changes = 0

    def on_assigned(self, partitions: list[TopicPartition]) -> None:
        """Count it."""
        self.changes += 1

    def on_revoked(self, partitions: list[TopicPartition]) -> None:
        """Count it."""
        self.changes += 1


@pytest.mark.parametrize("options", PROTOCOLS, ids=lambda options: "-".join(options.values()))
@pytest.mark.parametrize(("away_s", "others_notice"), [(1.0, False), (20.0, True)])
def test_a_static_member_comes_back_to_its_share(
    scheduler: Scheduler, virtual: VirtualHandler, options: dict[str, Any], away_s: float, others_notice: bool
) -> None:
    """The first request to join asks what the coordinator has stored of it: that answer has no member id."""

    def program() -> tuple[set[TopicPartition], set[TopicPartition], bool]:
        with (
            FakeCluster(brokers=1, handler=virtual, topics={"orders": 4}) as cluster,
            KafkaClient(cluster.hosts, handler=virtual) as client,
        ):
            cluster.set_group_settings(consumer_session_timeout_ms=SESSION_MS, consumer_heartbeat_interval_ms=100)

            def member(name: str, **more: Any) -> KafkaConsumer:
                classic = {"session_timeout_ms": SESSION_MS, "heartbeat_interval_ms": 100}
                times: dict[str, Any] = classic if options["protocol"] == "classic" else {}
                return client.consumer("orders", group="g", group_instance_id=name, **times, **options, **more)

            listener = Counting()
            other, first = member("b", listener=listener), member("a")
            for _ in range(20):
                other.poll(timeout=POLL_S)
                first.poll(timeout=POLL_S)
            before, changes = set(first.assignment()), listener.changes
            first.close()
            until = virtual.now() + away_s
            while virtual.now() < until:
                other.poll(timeout=POLL_S)
            again = member("a")
            for _ in range(20):
                again.poll(timeout=POLL_S)
                other.poll(timeout=POLL_S)
            after, noticed = set(again.assignment()), listener.changes > changes
            again.close()
            other.close()
            return before, after, noticed

    before, after, noticed = scheduler.run(program)
    assert (len(before), len(after), noticed) == (2, 2, others_notice)
    assert others_notice or after == before
