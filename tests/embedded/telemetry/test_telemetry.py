"""Telemetry on the embedded cluster, which takes no metrics of clients unless a test says so."""

from __future__ import annotations

from uuid import UUID

import pytest

from pykafka import KafkaClient, aio
from pykafka.embedded import EmbeddedCluster
from pykafka.exceptions import TelemetryUnavailableError
from pykafka.metrics.metric import MetricName
from tests.support.loops import Concurrency, run_coroutine


def switch_on(cluster: EmbeddedCluster) -> None:
    for api in ("GetTelemetrySubscriptions", "PushTelemetry"):
        cluster.set_api_versions(api, 0, 0)


@pytest.mark.on_asyncio
def test_it_is_off_unless_a_test_says_so(embedded: EmbeddedCluster, concurrency: Concurrency) -> None:
    with KafkaClient(embedded.hosts, **concurrency()) as client:
        assert client.cluster.kept == {}
        with pytest.raises(TelemetryUnavailableError):
            client.instance_id()
    switch_on(embedded)
    with KafkaClient(embedded.hosts, **concurrency()) as client:
        assert client.cluster.kept
        assert client.instance_id() != UUID(int=0)


@pytest.mark.parametrize("kind", ["asyncio", "uvloop"])
def test_from_coroutines(embedded: EmbeddedCluster, kind: str) -> None:
    switch_on(embedded)

    async def main() -> None:
        async with aio.KafkaClient(embedded.hosts) as client:
            assert await client.instance_id(timeout=5) != UUID(int=0)
            client.register_metric(MetricName("orders", "my-shop"), lambda: 1)
            client.unregister_metric(MetricName("orders", "my-shop"))

    run_coroutine(kind, main())
