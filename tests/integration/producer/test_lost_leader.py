"""A commit while a partition of the transaction has no leader: most brokers keep it, and Kafka 4.3.1 and 4.4.0 lose it."""

from __future__ import annotations

import time
from collections.abc import Callable

import confluent_kafka
import pytest

from pykafka import KafkaClient
from pykafka.exceptions import KafkaException
from pykafka.metadata.elections import wait_for_coordinator
from pykafka.transactions.coordinator import TRANSACTIONS
from tests.brokers import KafkaCluster
from tests.integration.producer.test_transactions import committed, unique
from tests.support.features import KAFKA_VERSION
from tests.support.topics import create_topic, wait_in_sync

pytestmark = [pytest.mark.kafka, pytest.mark.needs("listed transactions"), pytest.mark.matrix, pytest.mark.timeout(200)]
#: The releases whose coordinators take a partition without a leader for one that was deleted.
LOSES = {"4.3.1", "4.4.0"}
#: How long brokers take to notice that the leader is gone, and to try again (s).
NOTICED_S = 8


def by_us(hosts: str, name: str, topic: str, cluster: KafkaCluster, leader: int) -> None:
    """Commit two transactions, and kill the leader between the messages and the commit of the second."""
    with KafkaClient(hosts) as client, client.producer(transactional_id=name) as producer:
        with producer.transaction():
            producer.produce(topic, b"first")
        with producer.transaction():
            producer.produce(topic, b"second")
            producer.flush()
            cluster.kill(leader)


def by_confluent(hosts: str, name: str, topic: str, cluster: KafkaCluster, leader: int) -> None:
    """The same by another client: what is lost is lost by the broker."""
    producer = confluent_kafka.Producer({"bootstrap.servers": hosts, "transactional.id": name, "log_level": 2})
    producer.init_transactions(30)
    for value in (b"first", b"second"):
        producer.begin_transaction()
        producer.produce(topic, value)
        assert producer.flush(30) == 0
        if value == b"second":
            cluster.kill(leader)
        producer.commit_transaction(60)


@pytest.mark.parametrize("write", [by_us, by_confluent])
def test_a_commit_while_a_partition_has_no_leader(
    kafka3: KafkaCluster, write: Callable[[str, str, str, KafkaCluster, int], None]
) -> None:
    with KafkaClient(kafka3.hosts) as client:
        topic = create_topic(client)
        leader = topic.partitions[0].leader
        assert leader is not None
        name = elsewhere(client, leader.id)
        try:
            write(kafka3.hosts, name, topic.name, kafka3, leader.id)
            time.sleep(NOTICED_S)
        finally:
            kafka3.start(leader.id)
        wait_in_sync(client)
        deadline = time.monotonic() + 20
        found = committed(client, topic.name)
        while len(found) < 2 and KAFKA_VERSION not in LOSES and time.monotonic() < deadline:
            found = committed(client, topic.name)
        # Where this fails since both are there, a release has mended it: docs/transactions.md says which ones have it.
        assert found == ([b"first"] if KAFKA_VERSION in LOSES else [b"first", b"second"])
        hanging = client.admin.find_hanging_transactions([(topic.name, 0)], max_timeout_ms=1)
        assert len(hanging) == (KAFKA_VERSION in LOSES)
        for one in hanging:
            client.admin.abort_transaction(one.partition, one.producer)


def elsewhere(client: KafkaClient, leader: int) -> str:
    """Return a transactional id whose coordinator is another broker."""
    for _ in range(100):
        name = unique()
        try:
            if wait_for_coordinator(client.cluster, name, 20_000, TRANSACTIONS).id != leader:
                return name
        except KafkaException:
            time.sleep(0.2)
    raise AssertionError("all coordinators are on one broker")
