"""Serializers and dead letters with `pykafka.aio`."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer

from pykafka import DeadLetters, EmbeddedCluster
from pykafka.aio import KafkaClient
from tests.support.registrystub import RegistryStub

AVRO = json.dumps({"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]})


def test_dead_letters_take_the_client_itself() -> None:
    async def main(hosts: str) -> list[Any]:
        found: list[Any] = []
        async with KafkaClient(hosts) as client:
            async with client.producer() as producer:
                for value in (b"0", b"{", b"2"):
                    await producer.produce("orders", value)
            async with client.consumer(
                "orders", value_deserializer=json.loads, on_bad_record=DeadLetters(client), consumer_timeout_ms=300
            ) as consumer:
                found += [record.value async for record in consumer]
            async with client.consumer("orders.dlq", consumer_timeout_ms=300) as letters:
                found += [record.value async for record in letters]
        return found

    with EmbeddedCluster(topics={"orders": 1, "orders.dlq": 1}) as cluster:
        assert asyncio.run(main(cluster.hosts)) == [0, 2, b"{"]


def test_registry_serializers_go_through_the_bridge() -> None:
    async def main(hosts: str, registry: SchemaRegistryClient) -> list[Any]:
        async with KafkaClient(hosts) as client:
            async with client.producer(value_serializer=AvroSerializer(registry, AVRO)) as producer:
                for number in range(3):
                    await producer.produce("orders", {"id": number})
            async with client.consumer(
                "orders", value_deserializer=AvroDeserializer(registry), consumer_timeout_ms=300
            ) as consumer:
                return [record.value async for record in consumer]

    with RegistryStub() as stub, SchemaRegistryClient({"url": stub.url}) as registry:
        with EmbeddedCluster(topics={"orders": 1}) as cluster:
            assert asyncio.run(main(cluster.hosts, registry)) == [{"id": number} for number in range(3)]
