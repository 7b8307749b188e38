"""Fixtures of the tests against real brokers."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pykafka import KafkaClient
from tests.brokers import KafkaCluster


@pytest.fixture(params=[False, True], ids=["threads", "greenlets"])
def client(request: pytest.FixtureRequest, kafka: KafkaCluster) -> Iterator[KafkaClient]:
    """Yield a client of the shared brokers, on threads and on greenlets."""
    with KafkaClient(hosts=kafka.hosts, use_greenlets=request.param) as client:
        yield client
