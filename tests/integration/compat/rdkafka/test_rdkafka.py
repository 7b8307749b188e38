"""Producing and consuming by librdkafka, behind the classes of this client, on a real broker of each age."""

from __future__ import annotations

import itertools
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import gevent
import pytest

from pykafka import BalancedConsumer, KafkaClient
from pykafka.common import CompressionType, OffsetType
from pykafka.exceptions import (
    ConsumerStoppedException,
    MessagesNotDelivered,
    ProducerQueueFullError,
    ProducerStoppedException,
)
from pykafka.handlers import ThreadingHandler
from pykafka.rdkafka import RdKafkaProducer, RdKafkaSimpleConsumer
from pykafka.security import SslConfig
from pykafka.topic import Topic
from tests.brokers import LATEST, RELEASES, KafkaCluster
from tests.support.groups import Group
from tests.support.zookeeper import ZooKeeper

pytestmark = [pytest.mark.kafka, pytest.mark.slow, pytest.mark.matrix, pytest.mark.timeout(400)]

OLDER = [pytest.param(version, marks=pytest.mark.slow) for version in RELEASES if version != LATEST]


@pytest.fixture(scope="module", params=[LATEST, *OLDER])
def any_kafka(request: pytest.FixtureRequest) -> Iterator[KafkaCluster]:
    if request.param == LATEST:
        yield request.getfixturevalue("kafka")
        return
    with KafkaCluster(request.param) as cluster:
        yield cluster


def new_topic(client: KafkaClient) -> Topic:
    return client.topics[f"rdkafka-{uuid.uuid4().hex[:12]}"]


@pytest.fixture
def topic(client: KafkaClient) -> Topic:
    return new_topic(client)


def numbered(count: int) -> list[bytes]:
    return [b"message %d" % number for number in range(count)]


def read(topic: Topic, count: int, **options: Any) -> list[bytes | None]:
    with topic.get_simple_consumer(use_rdkafka=True, consumer_timeout_ms=15_000, **options) as consumer:
        return [message.value for message in itertools.islice(consumer, count)]


def test_there_and_back_whatever_the_brokers_age(any_kafka: KafkaCluster) -> None:
    with KafkaClient(hosts=any_kafka.hosts) as client:
        topic = new_topic(client)
        with topic.get_producer(use_rdkafka=True, linger_ms=5) as producer:
            assert isinstance(producer, RdKafkaProducer)
            for value in numbered(50):
                producer.produce(value, partition_key=b"key")
        assert read(topic, 50) == numbered(50)


@pytest.mark.parametrize("codec", list(CompressionType))
def test_codecs(topic: Topic, codec: int) -> None:
    with topic.get_producer(use_rdkafka=True, compression=codec, linger_ms=5) as producer:
        for value in numbered(200):
            producer.produce(value)
    assert read(topic, 200) == numbered(200)


def test_nothing_waits_longer_than_the_hub_can(kafka: KafkaCluster) -> None:
    clock = ThreadingHandler()
    with KafkaClient(hosts=kafka.hosts, use_greenlets=True) as client:
        topic = new_topic(client)

        def work() -> None:
            with topic.get_producer(use_rdkafka=True, linger_ms=1500) as producer:
                producer.produce(b"v")
            assert read(topic, 1) == [b"v"]
            with topic.get_simple_consumer(
                use_rdkafka=True, consumer_timeout_ms=1500, auto_offset_reset="latest"
            ) as consumer:
                assert consumer.consume() is None

        worker = gevent.spawn(work)
        longest, last = 0.0, clock.now()
        while not worker.ready():
            gevent.sleep(0.002)
            longest, last = max(longest, clock.now() - last), clock.now()
        worker.get()
        assert longest < 0.7


