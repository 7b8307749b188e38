"""Many messages in one call, as objects and as Arrow columns, on a real broker."""

from __future__ import annotations

from typing import Any

import pytest

from pykafka import KafkaClient
from pykafka.common import CompressionType
from pykafka.exceptions import ConsumerStoppedException, DeserializationError, KafkaException
from pykafka.protocol.message import Message
from pykafka.topic import Topic
from pykafka.utils import deserialize_utf8
from tests.support.features import kafka_since
from tests.support.topics import create_topic

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(400)]

ALL = ["key", "value", "topic", "partition", "offset", "timestamp", "timestampType", "headers"]


def filled(client: KafkaClient, count: int, partitions: int = 3, codec: int = 0, size: int = 20) -> Topic:
    topic = create_topic(client, partitions)
    with topic.get_producer(linger_ms=10, compression=codec, max_queued_messages=count + 1) as producer:
        for number in range(count):
            timestamp = 1000 + number if kafka_since(0, 10) else None
            producer.produce(b"%0*d" % (size, number), partition_key=b"%d" % (number % 7), timestamp=timestamp)
    return topic


def in_order(rows: list[tuple[int, int]]) -> bool:
    """Return whether the offsets of each partition come in order, without gaps, from 0."""
    following: dict[int, int] = {}
    for partition, offset in rows:
        if offset != following.get(partition, 0):
            return False
        following[partition] = offset + 1
    return True


@pytest.mark.parametrize("codec", [CompressionType.NONE, CompressionType.GZIP])
def test_batches_give_every_message_once_and_in_order(client: KafkaClient, codec: int) -> None:
    topic = filled(client, 20_000, codec=codec)
    seen: list[Message] = []
    with topic.get_simple_consumer(consumer_timeout_ms=10_000) as consumer:
        while len(seen) < 20_000:
            batch = consumer.consume_batch(700)
            assert 0 < len(batch) <= 700
            seen.extend(batch)
        assert in_order([(message.partition_id, message.offset) for message in seen])
        assert sorted(int(message.value or b"") for message in seen) == list(range(20_000))
        assert seen[0].topic is topic
        assert sum(consumer.held_offsets.values()) + 3 == 20_000
        assert consumer.consume_batch(block=False) == []


def test_a_batch_waits_for_the_first_message_only(client: KafkaClient) -> None:
    topic = create_topic(client, 1)
    handler = client.cluster.handler
    with topic.get_simple_consumer(consumer_timeout_ms=30_000) as consumer, topic.get_sync_producer() as producer:
        later = handler.spawn(lambda: (handler.sleep(0.3), producer.produce(b"x")))
        (message,) = consumer.consume_batch(1000)
        assert message.value == b"x"
        later.join(5)
        with pytest.raises(TypeError, match="int"):
            consumer.consume_batch("many")  # type: ignore[arg-type]
        with pytest.raises(ValueError, match="0"):
            consumer.consume_batch(0)
    with pytest.raises(ConsumerStoppedException):
        consumer.consume_batch()
    with pytest.raises(ConsumerStoppedException):
        consumer.consume_arrow()


def test_what_batches_returned_is_committed_and_the_rest_is_not(client: KafkaClient) -> None:
    topic = filled(client, 3000, partitions=1)
    name = "batch-readers-" + topic.name
    consumer = topic.get_simple_consumer(
        name, consumer_timeout_ms=5000, auto_commit_enable=True, auto_commit_interval_ms=60_000
    )
    taken = len(consumer.consume_batch(1000))
    table = consumer.consume_arrow(500, ["offset"])
    assert table is not None
    assert table["offset"].to_pylist() == list(range(taken, taken + table.num_rows))
    taken += table.num_rows
    message = consumer.consume()
    assert message is not None
    assert message.offset == taken
    consumer.stop()
    with topic.get_simple_consumer(name, consumer_timeout_ms=5000) as again:
        assert again.consume_batch(1)[0].offset == taken + 1


def test_a_message_that_cannot_be_deserialized_costs_no_other(client: KafkaClient) -> None:
    topic = create_topic(client, 1)
    with topic.get_producer() as producer:
        for value in (b"one", b"\xff", b"three"):
            producer.produce(value)
    with topic.get_simple_consumer(deserializer=deserialize_utf8, consumer_timeout_ms=5000) as consumer:
        seen: list[Any] = []
        failed: list[Any] = []
        while len(seen) < 2:
            try:
                seen.extend(message.value for message in consumer.consume_batch(10))
            except DeserializationError as error:
                failed.append(type(error.__cause__))
        assert (seen, failed) == (["one", "three"], [UnicodeDecodeError])
        with pytest.raises(ValueError, match="deserializer"):
            consumer.consume_arrow()


def arrow_rows(consumer: Any, count: int, columns: list[str] | None = None, **bounds: Any) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    while len(rows) < count:
        batch = consumer.consume_arrow(columns=columns, **bounds)
        assert batch is not None
        assert batch.num_rows <= bounds.get("max_messages", 65_536)
        assert batch.num_rows > 0
        batch.validate(full=True)
        rows.extend(batch.to_pylist())
    return rows


