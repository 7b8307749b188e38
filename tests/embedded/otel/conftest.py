"""Fixtures of the tests of spans and metrics."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest

from pykafka import EmbeddedCluster
from tests.support.spans import Telemetry


@pytest.fixture(scope="package")
def cluster() -> Iterator[EmbeddedCluster]:
    """Yield a cluster of one broker."""
    with EmbeddedCluster(brokers=1) as cluster:
        yield cluster


@pytest.fixture
def telemetry() -> Telemetry:
    """Return an SDK with exporters in memory."""
    return Telemetry()


@pytest.fixture
def topic(cluster: EmbeddedCluster) -> str:
    """Return a topic of the test's own."""
    name = f"orders-{uuid.uuid4().hex[:8]}"
    cluster.create_topic(name, partitions=1)
    return name
