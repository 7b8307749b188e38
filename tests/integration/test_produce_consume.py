"""Producing and consuming on a real broker, on threads and on greenlets."""

from __future__ import annotations

import gc
import itertools
import uuid
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from pykafka import Broker, KafkaClient
from pykafka.common import CompressionType, OffsetType
from pykafka.compat.simple_consumer import SimpleConsumer
from pykafka.exceptions import (
    ConsumerStoppedException,
    KafkaException,
    MessageSizeTooLarge,
    MessagesNotDelivered,
    ProducerQueueFullError,
    ProducerStoppedException,
    UnsupportedCompressionType,
)
from pykafka.partitioners import HashingPartitioner
from pykafka.producer.batch import ProducerBatch
from pykafka.protocol.message import Message
from pykafka.topic import Topic
from pykafka.utils import deserialize_utf8, serialize_utf8
from tests.brokers import KafkaCluster
from tests.support.features import kafka_since
from tests.support.inside import engine_of, worker_of
from tests.support.loops import Concurrency
from tests.support.topics import create_topic
from tests.support.waiting import until

pytestmark = [pytest.mark.kafka, pytest.mark.on_asyncio]


@pytest.fixture
def make_topic(client: KafkaClient) -> Callable[..., Topic]:
    def make(partitions: int = 3) -> Topic:
        return create_topic(client, partitions)

    return make


def take(consumer: SimpleConsumer) -> Message:
    message = consumer.consume()
    assert message is not None
    return message


def numbered(count: int) -> list[bytes]:
    return [b"message %d" % number for number in range(count)]


def read(topic: Topic, count: int) -> list[bytes | None]:
    consumer = topic.get_simple_consumer(consumer_timeout_ms=10_000)
    try:
        return [message.value for message in itertools.islice(consumer, count)]
    finally:
        consumer.stop()


@pytest.mark.parametrize("codec", list(CompressionType))
def test_what_is_produced_is_consumed_in_order(make_topic: Callable[..., Topic], codec: int) -> None:
    topic = make_topic(1)
    if codec == CompressionType.ZSTD and not kafka_since(2, 1):
        with (
            pytest.raises(UnsupportedCompressionType, match="zstd"),
            topic.get_sync_producer(compression=codec) as producer,
        ):
            producer.produce(b"x")
        return
    wanted = numbered(5000)
    with topic.get_producer(compression=codec, linger_ms=10) as producer:
        for value in wanted:
            producer.produce(value, partition_key=b"key")
    assert read(topic, len(wanted)) == wanted


def test_messages_spread_evenly_over_partitions(make_topic: Callable[..., Topic]) -> None:
    topic = make_topic(3)
    with topic.get_producer() as producer:
        for value in numbered(300):
            producer.produce(value)
    offsets = topic.latest_available_offsets()
    assert {id_: answer.offset for id_, answer in offsets.items()} == {0: [100], 1: [100], 2: [100]}
    assert sorted(read(topic, 300), key=str) == sorted(numbered(300))


def test_a_consumer_takes_partitions_in_turn(client: KafkaClient, make_topic: Callable[..., Topic]) -> None:
    topic = make_topic(3)
    with topic.get_producer() as producer:
        for value in numbered(900):
            producer.produce(value)
    consumer = topic.get_simple_consumer(consumer_timeout_ms=10_000)
    take(consumer)
    client_handler = client.cluster.handler
    client_handler.sleep(1.0)  # until all partitions have something buffered
    seen = [take(consumer).partition_id for _ in range(30)]
    consumer.stop()
    assert {seen.count(id_) for id_ in (0, 1, 2)} == {10}


def test_sync_produce_knows_its_offset(make_topic: Callable[..., Topic]) -> None:
    topic = make_topic(1)
    with topic.get_sync_producer() as producer:
        assert [producer.produce(value).offset for value in numbered(5)] == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("acks", [0, 1, -1])
