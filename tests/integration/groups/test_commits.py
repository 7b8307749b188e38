"""Commits of groups while shares change or the coordinator is away, on real brokers."""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from pykafka import BalancedConsumer, KafkaClient, ManagedBalancedConsumer
from tests.brokers import KafkaCluster
from tests.support.groups import Group
from tests.support.inside import engine_of
from tests.support.loops import Concurrency
from tests.support.topics import create_topic
from tests.support.waiting import until
from tests.support.zookeeper import ZooKeeper

pytestmark = pytest.mark.timeout(180)

SELDOM: dict[str, Any] = {"auto_commit_enable": True, "auto_commit_interval_ms": 600_000}


@pytest.fixture(scope="module")
def zookeeper() -> Iterator[ZooKeeper]:
    with ZooKeeper() as zookeeper:
        yield zookeeper


@pytest.fixture(
    params=[
        pytest.param("managed", marks=pytest.mark.needs("groups")),
        pytest.param("zookeeper", marks=pytest.mark.no_loop("consume in groups of ZooKeeper")),
    ]
)
def group(request: pytest.FixtureRequest, client: KafkaClient, zookeeper: ZooKeeper) -> Iterator[Group[Any]]:
    if request.param == "managed":
        made: Group[Any] = Group(ManagedBalancedConsumer, client, heartbeat_interval_ms=200, **SELDOM)
    else:
        made = Group(BalancedConsumer, client, zookeeper_hosts=zookeeper.hosts, **SELDOM)
    yield made
    for member in made.members:
        member.stop()


def committed(group: Group[Any]) -> dict[int, int]:
    consumer = group.topic.get_simple_consumer(group.name, auto_start=False, reset_offset_on_fetch=False)
    return {id_: found.offset for id_, found in consumer.fetch_offsets()}


@pytest.mark.later("managed-threads", "zookeeper-greenlets")
def test_a_message_in_hand_is_not_committed_when_shares_change(group: Group[Any]) -> None:
    """Members committed messages that the application still held: a crash would have lost them."""
    values = group.produce(60)
    one = group.join()
    seen = group.drain(10)
    held = one.consume()
    seen[held.value] += 1
    two = group.join()
    group.sizes(1, 2)
    assert committed(group)[held.partition_id] == held.offset
    gone = held.partition_id in two.partitions
    seen += group.drain(60 - seen.total() + gone)
    assert +(seen - values) == (Counter([held.value]) if gone else Counter())
    one.stop()
    two.stop()
    assert sum(committed(group).values()) == 60


@pytest.mark.later("managed-threads", "zookeeper-greenlets")
def test_who_goes_on_consuming_gets_nothing_twice_when_shares_change(group: Group[Any]) -> None:
    """A change of shares waits a moment for what is in hand, so that it costs no message its being consumed once."""
    values = group.produce(300)
    seen: Counter[bytes | None] = Counter()
    handler = group.client.cluster.handler

    def work(member: Any) -> None:
        while seen.total() < 300 and (message := member.consume()) is not None:
            handler.sleep(0.02)
            seen[message.value] += 1

    workers = [handler.spawn(work, group.join(consumer_timeout_ms=3000))]
    until(handler, lambda: seen.total() > 10)
    workers.append(handler.spawn(work, group.join(consumer_timeout_ms=3000)))
    for worker in workers:
        assert worker.join(60)
    assert seen == values


def acknowledged(consumer: Any) -> int:
    """Return how far the coordinator has acknowledged a consumer's commits, of all partitions together."""
    reading = getattr(consumer, "_consumer", consumer)
    return sum(engine_of(reading).commits._committed.values()) if reading is not None else 0


@pytest.mark.needs("groups")
@pytest.mark.parametrize("kind", ["simple", "managed"])
@pytest.mark.later("threads-managed", "greenlets-simple")
def test_a_coordinator_that_is_killed_ends_no_loop(
    kafka3: KafkaCluster, kind: str, concurrency: Concurrency, caplog: pytest.LogCaptureFixture
) -> None:
    """Auto-commit gave up after five seconds, and `for message in consumer` ended: brokers take longer to move groups."""
    settings: dict[str, Any] = {
        "auto_commit_enable": True,
        "auto_commit_interval_ms": 200,
        "offsets_commit_max_retries": 2,
        "offsets_channel_backoff_ms": 300,
        "consumer_timeout_ms": 60_000,
    }
    with KafkaClient(hosts=kafka3.hosts, **concurrency(), offsets_channel_socket_timeout_ms=2000) as client:
        topic = create_topic(client, 3, replicas=3, config={"min.insync.replicas": "1"})
        group = f"g-{uuid.uuid4().hex[:8]}"
        topic.get_simple_consumer(group, auto_start=False).fetch_offsets()  # there is a coordinator
        if kind == "managed":
            consumer: Any = topic.get_balanced_consumer(group, managed=True, heartbeat_interval_ms=500, **settings)
        else:
            consumer = topic.get_simple_consumer(group, **settings)
        handler = client.cluster.handler
        stopping = handler.Event()
        producer = topic.get_producer(linger_ms=1, max_retries=100)

        def produce() -> None:
            number = 0
            while not stopping.wait(0.02):
                producer.produce(b"%d" % number)
                number += 1

        seen: list[Any] = []

        def consume() -> None:
            for message in consumer:
                seen.append(message.value)
                if stopping.is_set():
                    return

        workers = [handler.spawn(produce), handler.spawn(consume)]
        killed = None
        try:
            until(handler, lambda: acknowledged(consumer) > 0)
            killed = client.cluster.get_group_coordinator(group).id
            kafka3.kill(killed)
            # what is read from now on can be committed to another coordinator only
            far = len(seen) + 10
            until(handler, lambda: acknowledged(consumer) > far or not workers[1].is_alive(), 90)
            assert workers[1].is_alive()
        finally:
            if killed is not None:
                kafka3.start(killed)
            stopping.set()
            for worker in workers:
                worker.join(60)
            producer.stop()
            consumer.stop()
        assert caplog.text.count("auto-commit has failed") < 20
        again = topic.get_simple_consumer(group, auto_start=False)
        assert sum(found.offset for _, found in again.fetch_offsets()) == len(seen)
