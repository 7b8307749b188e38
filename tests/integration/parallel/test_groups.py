"""Parallel work of a group on a real broker: members that come, go and are killed; transactions; what is committed."""

from __future__ import annotations

import subprocess
import sys
import uuid
from collections import defaultdict
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from pykafka import KafkaClient
from pykafka.common import TopicPartition
from pykafka.parallel import Retry
from pykafka.record import Record
from tests.brokers import KafkaCluster
from tests.support.topics import create_topic

pytestmark = [pytest.mark.kafka, pytest.mark.on_asyncio, pytest.mark.needs("groups"), pytest.mark.timeout(200)]

KEYS = 40
GROUP: dict[str, Any] = {"session_timeout_ms": 6000, "heartbeat_interval_ms": 100}
#: A member that is killed: it says what it has handled, line by line.
PROGRAM = """
import os, sys, time
from pykafka import KafkaClient

def handle(record):
    time.sleep(0.005)
    os.write(1, b"%d %d %s %s\\n" % (record.partition, record.offset, record.raw_key, record.value))

with KafkaClient(sys.argv[1]) as client:
    consumer = client.consumer(sys.argv[2], group=sys.argv[2], session_timeout_ms=6000, heartbeat_interval_ms=100)
    consumer.parallel(handle, workers=8, commit_interval=0.05, max_unacknowledged=100).run()
"""


@pytest.fixture
def client(kafka: KafkaCluster, concurrency: Callable[[], dict[str, Any]]) -> Iterator[KafkaClient]:
    with KafkaClient(kafka.hosts, **concurrency()) as client:
        yield client


class History:
    """A list of what was handled, in order; keys have the numbers from 0 on."""

    def __init__(self, client: KafkaClient, each: int) -> None:
        self.topic = f"parallel-{uuid.uuid4().hex[:8]}"
        self.each = each
        create_topic(client, partitions=4, name=self.topic)
        with client.producer() as producer:
            for number in range(KEYS * each):
                key = number % KEYS
                producer.produce(self.topic, b"%d" % (number // KEYS), key=b"key-%d" % key, partition=key % 4)
        self.ends = KEYS * each // 4
        self.handled: dict[str, list[int]] = defaultdict(list)
        self.offsets: dict[TopicPartition, set[int]] = defaultdict(set)
        self.places = [TopicPartition(self.topic, number) for number in range(4)]

    def note(self, partition: int, offset: int, key: str, value: int) -> None:
        self.handled[key].append(value)
        self.offsets[TopicPartition(self.topic, partition)].add(offset)

    def record(self, record: Record[Any, Any]) -> None:
        self.note(record.partition, record.offset, (record.raw_key or b"").decode(), int(record.value or b""))

    def check_commits(self, consumer: Any) -> bool:
        """Check that nothing is committed past what was handled; return whether all is committed."""
        found = consumer.committed(*self.places)
        for place, committed in found.items():
            if committed is not None:
                assert set(range(committed.offset)) <= self.offsets[place], "committed past what was handled"
        return all(committed is not None and committed.offset == self.ends for committed in found.values())

    def check(self) -> None:
        """Check that all was handled, and each key in order: repetitions go back, and on from there without a gap."""
        assert len(self.handled) == KEYS
        for numbers in self.handled.values():
            assert set(numbers) == set(range(self.each))
            assert all(later <= former + 1 for former, later in pairwise(numbers))


def until(client: KafkaClient, condition: Callable[[], object], timeout: float = 60.0) -> None:
    handler = client.cluster.handler
    deadline = handler.now() + timeout
    while not condition():
        assert handler.now() < deadline, "it did not happen in time"
        handler.sleep(0.02)


def test_members_that_come_and_go_pass_nothing_over(client: KafkaClient) -> None:
    history = History(client, each=50)
    handler = client.cluster.handler
    failed: set[tuple[int, int]] = set()

    def handle(record: Record[Any, Any]) -> None:
        place = record.partition, record.offset
        if record.offset % 50 == 7 and place not in failed:
            failed.add(place)
            raise ValueError(record.offset)
        handler.sleep(0.01)
        history.record(record)

    options: dict[str, Any] = {"workers": 8, "commit_interval": 0.05, "max_unacknowledged": 150}
    options["retry"] = Retry(backoff=0.005)
    with (
        client.consumer(history.topic, group=history.topic, **GROUP) as first,
        first.parallel(handle, **options) as run,
    ):
        until(client, lambda: run.stats().acknowledged > 100)
        with client.consumer(history.topic, group=history.topic, **GROUP) as second:
            with second.parallel(handle, **options) as other:
                until(client, lambda: other.stats().acknowledged > 100)
                assert len(second.assignment()) == 2
                history.check_commits(first)
        until(client, lambda: history.check_commits(first))
    history.check()


@pytest.mark.later("greenlets", "asyncio")
def test_a_member_that_is_killed_loses_nothing(kafka: KafkaCluster, client: KafkaClient, tmp_path: Path) -> None:
    history = History(client, each=50)
    program = tmp_path / "member.py"
    program.write_text(PROGRAM)
    said = tmp_path / "said"
    with said.open("w") as output:
        member = subprocess.Popen([sys.executable, str(program), kafka.hosts, history.topic], stdout=output)
        until(client, lambda: said.read_text().count("\n") > 300)
        member.kill()
        member.wait(10)
    for line in said.read_text().splitlines():
        partition, offset, key, value = line.split()
        history.note(int(partition), int(offset), key, int(value))
    with client.consumer(history.topic, group=history.topic, **GROUP) as consumer:
        history.check_commits(consumer)
        with consumer.parallel(history.record, workers=8, commit_interval=0.05):
            until(client, lambda: history.check_commits(consumer))
    history.check()
    again = sum(len(numbers) for numbers in history.handled.values()) - KEYS * history.each
    assert again <= 4 * 100