def test_each_kind_of_acknowledgement(make_topic: Callable[..., Topic], acks: int) -> None:
    topic = make_topic(2)
    with topic.get_sync_producer() as producer:  # acks=0 loses what comes before the leader is ready
        for _ in range(2):
            producer.produce(b"first")
    with topic.get_producer(required_acks=acks, linger_ms=5) as producer:
        for value in numbered(1000):
            producer.produce(value)
    assert sorted(read(topic, 1002), key=str) == sorted([b"first", b"first", *numbered(1000)], key=str)


def test_null_and_empty_values_keys_headers_and_timestamps_come_back(make_topic: Callable[..., Topic]) -> None:
    topic = make_topic(1)
    moment = datetime(2013, 1, 1, 5, tzinfo=UTC)
    with topic.get_producer() as producer:
        producer.produce(None, partition_key=b"tombstone")
        producer.produce(b"")
        if not kafka_since(0, 11):
            leader = topic.partitions[0].leader
            assert isinstance(leader, Broker)
            leader.connect()
            with pytest.raises(RuntimeError, match=r"0\.1[01]"):
                producer.produce(b"x", timestamp=1234567890123, headers={"a": b"1", "b": None})
            return
        producer.produce(b"x", timestamp=1234567890123.9, headers={"a": b"1", "b": None})  # such as time.time() * 1000
        producer.produce(b"y", timestamp=moment)
    consumer = topic.get_simple_consumer(consumer_timeout_ms=10_000)
    first, second, third, fourth = itertools.islice(consumer, 4)
    consumer.stop()
    assert (first.value, first.partition_key) == (None, b"tombstone")
    assert (second.value, second.partition_key) == (b"", None)
    assert (third.timestamp, third.headers) == (1234567890123, [("a", b"1"), ("b", None)])
    assert fourth.timestamp_dt == moment.replace(tzinfo=None)  # naive, in UTC, as in PyKafka 2
    assert [m.offset for m in (first, second, third, fourth)] == [0, 1, 2, 3]
    assert first.partition is topic.partitions[0]


def test_delivery_reports_carry_offsets(make_topic: Callable[..., Topic]) -> None:
    topic = make_topic(1)
    with topic.get_producer(delivery_reports=True, linger_ms=0, min_queued_messages=1) as producer:
        sent = [producer.produce(value) for value in numbered(50)]
        reports = [producer.get_delivery_report(timeout=60) for _ in sent]
    assert [error for _, error in reports] == [None] * 50
    assert [message.offset for message, _ in reports] == list(range(50))
    assert [message.value for message, _ in reports] == numbered(50)


def test_a_message_too_large_for_the_topic_is_reported_and_the_rest_goes(
    make_topic: Callable[..., Topic], kafka: KafkaCluster
) -> None:
    topic = make_topic(1)
    with topic.get_producer(delivery_reports=True, max_request_size=8_000_000, linger_ms=200) as producer:
        producer.produce(b"small 1")
        producer.produce(b"x" * 3_000_000)
        producer.produce(b"small 2")
        reports = [producer.get_delivery_report(timeout=30) for _ in range(3)]
    errors = {(message.value or b"")[:7]: error for message, error in reports}
    assert errors[b"small 1"] is None
    assert errors[b"small 2"] is None
    assert isinstance(errors[b"xxxxxxx"], MessageSizeTooLarge)
    assert read(topic, 2) == [b"small 1", b"small 2"]


def test_bad_input_is_refused_where_it_enters(make_topic: Callable[..., Topic]) -> None:
    topic = make_topic(1)
    with topic.get_producer(linger_ms=0) as producer:
        with pytest.raises(TypeError, match="message must be bytes"):
            producer.produce("text")  # type: ignore[arg-type]
        with pytest.raises(TypeError, match="partition_key must be bytes"):
            producer.produce(b"x", partition_key=1)  # type: ignore[arg-type]
        with pytest.raises(TypeError, match="headers must be"):
            producer.produce(b"x", headers=[(b"a", b"b")])  # type: ignore[list-item]
        with pytest.raises(MessageSizeTooLarge, match="max_request_size"):
            producer.produce(b"x" * 2_000_000)
        producer.produce(b"good")
    assert read(topic, 1) == [b"good"]
    with pytest.raises(ValueError, match="min_queued_messages"):
        topic.get_producer(min_queued_messages=0)
    with pytest.raises(ValueError, match="auto_offset_reset"):
        topic.get_simple_consumer(auto_offset_reset=17)
    with pytest.raises(ValueError, match="consumer_group"):
        topic.get_simple_consumer(auto_commit_enable=True)


