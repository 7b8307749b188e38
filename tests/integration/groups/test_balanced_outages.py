"""Groups balanced through ZooKeeper, when ZooKeeper is away or a member's process is killed, and by librdkafka."""

from __future__ import annotations

import subprocess
import sys
import textwrap
import time
import uuid
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import pykafka
from pykafka import BalancedConsumer, KafkaClient
from pykafka.compat import balanced_consumer
from pykafka.exceptions import ZooKeeperError
from pykafka.topic import Topic
from tests.brokers import KafkaCluster
from tests.brokers.cluster import free_ports
from tests.support.proxies import CuttingProxy
from tests.support.topics import create_topic
from tests.support.waiting import until
from tests.support.zookeeper import ZooKeeper

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.no_loop("consume in groups of ZooKeeper"),
    pytest.mark.slow,
    pytest.mark.matrix,
]


@pytest.fixture(scope="module")
def zookeeper() -> Iterator[ZooKeeper]:
    with ZooKeeper() as zookeeper:
        yield zookeeper


def produce(topic: Topic, count: int) -> Counter[bytes | None]:
    found: Counter[bytes | None] = Counter()
    with topic.get_producer(linger_ms=1) as producer:
        for _ in range(count):
            value = uuid.uuid4().bytes
            producer.produce(value)
            found[value] += 1
    return found


def take(consumer: BalancedConsumer, count: int, *forgiven: type[Exception]) -> Counter[bytes | None]:
    found: Counter[bytes | None] = Counter()
    while found.total() < count:
        with suppress(*forgiven):
            message = consumer.consume()
            assert message is not None
            found[message.value] += 1
    return found


def join(topic: Topic, zookeeper: ZooKeeper, group: str, **kwargs: Any) -> BalancedConsumer:
    options: dict[str, Any] = {
        "zookeeper_hosts": zookeeper.hosts,
        "zookeeper_connection_timeout_ms": 2000,
        "rebalance_backoff_ms": 300,
        "consumer_timeout_ms": 20_000,
    }
    member: BalancedConsumer = topic.get_balanced_consumer(group, **(options | kwargs))
    return member


def test_no_zookeeper_is_an_error_that_names_the_way_without(client: KafkaClient) -> None:
    topic = create_topic(client)
    started = time.monotonic()
    with pytest.raises(ZooKeeperError, match="managed=True"):
        topic.get_balanced_consumer(
            "g", zookeeper_connect=f"127.0.0.1:{free_ports(1)[0]}", zookeeper_connection_timeout_ms=500
        )
    assert time.monotonic() - started < 5


def test_a_zookeeper_that_hangs_ends_consuming_until_it_is_back(
    client: KafkaClient, zookeeper: ZooKeeper, caplog: pytest.LogCaptureFixture
) -> None:
    topic = create_topic(client, 2)
    values = produce(topic, 20)
    one = join(topic, zookeeper, f"g-{uuid.uuid4().hex[:8]}")
    assert take(one, 20) == values
    zookeeper.pause()
    try:
        until(client.cluster.handler, lambda: not one.partitions)
        assert "ZooKeeper has not answered for" in caplog.text
        assert one.consume(block=False) is None
    finally:
        zookeeper.resume()
    until(client.cluster.handler, lambda: len(one.partitions) == 2)
    more = produce(topic, 20)
    # nothing was committed: where the session outlived the pause it goes on where it was, else from the start
    found = take(one, 20)
    while not more <= found:
        found += take(one, 1)
    assert set(found) <= set(values | more)
    one.stop()


