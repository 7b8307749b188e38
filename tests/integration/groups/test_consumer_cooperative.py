"""Consumers with `assignor="cooperative-sticky"`: what stays keeps flowing through rebalances, each message is read once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import gevent
import pytest

from pykafka import KafkaClient
from pykafka.common import TopicPartition
from pykafka.groups.listener import RebalanceListener
from pykafka.kafkaconsumer import KafkaConsumer
from tests.brokers import KafkaCluster
from tests.integration.groups.test_consumer_groups import Committer, Readers
from tests.support.inside import listener_of, membership_of
from tests.support.waiting import until

pytestmark = [pytest.mark.kafka, pytest.mark.needs("groups")]

COOPERATIVE: dict[str, Any] = {"assignor": "cooperative-sticky"}


@pytest.fixture
def readers(client: KafkaClient) -> Iterator[Readers]:
    group = Readers(client)
    yield group
    group.close()


def test_what_stays_flows_while_a_slow_member_holds_the_rebalance_open(readers: Readers) -> None:
    """Records come all the time, a poll each, and are committed; neither poll nor commit waits for the member that is slow."""
    now, sleep = readers.client.cluster.handler.now, readers.client.cluster.handler.sleep
    one, slow = readers.join(**COOPERATIVE), readers.join(**COOPERATIVE)
    readers.shared(3, 3)
    readers.produce(300)
    stays = set(one.assignment())
    before = set(slow.assignment())
    readers.consumers.remove(slow)  # it makes no call from now on, and its heartbeats keep it in the group
    readers.join(**COOPERATIVE)
    readers.until(lambda: membership_of(one) is not None and not membership_of(one).is_stable)
    read: Counter[TopicPartition] = Counter()
    longest = 0.0
    for _ in range(60):
        started = now()
        records = one.poll(4, 1.0)
        one.commit()
        longest = max(longest, now() - started)
        read.update(TopicPartition(record.topic, record.partition) for record in records)
        readers.read.update(record.value for record in records)
        sleep(0.02)
    assert membership_of(one) is not None
    assert not membership_of(one).is_stable  # all this was within one rebalance
    assert set(one.assignment()) == stays
    assert set(read) == stays
    assert read.total() > 200
    assert longest < 0.5
    assert set(slow.assignment()) == before
    readers.consumers.append(slow)
    readers.shared(2, 2, 2)
    readers.until(lambda: set(readers.read) == readers.all_values())
    readers.turn(0.3)
    assert set(readers.read.values()) == {1}
    told = [what for consumer in (one, slow) for what in _listener(consumer).told]
    assert all(keys for name, keys in told if name == "revoked")
    assert "lost" not in {name for name, _ in told}


def _listener(consumer: KafkaConsumer[Any, Any]) -> Committer:
    listener: Committer = listener_of(consumer).on_revoked.__self__
    return listener


def test_a_listener_that_takes_long_or_raises_holds_up_nobody_s_records(readers: Readers) -> None:
    one = readers.join(**COOPERATIVE)
    readers.shared(6)
    readers.produce(30)
    revoked: list[set[TopicPartition]] = []

    def fail(partitions: list[TopicPartition]) -> None:
        revoked.append(set(partitions))
        one.commit()
        readers.client.cluster.handler.sleep(1)
        raise ValueError("the listener's own error")

    listener_of(one).on_revoked = fail
    readers.join(**COOPERATIVE)
    with pytest.raises(ValueError, match="own error"):
        readers.shared(3, 3)
    readers.shared(3, 3)
    readers.until(lambda: set(readers.read) == readers.all_values())
    assert set(readers.read.values()) == {1}
    assert [len(keys) for keys in revoked] == [3]
    listener_of(one).on_revoked = lambda _: None


def test_a_timeout_inside_of_on_revoked_loses_nothing(kafka: KafkaCluster) -> None:
    with KafkaClient(hosts=kafka.hosts, use_greenlets=True) as client:
        readers = Readers(client)
        one = readers.join(committing=False, **COOPERATIVE)
        readers.shared(6)
        readers.produce(60)
        calls: list[set[TopicPartition]] = []

        class Slow(RebalanceListener):
            def on_revoked(self, partitions: list[TopicPartition]) -> None:
                calls.append(set(partitions))
                if len(calls) == 1:
                    gevent.sleep(10)
                one.commit()

        listener_of(one).on_revoked = Slow().on_revoked
        readers.join(**COOPERATIVE)
        with pytest.raises(gevent.Timeout), gevent.Timeout(4):
            readers.shared(3, 3)
        readers.shared(3, 3)
        readers.until(lambda: set(readers.read) == readers.all_values())
        assert set(readers.read.values()) == {1}
        assert calls[0] == calls[1]
        readers.close()


def test_a_parallel_run_drains_only_what_goes(readers: Readers) -> None:
    """Records of partitions that stay are handled while those that go are waited for."""
    handler = readers.client.cluster.handler
    one = readers.join(committing=False, **COOPERATIVE)
    readers.shared(6)
    readers.produce(60)
    handled: list[tuple[float, Any]] = []

    def handle(record: Any) -> None:
        handler.sleep(0.02)
        handled.append((handler.now(), record.value))

    readers.consumers.remove(one)
    try:
        with one.parallel(handle, workers=4, order="partition") as run:
            until(handler, lambda: len(handled) > 20, 20)
            two = readers.join(committing=False, **COOPERATIVE)
            readers.until(lambda: len(two.assignment()) == 3)
            assert len(one.assignment()) == 3
            readers.produce(30)
            expected = readers.all_values()
            readers.until(lambda: {value for _, value in handled} | set(readers.read) == expected)
            until(handler, lambda: run.stats().unacknowledged == 0, 20)
            times = sorted(at for at, _ in handled[:60])
            assert max(after - before for before, after in pairwise(times)) < 3
        counts = readers.read + Counter(value for _, value in handled)
        assert set(counts.values()) == {1}
    finally:
        one.close()
