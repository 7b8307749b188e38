"""What is committed for a group, and when: on an embedded cluster."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from pykafka import KafkaClient
from pykafka.embedded import EmbeddedCluster
from pykafka.exceptions import KafkaException
from pykafka.topic import Topic

pytestmark = pytest.mark.timeout(120)

MANAGED: dict[str, Any] = {"managed": True, "session_timeout_ms": 6000, "rebalance_backoff_ms": 50}


@pytest.fixture
def cluster() -> Iterator[EmbeddedCluster]:
    with EmbeddedCluster(1, {"t": 1, "t3": 3}) as cluster:
        yield cluster


@pytest.fixture(params=[False, True], ids=["threads", "greenlets"])
def client(request: pytest.FixtureRequest, cluster: EmbeddedCluster) -> Iterator[KafkaClient]:
    with KafkaClient(cluster.hosts, use_greenlets=request.param) as client:
        yield client


def fill(topic: Topic, count: int) -> None:
    with topic.get_producer(linger_ms=5) as producer:
        for number in range(count):
            producer.produce(b"%d" % number)


def committed(topic: Topic, group: str) -> int:
    """Return what a group has committed for all partitions of a topic together."""
    consumer = topic.get_simple_consumer(group, auto_start=False, reset_offset_on_fetch=False)
    return sum(max(found.offset, 0) for _, found in consumer.fetch_offsets())


def make(topic: Topic, kind: str, **settings: Any) -> Any:
    """Return a consumer of a group "g": "simple", "rdkafka" or "managed"."""
    settings = {"consumer_timeout_ms": 10_000, **settings}
    if kind == "managed":
        return topic.get_balanced_consumer("g", **MANAGED, **settings)
    return topic.get_simple_consumer("g", use_rdkafka=kind == "rdkafka", **settings)


kinds = pytest.mark.parametrize("kind", ["simple", "rdkafka", "managed"])


@kinds
def test_an_offset_that_is_named_is_committed_as_it_is(client: KafkaClient, kind: str) -> None:
    """Pairs were taken for the last message consumed, so that who gave the next one, as in 2.8, lost a message."""
    topic = client.topics["t"]
    fill(topic, 10)
    with make(topic, kind) as consumer:
        for number in range(4):
            message = consumer.consume()
            assert message.offset == number
        consumer.commit_offsets([(topic.partitions[0], 3)])
        assert committed(topic, "g") == 3
        consumer.commit_offsets([(topic.partitions[0], 0)])
        assert committed(topic, "g") == 0
        consumer.commit_offsets([(topic.partitions[0], message.offset + 1)])
        with pytest.raises(ValueError, match="an offset of .* must be from 0 to"):
            consumer.commit_offsets([(topic.partitions[0], -1)])
    with make(topic, kind) as consumer:
        assert consumer.consume().offset == 4
        with pytest.raises(KafkaException, match="does not read that partition"):
            consumer.commit_offsets([(client.topics["t3"].partitions[1], 0)])
