"""Fixtures of the tests with an embedded cluster."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pykafka import EmbeddedCluster, KafkaClient


@pytest.fixture(params=[False, True], ids=["threads", "greenlets"])
def client(request: pytest.FixtureRequest, cluster: EmbeddedCluster) -> Iterator[KafkaClient]:
    """Yield a client of the module's own `cluster`, on threads and on greenlets."""
    with KafkaClient(cluster.hosts, use_greenlets=request.param) as client:
        yield client
