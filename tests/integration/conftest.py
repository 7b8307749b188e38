"""Fixtures of the tests against real brokers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from pykafka import KafkaClient
from pykafka.testing import FakeCluster
from tests.brokers import KafkaCluster


@pytest.fixture
def client(concurrency: Callable[[], dict[str, Any]], kafka: KafkaCluster) -> Iterator[KafkaClient]:
    """Yield a client of the shared brokers, on each kind of `concurrency`."""
    with KafkaClient(hosts=kafka.hosts, **concurrency()) as client:
        yield client


@pytest.fixture(scope="session", params=[pytest.param("real", marks=pytest.mark.kafka), "fake"])
def real(request: pytest.FixtureRequest) -> KafkaCluster | None:
    """Return the shared real broker, and then None: for a fake one."""
    kafka: KafkaCluster | None = request.getfixturevalue("kafka") if request.param == "real" else None
    return kafka


@pytest.fixture
def brokers(real: KafkaCluster | None) -> Iterator[KafkaCluster | FakeCluster]:
    """Yield the shared real broker, and a fake one."""
    if real is not None:
        yield real
        return
    with FakeCluster(1) as cluster:
        yield cluster
