"""Fixtures of the tests of groups."""

from __future__ import annotations

import pytest

from pykafka import KafkaClient, ManagedBalancedConsumer
from tests.support.groups import Group


@pytest.fixture
def group(client: KafkaClient) -> Group[ManagedBalancedConsumer]:
    """Return a group of managed consumers, without members, that rebalances quickly."""
    return Group(ManagedBalancedConsumer, client, 3, heartbeat_interval_ms=200, rebalance_max_retries=50)
