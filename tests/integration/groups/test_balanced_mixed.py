"""One group in ZooKeeper of our members and of PyKafka 2.8.0's."""

from __future__ import annotations

import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator

import pytest

from pykafka import KafkaClient
from tests.brokers import KafkaCluster
from tests.support.loops import Concurrency
from tests.support.oldpykafka import OldMember, old_python
from tests.support.topics import create_topic

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.no_loop("consume in groups of ZooKeeper"),
    pytest.mark.slow,
    pytest.mark.matrix,
    pytest.mark.timeout(400),
]

#: More than ten: sorted as text they are in another order than as numbers.
PARTITIONS = 12


@pytest.fixture(scope="module")
def cluster() -> Iterator[KafkaCluster]:
    old_python()
    with KafkaCluster("2.8.2") as cluster:
        yield cluster


def test_ours_and_old_ones_share_a_topic(cluster: KafkaCluster, concurrency: Concurrency) -> None:
    found: Counter[bytes | None] = Counter()
    with KafkaClient(hosts=cluster.hosts, **concurrency()) as client:
        topic = create_topic(client, PARTITIONS)
        group = f"g-{uuid.uuid4().hex[:8]}"
        everything = list(range(PARTITIONS))

        def until(happened: Callable[[], object], what: str) -> None:
            deadline = time.monotonic() + 40
            while not happened():
                assert time.monotonic() < deadline, f"{what}: ours {sorted(ours.partitions)}, old {old.share}"
                while (message := ours.consume(block=False)) is not None:
                    found[message.value] += 1
                found.update(old.take())
                client.cluster.handler.sleep(0.02)

        def halves() -> bool:
            return sorted([*ours.partitions, *old.share]) == everything and len(old.share) == PARTITIONS // 2

        def produce(start: int) -> None:
            with topic.get_producer(linger_ms=1) as producer:
                for number in range(start, start + 300):
                    producer.produce(b"%d" % number)

        ours = topic.get_balanced_consumer(
            group,
            zookeeper_hosts=cluster.zookeeper_hosts,
            auto_commit_enable=True,
            rebalance_backoff_ms=300,
            rebalance_max_retries=20,
        )
        old = OldMember(cluster.hosts, cluster.zookeeper_hosts, topic.name, group)
        try:
            until(halves, "the old one joins")
            produce(0)
            until(lambda: len(found) == 300, "both consume")
        finally:
            old.leave()
        until(lambda: sorted(ours.partitions) == everything, "the old one left")
        produce(300)
        until(lambda: len(found) == 600, "ours consumes")
        old = OldMember(cluster.hosts, cluster.zookeeper_hosts, topic.name, group)
        try:
            until(halves, "the old one is back")
            ours.stop()
            deadline = time.monotonic() + 40
            produce(600)
            while old.share != everything or len(found) < 900:
                assert time.monotonic() < deadline, (old.share, len(found))
                found.update(old.take())
                client.cluster.handler.sleep(0.02)
        finally:
            old.leave()
    # each was consumed, and what changed hands was so by its committed offset
    assert found == Counter(b"%d" % number for number in range(900))
