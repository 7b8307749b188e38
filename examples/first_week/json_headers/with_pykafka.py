import sys

from pykafka import KafkaClient
from pykafka.serialization import JsonDeserializer, JsonSerializer


def main(brokers: str, topic: str) -> None:
    with KafkaClient(brokers) as client:
        with client.producer(key_serializer=str.encode, value_serializer=JsonSerializer()) as producer:
            for number in range(10):
                producer.produce(topic, {"order": number}, key=f"customer-{number % 3}", headers={"source": b"shop"})
        with client.consumer(topic, key_deserializer=bytes.decode, value_deserializer=JsonDeserializer()) as consumer:
            for _, record in zip(range(10), consumer, strict=False):
                print(record.key, record.value, dict(record.headers))


main(*sys.argv[1:3])
