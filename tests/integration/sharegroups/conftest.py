"""The client of the tests of share consumers: on real brokers and on a fake one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from pykafka import KafkaClient
from pykafka.testing import FakeCluster
from tests.brokers import KafkaCluster


@pytest.fixture
def client(concurrency: Callable[[], dict[str, Any]], brokers: KafkaCluster | FakeCluster) -> Iterator[KafkaClient]:
    """Yield a client of both in turn, on each kind of `concurrency`."""
    with KafkaClient(hosts=brokers.hosts, **concurrency()) as client:
        yield client