def test_a_full_queue_raises_or_blocks(make_topic: Callable[..., Topic]) -> None:
    topic = make_topic(1)
    with topic.get_producer(max_queued_messages=10, min_queued_messages=100, block_on_queue_full=False) as producer:
        with pytest.raises(ProducerQueueFullError, match="max_queued_messages"):
            for value in numbered(100_000):
                producer.produce(value)
    topic = make_topic(1)
    with topic.get_producer(max_queued_messages=10, min_queued_messages=100) as producer:
        for value in numbered(100):
            producer.produce(value)
    assert read(topic, 100) == numbered(100)


def test_a_stopped_producer_or_consumer_says_so_and_can_be_started_again(make_topic: Callable[..., Topic]) -> None:
    topic = make_topic(1)
    producer = topic.get_producer(linger_ms=0)
    producer.stop()
    with pytest.raises(ProducerStoppedException):
        producer.produce(b"x")
    producer.start()
    producer.produce(b"1")
    producer.produce(b"2")
    producer.stop()
    consumer = topic.get_simple_consumer(consumer_timeout_ms=10_000)
    assert take(consumer).value == b"1"
    consumer.stop()
    with pytest.raises(ConsumerStoppedException):
        take(consumer)
    consumer.start()
    assert take(consumer).value == b"2"
    consumer.stop()


def test_serializers(make_topic: Callable[..., Topic]) -> None:
    topic = make_topic(1)
    with topic.get_producer(serializer=serialize_utf8) as producer:
        producer.produce("grüße", partition_key="schlüssel")  # type: ignore[arg-type]
    consumer = topic.get_simple_consumer(consumer_timeout_ms=10_000, deserializer=deserialize_utf8)
    message = take(consumer)
    found: tuple[object, object] = (message.value, message.partition_key)
    assert found == ("grüße", "schlüssel")
    assert consumer.consume(block=False) is None
    consumer.stop()


def test_keys_choose_partitions(make_topic: Callable[..., Topic]) -> None:
    topic = make_topic(5)
    with topic.get_producer(partitioner=HashingPartitioner()) as producer:
        for number in range(200):
            producer.produce(b"v", partition_key=b"key %d" % (number % 20))
    consumer = topic.get_simple_consumer(consumer_timeout_ms=10_000)
    places: dict[bytes | None, set[int]] = {}
    for message in itertools.islice(consumer, 200):
        places.setdefault(message.partition_key, set()).add(message.partition_id)
    consumer.stop()
    assert len(places) == 20
    assert all(len(found) == 1 for found in places.values())


def test_consume_without_messages_returns_none(client: KafkaClient, make_topic: Callable[..., Topic]) -> None:
    topic = make_topic(1)
    consumer = topic.get_simple_consumer(consumer_timeout_ms=300)
    now = client.cluster.handler.now
    start = now()
    assert consumer.consume(block=False) is None
    assert now() - start < 0.25
    assert consumer.consume() is None
    assert 0.25 < now() - start < 5
    assert list(consumer) == []
    consumer.stop()


