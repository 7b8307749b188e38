"""Producers with serializers: what is on the broker, what is refused, and dead letters of a client."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient, header_schema_id_serializer
from confluent_kafka.schema_registry.avro import AvroSerializer

from pykafka import DeadLetters, EmbeddedCluster, KafkaClient, Record
from pykafka import registry as own
from pykafka.exceptions import SerializationError
from pykafka.registry import Registry
from pykafka.serialization import IntegerSerializer, JsonSerializer, StringSerializer
from tests.support.registrystub import RegistryStub

AVRO = json.dumps({"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]})


@pytest.fixture
def cluster() -> Iterator[EmbeddedCluster]:
    with EmbeddedCluster(topics={"orders": 1, "orders.dlq": 1}) as cluster:
        yield cluster


def contents(client: KafkaClient, topic: str) -> list[tuple[Any, Any, Any]]:
    """Return key, value and headers of all messages of a topic."""
    consumer = client.topics[topic].get_simple_consumer(consumer_timeout_ms=300)
    found = [(message.partition_key, message.value, message.headers) for message in consumer]
    consumer.stop()
    return found


@pytest.mark.on_asyncio
def test_keys_and_values_are_serialized(client: KafkaClient) -> None:
    with client.producer(key_serializer=IntegerSerializer(), value_serializer=JsonSerializer()) as producer:
        delivery = producer.produce("orders", {"a": 1}, key=5, headers={"h": b"1"}).get(10)
        producer.produce("orders", None, key=5)
        assert (delivery.key, delivery.value) == (5, {"a": 1})
        with pytest.raises(SerializationError, match="the key was not sent: IntegerSerializer failed by TypeError"):
            producer.produce("orders", {}, key="5")  # type: ignore[arg-type]
    assert contents(client, "orders") == [
        (b"\x00\x00\x00\x05", b'{"a":1}', [("h", b"1")]),
        (b"\x00\x00\x00\x05", None, None),
    ]


@pytest.mark.on_asyncio
def test_avro_of_this_package_goes_there_and_back(client: KafkaClient) -> None:
    with RegistryStub() as stub:
        registry = Registry(stub.url)
        with client.producer(
            key_serializer=own.AvroSerializer(registry, "string"),
            value_serializer=own.AvroSerializer(registry, AVRO),
        ) as producer:
            for number in range(3):
                producer.produce("orders", {"id": number}, key="k")
            producer.produce("orders", None, key="k")
            with pytest.raises(SerializationError, match="the value was not sent: AvroSerializer failed by ValueError"):
                producer.produce("orders", {"id": 1.5})
        asked = len(stub.asked)
        with client.consumer(
            "orders",
            key_deserializer=own.AvroDeserializer(registry),
            value_deserializer=own.AvroDeserializer(registry),
            consumer_timeout_ms=300,
        ) as consumer:
            read = [(record.key, record.value) for record in consumer]
        assert read == [("k", {"id": 0}), ("k", {"id": 1}), ("k", {"id": 2}), ("k", None)]
        assert len(stub.asked) == asked  # what was written is known


@pytest.mark.on_asyncio
@pytest.mark.parametrize("header", [False, True])
def test_registry_serializers_ask_the_registry_once(client: KafkaClient, header: bool) -> None:
    with RegistryStub() as stub, SchemaRegistryClient({"url": stub.url}) as registry:
        conf = {"schema.id.serializer": header_schema_id_serializer} if header else {}
        serializer = AvroSerializer(registry, AVRO, conf=conf)
        with client.producer(key_serializer=StringSerializer(), value_serializer=serializer) as producer:
            for number in range(3):
                producer.produce("orders", {"id": number}, key="k")
        assert sum("POST" in asked for asked in stub.asked) == 1
    found = contents(client, "orders")
    assert [value[-1] for _, value, _ in found] == [0, 2, 4]  # Avro's zigzag
    names = [[name for name, _ in headers or ()] for _, _, headers in found]
    assert names == [["__value_schema_id"] if header else []] * 3


def test_what_may_ask_a_registry_is_left_to_a_call_that_may_wait(client: KafkaClient) -> None:
    with RegistryStub() as stub, SchemaRegistryClient({"url": stub.url}) as registry:
        with client.producer(value_serializer=AvroSerializer(registry, AVRO)) as producer:
            rest = producer._try_produce("orders", {"id": 1}, headers={"h": b"1"})
            assert callable(rest)
            assert stub.asked == []
            assert rest().get(10).headers == [("h", b"1")]


@pytest.mark.on_asyncio
def test_a_client_writes_dead_letters(client: KafkaClient) -> None:
    letters = DeadLetters(client)
    letters.send(Record("orders", 0, 5, b"k", b"v", [("h", b"1")]), ValueError("no number")).get()
    ((key, value, headers),) = contents(client, "orders.dlq")
    assert (key, value) == (b"k", b"v")
    assert headers[0] == ("h", b"1")
    assert ("__pykafka.errors.offset", b"5") in headers


def test_dead_letters_need_a_producer_of_bytes(client: KafkaClient) -> None:
    with client.producer(value_serializer=JsonSerializer()) as producer:
        assert producer.serializes
        with pytest.raises(TypeError, match="without serializers"):
            DeadLetters(producer)
    with client.producer() as producer:
        assert not producer.serializes
        DeadLetters(producer)