def test_sync_and_everything_a_message_has(topic: Topic) -> None:
    with topic.get_sync_producer(use_rdkafka=True) as producer:
        assert [producer.produce(value).offset for value in (b"a", b"", None)] == [0, 1, 2]
        producer.produce(b"d", partition_key=b"k", timestamp=1_600_000_000_000, headers={"h": b"1"})
    with topic.get_simple_consumer(use_rdkafka=True, consumer_timeout_ms=15_000) as consumer:
        found = list(itertools.islice(consumer, 4))
    assert [message.value for message in found] == [b"a", b"", None, b"d"]
    last = found[-1]
    assert (last.partition_key, last.timestamp, last.headers) == (b"k", 1_600_000_000_000, [("h", b"1")])
    assert last.partition is topic.partitions[0]


def test_delivery_reports(topic: Topic) -> None:
    with topic.get_producer(use_rdkafka=True, delivery_reports=True, linger_ms=1) as producer:
        for value in numbered(10):
            producer.produce(value)
        reports = [producer.get_delivery_report(timeout=60) for _ in range(10)]
    assert [(message.value, message.offset, error) for message, error in reports] == [
        (value, number, None) for number, value in enumerate(numbered(10))
    ]


def test_offsets_are_kept_as_ever(topic: Topic) -> None:
    with topic.get_producer(use_rdkafka=True, linger_ms=1) as producer:
        for value in numbered(10):
            producer.produce(value)
    group = f"g-{uuid.uuid4().hex[:8]}"
    with topic.get_simple_consumer(group, use_rdkafka=True, consumer_timeout_ms=15_000) as consumer:
        assert isinstance(consumer, RdKafkaSimpleConsumer)
        assert [message.offset for message in itertools.islice(consumer, 4)] == [0, 1, 2, 3]
        assert consumer.held_offsets == {0: 3}
        consumer.commit_offsets()
        consumer.reset_offsets([(topic.partitions[0], 6)])
        assert [message.offset for message in itertools.islice(consumer, 2)] == [7, 8]
        consumer.reset_offsets([(topic.partitions[0], OffsetType.EARLIEST)])
        assert next(iter(consumer)).offset == 0
        consumer.commit_offsets([(topic.partitions[0], 3)])
        consumer.stop()
        with pytest.raises(ConsumerStoppedException):
            consumer.consume()
        consumer.start()
        assert next(iter(consumer)).offset == 1
    assert read(topic, 1, consumer_group=group) == [b"message 3"]


@pytest.mark.parametrize("reach", [lambda one: one.consume(block=False), lambda one: one.consume()], ids=["no", "yes"])
def test_nothing_there(topic: Topic, reach: Callable[[Any], Any]) -> None:
    with topic.get_simple_consumer(use_rdkafka=True, consumer_timeout_ms=200) as consumer:
        assert reach(consumer) is None


def test_a_full_queue_and_what_stop_gives_up() -> None:
    from pykafka.embedded import EmbeddedCluster

    with EmbeddedCluster(brokers=1, topics={"t": 1}) as cluster, KafkaClient(hosts=cluster.hosts) as client:
        producer = client.topics["t"].get_producer(
            use_rdkafka=True,
            max_queued_messages=5,
            block_on_queue_full=False,
            linger_ms=60_000,
            pending_timeout_ms=300,
        )
        cluster.broker_down(1)
        for value in numbered(5):
            producer.produce(value)
        with pytest.raises(ProducerQueueFullError, match="5 messages"):
            producer.produce(b"one more")
        with pytest.raises(MessagesNotDelivered, match="5 messages") as caught:
            producer.stop()
        assert {message.value for message, _ in caught.value.failures} == set(numbered(5))
        with pytest.raises(ProducerStoppedException):
            producer.produce(b"too late")


def test_without_the_extra_it_is_named(topic: Topic, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "confluent_kafka", None)
    for make in (topic.get_producer, topic.get_simple_consumer):
        with pytest.raises(ImportError, match="pip install .confluent-kafka"):
            make(use_rdkafka=True)


