"""Fixtures of the tests of metrics."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pykafka import EmbeddedCluster


@pytest.fixture(scope="module")
def cluster() -> Iterator[EmbeddedCluster]:
    """Yield two brokers for all tests of a module."""
    with EmbeddedCluster(brokers=2) as cluster:
        yield cluster


@pytest.fixture
def topic(cluster: EmbeddedCluster, request: pytest.FixtureRequest) -> str:
    """Return a topic of the test's own, with two partitions."""
    name = f"metrics-{abs(hash(request.node.name))}"
    cluster.create_topic(name, 2)
    return name
