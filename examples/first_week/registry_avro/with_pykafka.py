import sys

from examples.first_week.registry_avro import ORDER
from pykafka import KafkaClient
from pykafka.registry import AvroDeserializer, AvroSerializer, Registry


def main(brokers: str, topic: str, registry: str) -> None:
    schemas = Registry(registry)
    with KafkaClient(brokers) as client:
        with client.producer(value_serializer=AvroSerializer(schemas, ORDER)) as producer:
            for number in range(10):
                producer.produce(topic, {"number": number, "city": "Oslo"})
        with client.consumer(topic, value_deserializer=AvroDeserializer(schemas)) as consumer:
            for _, record in zip(range(10), consumer, strict=False):
                print(record.value)


main(*sys.argv[1:4])