FORKED = """
import os, sys
hosts, name, mode = sys.argv[1:]
if mode == "greenlets":
    from gevent.os import fork, waitpid
else:
    from os import fork, waitpid
from pykafka import KafkaClient
client = KafkaClient(hosts, use_greenlets=mode == "greenlets", socket_timeout_ms=10_000)
topic = client.topics[name]
producer = topic.get_producer(use_rdkafka=True, linger_ms=60_000, pending_timeout_ms=10_000)
consumer = topic.get_simple_consumer(use_rdkafka=True, consumer_timeout_ms=15_000)
first = consumer.consume()
producer.produce(b"queued by the parent")
client.cluster.handler.sleep(2)  # what librdkafka's threads have locked while it forks stays locked in the child
child = fork()
producer.produce(b"by the child" if child == 0 else b"by the parent")
producer.stop()
assert consumer.consume().offset == first.offset + 1
client.close()
sys.exit(0 if child == 0 else os.waitstatus_to_exitcode(waitpid(child, 0)[1]))
"""


@pytest.mark.parametrize("mode", ["threads", "greenlets"])
def test_after_a_fork_it_is_made_anew(kafka: KafkaCluster, mode: str) -> None:
    with KafkaClient(hosts=kafka.hosts) as client:
        topic = new_topic(client)
        with topic.get_sync_producer() as producer:
            for _ in range(2):
                producer.produce(b"first")
        command = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", FORKED, kafka.hosts, topic.name, mode]
        done = subprocess.run(command, capture_output=True, text=True, timeout=90, check=False)
        assert done.returncode == 0, done.stderr
        found = read(topic, 5)
    assert sorted(found, key=str) == sorted(
        [b"first", b"first", b"queued by the parent", b"by the parent", b"by the child"], key=str
    )


def test_a_balanced_consumer_fetches_by_librdkafka_too(topic: Topic) -> None:
    with topic.get_producer(use_rdkafka=True, linger_ms=1) as producer:
        for value in numbered(20):
            producer.produce(value)
    consumer = topic.get_balanced_consumer(
        f"g-{uuid.uuid4().hex[:8]}", managed=True, use_rdkafka=True, consumer_timeout_ms=20_000
    )
    try:
        assert [message.value for message in itertools.islice(consumer, 20)] == numbered(20)
        assert isinstance(consumer._consumer, RdKafkaSimpleConsumer)
        consumer.commit_offsets()
        assert consumer.held_offsets == {0: 19}
    finally:
        consumer.stop()


@pytest.fixture(scope="module")
def zookeeper() -> Iterator[ZooKeeper]:
    with ZooKeeper() as zookeeper:
        yield zookeeper


@pytest.mark.no_loop("consume in groups of ZooKeeper")
def test_members_that_agree_through_zookeeper_do_so_too(client: KafkaClient, zookeeper: ZooKeeper) -> None:
    group = Group(BalancedConsumer, client, partitions=2, zookeeper_hosts=zookeeper.hosts, use_rdkafka=True)
    values = group.produce(40)
    one, two = group.join(), group.join()
    group.sizes(1, 1)
    assert isinstance(one._consumer, RdKafkaSimpleConsumer)
    assert group.drain(40) == values
    two.stop()
    group.members.remove(two)
    group.sizes(2)
    more = group.produce(20, start=100)
    assert group.drain(20) == more


@pytest.mark.parametrize("form", ["files", "text", "stores"])
def test_tls(secure: KafkaCluster, form: str) -> None:
    made = secure.certificates
    assert made is not None
    config = SslConfig(str(made.cafile), str(made.client_certfile), str(made.locked_keyfile), made.password)
    if form == "text":
        ca, certificate, key = (file.read_text() for file in (made.cafile, made.client_certfile, made.locked_keyfile))
        config = SslConfig(ca, certificate, key, made.password)
    elif form == "stores":
        config = SslConfig(str(made.truststore), ca_password=made.password)
    with KafkaClient(hosts=secure.tls_hosts, ssl_config=config) as client:
        topic = new_topic(client)
        with topic.get_producer(use_rdkafka=True, linger_ms=1) as producer:
            producer.produce(b"v")
        assert read(topic, 1) == [b"v"]
    with KafkaClient(hosts=secure.tls_hosts, ssl_config=config.context) as client:
        topic = client.topics[topic.name]
        with pytest.raises(ValueError, match="SslConfig"):
            topic.get_producer(use_rdkafka=True)