@pytest.mark.parametrize("check_s", [60.0, 5.8], ids=["seldom", "for-pings"])
def test_a_member_that_is_cut_off_stops_before_others_take(
    client: KafkaClient, mortal: ZooKeeper, check_s: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """kazoo puts its ping off for each request, so that it tells too late of one without an answer."""
    monkeypatch.setattr(balanced_consumer, "OWNER_POLL_INTERVAL_S", check_s)
    topic, group, handler = create_topic(client, 4), f"g-{uuid.uuid4().hex[:8]}", client.cluster.handler
    options: dict[str, Any] = {
        # the longest that ZooKeeper grants: a busy machine may take its time
        "zookeeper_connection_timeout_ms": 20_000,
        "auto_commit_enable": True,
        "rebalance_max_retries": 100,
    }
    with CuttingProxy(mortal.port) as proxy:
        behind = join(topic, mortal, group, zookeeper_hosts=f"127.0.0.1:{proxy.port}", **options)
        other = join(topic, mortal, group, **options)
        written, found = produce(topic, 100), Counter[bytes | None]()

        def read() -> None:
            for member in (behind, other):
                while (message := member.consume(block=False)) is not None:
                    found[message.value] += 1

        def shared_out(*sizes: int) -> bool:
            read()
            return [len(behind.partitions), len(other.partitions)] == [*sizes] and found.total() >= written.total()

        until(handler, lambda: shared_out(2, 2))
        proxy.mute()
        began, gave_up = handler.now(), 0.0
        while len(other.partitions) < 4:
            assert handler.now() - began < 60
            assert not set(other.partitions) & set(behind.partitions)
            if not gave_up and not behind.partitions:
                gave_up = handler.now() - began
            written += produce(topic, 4)
            read()
            handler.sleep(0.02)
        assert 0 < gave_up < handler.now() - began
        until(handler, lambda: shared_out(0, 4))
        assert found == written
        proxy.unmute()
        written += produce(topic, 20)
        until(handler, lambda: shared_out(2, 2), 60)
        assert found == written
        behind.stop()
        other.stop()


def test_a_zookeeper_that_is_away_for_long_is_told_to_who_consumes(kafka: KafkaCluster, mortal: ZooKeeper) -> None:
    with KafkaClient(hosts=kafka.hosts, socket_timeout_ms=2000) as client:
        topic = create_topic(client, 2)
        one = join(topic, mortal, f"g-{uuid.uuid4().hex[:8]}", auto_commit_enable=True)
        mortal.kill()
        try:
            with pytest.raises(ZooKeeperError, match="until it is back"):
                one.consume()
        finally:
            mortal.start()
        until(client.cluster.handler, lambda: len(one.partitions) == 2)
        values = produce(topic, 20)
        assert take(one, 20, ZooKeeperError) == values  # told once more where its start took long


def test_stop_ends_in_bounded_time_without_zookeeper(client: KafkaClient, mortal: ZooKeeper) -> None:
    topic = create_topic(client, 2)
    one = join(topic, mortal, f"g-{uuid.uuid4().hex[:8]}")
    mortal.kill()
    started = time.monotonic()
    one.stop()
    assert time.monotonic() - started < 15


def test_a_member_whose_process_is_killed_is_replaced(
    client: KafkaClient, zookeeper: ZooKeeper, kafka: KafkaCluster
) -> None:
    topic = create_topic(client, 4)
    group = f"g-{uuid.uuid4().hex[:8]}"
    program = f"""
        from pykafka import KafkaClient
        client = KafkaClient({kafka.hosts!r})
        consumer = client.topics[{topic.name!r}].get_balanced_consumer(
            {group!r}, zookeeper_hosts={zookeeper.hosts!r}, zookeeper_connection_timeout_ms=2000,
            rebalance_backoff_ms=300, auto_commit_enable=True)
        print("joined", flush=True)
        for message in consumer:
            print(message.value.hex(), flush=True)
            consumer.commit_offsets()
    """
    member = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(program)],
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(pykafka.__file__).parent.parent,
    )
    assert member.stdout is not None
    try:
        assert member.stdout.readline() == "joined\n"
        one = join(topic, zookeeper, group, auto_commit_enable=True)
        until(client.cluster.handler, lambda: len(one.partitions) == 2)
        first = produce(topic, 20)
        found: Counter[bytes | None] = Counter()
        found.update(bytes.fromhex(member.stdout.readline()) for _ in range(5))
        member.kill()
        # it went on until then, and its last message may not have been committed
        found.update(bytes.fromhex(line) for line in member.stdout.read().split())
        until(client.cluster.handler, lambda: len(one.partitions) == 4)
        while not first <= found:
            found += take(one, 1)
        assert set(found) == set(first)
        one.stop()
    finally:
        member.kill()
        member.wait(20)
        member.stdout.close()


def test_librdkafka_fetches_a_share_as_well(client: KafkaClient, zookeeper: ZooKeeper) -> None:
    topic = create_topic(client, 3)
    group = f"g-{uuid.uuid4().hex[:8]}"
    values = produce(topic, 30)
    one = join(topic, zookeeper, group, use_rdkafka=True, auto_commit_enable=True)
    assert type(one._consumer).__name__ == "RdKafkaSimpleConsumer"
    assert take(one, 30) == values
    assert one.consume(block=False) is None  # the last one is dealt with, too, and not given to the other
    two = join(topic, zookeeper, group, auto_commit_enable=True)
    until(client.cluster.handler, lambda: sorted([*one.partitions, *two.partitions]) == [0, 1, 2])
    two.stop()
    until(client.cluster.handler, lambda: len(one.partitions) == 3)
    more = produce(topic, 30)
    assert take(one, 30) == more
    one.stop()
