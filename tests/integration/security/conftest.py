"""Fixtures of the tests of authentication."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.brokers import KafkaCluster
from tests.support.token_endpoint import TokenEndpoint


@pytest.fixture
def token_endpoint(secure_kafka: KafkaCluster) -> Iterator[TokenEndpoint]:
    """Yield an endpoint whose tokens the shared brokers take."""
    with TokenEndpoint(secure_kafka.token) as endpoint:
        yield endpoint
