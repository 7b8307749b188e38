"""Calls without time while metadata hangs, in virtual time: workers ask meanwhile, and the calls do not wait for them."""

from __future__ import annotations

import re
from typing import Any

import pytest

from pykafka import KafkaClient
from pykafka.testing import FakeCluster
from pykafka.testing.virtual import Scheduler, VirtualHandler

GROUP, TOPIC = "readers", "orders"
#: How many calls there are, and the pause between two of them (s): so many that brokers are asked in vain for long enough to
#: begin again at the seeds.
CALLS, PAUSE_S = 400, 0.9
#: How late a call may be: it asks two things at most, and has 0.1 s for a quick answer to each. And how late all are together.
LATE_S, ALL_LATE_S = 0.25, 6.0
#: How soon records come when the answers do (s).
SOON_S = 30.0
CLASSIC = {"protocol": "classic", "heartbeat_interval_ms": 200, "session_timeout_ms": 6_000}


@pytest.mark.parametrize("joined", [False, True], ids=["fresh", "joined"])
@pytest.mark.parametrize("timeout", [0.0, 0.1])
@pytest.mark.parametrize(
    ("topic", "options"),
    [(TOPIC, {}), (TOPIC, CLASSIC), (re.compile("ord.*"), {}), (re.compile("ord.*"), CLASSIC)],
    ids=["consumer", "classic", "pattern", "classic-pattern"],
)
def test_calls_keep_their_time(
    scheduler: Scheduler, virtual: VirtualHandler, topic: Any, options: dict[str, Any], timeout: float, joined: bool
) -> None:
    """Each waited 0.1 s for a worker that was asking already, once for each thing that it had to know, so all were late.

    A call of a pattern asked anew each time, and never got an answer that took longer than its time. Each one that began again
    at the seeds ended the connections to them, on which workers waited for answers, and took a second for it.
    """
    late: list[float] = []

    def program() -> None:
        with (
            FakeCluster(1, {TOPIC: 2}, handler=virtual) as cluster,
            KafkaClient(cluster.hosts, handler=virtual) as client,
        ):
            cluster.set_group_settings(initial_rebalance_delay_ms=0)
            with client.producer() as producer:
                producer.produce(TOPIC, b"1").get()
            consumer = client.consumer(topic, group=GROUP, auto_offset_reset="earliest", **options)
            found = consumer.poll(timeout=SOON_S) if joined else []
            with cluster.hold("Metadata"):
                for _ in range(CALLS):
                    began = virtual.now()
                    found += consumer.poll(timeout=timeout)
                    late.append(virtual.now() - began - timeout)
                    virtual.sleep(PAUSE_S)
            ends = virtual.now() + SOON_S
            while not found:
                assert virtual.now() < ends
                found = consumer.poll(timeout=timeout)
                virtual.sleep(0.01)
            consumer.close()

    scheduler.run(program)
    assert scheduler.errors == []
    assert max(late) <= LATE_S
    assert sum(late) <= ALL_LATE_S
