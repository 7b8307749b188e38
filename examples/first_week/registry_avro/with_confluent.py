import sys

from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

from examples.first_week.registry_avro import ORDER


def main(brokers: str, topic: str, registry: str) -> None:
    schemas = SchemaRegistryClient({"url": registry})
    about = SerializationContext(topic, MessageField.VALUE)
    to_avro, from_avro = AvroSerializer(schemas, ORDER), AvroDeserializer(schemas)
    producer = Producer({"bootstrap.servers": brokers})
    for number in range(10):
        producer.produce(topic, to_avro({"number": number, "city": "Oslo"}, about))
    producer.flush()
    consumer = Consumer({"bootstrap.servers": brokers, "group.id": "no-group", "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    for _ in range(10):
        message = consumer.poll(30)
        if message is None:
            raise TimeoutError("no message for 30 s")
        if message.error():
            raise KafkaException(message.error())
        print(from_avro(message.value(), about))
    consumer.close()


main(*sys.argv[1:4])
