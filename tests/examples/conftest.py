"""The brokers that each example is run on."""

from __future__ import annotations

import pytest

from pykafka.embedded import EmbeddedCluster
from tests.brokers import KafkaCluster


@pytest.fixture(params=["embedded", pytest.param("kafka", marks=pytest.mark.kafka)])
def hosts(request: pytest.FixtureRequest) -> str:
    """Give the addresses of an embedded cluster, then those of a real Kafka."""
    cluster: EmbeddedCluster | KafkaCluster = request.getfixturevalue(request.param)
    return cluster.hosts
