"""Fixtures of the tests of share consumers: the same tests on real brokers and on a fake one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from pykafka import KafkaClient
from pykafka.testing import FakeCluster
from tests.brokers import KafkaCluster


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


@pytest.fixture
def client(concurrency: Callable[[], dict[str, Any]], brokers: KafkaCluster | FakeCluster) -> Iterator[KafkaClient]:
    """Yield a client of both in turn, on each kind of `concurrency`."""
    with KafkaClient(hosts=brokers.hosts, **concurrency()) as client:
        yield client
