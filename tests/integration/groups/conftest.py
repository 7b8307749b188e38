"""Fixtures of the tests of groups."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from kazoo.client import KazooClient

from pykafka import KafkaClient, ManagedBalancedConsumer
from pykafka.compat import group_consumer
from pykafka.consumer import commits
from tests.brokers import KafkaCluster
from tests.support.groups import Group, Place
from tests.support.zookeeper import ZooKeeper


@pytest.fixture(autouse=True)
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make workers check every half second, and not every five, whether somebody still holds what they work for."""
    for module in (group_consumer, commits):
        monkeypatch.setattr(module, "OWNER_POLL_INTERVAL_S", 0.5)


@pytest.fixture
def group(client: KafkaClient) -> Group[ManagedBalancedConsumer]:
    """Return a group of managed consumers, without members, that rebalances quickly."""
    return Group(ManagedBalancedConsumer, client, 3, heartbeat_interval_ms=200, rebalance_max_retries=50)


@pytest.fixture(scope="session")
def place(kafka: KafkaCluster) -> Iterator[Place]:
    """Yield brokers and a ZooKeeper: theirs, or one that they know nothing of."""
    if kafka.zookeeper_hosts:
        yield Place(kafka.hosts, kafka.zookeeper_hosts)
    else:
        with ZooKeeper() as zookeeper:
            yield Place(kafka.hosts, zookeeper.hosts)


@pytest.fixture
def kazoo(place: Place) -> Iterator[Any]:
    """Yield a client of ZooKeeper, to watch it and to change it."""
    client = KazooClient(place.zookeeper)
    client.start()
    yield client
    client.stop()
    client.close()


@pytest.fixture
def mortal() -> Iterator[ZooKeeper]:
    """Yield a ZooKeeper that a test may kill."""
    with ZooKeeper() as zookeeper:
        yield zookeeper
