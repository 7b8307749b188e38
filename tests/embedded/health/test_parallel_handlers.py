"""Handlers of `parallel()` that take long: they are named with their stack, and livez fails only after `handle_timeout`."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from pykafka import KafkaClient
from pykafka.aio import KafkaClient as AsyncClient
from pykafka.embedded import EmbeddedCluster
from pykafka.health import Stalled, Why
from tests.support.health import status
from tests.support.loops import Concurrency
from tests.support.waiting import until


@pytest.mark.parametrize("metrics", [True, False])
@pytest.mark.parametrize("unacknowledged", [1, 1000])
def test_a_handler_that_hangs_fails_livez(
    concurrency: Concurrency, metrics: bool, unacknowledged: int, listened: list[Any]
) -> None:
    with (
        EmbeddedCluster(brokers=1, topics={"t": 1}) as cluster,
        KafkaClient(cluster.hosts, record_metrics=metrics, stall_report_ms=1000, **concurrency()) as client,
        client.producer() as producer,
        client.consumer("t") as consumer,
    ):
        handler = client.cluster.handler
        entered, released = handler.Event(), handler.Event()

        def hang(record: Any) -> None:
            entered.set()
            released.wait(60)

        for _ in range(5):
            producer.produce("t", b"x")
        producer.flush()
        with consumer.parallel(hang, workers=2, max_unacknowledged=unacknowledged, stop_timeout=5, handle_timeout=3):
            try:
                assert entered.wait(20)
                assert status(client, "/livez") == 200
                until(handler, lambda: status(client, "/livez") == 503, 10)
                problems = consumer.health().problems
                assert {problem.kind for problem in problems} == {"held"}
                assert all("in hang" in problem.text for problem in problems)
                assert any("longer than handle_timeout (3 s)" in problem.text for problem in problems)
                until(handler, lambda: [event for event in listened if isinstance(event, Stalled)], 5)
                stalled = next(event for event in listened if isinstance(event, Stalled))
                assert stalled.why is Why.HELD
                assert "in hang" in stalled.text
            finally:
                released.set()
        assert status(client, "/livez") == 200


@pytest.mark.parametrize("unacknowledged", [1, 1000])
def test_a_busy_handler_fails_no_probe(concurrency: Concurrency, unacknowledged: int, listened: list[Any]) -> None:
    """Without `handle_timeout` a handler may take longer than `max_poll_interval_ms`: the partition waits for its work."""
    with (
        EmbeddedCluster(brokers=1, topics={"t": 1}) as cluster,
        KafkaClient(cluster.hosts, stall_report_ms=1000, **concurrency()) as client,
        client.producer() as producer,
        client.consumer("t", max_poll_interval_ms=1500) as consumer,
    ):
        handler = client.cluster.handler
        entered, released = handler.Event(), handler.Event()

        def work(record: Any) -> None:
            entered.set()
            released.wait(60)

        for _ in range(5):
            producer.produce("t", b"x")
        producer.flush()
        with consumer.parallel(work, workers=1, max_unacknowledged=unacknowledged, stop_timeout=5):
            try:
                assert entered.wait(20)
                until(handler, lambda: (consumer.health().problems or [None])[0], 10)
                began = handler.now()
                while handler.now() - began < 2.5:
                    assert (status(client, "/livez"), status(client, "/readyz")) == (200, 200)
                    handler.sleep(0.1)
                problem = consumer.health().problems[0]
                assert (problem.kind, problem.restart_helps, problem.unready) == ("held", False, False)
                assert "parallel(): a handler has had one record for" in problem.text
                assert "in work" in problem.text
                assert problem.since is not None
                assert problem.since > 1
                assert all(
                    "parallel() has paused it" in event.text for event in listened
                )  # the consumer does not stand still
            finally:
                released.set()


def test_a_partition_that_waits_for_no_handler_is_not_ready(concurrency: Concurrency) -> None:
    """Without a call under way it stands still for another reason: here nothing calls `ack()`."""
    with (
        EmbeddedCluster(brokers=1, topics={"t": 1}) as cluster,
        KafkaClient(cluster.hosts, stall_report_ms=1000, **concurrency()) as client,
        client.producer() as producer,
        client.consumer("t") as consumer,
    ):
        for _ in range(600):
            producer.produce("t", b"x")
        producer.flush()
        with consumer.parallel(bool, workers=1, max_unacknowledged=1, manual_ack=True, stop_timeout=0.1):
            until(client.cluster.handler, lambda: [one.kind for one in consumer.health().problems] == ["held"], 10)
            assert (status(client, "/livez"), status(client, "/readyz")) == (200, 503)


def test_an_async_handler_that_hangs_has_its_stack() -> None:
    async def main(hosts: str) -> None:
        async with AsyncClient(hosts) as client:
            async with client.producer() as producer:
                await producer.produce("t", b"x")
                await producer.flush()
            consumer = await client.consumer("t")
            entered, released = asyncio.Event(), asyncio.Event()

            async def hang(record: Any) -> None:
                entered.set()
                await released.wait()

            async with consumer.parallel(hang, workers=2, handle_timeout=1):
                await asyncio.wait_for(entered.wait(), 20)
                for _ in range(300):
                    report = await client.health()
                    if not report.alive:
                        break
                    await asyncio.sleep(0.02)
                assert not report.alive
                assert "in hang" in report.problems[0].text
                released.set()
            await consumer.close()

    with EmbeddedCluster(brokers=1, topics={"t": 1}) as cluster:
        asyncio.run(main(cluster.hosts))
