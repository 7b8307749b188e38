"""Fixtures of the tests of share consumers: the same tests on real brokers and on a fake one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from pykafka import KafkaClient
from pykafka.testing import FakeCluster
from tests.brokers import KafkaCluster


@pytest.fixture(params=[pytest.param("real", marks=pytest.mark.kafka), "fake"])
def brokers(request: pytest.FixtureRequest) -> Iterator[KafkaCluster | FakeCluster]:
    """Yield the shared real broker, and a fake one."""
    if request.param == "real":
        yield request.getfixturevalue("kafka")
        return
    with FakeCluster(1) as cluster:
        yield cluster


@pytest.fixture
def client(concurrency: Callable[[], dict[str, Any]], brokers: KafkaCluster | FakeCluster) -> Iterator[KafkaClient]:
    """Yield a client of both in turn, on each kind of `concurrency`."""
    with KafkaClient(hosts=brokers.hosts, **concurrency()) as client:
        yield client
