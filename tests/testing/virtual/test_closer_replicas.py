"""Consumers that fetch from replicas in their rack, in virtual time."""

from __future__ import annotations

import pytest

from pykafka import KafkaClient
from pykafka.common import TopicPartition
from pykafka.testing import FakeCluster
from pykafka.testing.virtual import Scheduler, VirtualHandler

#: Those that broker 1 and broker 3 lead, and that broker 2 has, too.
FIRST, SECOND = TopicPartition("orders", 0), TopicPartition("orders", 2)


@pytest.mark.parametrize("age_ms", [300, 1_000, 2_000, 300_000])
def test_a_replica_is_asked_before_the_leader_is_asked_again(
    scheduler: Scheduler, virtual: VirtualHandler, age_ms: int
) -> None:
    """A fetch of one partition is under way at the replica, and lasts longer than metadata is good for."""
    read: list[tuple[int, bytes | None]] = []

    def program() -> None:
        with (
            FakeCluster(brokers=3, racks=["a", "b", "c"], handler=virtual) as cluster,
            KafkaClient(cluster.hosts, handler=virtual) as client,
            client.producer() as producer,
        ):
            with cluster._locked() as state:
                state.reads_by_rack = True
            cluster.create_topic("orders", 3, 3)
            with client.consumer(client_rack="b", metadata_max_age_ms=age_ms, fetch_max_wait_ms=2_000) as consumer:
                consumer.assign([FIRST, SECOND])
                consumer.poll(1, 5.0)
                for key in (FIRST, SECOND, FIRST, SECOND):
                    producer.produce("orders", b"new", partition=key.partition).get(5.0)
                    read.extend((record.partition, record.value) for record in consumer.poll(1, 9.0))

    scheduler.run(program)
    assert read == [(key.partition, b"new") for key in (FIRST, SECOND, FIRST, SECOND)]


def test_an_answer_from_before_a_partition_left_a_replica_counts_no_more(
    scheduler: Scheduler, virtual: VirtualHandler
) -> None:
    """Its records were read from the leader meanwhile, which has referred the consumer to the replica again."""
    read: list[int] = []

    def program() -> None:
        with (
            FakeCluster(brokers=3, racks=["a", "b", "c"], handler=virtual) as cluster,
            KafkaClient(cluster.hosts, handler=virtual) as client,
            client.producer() as producer,
        ):
            with cluster._locked() as state:
                state.reads_by_rack = True
            cluster.create_topic("orders", 1, 3)
            cluster.create_topic("others", 3, 1)
            with client.consumer(client_rack="b", metadata_max_age_ms=300, fetch_max_wait_ms=300) as consumer:
                consumer.assign([FIRST, TopicPartition("others", 2)])  # the fetches of the other one keep time
                consumer.poll(1, 0.5)
                with cluster.hold("Fetch", 2) as held:
                    for value in (b"one", b"two"):
                        producer.produce("orders", value).get(5.0)
                    held.await_met()
                    cluster.lag("orders", 0, 2)
                    read.extend(record.offset for record in consumer.poll(2, 5.0))
                    cluster.catch_up("orders", 0, 2)
                    consumer.poll(1, 0.5)
                producer.produce("orders", b"three").get(5.0)
                read.extend(record.offset for record in consumer.poll(2, 3.0))

    scheduler.run(program)
    assert read == [0, 1, 2]
