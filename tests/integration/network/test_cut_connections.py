"""A proxy before a real broker that closes and refuses connections: nothing is lost, doubled, or spoken in an older version."""

from __future__ import annotations

import logging
import os
import random
import threading
from collections import Counter
from collections.abc import Iterator

import pytest

from pykafka import KafkaClient
from pykafka.exceptions import KafkaException
from pykafka.handlers import Handler
from pykafka.network.api_versions import ASK_AGAIN_S
from pykafka.protocol.versions import RANGES_0_8_2
from tests.brokers import KafkaCluster
from tests.support.proxies import CuttingProxy, detour
from tests.support.topics import create_topic

#: How long the long form runs for each handler (s).
SOAK_S = float(os.environ.get("CUTTING_SOAK_S", "100"))


@pytest.fixture
def proxy(kafka: KafkaCluster) -> Iterator[CuttingProxy]:
    with CuttingProxy(kafka.ports[1]) as made:
        yield made


@pytest.fixture(params=["threads", "gevent"])
def around(request: pytest.FixtureRequest, kafka: KafkaCluster, proxy: CuttingProxy) -> Handler:
    """Return each handler in turn, led to the broker through the proxy."""
    return detour(request.param, {kafka.ports[1]: proxy.port})


def topic_of(kafka: KafkaCluster, partitions: int) -> str:
    """Make a topic and return its name."""
    with KafkaClient(kafka.hosts) as client:
        return create_topic(client, partitions).name


@pytest.mark.needs("producers")
def test_two_connections_that_are_closed_are_no_0_8(
    kafka: KafkaCluster, proxy: CuttingProxy, around: Handler, caplog: pytest.LogCaptureFixture
) -> None:
    """Kafka 4.3 took no message any more; 2.8 stored some twice, and all without time and headers."""
    name = topic_of(kafka, 1)
    with KafkaClient(kafka.hosts, handler=around, socket_timeout_ms=20_000) as client:
        topic = client.topics[name]
        proxy.close_next = 2
        with topic.get_producer(required_acks=-1, linger_ms=5, pending_timeout_ms=30_000) as producer:
            for number in range(200):
                producer.produce(b"%d" % number, headers={"number": b"%d" % number})
                if number % 50 == 0:
                    proxy.close_next = 2
                    proxy.cut()
        consumer = topic.get_simple_consumer(consumer_timeout_ms=20_000)
        found = [consumer.consume() for _ in range(200)]
        assert [message.value for message in found if message] == [b"%d" % number for number in range(200)]
        assert all(message and message.headers == [("number", message.value)] for message in found)
        assert topic.latest_available_offsets()[0].offset == [200]
        assert client.brokers[1].api_ranges() is not RANGES_0_8_2
    assert "taken for Kafka 0.8.2" not in caplog.text


@pytest.mark.lacks("groups")
def test_0_8_is_found_out_in_seconds(kafka: KafkaCluster, handler: Handler, caplog: pytest.LogCaptureFixture) -> None:
    name = topic_of(kafka, 1)
    for hint in ("0.9.0", "0.8.2"):
        started = handler.now()
        with KafkaClient(kafka.hosts, handler=handler, broker_version=hint) as client:
            assert client.brokers[1].api_ranges() is RANGES_0_8_2
            with client.topics[name].get_sync_producer() as producer:
                producer.produce(b"x")
        assert handler.now() - started < ASK_AGAIN_S
    assert "closes the connection when asked for its versions" in caplog.text


def _disturb(proxy: CuttingProxy, ending: threading.Event) -> None:
    while not ending.wait(random.uniform(0.05, 0.6)):
        match random.randrange(4):
            case 0:
                proxy.refuse()
                ending.wait(random.uniform(0.05, 0.7))
                proxy.listen()
            case 1:
                proxy.close_next = random.randint(1, 4)
                proxy.cut()
            case 2:
                proxy.close_next = random.randint(1, 2)
                proxy.cut(0.5)
            case _:
                proxy.cut(random.random())


def _soak(kafka: KafkaCluster, proxy: CuttingProxy, handler: Handler, seconds: float) -> None:
    name = topic_of(kafka, 3)
    ending = threading.Event()
    chaos = threading.Thread(target=_disturb, args=(proxy, ending))
    seen: Counter[bytes] = Counter()
    produced = 0
    told: Counter[str] = Counter()
    with KafkaClient(kafka.hosts, handler=handler, socket_timeout_ms=10_000) as client:
        topic = client.topics[name]
        ranges = dict(client.brokers[1].api_ranges())
        consumer = topic.get_balanced_consumer(
            f"group-{name}",
            managed=True,
            auto_commit_enable=True,
            auto_commit_interval_ms=500,
            consumer_timeout_ms=20,
            auto_offset_reset=-2,
        )
        producer = topic.get_producer(
            required_acks=-1, linger_ms=20, max_retries=100_000, delivery_timeout_ms=120_000, pending_timeout_ms=60_000
        )
        chaos.start()
        try:
            end = handler.now() + seconds
            while handler.now() < end:
                for _ in range(20):
                    producer.produce(b"%d" % produced, headers={"at": b"%d" % produced})
                    produced += 1
                _consume(consumer, seen, told)
        finally:
            ending.set()
            chaos.join()
        producer.stop()
        end = handler.now() + 60
        while len(seen) < produced and handler.now() < end:
            _consume(consumer, seen, told)
        consumer.stop()
        node = client.brokers[1]
        node.forget_versions()
        assert dict(node.api_ranges()) == ranges
    stored: Counter[bytes] = Counter()
    with KafkaClient(kafka.hosts) as direct:
        topic = direct.topics[name]
        sizes = [limit.offset[0] for limit in topic.latest_available_offsets().values()]
        reader = topic.get_simple_consumer(consumer_timeout_ms=10_000)
        for message in reader:
            assert message.headers == [("at", message.value)]
            stored[message.value or b""] += 1
            if stored.total() == sum(sizes):
                break
    wanted = {b"%d" % number for number in range(produced)}
    print(f"{produced} messages, {proxy.accepted} connections, errors of consume(): {dict(told)}")
    assert {
        "lost": len(wanted - stored.keys()),
        "doubled": stored.total() - len(stored),
        "unread": len(wanted - seen.keys()),
    } == {"lost": 0, "doubled": 0, "unread": 0}
    assert seen.total() == len(seen), f"{seen.total() - len(seen)} were consumed twice"


def _consume(consumer: object, seen: Counter[bytes], told: Counter[str]) -> None:
    try:
        while (message := consumer.consume()) is not None:  # type: ignore[attr-defined]
            seen[message.value] += 1
    except KafkaException as error:  # what lasts is told, and consuming goes on
        told[type(error).__name__] += 1


@pytest.mark.needs("producers")
@pytest.mark.later("threads")
def test_connections_that_are_closed_at_random_cost_nothing(
    kafka: KafkaCluster, proxy: CuttingProxy, around: Handler, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        _soak(kafka, proxy, around, 10.0)
    assert "taken for Kafka 0.8.2" not in caplog.text


@pytest.mark.matrix
@pytest.mark.needs("producers")
@pytest.mark.timeout(SOAK_S + 200)
def test_connections_that_are_closed_at_random_cost_nothing_in_the_long_run(
    kafka: KafkaCluster, proxy: CuttingProxy, around: Handler, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        _soak(kafka, proxy, around, SOAK_S)
    assert "taken for Kafka 0.8.2" not in caplog.text
