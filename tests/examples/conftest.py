"""The brokers that each example runs on."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pykafka.embedded import EmbeddedCluster
from tests.brokers import KafkaCluster


@pytest.fixture(autouse=True)
def _quick_spark(request: pytest.FixtureRequest) -> None:
    """Make the Spark of the examples start quickly."""
    if request.node.get_closest_marker("spark") is not None:
        request.getfixturevalue("quick_spark")


@pytest.fixture(scope="module", params=["embedded", pytest.param("kafka", marks=pytest.mark.kafka)])
def hosts(request: pytest.FixtureRequest) -> Iterator[str]:
    """Yield the addresses of an embedded cluster, then those of a real Kafka."""
    if request.param == "embedded":
        with EmbeddedCluster(brokers=3) as cluster:
            yield cluster.hosts
    else:
        kafka: KafkaCluster = request.getfixturevalue("kafka")
        yield kafka.hosts