def test_a_forgotten_consumer_stops_fetching(make_topic: Callable[..., Topic]) -> None:
    topic = make_topic(1)
    consumer = topic.get_simple_consumer("group", auto_commit_enable=True, auto_commit_interval_ms=100)
    assert consumer.consume(block=False) is None
    commits = engine_of(consumer).commits
    assert commits is not None
    worker = commits.worker
    del commits  # which would keep the consumer
    fetcher = consumer._partitions[consumer.partitions[0]].fetcher
    consumer.__dict__["cycle"] = consumer
    with fetcher._lock:  # the garbage collector may come to it in a worker that holds any lock
        del consumer
        gc.collect()
    assert worker.join(10)
    until(fetcher._handler, lambda: not fetcher._fetchable.members, 20)


def test_a_forgotten_client_ends_its_connections(kafka: KafkaCluster, concurrency: Concurrency) -> None:
    client = KafkaClient(hosts=kafka.hosts, **concurrency())
    (broker,) = client.brokers.values()
    topic = create_topic(client, 1)
    consumer = topic.get_simple_consumer(consumer_timeout_ms=100)
    assert consumer.consume() is None
    fetcher = consumer._partitions[consumer.partitions[0]].fetcher
    client.__dict__["cycle"] = [client, consumer]
    with broker._lock, fetcher._lock:
        del client, consumer, topic
        gc.collect()
    handler = fetcher._handler
    until(handler, lambda: worker_of(fetcher) is None or not worker_of(fetcher).is_alive(), 20)
    until(handler, lambda: not any(channel.connected for _, channel in broker._channels), 20)


