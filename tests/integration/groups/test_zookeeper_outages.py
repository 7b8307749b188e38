"""Members that agree through ZooKeeper, while it is killed: each record is read once, and all join again."""

from __future__ import annotations

import uuid
from collections import Counter

import pytest

from pykafka import KafkaClient
from pykafka.kafkaconsumer import KafkaConsumer
from tests.support.topics import create_topic
from tests.support.waiting import until
from tests.support.zookeeper import ZooKeeper

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.matrix,
    pytest.mark.no_loop("consume in groups of ZooKeeper"),
    pytest.mark.timeout(240),
]
PARTITIONS = 4
#: How long ZooKeeper is away: longer than a session (s).
AWAY_S, SESSION_MS = 12, 6000


def test_what_is_written_meanwhile_is_read_once(client: KafkaClient, mortal: ZooKeeper) -> None:
    topic, group, handler = create_topic(client, PARTITIONS), f"zk-{uuid.uuid4().hex[:8]}", client.cluster.handler
    members = [
        client.consumer(
            topic.name,
            group=group,
            protocol="zookeeper",
            zookeeper_hosts=mortal.hosts,
            session_timeout_ms=SESSION_MS,
            auto_commit=True,
            auto_commit_interval_ms=300,
        )
        for _ in range(2)
    ]
    seen: Counter[bytes] = Counter()
    ending = handler.Event()

    def read(member: KafkaConsumer[bytes, bytes]) -> None:
        while not ending.is_set():
            seen.update(record.value or b"" for record in member.poll(100, timeout=0.3))

    def shared_out() -> bool:
        return sorted(len(member.assignment()) for member in members) == [2, 2]

    def write(first: int, count: int) -> None:
        with client.producer() as producer:
            for number in range(first, first + count):
                producer.produce(topic.name, b"%d" % number, partition=number % PARTITIONS)

    workers = [handler.spawn(read, member) for member in members]
    write(0, 200)
    until(handler, lambda: len(seen) == 200 and shared_out(), 60)
    mortal.kill()
    try:
        until(handler, lambda: not any(member.assignment() for member in members), 2 * SESSION_MS / 1000)
        write(200, 100)
        handler.sleep(AWAY_S)
    finally:
        mortal.start()
    write(300, 50)
    until(handler, lambda: len(seen) == 350 and shared_out(), 90)
    assert set(seen.values()) == {1}
    ending.set()
    for worker in workers:
        assert worker.join(20)
        assert worker.error is None
    for member in members:
        member.close()
