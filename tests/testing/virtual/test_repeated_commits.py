"""Commits that auto-commit repeats while the group rebalances, in virtual time."""

from __future__ import annotations

from typing import Any

import pytest

from pykafka import KafkaClient
from pykafka.common import TopicPartition
from pykafka.protocol import wire
from pykafka.protocol.schema import Request
from pykafka.testing import FakeCluster
from pykafka.testing.virtual import Scheduler, VirtualHandler

GROUP, ORDERS = "readers", [TopicPartition("orders", 0), TopicPartition("orders", 1)]
HEARTBEAT_MS = 200
OPTIONS: dict[str, Any] = {"group": GROUP, "heartbeat_interval_ms": HEARTBEAT_MS, "session_timeout_ms": 6_000}
#: What the group has committed, which the first member repeats, and what the second member commits.
BEFORE, AFTER = 1, 2


def is_repeated(request: Request[Any]) -> bool:
    """Return whether a request repeats the old commit."""
    return isinstance(request, wire.OffsetCommitRequest) and any(
        partition.committed_offset == BEFORE for topic in request.topics for partition in topic.partitions
    )


@pytest.mark.parametrize(
    "protocol", [{"protocol": "consumer"}, {"protocol": "classic", "assignor": "cooperative-sticky"}]
)
def test_a_repeated_commit_names_no_later_generation(
    scheduler: Scheduler, virtual: VirtualHandler, protocol: dict[str, Any]
) -> None:
    """Its retries took back what another member had committed for a partition that it had got meanwhile."""

    def program() -> tuple[int, bool]:
        with (
            FakeCluster(brokers=1, topics={"orders": 2}, handler=virtual) as cluster,
            KafkaClient(cluster.hosts, handler=virtual) as client,
            KafkaClient(cluster.hosts, handler=virtual) as other,
        ):
            cluster.set_group_settings(consumer_heartbeat_interval_ms=HEARTBEAT_MS)
            with client.producer() as producer:
                for key in ORDERS:
                    producer.produce(key.topic, b"one", partition=key.partition).get()
            with client.consumer(group=GROUP, auto_commit=False) as consumer:
                consumer.assign(ORDERS)
                consumer.commit(dict.fromkeys(ORDERS, BEFORE))
            first = client.consumer("orders", auto_commit=True, auto_commit_interval_ms=500, **OPTIONS, **protocol)
            while set(first.assignment()) != set(ORDERS):
                first.poll(timeout=0.1)
            asked: list[Any] = []
            cluster.on_request(lambda call: asked.append(call.request) if is_repeated(call.request) else None)
            cut = cluster.cut("OffsetCommit", "before", 100, when=is_repeated)
            while not asked:
                first.poll(timeout=0.1)
            second = other.consumer("orders", auto_commit=False, **OPTIONS, **protocol)
            while not second.assignment():
                first.poll(timeout=0.1)
                second.poll(timeout=0.1)
            (moved,) = second.assignment()
            second.commit({moved: AFTER})
            cut.end()
            count = len(asked)
            for _ in range(50):
                first.poll(timeout=0.1)
                second.poll(timeout=0.1)
            found = second.committed(moved)[moved]
            assert found is not None
            return found.offset, len(asked) > count

    offset, goes_on = scheduler.run(program)
    assert offset == AFTER
    assert goes_on
