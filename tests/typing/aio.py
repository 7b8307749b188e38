"""Types of pykafka.aio: those of the blocking classes, awaited."""

from __future__ import annotations

import json
from typing import Any, assert_type

from pykafka import Delivery, Record, TopicPartition
from pykafka.aio import KafkaClient, KafkaConsumer, KafkaProducer, ParallelRun, Topic, bridged
from pykafka.exceptions import KafkaException
from pykafka.serialization import JsonSerializer, StringDeserializer
from tests.typing.records import Order, OrderSerializer, order_of


async def of_clients() -> None:
    """A client is entered or awaited; its topics are awaited."""
    async with KafkaClient("localhost:9092", client_id="typed") as client:
        assert_type(client, KafkaClient)
        assert_type(await client.topics["orders"], Topic)
    assert_type(await KafkaClient("localhost:9092"), KafkaClient)
    KafkaClient(use_greenlets=True)  # type: ignore[call-arg]
    assert_type(await bridged(len, b"value"), int)


async def of_producers(client: KafkaClient) -> None:
    """A serializer says what `produce` takes; a delivery is awaited."""
    async with client.producer(acks="all") as producer:
        assert_type(producer, KafkaProducer[bytes, bytes])
        delivery = await producer.produce("orders", b"value", key=b"key", headers={"h": b"1"}, partition=1)
        assert_type(delivery, Delivery[bytes, bytes])
        assert_type(await delivery, Delivery[bytes, bytes])
        await producer.produce("orders", "text")  # type: ignore[arg-type]
        await producer.produce("orders", b"value", b"key")  # type: ignore[call-arg]
        assert_type(producer.room(), int)
    orders = await client.producer(value_serializer=OrderSerializer())
    assert_type(orders, KafkaProducer[bytes, Order])
    await orders.produce("orders", Order(1), on_delivery=told)
    assert_type(await client.producer(value_serializer=JsonSerializer()), KafkaProducer[bytes, Any])
    client.producer(ack="all")  # type: ignore[call-arg]


async def told(error: KafkaException | None, delivery: Delivery[bytes, Order]) -> None:
    """Take note of a delivery."""
    assert_type(delivery.value, Order | None)


async def of_consumers(client: KafkaClient) -> None:
    """A deserializer says what records have."""
    async with client.consumer("orders", value_deserializer=order_of) as consumer:
        assert_type(consumer, KafkaConsumer[bytes, Order])
        async for record in consumer:
            assert_type(record, Record[bytes, Order])
        async for batch in consumer.batches(10):
            assert_type(batch, list[Record[bytes, Order]])
        assert_type(await consumer.one(1.5), Record[bytes, Order] | None)
        await consumer.seek(TopicPartition("orders", 0), 5)
        async with consumer.parallel(handle, workers=10) as run:
            assert_type(run, ParallelRun)
    assert_type(await client.consumer("a", value_deserializer=json.loads), KafkaConsumer[bytes, Any])
    assert_type(await client.consumer("a", key_deserializer=StringDeserializer()), KafkaConsumer[str, bytes])
    client.consumer(5)  # type: ignore[arg-type]


async def handle(record: Record[bytes, Order]) -> None:
    """Deal with an order."""
