"""An unclean election loses records: consumers that have read them are told, and skip nothing (KIP-320)."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from pykafka import KafkaClient
from pykafka.compat.simple_consumer import SimpleConsumer
from pykafka.consumer import offset_reset
from pykafka.consumer.recovery import compares_logs
from pykafka.exceptions import KafkaException, LogTruncationError
from pykafka.handlers import Handler
from pykafka.protocol import versions, wire
from pykafka.topic import Topic
from tests.brokers import KafkaCluster
from tests.support.features import KAFKA_VERSION
from tests.support.inside import engine_of
from tests.support.topics import create_topic, take_messages

pytestmark = [pytest.mark.kafka, pytest.mark.slow, pytest.mark.timeout(400), pytest.mark.needs("alterations")]

#: Offsets that both brokers have, and those that the dead leader alone has.
COMMON, LOST = 100, 50


@pytest.fixture(scope="module")
def racks() -> Iterator[KafkaCluster]:
    """Yield three brokers that elect leaders which are not in sync."""
    config = {
        "unclean.leader.election.enable": "true",
        "replica.lag.time.max.ms": 2000,
        "replica.fetch.wait.max.ms": 500,
        "unclean.leader.election.interval.ms": 1000,
    }
    with KafkaCluster(KAFKA_VERSION, brokers=3, config=config) as cluster:
        yield cluster


@pytest.fixture
def client(handler: Handler, racks: KafkaCluster) -> Iterator[KafkaClient]:
    with KafkaClient(hosts=racks.hosts, handler=handler) as client:
        yield client


def send(topic: Topic, values: list[bytes], acks: int = -1) -> None:
    with topic.get_producer(required_acks=acks, linger_ms=5, pending_timeout_ms=90_000) as producer:
        for value in values:
            producer.produce(value)


def numbered(first: int, count: int, mark: bytes = b"") -> list[bytes]:
    return [mark + b"%d" % number for number in range(first, first + count)]


def two_replicas(client: KafkaClient) -> tuple[Topic, int, int]:
    """Return a topic of one partition, its leader and its follower; neither is broker 1, which keeps the quorum with one."""
    while True:
        topic = create_topic(client, replicas=2)
        partition = topic.partitions[0]
        assert partition.leader is not None
        ids = {broker.id for broker in partition.replicas}
        if 1 not in ids:
            leader = partition.leader.id
            return topic, leader, next(iter(ids - {leader}))


def wait_for(client: KafkaClient, what: Any, seconds: float = 90) -> None:
    deadline = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < deadline
        client.cluster.handler.sleep(0.2)
        try:
            client.update_cluster()
        except KafkaException:
            continue


def take(consumer: SimpleConsumer, count: int) -> list[tuple[int, bytes | None]]:
    return [(message.offset, message.value) for message in take_messages(consumer, count)]


class Election:
    """A topic whose follower becomes its leader without the leader's last records."""

    def __init__(self, client: KafkaClient, cluster: KafkaCluster) -> None:
        self.client, self.cluster = client, cluster
        self.topic, self.leader, self.follower = two_replicas(client)

    def lose(self, consumer: SimpleConsumer, then: Callable[[], object] = lambda: None) -> None:
        """Show the consumer records that only the leader has, and then elect the follower.

        :param then: called in between
        """
        send(self.topic, numbered(0, COMMON))
        assert [offset for offset, _ in take(consumer, COMMON)] == list(range(COMMON))
        self.cluster.kill(self.follower)
        partition = self.topic.partitions[0]
        wait_for(self.client, lambda: self.in_sync() == [self.leader])
        send(self.topic, numbered(COMMON, LOST, b"old"), acks=1)
        assert [value for _, value in take(consumer, LOST)] == numbered(COMMON, LOST, b"old")
        then()
        self.cluster.kill(self.leader)
        self.cluster.start(self.follower)
        wait_for(self.client, lambda: partition.leader is not None and partition.leader.id == self.follower)

    def in_sync(self) -> list[int]:
        """Return the replicas in sync, also those that are down."""
        (topic,) = self.client.cluster.ask_metadata([self.topic.name]).topics
        return list(topic.partitions[0].isr_nodes)

    def end(self) -> None:
        if self.cluster.pid(self.leader) is None:
            self.cluster.start(self.leader)


