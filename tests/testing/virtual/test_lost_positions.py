"""Consumers whose next records are deleted while their leader cannot be reached, in virtual time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from pykafka import KafkaClient
from pykafka.common import TopicPartition
from pykafka.testing import FakeCluster
from pykafka.testing.virtual import Scheduler, VirtualHandler

ORDERS = TopicPartition("orders", 0)
#: The time-out of requests (s), how long an outage lasts, and how long a consumer may take then to read on.
SOCKET_S, OUTAGE_S, SOON_S = 1.0, 5.0, 3.0
Outage = Callable[[FakeCluster], Callable[[], object]]


def _stop(cluster: FakeCluster) -> Callable[[], object]:
    """Stop the leader; the consumer connects in vain."""
    cluster.stop(1, noticed=False)
    return lambda: cluster.start(1)


def _pause(cluster: FakeCluster) -> Callable[[], object]:
    """Pause the leader, which answers nothing."""
    cluster.pause(1)
    return lambda: cluster.resume(1)


def _lose_lookups(cluster: FakeCluster) -> Callable[[], object]:
    """Cut the connections of all look-ups of offsets; fetches are answered."""
    cluster.cut("ListOffsets", "before", times=1_000)
    return cluster.clear_faults


def _move_leader(cluster: FakeCluster) -> Callable[[], object]:
    """Refuse to fetch and to look offsets up, as a broker does that is not the leader."""
    for api in ("Fetch", "ListOffsets"):
        cluster.fail(api, "NOT_LEADER_OR_FOLLOWER", times=1_000)
    return cluster.clear_faults


@pytest.mark.parametrize("outage", [_stop, _pause, _lose_lookups, _move_leader], ids=lambda fn: fn.__name__.strip("_"))
def test_a_position_that_was_deleted_in_an_outage_is_no_error(
    scheduler: Scheduler, virtual: VirtualHandler, outage: Outage
) -> None:
    """However long the outage was: `auto_offset_reset` says where the consumer goes, and it goes there when it can ask."""

    def program() -> list[int]:
        options: dict[str, Any] = {"socket_timeout_ms": int(SOCKET_S * 1000), "reconnect_backoff_max_ms": 400}
        with (
            FakeCluster(brokers=1, handler=virtual) as cluster,
            KafkaClient(cluster.hosts, handler=virtual, **options) as client,
        ):
            cluster.create_topic(ORDERS.topic, 1)
            consumer = client.consumer(auto_offset_reset="earliest")
            consumer.assign([ORDERS])
            with client.producer() as producer:
                for value in range(3):
                    producer.produce(ORDERS.topic, b"%d" % value).get()
                read = [record.offset for record in consumer.poll(1, timeout=SOON_S)]
                consumer.seek(ORDERS, 1)
                consumer.pause(ORDERS)
                for value in range(3, 6):
                    producer.produce(ORDERS.topic, b"%d" % value).get()
            over = outage(cluster)
            cluster.delete_before(*ORDERS, 4)
            consumer.resume(ORDERS)
            until = virtual.now() + OUTAGE_S
            while virtual.now() < until:
                read += [record.offset for record in consumer.poll(100, timeout=0.5)]
            over()
            until = virtual.now() + SOON_S
            while len(read) < 3 and virtual.now() < until:
                read += [record.offset for record in consumer.poll(100, timeout=0.5)]
            consumer.close()
            return read

    assert scheduler.run(program) == [0, 4, 5]
