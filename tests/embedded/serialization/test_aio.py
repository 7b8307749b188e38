"""Serializers and dead letters with `pykafka.aio`."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer

from pykafka import DeadLetters, EmbeddedCluster
from pykafka import registry as own
from pykafka.aio import KafkaClient
from pykafka.registry import Registry
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


def _theirs(url: str) -> tuple[Any, Any]:
    registry = SchemaRegistryClient({"url": url})
    return AvroSerializer(registry, AVRO), AvroDeserializer(registry)


def _ours(url: str) -> tuple[Any, Any]:
    registry = Registry(url)
    return own.AvroSerializer(registry, AVRO), own.AvroDeserializer(registry)


@pytest.mark.parametrize("pair", [_theirs, _ours], ids=["confluent-kafka", "pykafka.registry"])
def test_registry_serializers_go_through_the_bridge(pair: Callable[[str], tuple[Any, Any]]) -> None:
    async def main(hosts: str, serializer: Any, deserializer: Any) -> list[Any]:
        async with KafkaClient(hosts) as client:
            async with client.producer(value_serializer=serializer) as producer:
                for number in range(3):
                    await producer.produce("orders", {"id": number})
            async with client.consumer("orders", value_deserializer=deserializer, consumer_timeout_ms=300) as consumer:
                return [record.value async for record in consumer]

    with RegistryStub() as stub, EmbeddedCluster(topics={"orders": 1}) as cluster:
        assert asyncio.run(main(cluster.hosts, *pair(stub.url))) == [{"id": number} for number in range(3)]
