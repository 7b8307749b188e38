"""Types of producers and consumers of any topic, which follow from their serializers."""

from __future__ import annotations

import json
import re
from typing import Any, assert_type

import pykafka
from pykafka import DeadLetters, Delivery, KafkaClient, KafkaConsumer, KafkaProducer, Record, TopicPartition
from pykafka.exceptions import KafkaException
from pykafka.security import Gssapi
from pykafka.serialization import (
    IntegerDeserializer,
    JsonSerializer,
    LongSerializer,
    StringDeserializer,
    StringSerializer,
)
from tests.typing.records import Order, OrderSerializer, order_of


def of_names() -> None:
    """Checkers know the names that are imported on first use, and that there are no others."""
    assert_type(pykafka.Gssapi(), Gssapi)
    print(pykafka.KafkaConsumr)  # type: ignore[attr-defined]


def of_bytes(client: KafkaClient) -> None:
    """Bytes are all that there is without serializers."""
    producer = client.producer(acks="all", compression="zstd")
    assert_type(producer, KafkaProducer[bytes, bytes])
    delivery = producer.produce("orders", b"value", key=b"key", headers=[("h", b"1"), ("none", None)], partition=1)
    assert_type(delivery, Delivery[bytes, bytes])
    assert_type(delivery.get(timeout=1.5).offset, int)
    producer.produce("orders", None, headers={"h": b"1"})
    producer.produce("orders", "text")  # type: ignore[arg-type]
    producer.produce("orders", b"value", key=5)  # type: ignore[arg-type]
    producer.produce(b"orders", b"value")  # type: ignore[arg-type]
    producer.produce("orders", b"value", b"key")  # type: ignore[call-arg]
    producer.produce("orders", b"value", headers=[("h", "1")])  # type: ignore[list-item]
    consumer = client.consumer("orders", re.compile("p.*"), auto_offset_reset="latest")
    assert_type(consumer, KafkaConsumer[bytes, bytes])
    for record in consumer:
        assert_type(record, Record[bytes, bytes])
        assert_type(record.value, bytes | None)


def of_values(client: KafkaClient) -> None:
    """A serializer says which keys or values a producer takes; the other stays bytes."""
    values = client.producer(value_serializer=OrderSerializer())
    assert_type(values, KafkaProducer[bytes, Order])
    values.produce("orders", Order(1), key=b"k")
    values.produce("orders", {"id": 1})  # type: ignore[arg-type]
    keys = client.producer(key_serializer=StringSerializer(), linger_ms=0)
    assert_type(keys, KafkaProducer[str, bytes])
    both = client.producer(key_serializer=LongSerializer(), value_serializer=JsonSerializer())
    assert_type(both, KafkaProducer[int, Any])
    both.produce("orders", {"id": 1}, key=5)
    both.produce("orders", {"id": 1}, key="5")  # type: ignore[arg-type]


def of_records(client: KafkaClient) -> None:
    """A deserializer says which keys or values records have."""
    consumer = client.consumer("orders", key_deserializer=StringDeserializer(), value_deserializer=order_of)
    assert_type(consumer, KafkaConsumer[str, Order])
    assert_type(consumer.one(timeout=1.0), Record[str, Order] | None)
    for record in consumer.poll(max_records=10, timeout=0.5):
        assert_type(record.key, str | None)
        assert_type(record.value, Order | None)
        print(record.value.id)  # type: ignore[union-attr]
    assert_type(client.consumer("a", value_deserializer=json.loads), KafkaConsumer[bytes, Any])
    assert_type(client.consumer("a", key_deserializer=IntegerDeserializer()), KafkaConsumer[int, bytes])
    assert_type(client.consumer(value_deserializer=bytes.decode), KafkaConsumer[bytes, str])
    consumer.seek(TopicPartition("orders", 0), 5)
    consumer.seek(("orders", "0"), 5)  # type: ignore[arg-type]


def of_bad_records(client: KafkaClient, policy: str) -> None:
    """There are three policies."""
    client.consumer("a", value_deserializer=json.loads, on_bad_record="skip")
    client.consumer("a", value_deserializer=json.loads, on_bad_record=DeadLetters(client, topic="failed"))
    client.consumer("a", value_deserializer=json.loads, on_bad_record="ignore")  # type: ignore[arg-type]
    client.consumer("a", value_deserializer=json.loads, on_bad_record=policy)  # type: ignore[arg-type]


def handle(record: Record[str, Order]) -> None:
    """Deal with an order."""


async def handle_later(record: Record[str, Order]) -> None:
    """Deal with an order, on asyncio."""


def of_parallel_work(client: KafkaClient) -> None:
    """A function gets the records of its consumer."""
    consumer = client.consumer("orders", key_deserializer=StringDeserializer(), value_deserializer=order_of)
    consumer.parallel(handle, workers=10, order="partition", dead_letters=DeadLetters(client)).run()
    consumer.parallel(handle_later, dead_letters="{topic}.failed")
    consumer.parallel(lambda record: record.ack(), manual_ack=True)
    client.consumer("orders").parallel(handle)  # type: ignore[arg-type]
    consumer.parallel(told)  # type: ignore[arg-type]
    consumer.parallel(handle, order="value")  # type: ignore[arg-type]


def told(error: KafkaException | None, delivery: Delivery[bytes, Order]) -> None:
    """Take note of a delivery."""
    if error is None:
        assert_type(delivery.value, Order | None)


def of_callbacks(client: KafkaClient) -> None:
    """Callbacks are told of messages as they were given."""
    producer = client.producer(value_serializer=OrderSerializer())
    producer.produce("orders", Order(1), on_delivery=told)
    client.producer().produce("orders", b"1", on_delivery=told)  # type: ignore[arg-type]


def of_options(client: KafkaClient) -> None:
    """A misspelt option, and a value that is none, are errors."""
    client.producer(ack="all")  # type: ignore[call-arg]
    client.producer(acks="most")  # type: ignore[arg-type]
    client.consumer("orders", grup="g")  # type: ignore[call-arg]
    client.consumer("orders", auto_commit_interval_ms="5 s")  # type: ignore[arg-type]
    client.consumer(5)  # type: ignore[arg-type]
