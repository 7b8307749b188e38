"""One group of members of this package, confluent-kafka, kafka-python and aiokafka: eager, and cooperative."""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Callable
from typing import Any

import pytest

from pykafka import KafkaClient
from pykafka.testing import FakeCluster
from tests.brokers import KafkaCluster
from tests.support.foreign import AioKafka, Confluent, Foreign, KafkaPython
from tests.support.members import Ours, Readers
from tests.support.topics import create_topic

pytestmark = [
    pytest.mark.timeout(300),
    pytest.mark.filterwarnings("ignore:(read|open)_text is deprecated:DeprecationWarning"),  # kafka-python's
]

PARTITIONS = 8
#: The clients that have each strategy.
CLIENTS: dict[str, list[type[Foreign]]] = {
    "range": [Confluent, KafkaPython, AioKafka],
    "cooperative-sticky": [Confluent, KafkaPython],
}
Concurrency = Callable[[], dict[str, Any]]


@pytest.mark.kafka
@pytest.mark.matrix
@pytest.mark.needs("latest")
@pytest.mark.parametrize("first", ["ours", "theirs"])
@pytest.mark.parametrize("strategy", CLIENTS)
def test_on_real_brokers(kafka: KafkaCluster, concurrency: Concurrency, strategy: str, first: str) -> None:
    share_one_group(kafka.hosts, concurrency, strategy, first)


@pytest.mark.parametrize("first", ["ours", "theirs"])
@pytest.mark.parametrize("strategy", CLIENTS)
def test_on_fake_brokers(concurrency: Concurrency, strategy: str, first: str) -> None:
    with FakeCluster(brokers=3) as cluster:
        share_one_group(cluster.hosts, concurrency, strategy, first)


def share_one_group(hosts: str, concurrency: Concurrency, strategy: str, first: str) -> None:
    """Check that each reads on when another one comes and goes; whoever came first leads, and assigns for all."""
    with KafkaClient(hosts, **concurrency()) as client, contextlib.ExitStack() as stack:
        topic, group = create_topic(client, PARTITIONS).name, f"g-{uuid.uuid4().hex[:8]}"
        readers = Readers(client, topic, PARTITIONS, stack)

        def join_ours() -> None:
            readers.join(Ours(client, group, topic, assignor=strategy, heartbeat_interval_ms=200, auto_commit=True))

        if first == "ours":
            join_ours()
        for kind in CLIENTS[strategy]:
            readers.join(kind(hosts, group, topic, strategy))
        if first == "theirs":
            join_ours()
        join_ours()
        while len(readers.members) > 1:  # whoever leads goes first
            readers.leave()
