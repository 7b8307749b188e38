import asyncio
import sys

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

from examples.first_week.registry_avro import ORDER


async def main(brokers: str, topic: str, registry: str) -> None:
    schemas = SchemaRegistryClient({"url": registry})
    about = SerializationContext(topic, MessageField.VALUE)
    to_avro, from_avro = AvroSerializer(schemas, ORDER), AvroDeserializer(schemas)
    # Each new schema is a request that holds up the loop.
    async with AIOKafkaProducer(bootstrap_servers=brokers, value_serializer=lambda order: to_avro(order, about)) as one:
        for number in range(10):
            await one.send(topic, {"number": number, "city": "Oslo"})
    async with AIOKafkaConsumer(
        topic,
        bootstrap_servers=brokers,
        auto_offset_reset="earliest",
        value_deserializer=lambda value: from_avro(value, about),
    ) as consumer:
        for _ in range(10):
            message = await asyncio.wait_for(consumer.getone(), 30)
            print(message.value)


asyncio.run(main(*sys.argv[1:4]))