@pytest.fixture
def election(client: KafkaClient, racks: KafkaCluster) -> Iterator[Election]:
    election = Election(client, racks)
    yield election
    election.end()


OPTIONS: dict[str, Any] = {"consumer_timeout_ms": 5000, "metadata_max_age_ms": 1000}


@pytest.fixture(params=["fetch", "asked"])
def told_by(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Make brokers tell by Fetch, and by OffsetForLeaderEpoch as those before 2.7 do."""
    if request.param == "asked":
        monkeypatch.setattr(versions, "CEILINGS", {**versions.CEILINGS, wire.FetchRequest.api_key: 11})
        monkeypatch.setattr("pykafka.consumer.fetch_request.IDS_CEILING", 11)
    return str(request.param)


@pytest.mark.later("fetch-threads", "asked-threads", "fetch-gevent")
def test_lost_offsets_are_reported_and_none_is_skipped(
    election: Election, told_by: str, caplog: pytest.LogCaptureFixture
) -> None:
    with election.topic.get_simple_consumer(**OPTIONS) as consumer:
        election.lose(consumer)
        with caplog.at_level(logging.WARNING, logger=offset_reset.__name__):
            new = numbered(0, 2 * LOST, b"new")
            send(election.topic, new)
            # the new log has passed the position: without a look at epochs half of it would be skipped
            assert take(consumer, len(new)) == list(zip(range(COMMON, COMMON + len(new)), new, strict=True))
    (told,) = [record.getMessage() for record in caplog.records if "are lost" in record.getMessage()]
    assert f"offsets {COMMON} to {COMMON + LOST - 1} ({LOST} of them)" in told
    assert f"from offset {COMMON + LOST} back to {COMMON}" in told


@pytest.mark.later("threads", "asked-gevent")
def test_without_a_reset_consume_raises_until_told_where_to_go_on(election: Election, told_by: str) -> None:
    topic = election.topic
    consumer = topic.get_simple_consumer(auto_offset_reset="none", auto_start=False, **OPTIONS)
    consumer.seek(topic.partitions[0], 0)
    with consumer:
        election.lose(consumer)
        send(topic, numbered(0, 2 * LOST, b"new"))
        for _ in range(2):
            with pytest.raises(LogTruncationError) as caught:
                deadline = time.monotonic() + 60
                while time.monotonic() < deadline:
                    assert consumer.consume() is None
            error = caught.value
            assert (error.topic, error.partition) == (topic.name, 0)
            assert (error.offset, error.divergent_offset) == (COMMON + LOST, COMMON)
            assert error.earliest == 0
            # The consumer may see the loss before the new records, or between them.
            assert error.latest is not None
            assert COMMON <= error.latest <= COMMON + 2 * LOST
        assert error.divergent_offset is not None
        consumer.seek(topic.partitions[0], error.divergent_offset)
        engine_of(consumer).errors.clear()
        assert [value for _, value in take(consumer, 2 * LOST)] == numbered(0, 2 * LOST, b"new")


@pytest.mark.later("asked-threads", "gevent")
def test_a_committed_position_is_checked_when_a_consumer_starts(
    election: Election, told_by: str, caplog: pytest.LogCaptureFixture
) -> None:
    group = f"g-{election.topic.name}"
    first = election.topic.get_simple_consumer(group, auto_commit_enable=True, **OPTIONS)
    try:
        election.lose(first, then=first.stop)
    finally:
        first.stop()
    new = numbered(0, 2 * LOST, b"new")
    send(election.topic, new)
    with caplog.at_level(logging.WARNING, logger=offset_reset.__name__):
        with election.topic.get_simple_consumer(group, **OPTIONS) as second:
            assert take(second, len(new)) == list(zip(range(COMMON, COMMON + len(new)), new, strict=True))
    assert [record for record in caplog.records if "are lost" in record.getMessage()]


def test_what_fetch_tells_is_not_asked(client: KafkaClient) -> None:
    assert all(compares_logs(broker) for broker in client.brokers.values())
