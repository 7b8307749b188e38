"""confluent-kafka's serializers with a real schema registry and real brokers, through our producer and consumer."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient

from pykafka import KafkaClient
from pykafka.registry import AvroDeserializer, AvroSerializer, Registry
from tests.support.registry import running_registry
from tests.support.topics import create_topic
from tests.unit.serialization.test_registry import AVRO, FORMATS

pytestmark = [pytest.mark.timeout(200), pytest.mark.matrix]


@pytest.fixture(scope="module", name="url")
def _url() -> Iterator[str]:
    with running_registry() as url:
        yield url


@pytest.fixture(name="registry")
def _registry(url: str) -> Iterator[SchemaRegistryClient]:
    with SchemaRegistryClient({"url": url}) as registry:
        yield registry


@pytest.mark.on_asyncio
def test_avro_of_this_package_and_of_confluent_kafka_read_each_other(
    client: KafkaClient, url: str, registry: SchemaRegistryClient
) -> None:
    topic = create_topic(client).name
    value = FORMATS["avro"].value
    own = Registry(url)
    for serializer in (AvroSerializer(own, AVRO), FORMATS["avro"].serializer(registry)):
        with client.producer(value_serializer=serializer) as producer:
            for _ in range(5):
                producer.produce(topic, value, key=b"k")
    for deserializer in (AvroDeserializer(Registry(url)), FORMATS["avro"].deserializer(registry)):
        with client.consumer(topic, value_deserializer=deserializer, consumer_timeout_ms=3000) as consumer:
            assert [record.value for record in consumer] == [value] * 10


@pytest.mark.on_asyncio
@pytest.mark.parametrize("form", ["avro", "json", "protobuf"])
def test_values_go_there_and_back(form: str, client: KafkaClient, registry: SchemaRegistryClient) -> None:
    topic = create_topic(client).name
    value = FORMATS[form].value
    with client.producer(value_serializer=FORMATS[form].serializer(registry)) as producer:
        for _ in range(10):
            producer.produce(topic, value, key=b"k")
    with client.consumer(
        topic, value_deserializer=FORMATS[form].deserializer(registry), consumer_timeout_ms=3000
    ) as consumer:
        assert [record.value for record in consumer] == [value] * 10
