"""Ways to stand still, each brought about on a real broker: `explain()` and the reports name the right one."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest

from pykafka import KafkaClient, KafkaConsumer, KafkaProducer, Scram, TopicPartition
from pykafka.admin import AclBinding, AclFilter, AclOperation, Permission, QuotaEntity, ResourceType
from pykafka.exceptions import KafkaException
from pykafka.health import Explanation, Why
from tests.brokers import KafkaCluster
from tests.support.features import KAFKA_VERSION
from tests.support.loops import Concurrency
from tests.support.topics import create_topic
from tests.support.waiting import until

pytestmark = [pytest.mark.kafka, pytest.mark.slow, pytest.mark.on_asyncio, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def pair() -> Iterator[KafkaCluster]:
    """Yield two brokers, of which a test may stop the second one."""
    config = {"offsets.topic.replication.factor": 1, "offsets.topic.num.partitions": 4}
    with KafkaCluster(KAFKA_VERSION, brokers=2, config=config) as cluster:
        yield cluster


@pytest.fixture
def away(pair: KafkaCluster, concurrency: Concurrency) -> Iterator[KafkaClient]:
    """Yield a client of the two brokers; the second one is there again at the end."""
    with KafkaClient(pair.hosts, **concurrency(), socket_timeout_ms=2000) as client:
        try:
            yield client
        finally:
            if pair.pid(2) is None:
                pair.start(2)
            else:
                pair.resume(2)


def fill(client: KafkaClient, topic: str, count: int = 50, partition: int = 0) -> None:
    with client.producer() as producer:
        for _ in range(count):
            producer.produce(topic, b"x" * 100, partition=partition)


def on_broker(client: KafkaClient, broker: int) -> tuple[str, TopicPartition]:
    """Make a topic of two partitions; return its name and the partition that a broker leads."""
    topic = create_topic(client, partitions=2)
    led = next(id_ for id_, one in topic.partitions.items() if one.leader is not None and one.leader.id == broker)
    return str(topic.name), TopicPartition(str(topic.name), led)


def why(consumer: KafkaConsumer[Any, Any], key: TopicPartition, timeout: float = 5.0) -> Why:
    return consumer.explain(timeout).of(str(key)).why


def named(
    client: KafkaClient, explained: Callable[[], Explanation], about: object, wanted: Why, text: str = ""
) -> None:
    """Wait until an explanation names a reason."""
    found: list[Any] = []

    def is_named() -> bool:
        lines = dict(explained().lines)
        found[:] = [lines.get(str(about))]
        return found[0] is not None and found[0].why is wanted and text in found[0].text

    try:
        until(client.cluster.handler, is_named, 40)
    except AssertionError:
        raise AssertionError(f"{wanted}, not {found[0]}") from None


@contextmanager
def behind(client: KafkaClient, count: int = 50, **options: Any) -> Iterator[tuple[Any, TopicPartition]]:
    """Yield a consumer that has read one record of a topic, and its partition."""
    name = str(create_topic(client).name)
    fill(client, name, count)
    consumer = client.consumer(name, **options)
    try:
        assert consumer.one(20) is not None
        yield consumer, TopicPartition(name, 0)
    finally:
        consumer.close()


# -- consumers -------------------------------------------------------------------------------------------------------


def test_paused(client: KafkaClient) -> None:
    with behind(client) as (consumer, key):
        consumer.pause(key)
        fill(client, key.topic, 10)
        reason = consumer.explain().of(str(key))
        assert reason.why is Why.PAUSED
        assert "59 behind its end" in reason.text
        assert "resume()" in reason.remedy


def test_buffers_full(client: KafkaClient) -> None:
    with behind(client, queued_max_messages=10) as (consumer, key):
        until(client.cluster.handler, lambda: consumer.health().partitions[0].buffered >= 10)
        named(client, consumer.explain, key, Why.BUFFERS_FULL)
        assert consumer.health().ready  # handling records takes its time
        client.cluster.metrics_settings = replace(client.cluster.metrics_settings, stall_report_ms=100)
        problem = consumer.health().problems[0]
        assert (problem.kind, problem.restart_helps) == ("buffers-full", False)
        assert not consumer.health().ready
        assert consumer.health().alive


def test_the_application_does_not_poll(client: KafkaClient) -> None:
    with behind(client) as (consumer, key):
        until(client.cluster.handler, lambda: consumer.health().partitions[0].buffered == 49)
        named(client, consumer.explain, key, Why.NOT_POLLED, "49 behind its end")
        assert len(consumer.poll(100, timeout=20)) == 49
        assert why(consumer, key) is Why.AT_END


def test_a_callback_holds_it(client: KafkaClient) -> None:
    handler = client.cluster.handler
    entered, released = handler.Event(), handler.Event()

    def hold(value: bytes) -> bytes:
        entered.set()
        released.wait(60)
        return value

    name = str(create_topic(client).name)
    fill(client, name)
    with client.consumer(name, value_deserializer=hold) as consumer:
        worker = handler.spawn(consumer.one, 30)
        try:
            assert entered.wait(30)
            named(client, consumer.explain, f"{name}-0", Why.HELD, "in hold")
        finally:
            released.set()
            worker.join(30)


def test_the_member_is_out_of_its_group(client: KafkaClient) -> None:
    options = {"max_poll_interval_ms": 1000, "session_timeout_ms": 6000, "heartbeat_interval_ms": 500}
    with behind(client, group=f"g-{uuid.uuid4().hex}", **options) as (consumer, key):
        member = consumer.health().member
        assert member is not None
        assert (member.stable, member.protocol) == (True, "classic")
        assert member.generation >= 1
        named(client, consumer.explain, key, Why.NOT_A_MEMBER, "max_poll_interval_ms (1000)")
        assert any(problem.kind == "not-a-member" for problem in consumer.health().problems)


@pytest.mark.needs("quotas")
def test_throttled(kafka: KafkaCluster, concurrency: Concurrency) -> None:
    client_id = f"slow-{uuid.uuid4().hex}"
    with KafkaClient(kafka.hosts) as client:
        name = str(create_topic(client).name)
        with client.producer() as producer:
            for _ in range(40):
                producer.produce(name, bytes(30_000))
        client.admin.alter_client_quotas({QuotaEntity(client_id=client_id): {"consumer_byte_rate": 10_000}})
    with (
        KafkaClient(kafka.hosts, client_id=client_id, **concurrency()) as slow,
        slow.consumer(name, max_partition_fetch_bytes=100_000) as consumer,
    ):

        def explained() -> Explanation:
            while consumer.poll(100, timeout=0):
                pass
            return consumer.explain()

        named(slow, explained, f"{name}-0", Why.THROTTLED, "throttles this client")


def test_fetch_refused(client: KafkaClient) -> None:
    name = str(create_topic(client).name)
    with client.consumer(auto_offset_reset="none") as consumer:
        consumer.assign([TopicPartition(name, 0)])
        consumer.seek(TopicPartition(name, 0), 10_000)
        named(client, consumer.explain, f"{name}-0", Why.REFUSED, "offset 10000 is not there")


@pytest.mark.needs("transactions")
def test_a_transaction_of_another_producer_is_open(client: KafkaClient) -> None:
    name, id_ = str(create_topic(client).name), f"tx-{uuid.uuid4().hex[:8]}"
    fill(client, name, 3)
    with (
        client.producer(transactional_id=id_) as producer,
        client.consumer(name, isolation_level="read_committed") as consumer,
    ):
        producer.begin_transaction()
        producer.produce(name, b"open").get(20)
        for _ in range(3):
            assert consumer.one(20) is not None
        named(client, lambda: consumer.explain(0), f"{name}-0", Why.OPEN_TRANSACTION, "from offset 3 on")
        named(client, consumer.explain, f"{name}-0", Why.OPEN_TRANSACTION, id_)
        producer.abort_transaction()
        consumer.poll(1, timeout=5)
        named(client, lambda: (consumer.poll(1, timeout=0), consumer.explain())[1], f"{name}-0", Why.AT_END)


@pytest.mark.needs("scram users")
def test_not_authorized(secure_kafka: KafkaCluster, concurrency: Concurrency) -> None:
    assert secure_kafka.sasl is not None
    login = Scram("bob", secure_kafka.sasl.users["bob"])
    with (
        KafkaClient(secure_kafka.hosts) as alice,
        KafkaClient(secure_kafka.hosts_of("SASL_PLAINTEXT"), sasl=login, **concurrency()) as bob,
    ):
        name = str(create_topic(alice).name)
        fill(alice, name)
        with bob.consumer(name) as consumer:
            assert consumer.one(20) is not None
            bindings = [
                AclBinding(ResourceType.TOPIC, name, "User:bob", AclOperation.READ, Permission.DENY),
                AclBinding(ResourceType.TOPIC, name, "User:bob", AclOperation.DESCRIBE, Permission.ALLOW),
            ]
            alice.admin.create_acls(bindings)

            def explained() -> Explanation:
                try:
                    consumer.poll(100, timeout=0)
                except KafkaException:
                    pass
                return consumer.explain()

            try:
                named(bob, explained, f"{name}-0", Why.NOT_AUTHORIZED, "TopicAuthorizationFailed")
            finally:
                alice.admin.delete_acls(AclFilter(name=name))


def test_a_broker_cannot_be_reached(pair: KafkaCluster, away: KafkaClient) -> None:
    name, key = on_broker(away, 2)
    fill(away, name, partition=key.partition)
    with away.consumer() as consumer:
        consumer.assign([key])
        assert consumer.one(20) is not None
        assert len(consumer.poll(100, timeout=20)) == 49
        pair.pause(2)
        named(away, consumer.explain, key, Why.UNREACHABLE)
        brokers = away.health(probe=True, timeout=1.0).brokers
        assert [(broker.id, broker.reachable) for broker in brokers] == [(1, True), (2, False)]


def test_no_broker_leads_it(pair: KafkaCluster, away: KafkaClient) -> None:
    name, key = on_broker(away, 2)
    fill(away, name, partition=key.partition)
    with away.consumer() as consumer, away.producer(linger_ms=0) as producer:
        consumer.assign([key])
        assert consumer.one(20) is not None
        assert len(consumer.poll(100, timeout=20)) == 49
        pair.stop(2)
        producer.produce(name, b"late", partition=key.partition)
        named(away, consumer.explain, key, Why.NO_LEADER)
        named(away, producer.explain, key, Why.NO_LEADER)
        assert away.health().alive
        pair.start(2)
        producer.flush(60)


def test_the_coordinator_is_not_known(pair: KafkaCluster, away: KafkaClient) -> None:
    name = str(create_topic(away).name)
    fill(away, name)
    groups = (f"g-{uuid.uuid4().hex}" for _ in range(200))
    group = next(one for one in groups if away.cluster.get_group_coordinator(one).id == 2)
    with away.consumer(name, group=group) as consumer:
        pair.stop(2)

        def explained() -> Explanation:
            consumer.poll(1, timeout=0.1)
            return consumer.explain()

        named(away, explained, f"group {group}", Why.NO_COORDINATOR)


# -- producers -------------------------------------------------------------------------------------------------------


def explained_of(producer: KafkaProducer[Any, Any], about: str) -> Why:
    return producer.explain().of(about).why


def test_a_message_lingers(client: KafkaClient) -> None:
    name = str(create_topic(client).name)
    with client.producer(linger_ms=60_000) as producer:
        producer.produce(name, b"x")
        assert explained_of(producer, f"{name}-0") is Why.LINGER
        assert producer.health().ready
        assert producer.health().queued_messages == 1
        producer.flush(20)
        assert producer.health().oldest_s is None


def test_a_producer_is_full(client: KafkaClient) -> None:
    name, handler = str(create_topic(client).name), client.cluster.handler
    with client.producer(linger_ms=60_000, buffer_memory=2_000, batch_size=100_000) as producer:
        producer.produce(name, bytes(1_500))
        worker = handler.spawn(producer.produce, name, bytes(1_500))
        until(handler, lambda: any(reason.why for _, reason in producer.explain()))
        worker.join(30)
        assert producer.health().buffer_limit_bytes == 2_000


def test_a_callback_of_deliveries_holds_the_producer(client: KafkaClient) -> None:
    name, handler = str(create_topic(client).name), client.cluster.handler
    released = handler.Event()

    def called(error: object, delivery: object) -> None:
        released.wait(60)

    with client.producer(on_delivery=called, buffer_memory=4_000, linger_ms=0) as producer:
        try:
            while not producer._engine.completion.callbacks.full:
                producer.produce(name, bytes(900)).get(20)
            named(client, producer.explain, "the producer", Why.HELD, "in called")
        finally:
            released.set()


def test_the_oldest_message_waits_for_a_broker_that_hangs(pair: KafkaCluster, away: KafkaClient) -> None:
    name, key = on_broker(away, 2)
    with away.producer(linger_ms=0) as producer:
        producer.produce(name, b"x", partition=key.partition).get(20)
        pair.pause(2)
        producer.produce(name, b"y", partition=key.partition)
        named(away, producer.explain, key, Why.UNREACHABLE)
        report = producer.health()
        assert report.oldest_partition == str(key)
        assert report.oldest_s is not None
        pair.resume(2)
        producer.flush(60)