class TestOffsets:
    def filled(self, make_topic: Callable[..., Topic], count: int = 100) -> Topic:
        topic = make_topic(1)
        with topic.get_producer() as producer:
            for value in numbered(count):
                when = 1_600_000_000_000 + 1000 * int(value.split()[1])
                producer.produce(value, timestamp=when if kafka_since(0, 10) else None)
        return topic

    def test_committed_offsets_are_where_a_group_goes_on(self, make_topic: Callable[..., Topic]) -> None:
        topic = self.filled(make_topic)
        group = uuid.uuid4().hex
        consumer = topic.get_simple_consumer(group, consumer_timeout_ms=10_000)
        for _ in range(10):
            take(consumer)
        assert consumer.held_offsets == {0: 9}
        consumer.commit_offsets()
        assert [(id_, answer.offset) for id_, answer in consumer.fetch_offsets()] == [(0, 10)]
        consumer.stop()
        again = topic.get_simple_consumer(group.encode(), consumer_timeout_ms=10_000)
        assert take(again).offset == 10
        again.stop()
        afresh = topic.get_simple_consumer(group, consumer_timeout_ms=10_000, reset_offset_on_start=True)
        assert take(afresh).offset == 0
        afresh.stop()

    def test_auto_commit_commits_what_was_consumed_when_stopped(self, make_topic: Callable[..., Topic]) -> None:
        topic = self.filled(make_topic)
        group = uuid.uuid4().hex
        with topic.get_simple_consumer(group, auto_commit_enable=True, consumer_timeout_ms=10_000) as consumer:
            for _ in range(7):
                take(consumer)
        with topic.get_simple_consumer(group, consumer_timeout_ms=10_000) as consumer:
            assert take(consumer).offset == 7

    @pytest.mark.parametrize("start", [{"reset_offset_on_start": True}, {"consumer_group": "a new one"}], ids=str)
    def test_a_consumer_begins_where_it_is_told(self, make_topic: Callable[..., Topic], start: dict[str, Any]) -> None:
        topic = self.filled(make_topic)
        group = {name: uuid.uuid4().hex for name in start if name == "consumer_group"}
        settings: dict[str, Any] = {**start, **group, "auto_offset_reset": OffsetType.LATEST}
        with topic.get_simple_consumer(consumer_timeout_ms=300, **settings) as consumer:
            assert consumer.held_offsets == {0: 99}
            assert consumer.consume() is None
            with topic.get_sync_producer() as producer:
                producer.produce(b"new")
            assert take(consumer).value == b"new"

    def test_without_a_group_it_begins_at_the_first_message_as_in_pykafka_2(
        self, make_topic: Callable[..., Topic]
    ) -> None:
        """There, `auto_offset_reset` is only for an offset that is gone: old programs read the whole topic each time."""
        topic = self.filled(make_topic)
        with topic.get_simple_consumer(auto_offset_reset=OffsetType.LATEST, consumer_timeout_ms=10_000) as consumer:
            assert consumer.held_offsets == {0: OffsetType.EARLIEST}
            assert take(consumer).offset == 0

    def test_every_kind_of_reset(self, make_topic: Callable[..., Topic]) -> None:
        topic = self.filled(make_topic)
        partition = topic.partitions[0]
        with topic.get_simple_consumer(consumer_timeout_ms=10_000) as consumer:
            consumer.reset_offsets([(partition, 49)])
            assert consumer.held_offsets == {0: 49}
            assert take(consumer).offset == 50
            consumer.reset_offsets([(partition, OffsetType.EARLIEST)])
            assert take(consumer).offset == 0
            consumer.reset_offsets([(partition, datetime(2001, 1, 1, tzinfo=UTC))])
            assert take(consumer).offset == 0
            if kafka_since(0, 10, 1):  # before, brokers know no times of messages
                consumer.reset_offsets([(partition, datetime.fromtimestamp(1_600_000_030, UTC))])
                assert take(consumer).offset == 30
            consumer.seek(partition, 77)
            assert take(consumer).offset == 77
            consumer.reset_offsets()
            assert take(consumer).offset == 0

    def test_an_offset_that_is_not_kept_is_reset(self, make_topic: Callable[..., Topic]) -> None:
        topic = self.filled(make_topic)
        with topic.get_simple_consumer(consumer_timeout_ms=10_000) as consumer:
            consumer.seek(topic.partitions[0], 100_000)
            assert take(consumer).offset == 0

    def test_committing_without_a_group_is_refused(self, make_topic: Callable[..., Topic]) -> None:
        topic = self.filled(make_topic, 1)
        with topic.get_simple_consumer() as consumer, pytest.raises(KafkaException, match="consumer group"):
            consumer.commit_offsets()

    def test_offsets_by_time(self, make_topic: Callable[..., Topic]) -> None:
        topic = self.filled(make_topic)
        assert topic.earliest_available_offsets()[0].offset == [0]
        assert topic.latest_available_offsets()[0].offset == [100]
        if kafka_since(0, 10, 1):
            assert topic.fetch_offset_limits(1_600_000_050_000)[0].offset == [50]
            assert topic.fetch_offset_limits(1_900_000_000_000)[0].offset == []
        else:  # starts of log segments that were written before then
            assert topic.fetch_offset_limits(1_600_000_050_000)[0].offset == []
            assert topic.fetch_offset_limits(4_000_000_000_000, max_offsets=5)[0].offset == [100, 0]
        assert topic.partitions[0].latest_available_offset() == 100


def test_undelivered_messages_are_listed_by_stop(client: KafkaClient) -> None:
    topic = create_topic(client, config={"max.message.bytes": "1000"})
    producer = topic.get_producer(linger_ms=50)
    producer.produce(b"small")
    producer.produce(b"x" * 2000, partition_key=b"k")
    with pytest.raises(MessagesNotDelivered, match="MESSAGE_TOO_LARGE") as caught:
        producer.stop()
    assert [(message.value, message.partition_key) for message, _ in caught.value.failures] == [(b"x" * 2000, b"k")]
    assert read(topic, 1) == [b"small"]


def test_what_was_delivered_leaves_memory_without_a_garbage_collection(
    client: KafkaClient, make_topic: Callable[..., Topic]
) -> None:
    topic = make_topic()
    gc.collect()
    gc.disable()
    try:
        with topic.get_producer(linger_ms=0) as producer:
            for _ in range(300):
                producer.produce(b"x" * 10_000)
            producer.flush()
            kept = [found for found in gc.get_objects() if isinstance(found, ProducerBatch)]
    finally:
        gc.enable()
    assert not any(batch.done for batch in kept)
