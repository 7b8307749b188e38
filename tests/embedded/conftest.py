"""Fixtures of the tests with an embedded cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from pykafka import EmbeddedCluster, KafkaClient


@pytest.fixture
def client(concurrency: Callable[[], dict[str, Any]], cluster: EmbeddedCluster) -> Iterator[KafkaClient]:
    """Yield a client of the module's own `cluster`, on each kind of `concurrency`."""
    with KafkaClient(cluster.hosts, **concurrency()) as client:
        yield client
