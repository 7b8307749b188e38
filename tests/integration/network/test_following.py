"""Real brokers that move to other ports, one by one or all at once, and that close idle connections."""

from __future__ import annotations

import gc
import logging
import random
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from pykafka import KafkaClient
from pykafka.exceptions import KafkaException
from pykafka.handlers import Handler
from tests.brokers import KafkaCluster
from tests.support.features import KAFKA_VERSION
from tests.support.fleet import NAME
from tests.support.leftovers import Belongings
from tests.support.proxies import CuttingProxy, detour
from tests.support.topics import create_topic
from tests.support.traffic import following, ports_of, step_during
from tests.support.tunnels import TunnelProxy
from tests.support.waiting import until

pytestmark = [pytest.mark.kafka, pytest.mark.slow, pytest.mark.needs("producers")]


@pytest.fixture(params=["threads", "gevent"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def named(kafka3: KafkaCluster, kind: str) -> Handler:
    """Return each handler in turn, with the brokers under `NAME`."""
    return following(kind, lambda: list(kafka3.ports.values()))


class Load:
    """A pipelined producer and a managed consumer, until `end`; what they produced and consumed.

    :param client: whose
    :param name: of the topic
    """

    def __init__(self, client: KafkaClient, name: str) -> None:
        self.client = client
        topic = client.topics[name]
        self.name = name
        self.produced = 0
        self.seen: Counter[bytes] = Counter()
        self.told: Counter[str] = Counter()
        self.producer = topic.get_producer(
            required_acks=-1, linger_ms=5, max_retries=100_000, delivery_timeout_ms=120_000, pending_timeout_ms=60_000
        )
        self.consumer = topic.get_balanced_consumer(
            f"group-{name}",
            managed=True,
            auto_commit_enable=True,
            auto_commit_interval_ms=500,
            consumer_timeout_ms=20,
            auto_offset_reset=-2,
        )

    def step(self) -> None:
        for _ in range(20):
            self.producer.produce(b"%d" % self.produced)
            self.produced += 1
        self._consume()

    def _consume(self) -> None:
        try:
            while (message := self.consumer.consume()) is not None:
                self.seen[message.value or b""] += 1
        except KafkaException as error:
            self.told[type(error).__name__] += 1

    def end(self) -> None:
        """Deliver and consume the rest."""
        self.producer.stop()
        now = self.client.cluster.handler.now
        until = now() + 60
        while len(self.seen) < self.produced and now() < until:
            self._consume()
        self.consumer.stop()

    def check(self, hosts: str) -> None:
        """Compare with what the brokers have stored."""
        stored: Counter[bytes] = Counter()
        with KafkaClient(hosts) as direct:
            topic = direct.topics[self.name]
            total = sum(limit.offset[0] for limit in topic.latest_available_offsets().values())
            for message in topic.get_simple_consumer(consumer_timeout_ms=20_000):
                stored[message.value or b""] += 1
                if stored.total() == total:
                    break
        wanted = {b"%d" % number for number in range(self.produced)}
        print(f"{self.produced} messages, errors of consume(): {dict(self.told)}")
        assert {
            "lost": len(wanted - stored.keys()),
            "doubled": stored.total() - len(stored),
            "unread": len(wanted - self.seen.keys()),
        } == {"lost": 0, "doubled": 0, "unread": 0}


def under_load(client: KafkaClient, name: str, change: Callable[[], None]) -> Load:
    """Produce and consume while the cluster changes, and for a moment before and after; return the load, ended."""
    load = Load(client, name)
    step_during(change, load.step, after=20)
    load.end()
    return load


def replicated(kafka: KafkaCluster) -> str:
    with KafkaClient(kafka.hosts) as client:
        return create_topic(client, partitions=6, replicas=3, config={"min.insync.replicas": "2"}).name


@pytest.mark.matrix
@pytest.mark.timeout(300)
def test_all_brokers_move_one_after_another_under_load(kafka3: KafkaCluster, named: Handler) -> None:
    name = replicated(kafka3)
    before = set(kafka3.ports.values())

    def roll() -> None:
        for number in kafka3.broker_ids:
            kafka3.move(number)

    with KafkaClient(f"{NAME}:9092", handler=named, socket_timeout_ms=20_000) as client:
        load = under_load(client, name, roll)
        until(named, lambda: ports_of(client) == set(kafka3.ports.values()))
    assert before.isdisjoint(kafka3.ports.values())
    load.check(kafka3.hosts)


@pytest.mark.later("threads")
@pytest.mark.timeout(300)
def test_all_brokers_move_at_once_under_load(kafka3: KafkaCluster, named: Handler) -> None:
    """No address that the client knew from metadata leads anywhere afterwards: it begins again at the name."""
    name = replicated(kafka3)
    with KafkaClient(f"{NAME}:9092", handler=named, socket_timeout_ms=20_000) as client:
        load = under_load(client, name, lambda: kafka3.move(*kafka3.broker_ids))
        until(named, lambda: ports_of(client) == set(kafka3.ports.values()))
    load.check(kafka3.hosts)


@pytest.mark.matrix
@pytest.mark.lacks("assigning")
@pytest.mark.timeout(300)
def test_brokers_that_have_all_moved_are_found_in_zookeeper(kafka3: KafkaCluster, handler: Handler) -> None:
    name = replicated(kafka3)
    with KafkaClient(zookeeper_hosts=kafka3.zookeeper_hosts, handler=handler, socket_timeout_ms=20_000) as client:
        load = under_load(client, name, lambda: kafka3.move(*kafka3.broker_ids))
        until(handler, lambda: ports_of(client) == set(kafka3.ports.values()))
    load.check(kafka3.hosts)


# -- proxies -----------------------------------------------------------------------------------------------------------


@pytest.mark.later("threads")
@pytest.mark.parametrize("scheme", ["socks5", "socks5h", "http"])
def test_groups_and_producers_through_a_proxy(kafka: KafkaCluster, handler: Handler, scheme: str) -> None:
    with TunnelProxy("joe", "secret") as tunnel:
        with KafkaClient(kafka.hosts, handler=handler, proxy=tunnel.url(scheme)) as client:
            name = create_topic(client).name
            load = Load(client, name)
            for _ in range(10):
                load.step()
            load.end()
            assert len(tunnel.asked) >= 4, "the heartbeats go through it too"
        load.check(kafka.hosts)


# -- idle connections --------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def hasty() -> Iterator[KafkaCluster]:
    """Yield a broker that closes connections after a second."""
    with KafkaCluster(KAFKA_VERSION, config={"connections.max.idle.ms": 1000}) as cluster:
        yield cluster


@pytest.mark.later("gevent")
def test_a_broker_that_closes_idle_connections_is_not_noticed(
    hasty: KafkaCluster, handler: Handler, caplog: pytest.LogCaptureFixture
) -> None:
    """No attempt may fail: there is no retry. No warning may be logged."""
    with KafkaClient(hasty.hosts, handler=handler) as client:
        topic = create_topic(client)
        chance = random.Random(7)
        with caplog.at_level(logging.WARNING), topic.get_sync_producer(required_acks=1, max_retries=0) as producer:
            consumer = topic.get_simple_consumer("idle", consumer_timeout_ms=10_000, auto_offset_reset=-2)
            for number in range(10):
                producer.produce(b"%d" % number)
                message = consumer.consume()
                assert message is not None
                assert message.value == b"%d" % number
                consumer.commit_offsets()
                client.update_cluster()
                handler.sleep(chance.uniform(0.95, 1.35))
            consumer.stop()
        assert not [record.getMessage() for record in caplog.records]


@pytest.mark.later("threads")
def test_a_member_of_a_group_outlives_idle_connections(
    hasty: KafkaCluster, handler: Handler, caplog: pytest.LogCaptureFixture
) -> None:
    """Each heartbeat went out on a connection that the broker had closed."""
    with KafkaClient(hasty.hosts, handler=handler) as client:
        topic = create_topic(client)
        with caplog.at_level(logging.INFO, logger="pykafka"):
            consumer = topic.get_balanced_consumer(
                "idlers", managed=True, consumer_timeout_ms=6000, heartbeat_interval_ms=1500, auto_offset_reset=-2
            )
            caplog.clear()
            assert consumer.consume() is None
            with topic.get_sync_producer() as producer:
                producer.produce(b"awake")
            message = consumer.consume()
            assert message is not None
            consumer.stop()
        assert not [record.getMessage() for record in caplog.records if "heartbeat" in record.getMessage().lower()]
        assert not [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]


# -- leaks -------------------------------------------------------------------------------------------------------------


@pytest.mark.later("threads")
def test_hundreds_of_reconnects_leave_nothing_behind(kafka: KafkaCluster, kind: str) -> None:
    with CuttingProxy(kafka.ports[1]) as proxy:
        around = detour(kind, {kafka.ports[1]: proxy.port})
        options: dict[str, Any] = {"reconnect_backoff_ms": 0, "reconnect_backoff_max_ms": 0}
        with KafkaClient(kafka.hosts, handler=around, **options) as client:
            client.update_cluster()
            before = belongings()
            for _ in range(300):
                client.update_cluster()
                proxy.cut()
            client.update_cluster()
            assert proxy.accepted >= 200
            # the proxy has some of its own
            until(around, lambda: belongings() <= before + 12)


def belongings() -> int:
    """Return the number of threads, greenlets and descriptors."""
    gc.collect()
    now = Belongings()
    return len(now.threads) + len(now.greenlets) + len(now.descriptors)
