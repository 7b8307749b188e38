"""News of heartbeats, which come from a thread beside hub and loop, wake the call that reads."""

from __future__ import annotations

from typing import Any

import pytest

from pykafka import KafkaClient
from pykafka.embedded import EmbeddedCluster
from pykafka.groups.assignment_follower import AssignmentFollower
from tests.support.inside import membership_of
from tests.support.loops import Concurrency


@pytest.mark.on_asyncio
def test_a_member_that_waits_looks_seldom_and_hears_at_once(
    concurrency: Concurrency, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On greenlets and event loops a waiting call looked ten times a second."""
    waits: list[float] = []
    wait = AssignmentFollower.wait

    with (
        EmbeddedCluster(brokers=1, topics={"t": 2}) as cluster,
        KafkaClient(cluster.hosts, **concurrency()) as client,
        client.consumer("t", group="g", protocol="classic") as consumer,
    ):
        handler = client.cluster.handler

        def counted(self: Any, deadline: float | None) -> bool:
            try:
                return wait(self, deadline)
            finally:
                waits.append(handler.now())

        consumer.poll(timeout=0.5)
        assert len(consumer.assignment()) == 2
        monkeypatch.setattr(AssignmentFollower, "wait", counted)
        consumer.poll(timeout=0.8)
        assert len(waits) <= 4
        told: list[float] = []
        shares: Any = membership_of(consumer)

        def tell() -> None:
            handler.native.sleep(0.3)
            told.append(handler.native.now())
            shares.sender._native.post(shares.sender._notify)

        handler.native.spawn(tell)
        waits.clear()
        consumer.poll(timeout=0.7)
        assert any(0 <= ended - told[0] < 0.1 for ended in waits)
