"""Many rebalances (a thousand of each kind in the matrix): members come, go and are put out, and no message is lost."""

from __future__ import annotations

import os
import random
import time
import uuid
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from kazoo.client import KazooClient

from pykafka import BalancedConsumer, KafkaClient, ManagedBalancedConsumer
from pykafka.compat.group_consumer import GroupConsumer
from pykafka.exceptions import ConsumerStoppedException, OffsetsNotCommitted
from tests.brokers import KafkaCluster
from tests.support.loops import Concurrency
from tests.support.topics import create_topic
from tests.support.zookeeper import ZooKeeper

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.no_loop("consume in groups of ZooKeeper"),
    pytest.mark.slow,
    pytest.mark.matrix,
    pytest.mark.timeout(600),
]

#: Of each kind of consumer, in all, for four cases.
REBALANCES = int(os.environ.get("REBALANCES", "200"))
PARTITIONS = 8
MEMBERS = 5


@pytest.fixture(scope="module")
def zookeeper() -> Iterator[ZooKeeper]:
    with ZooKeeper() as zookeeper:
        yield zookeeper


class Churn(ABC):
    """Members that come and go, and what they consume."""

    def __init__(self, client: KafkaClient, losses: float) -> None:
        self.losses = losses
        self.cluster = client.cluster
        self.handler = client.cluster.handler
        self.topic = create_topic(client, PARTITIONS)
        self.group = f"g-{uuid.uuid4().hex[:8]}"
        self.members: dict[GroupConsumer, Any] = {}
        self.consumed: Counter[bytes | None] = Counter()
        self.rebalances = 0
        self.random = random.Random(4)

    @abstractmethod
    def make(self, **settings: Any) -> GroupConsumer:
        """Make a member."""

    @abstractmethod
    def put_out(self, member: GroupConsumer) -> None:
        """End a member's membership behind its back."""

    def join(self) -> None:
        member = self.make(
            auto_commit_enable=True,
            rebalance_backoff_ms=200,
            rebalance_max_retries=50,
            post_rebalance_callback=self.count,
        )
        self.members[member] = self.handler.spawn(self.consume, member)

    def count(self, *_: Any) -> None:
        self.rebalances += 1

    def consume(self, member: GroupConsumer) -> None:
        while True:
            try:
                for message in member:
                    self.consumed[message.value] += 1
            except OffsetsNotCommitted:  # said once by who was put out; what it names is consumed again
                assert self.losses
            except ConsumerStoppedException:
                return

    def leave(self) -> None:
        member = self.random.choice(list(self.members))
        worker = self.members.pop(member)
        try:
            member.stop()
        except OffsetsNotCommitted:  # put out a moment ago
            assert self.losses
        assert worker.join(20)
        assert worker.error is None

    def step(self) -> None:
        count = len(self.members)
        if count < 2 or (count < MEMBERS and self.random.random() < 0.5):
            self.join()
        elif self.random.random() < self.losses:
            self.put_out(self.random.choice(list(self.members)))
        else:
            self.leave()
        self.handler.sleep(self.random.choice((0, 0.02, 0.2)))

    def at_rest(self) -> bool:
        owned = [id_ for member in self.members for id_ in member.partitions]
        return sorted(owned) == list(range(PARTITIONS))


class ZooKeeperChurn(Churn):
    """Members that agree through ZooKeeper."""

    def __init__(self, client: KafkaClient, losses: float, hosts: str) -> None:
        super().__init__(client, losses)
        self.hosts = hosts

    def make(self, **settings: Any) -> BalancedConsumer:
        member: BalancedConsumer = self.topic.get_balanced_consumer(self.group, zookeeper_hosts=self.hosts, **settings)
        return member

    def put_out(self, member: GroupConsumer) -> None:
        assert isinstance(member, BalancedConsumer)
        other = KazooClient(self.hosts, client_id=member._zookeeper.client_id)
        other.start()
        other.stop()
        other.close()


class ManagedChurn(Churn):
    """Members of a group that the brokers keep."""

    def make(self, **settings: Any) -> ManagedBalancedConsumer:
        return self.topic.get_balanced_consumer(self.group, managed=True, heartbeat_interval_ms=100, **settings)

    def put_out(self, member: GroupConsumer) -> None:
        # as the coordinator does it with a member that it has not heard of for too long
        self.cluster.get_group_coordinator(self.group).leave_group("other", self.group, member._consumer_id)


@pytest.mark.parametrize("losses", [0.1, 0.0], ids=["lossy", "orderly"])
@pytest.mark.parametrize("managed", [False, True], ids=["zookeeper", "managed"])
def test_nothing_is_lost_and_nothing_unowned_at_rest(
    kafka: KafkaCluster,
    zookeeper: ZooKeeper,
    managed: bool,
    concurrency: Concurrency,
    losses: float,
    record_property: Any,
) -> None:
    with KafkaClient(hosts=kafka.hosts, **concurrency()) as client:
        churn: Churn = ManagedChurn(client, losses) if managed else ZooKeeperChurn(client, losses, zookeeper.hosts)
        produced = 0
        with churn.topic.get_producer(linger_ms=5) as producer:
            while churn.rebalances < REBALANCES // 4:
                for _ in range(20):
                    producer.produce(b"%d" % produced)
                    produced += 1
                churn.step()
        wanted = {b"%d" % number for number in range(produced)}
        deadline = time.monotonic() + 60
        while not (churn.at_rest() and set(churn.consumed) == wanted):
            assert time.monotonic() < deadline, (len(churn.consumed), produced, churn.at_rest())
            client.cluster.handler.sleep(0.05)
        while churn.members:
            churn.leave()
    duplicates = churn.consumed.total() - produced
    for name, value in (("rebalances", churn.rebalances), ("messages", produced), ("duplicates", duplicates)):
        record_property(name, value)
    # only who is put out behind its back can have consumed what it could not commit any more
    assert losses or not duplicates
    print(f"{churn.rebalances} rebalances, {produced} messages, {duplicates} of them twice")
