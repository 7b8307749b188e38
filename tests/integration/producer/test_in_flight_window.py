"""The idempotent producer on real brokers: connections cut and leaders killed; nothing lost, doubled or out of order."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import pytest

from pykafka import Broker, KafkaClient
from pykafka.common import CompressionType
from pykafka.exceptions import (
    ClusterAuthorizationFailed,
    MessageSizeTooLarge,
    MessagesNotDelivered,
    TransactionAbortableError,
    UnsupportedVersion,
)
from pykafka.metadata.partition import Partition
from pykafka.producer import Producer
from pykafka.protocol import wire
from pykafka.protocol.records import scan
from pykafka.topic import Topic
from tests.brokers import KafkaCluster
from tests.support.features import kafka_since
from tests.support.loops import Concurrency
from tests.support.topics import create_topic

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(400)]

needs_producer_ids = pytest.mark.needs("producers")


class InTurn:
    """Choose one partition after another, and know how many messages each has got."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self, partitions: Sequence[Partition], key: Any) -> Partition:
        self.count += 1
        return partitions[(self.count - 1) % len(partitions)]


def cut(producer: Producer) -> None:
    """Break the connections that messages go over, as a network does; from any thread."""
    for owned in list(producer._owned_brokers.values()):
        requests = owned.broker.channel("produce").requests
        stream = getattr(requests.shared.connection, "_stream", None) if requests is not None else None
        if stream is not None:
            try:
                stream.socket.shutdown(socket.SHUT_RDWR)
            except OSError:  # broken already
                pass


@contextmanager
def trouble(
    cluster: KafkaCluster, producer: Producer, topic: Topic, every_s: float, kills: int
) -> Iterator[threading.Event]:
    """Cut connections all the time, and kill one leader after another; the event tells that all kills are done."""
    stop, over = threading.Event(), threading.Event()

    def make_trouble() -> None:
        for _ in range(kills):
            if stop.wait(1.0):
                break
            leader = topic.partitions[0].leader
            victim = leader.id if leader is not None else cluster.broker_ids[0]
            cluster.kill(victim)
            for _ in range(int(5 / every_s)):  # it takes four seconds until the others notice
                if not stop.wait(every_s):
                    cut(producer)
            cluster.start(victim)
        over.set()
        while not stop.wait(every_s):
            cut(producer)

    thread = threading.Thread(target=make_trouble)
    thread.start()
    try:
        yield over
    finally:
        stop.set()
        thread.join(120)


def check(topic: Topic, partitions: int, count: int) -> None:
    """Read everything back: in each partition the numbers count up by one."""
    expected = dict.fromkeys(range(partitions), 0)
    left = count
    consumer = topic.get_simple_consumer(consumer_timeout_ms=20_000, queued_max_messages=50_000)
    for message in consumer:
        assert message.value is not None
        number = int(message.value)
        assert number == expected[message.partition_id], f"partition {message.partition_id}: {number} is out of place"
        expected[message.partition_id] += 1
        left -= 1
        if not left:
            break
    ends = {id_: found.offset[0] for id_, found in topic.latest_available_offsets().items()}
    consumer.stop()
    assert not left
    assert ends == expected, "more than was sent"