@pytest.mark.parametrize("codec", [CompressionType.NONE, CompressionType.GZIP])
@pytest.mark.parametrize("bounds", [{}, {"max_messages": 333}, {"max_bytes": 1000}], ids=["all", "rows", "bytes"])
def test_columns_give_every_message_once_and_in_order(client: KafkaClient, codec: int, bounds: dict[str, Any]) -> None:
    topic = filled(client, 5000, codec=codec)
    with topic.get_simple_consumer(consumer_timeout_ms=10_000) as consumer:
        rows = arrow_rows(consumer, 5000, **bounds)
        assert consumer.consume_arrow(block=False) is None
        assert sum(consumer.held_offsets.values()) + 3 == 5000
    assert in_order([(row["partition"], row["offset"]) for row in rows])
    assert sorted(int(row["value"]) for row in rows) == list(range(5000))
    for row in rows[:10]:
        number = int(row["value"])
        assert list(row) == ALL
        assert (row["key"], row["topic"], row["headers"]) == (b"%d" % (number % 7), topic.name, None)
        if kafka_since(0, 10):
            assert (round(row["timestamp"].timestamp() * 1000), row["timestampType"]) == (1000 + number, 0)


def test_some_columns_in_the_order_asked_for(client: KafkaClient) -> None:
    topic = filled(client, 10, partitions=1)
    with topic.get_simple_consumer(consumer_timeout_ms=10_000) as consumer:
        batch = consumer.consume_arrow(5, ["offset", "value"])
        assert batch is not None
        assert batch.schema.names == ["offset", "value"]
        assert batch["offset"].to_pylist() == [0, 1, 2, 3, 4]
        with pytest.raises(ValueError, match="colour"):
            consumer.consume_arrow(columns=["colour"])
        assert [row["offset"] for row in arrow_rows(consumer, 5, ["offset"])] == [5, 6, 7, 8, 9]


def test_one_by_one_in_batches_and_as_columns_in_one_consumer(client: KafkaClient) -> None:
    topic = filled(client, 9000)
    rows: list[tuple[int, int]] = []
    with topic.get_simple_consumer(consumer_timeout_ms=10_000) as consumer:
        while len(rows) < 9000:
            message = consumer.consume()
            assert message is not None
            rows.append((message.partition_id, message.offset))
            rows.extend((message.partition_id, message.offset) for message in consumer.consume_batch(90))
            batch = consumer.consume_arrow(110, ["partition", "offset"], block=False)
            if batch is not None:
                rows.extend((row["partition"], row["offset"]) for row in batch.to_pylist())
    assert in_order(rows)
    assert len(rows) == 9000


def test_many_hands_take_batches_and_columns(client: KafkaClient) -> None:
    topic = filled(client, 30_000)
    handler = client.cluster.handler
    rows: list[tuple[int, int]] = []

    def by_batches() -> None:
        while len(rows) < 30_000:
            batch = consumer.consume_batch(100)
            rows.extend((message.partition_id, message.offset) for message in batch)

    def by_columns() -> None:
        while len(rows) < 30_000:
            batch = consumer.consume_arrow(100, ["partition", "offset"])
            rows.extend((row["partition"], row["offset"]) for row in (batch.to_pylist() if batch is not None else ()))

    with topic.get_simple_consumer(consumer_timeout_ms=500) as consumer:
        workers = [handler.spawn(work) for work in (by_batches, by_columns, by_batches, by_columns)]
        assert all(worker.join(60) for worker in workers)
        assert consumer.consume() is None
    assert len(rows) == 30_000
    assert in_order(sorted(rows))


@pytest.mark.needs("groups")
def test_balanced_consumers_take_batches_and_columns(client: KafkaClient) -> None:
    topic = filled(client, 2000)
    consumer = topic.get_balanced_consumer("batch-" + topic.name, managed=True, consumer_timeout_ms=10_000)
    rows = [(message.partition_id, message.offset) for message in consumer.consume_batch(300)]
    while len(rows) < 1000:
        rows.extend((message.partition_id, message.offset) for message in consumer.consume_batch(300))
    rows.extend(
        (row["partition"], row["offset"]) for row in arrow_rows(consumer, 2000 - len(rows), ["partition", "offset"])
    )
    assert consumer.consume_batch(block=False) == []
    consumer.stop()
    assert len(rows) == 2000
    assert in_order(rows)


def test_librdkafka_gives_batches_and_no_columns(client: KafkaClient) -> None:
    topic = filled(client, 2000)
    consumer = topic.get_simple_consumer(use_rdkafka=True, consumer_timeout_ms=10_000)
    rows: list[tuple[int, int]] = []
    while len(rows) < 2000:
        rows.extend((message.partition_id, message.offset) for message in consumer.consume_batch(300))
    assert in_order(rows)
    assert len(rows) == 2000
    with pytest.raises(KafkaException, match="use_rdkafka"):
        consumer.consume_arrow()
    consumer.stop()


def test_without_pyarrow_the_extra_is_named(client: KafkaClient, monkeypatch: pytest.MonkeyPatch) -> None:
    topic = filled(client, 1, partitions=1)

    def missing(name: str) -> None:
        raise ImportError(name)

    with topic.get_simple_consumer(consumer_timeout_ms=10_000) as consumer:
        monkeypatch.setattr("pykafka.consumer.arrow.import_module", missing)
        with pytest.raises(ImportError, match="pip install pyarrow"):
            consumer.consume_arrow()
