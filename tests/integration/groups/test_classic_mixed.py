"""Members of many topics in one group with `ManagedBalancedConsumer`, and with members of other clients."""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer

from pykafka import KafkaClient, ManagedBalancedConsumer
from pykafka.common import TopicPartition
from tests.brokers import LATEST, KafkaCluster, classpath
from tests.brokers.jars import java
from tests.support.subscribers import Members

pytestmark = [pytest.mark.kafka, pytest.mark.needs("groups")]


@pytest.fixture
def members(client: KafkaClient) -> Iterator[Members]:
    group = Members(client)
    yield group
    group.leave()


@pytest.mark.parametrize("first", ["ours", "theirs"])
def test_shares_a_group_with_balanced_consumers(members: Members, first: str) -> None:
    """Each kind leads in turn: both divide topics that the other reads and they do not."""
    alone, shared = members.topics
    if first == "ours":
        members.join().serve(None)
    theirs = members.client.topics[shared].get_balanced_consumer(
        members.name, managed=True, heartbeat_interval_ms=200, auto_start=first == "theirs"
    )
    assert isinstance(theirs, ManagedBalancedConsumer)
    if first == "ours":
        worker = members.client.cluster.handler.spawn(theirs.start)
        members.until(lambda: not worker.is_alive())
    else:
        members.join()
    one = members.members[0]

    def divided() -> bool:
        have = {TopicPartition(shared, id_) for id_ in theirs.partitions}
        return have | one.share == members.keys() and not have & one.share and 1 <= len(have) <= 2

    members.until(divided)
    assert members.keys(alone) <= one.share
    theirs.stop()
    members.settled(6)


@pytest.mark.needs("latest")
@pytest.mark.later("greenlets")
@pytest.mark.parametrize("first", ["ours", "theirs"])
@pytest.mark.parametrize("strategy", ["range", "roundrobin", "cooperative-sticky"])
def test_shares_a_group_with_confluent_kafka(members: Members, kafka: KafkaCluster, first: str, strategy: str) -> None:
    theirs = Consumer(
        {
            "bootstrap.servers": kafka.hosts,
            "group.id": members.name,
            "partition.assignment.strategy": strategy,
            "heartbeat.interval.ms": 200,
        }
    )

    def have() -> set[TopicPartition]:
        theirs.poll(0.05)
        return {TopicPartition(part.topic, part.partition) for part in theirs.assignment()}

    try:
        if first == "ours":
            members.join(assignor=strategy).serve(None)
        theirs.subscribe(members.topics)
        if first == "theirs":
            members.until(lambda: len(have()) == 6)
            members.join(assignor=strategy)
        one = members.members[0]
        sizes = [2, 4] if strategy == "range" else [3, 3]
        members.until(
            lambda: (
                have() | one.share == members.keys()
                and not have() & one.share
                and sorted([len(one.share), len(have())]) == sizes
            )
        )
    finally:
        theirs.close()
    members.settled(6)


class JavaMember:
    """A member of Kafka's Java client in a process of its own; `share` is what it printed last."""

    def __init__(
        self, hosts: str, group: str, topics: list[str], assignor: str | None = None, protocol: str | None = None
    ) -> None:
        jars = classpath((f"org.apache.kafka:kafka-clients:{LATEST}",))
        source = Path(__file__).with_name("GroupMember.java")
        chosen = [] if assignor is None else [f"-Dassignor=org.apache.kafka.clients.consumer.{assignor}"]
        if protocol is not None:
            chosen.append(f"-Dprotocol={protocol}")
        command = [java(), *chosen, "-cp", f"{jars}/*", str(source), hosts, group, *topics]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.share: set[TopicPartition] = set()
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line.startswith("share "):
                names = [name.rpartition("-") for name in line.split()[1:]]
                self.share = {TopicPartition(topic, int(id_)) for topic, _, id_ in names}

    def close(self) -> None:
        self.process.communicate("\n", timeout=60)
        self._reader.join()


@pytest.mark.matrix
@pytest.mark.needs("latest")
@pytest.mark.parametrize("first", ["ours", "theirs"])
@pytest.mark.parametrize(
    ("assignor", "class_"),
    [
        (["roundrobin", "range"], None),  # Java's have range, and cooperative-sticky
        ("cooperative-sticky", None),
        ("cooperative-sticky", "CooperativeStickyAssignor"),  # alone, so that Java's are cooperative as well
    ],
)
def test_shares_a_group_with_the_java_client(
    members: Members, kafka: KafkaCluster, first: str, assignor: str | list[str], class_: str | None
) -> None:
    if first == "ours":
        members.join(assignor=assignor).serve(None)
    theirs = JavaMember(kafka.hosts, members.name, members.topics, class_)
    try:
        if first == "theirs":
            members.until(lambda: len(theirs.share) == 6, 60)
            members.join(assignor=assignor)
        one = members.members[0]

        def divided() -> bool:
            whole = theirs.share | one.share == members.keys() and not theirs.share & one.share
            return whole and abs(len(theirs.share) - len(one.share)) <= 2

        members.until(divided, 60)
        members.client.admin.create_partitions({members.topics[0]: 5})  # whoever leads finds them
        members.until(lambda: len(members.keys()) == 8)
        members.until(divided, 60)
    finally:
        theirs.close()
    members.settled(8)
