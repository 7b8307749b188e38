import sys

from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from kafka import KafkaConsumer, KafkaProducer

from examples.first_week.registry_avro import ORDER


def main(brokers: str, topic: str, registry: str) -> None:
    schemas = SchemaRegistryClient({"url": registry})
    about = SerializationContext(topic, MessageField.VALUE)
    to_avro, from_avro = AvroSerializer(schemas, ORDER), AvroDeserializer(schemas)
    producer = KafkaProducer(bootstrap_servers=brokers, value_serializer=lambda order: to_avro(order, about))
    for number in range(10):
        producer.send(topic, {"number": number, "city": "Oslo"})
    producer.close()
    consumer = KafkaConsumer(
        topic,
        bootstrap_servers=brokers,
        auto_offset_reset="earliest",
        value_deserializer=lambda value: from_avro(value, about),
    )
    for _, message in zip(range(10), consumer, strict=False):
        print(message.value)
    consumer.close()


main(*sys.argv[1:4])
