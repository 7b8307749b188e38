"""Fixtures of the tests against real brokers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from pykafka import KafkaClient
from tests.brokers import KafkaCluster


@pytest.fixture
def client(concurrency: Callable[[], dict[str, Any]], kafka: KafkaCluster) -> Iterator[KafkaClient]:
    """Yield a client of the shared brokers, on each kind of `concurrency`."""
    with KafkaClient(hosts=kafka.hosts, **concurrency()) as client:
        yield client