def produce_in_trouble(cluster: KafkaCluster, concurrency: Concurrency, count: int, kills: int, every_s: float) -> None:
    """Produce at least `count` messages, and on until all kills are done; then check each."""
    partitions = 3
    with KafkaClient(hosts=cluster.hosts, **concurrency()) as client:
        topic = create_topic(client, partitions=partitions, replicas=3, config={"min.insync.replicas": "2"})
        sleep = client.cluster.handler.sleep
        producer = topic.get_producer(
            partitioner=InTurn(),
            required_acks=-1,
            linger_ms=2,
            max_retries=1_000_000,
            max_request_size=100_000,
            delivery_timeout_ms=200_000,
            pending_timeout_ms=100_000,
            max_queued_messages=20_000,
        )
        sent = 0
        with trouble(cluster, producer, topic, every_s, kills) as over:
            while sent < count or not over.is_set():
                producer.produce(b"%d" % (sent // partitions))
                sent += 1
                if sent >= count:
                    sleep(0.0005)
            producer.flush(timeout_ms=100_000)
        producer.stop()
        for id_ in sorted(set(cluster.broker_ids)):
            if cluster.pid(id_) is None:
                cluster.start(id_)
        check(topic, partitions, sent)


@pytest.mark.slow
@needs_producer_ids
@pytest.mark.later("threads")
def test_nothing_is_lost_doubled_or_reordered(kafka3: KafkaCluster, concurrency: Concurrency) -> None:
    produce_in_trouble(kafka3, concurrency, 200_000, kills=1, every_s=0.05)


@needs_producer_ids
@pytest.mark.later("greenlets")
def test_too_few_replicas_in_sync_for_a_while(kafka3: KafkaCluster, concurrency: Concurrency) -> None:
    """With default options, messages failed 0.3 s after a broker was restarted (NOT_ENOUGH_REPLICAS)."""
    with KafkaClient(hosts=kafka3.hosts, **concurrency()) as client:
        topic = create_topic(client, partitions=2, replicas=3, config={"min.insync.replicas": "3"})
        handler = client.cluster.handler
        producer = topic.get_producer(
            partitioner=InTurn(), required_acks=-1, linger_ms=5, delivery_reports=True, pending_timeout_ms=90_000
        )
        victim = kafka3.broker_ids[-1]
        waited, count = threading.Event(), 0

        def restart() -> None:
            kafka3.stop(victim)
            waited.wait(4)
            kafka3.start(victim)

        dip = threading.Thread(target=restart)
        try:
            for count in range(1, 100_000):
                producer.produce(b"%d" % ((count - 1) // 2))
                if count == 100:
                    dip.start()
                if count > 1000 and not dip.is_alive():
                    break
                handler.sleep(0.005)
            producer.stop()
        finally:
            waited.set()
            dip.join(120)
        reports = [producer.get_delivery_report(timeout=1) for _ in range(count)]
        assert {error for _, error in reports} == {None}
        check(topic, 2, count)


@pytest.mark.slow
@pytest.mark.matrix
@pytest.mark.timeout(1800)
@needs_producer_ids
def test_five_million_messages(kafka3: KafkaCluster, concurrency: Concurrency) -> None:
    produce_in_trouble(kafka3, concurrency, 5_000_000, kills=4, every_s=0.2)


def producer_ids(client: KafkaClient, topic: Topic) -> list[int]:
    """Return the producer id of each batch in the topic's only partition."""
    leader = topic.partitions[0].leader
    assert leader is not None
    wanted = wire.FetchRequest.Topic.Partition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
    part = wire.FetchRequest.Topic(topic=topic.name, partitions=[wanted])
    request = wire.FetchRequest(max_wait_ms=100, max_bytes=1 << 20, topics=[part])
    found = leader.call(request, ceiling=11).responses[0].partitions[0]
    return [batch.producer_id for batch in scan(found.records)[0]]


@needs_producer_ids
def test_it_is_on_where_all_replicas_are_waited_for(kafka: KafkaCluster, concurrency: Concurrency) -> None:
    with KafkaClient(hosts=kafka.hosts, **concurrency()) as client:
        topic = create_topic(client)
        combinations: list[dict[str, Any]] = [
            {"required_acks": -1},
            {"required_acks": -1, "enable_idempotence": True},
            {},
            {"required_acks": -1, "enable_idempotence": False},
            {"required_acks": -1, "max_retries": 0},
        ]
        for settings in combinations:
            with topic.get_sync_producer(**settings) as producer:
                producer.produce(b"v")
                producer.produce(b"w")
        with topic.get_producer(required_acks=-1) as producer:
            producer.stop()
            producer.start()
            producer.produce(b"afresh")
        ids = producer_ids(client, topic)
        assert [id_ >= 0 for id_ in ids] == [True] * 4 + [False] * 6 + [True]
        assert ids[0] == ids[1] != ids[2] == ids[3]


@pytest.mark.parametrize("use_rdkafka", [False, True])
def test_it_is_demanded(kafka: KafkaCluster, concurrency: Concurrency, use_rdkafka: bool) -> None:
    with KafkaClient(hosts=kafka.hosts, **concurrency()) as client:
        topic = create_topic(client)
        with topic.get_sync_producer(required_acks=-1) as producer:
            assert [producer.produce(b"v").offset for _ in range(3)] == [0, 1, 2]
        if kafka_since(0, 11):
            demanding = topic.get_sync_producer(use_rdkafka=use_rdkafka, required_acks=-1, enable_idempotence=True)
            with demanding as producer:
                assert producer.produce(b"v").offset == 3
            assert producer_ids(client, topic)[3] >= 0
        else:
            with pytest.raises(UnsupportedVersion, match="enable_idempotence"):
                topic.get_producer(use_rdkafka=use_rdkafka, required_acks=-1, enable_idempotence=True)


def test_it_is_refused_by_name_where_it_cannot_be(kafka: KafkaCluster, concurrency: Concurrency) -> None:
    with KafkaClient(hosts=kafka.hosts, **concurrency()) as client:
        topic = create_topic(client)
        with pytest.raises(ValueError, match="enable_idempotence=True needs required_acks"):
            topic.get_producer(enable_idempotence=True)
        with pytest.raises(ValueError, match="enable_idempotence=True needs max_retries"):
            topic.get_producer(enable_idempotence=True, required_acks=-1, max_retries=0)
        with pytest.raises(ValueError, match="enable_idempotence=True needs required_acks"):
            topic.get_producer(use_rdkafka=True, enable_idempotence=True)


@needs_producer_ids
def test_a_cluster_that_gives_no_id(
    kafka: KafkaCluster,
    concurrency: Concurrency,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    with KafkaClient(hosts=kafka.hosts, **concurrency()) as client:
        topic = create_topic(client, partitions=1)
        call = Broker.call

        def refuse(broker: Broker, request: Any, **options: Any) -> Any:
            if isinstance(request, wire.InitProducerIdRequest):
                return wire.InitProducerIdResponse(error_code=ClusterAuthorizationFailed.ERROR_CODE)
            return call(broker, request, **options)

        monkeypatch.setattr(Broker, "call", refuse)
        with topic.get_sync_producer(required_acks=-1) as producer:
            assert [producer.produce(b"v").offset for _ in range(3)] == [0, 1, 2]
        assert producer_ids(client, topic) == [-1] * 3
        assert caplog.text.count("without idempotence") == 1
        with topic.get_sync_producer(required_acks=-1, enable_idempotence=True) as producer:
            with pytest.raises(ClusterAuthorizationFailed):
                producer.produce(b"v")


@needs_producer_ids
def test_batches_that_are_too_large_are_split_in_order(kafka: KafkaCluster, concurrency: Concurrency) -> None:
    with KafkaClient(hosts=kafka.hosts, **concurrency()) as client:
        topic = create_topic(client, config={"max.message.bytes": "2000"})
        count = 3000
        with topic.get_producer(required_acks=-1, max_request_size=10_000, linger_ms=5) as producer:
            for number in range(count):
                producer.produce(b"%d" % number)
        check(topic, 1, count)
        assert len(set(producer_ids(client, topic))) == 1


@needs_producer_ids
@pytest.mark.parametrize("compression", [CompressionType.NONE, CompressionType.GZIP])
def test_one_that_fails_leaves_no_gap(
    kafka: KafkaCluster, concurrency: Concurrency, compression: CompressionType
) -> None:
    with KafkaClient(hosts=kafka.hosts, **concurrency()) as client:
        topic = create_topic(client, config={"max.message.bytes": "2000"})
        producer = topic.get_producer(required_acks=-1, linger_ms=1, max_request_size=6000, compression=compression)
        handler = client.cluster.handler
        number = 0
        for _ in range(5):
            for _ in range(200):
                producer.produce(b"%d" % number)
                number += 1
            producer.produce(handler.random.randbytes(3000))
        with pytest.raises(MessagesNotDelivered) as caught:
            producer.stop()
        assert len(caught.value.failures) == 5
        assert {type(error) for _, error in caught.value.failures} == {MessageSizeTooLarge}
        check(topic, 1, number)


@pytest.mark.needs("transactions")
def test_a_transaction_goes_on_behind_one_with_a_refused_batch(kafka: KafkaCluster) -> None:
    """Brokers before Kafka 2.5 give no new epoch: there the numbers go on from the batch that was refused."""
    expected: list[bytes] = []
    options: dict[str, Any] = {"batch_size": 100, "linger_ms": 0, "max_request_size": 5_000_000}
    with KafkaClient(kafka.hosts) as client:
        topic = create_topic(client).name
        with client.producer(transactional_id=topic, **options) as producer:
            for turn in range(6):
                producer.begin_transaction()
                with suppress(TransactionAbortableError):  # the broker may refuse it before the others are written
                    for number in range(12):
                        producer.produce(topic, bytes(2_000_000 if number == turn else 80))
                with pytest.raises(TransactionAbortableError):
                    producer.commit_transaction()
                producer.abort_transaction()
                with producer.transaction():
                    for number in range(8):
                        expected.append(b"%d-%d" % (turn, number))
                        producer.produce(topic, expected[-1])
        with client.consumer(topic, isolation_level="read_committed", consumer_timeout_ms=2_000) as reader:
            assert [record.value for record in reader] == expected
