import json
import sys

from kafka import KafkaConsumer, KafkaProducer


def main(brokers: str, topic: str) -> None:
    producer = KafkaProducer(
        bootstrap_servers=brokers, key_serializer=str.encode, value_serializer=lambda value: json.dumps(value).encode()
    )
    for number in range(10):
        producer.send(topic, {"order": number}, key=f"customer-{number % 3}", headers=[("source", b"shop")])
    producer.close()
    consumer = KafkaConsumer(
        topic,
        bootstrap_servers=brokers,
        auto_offset_reset="earliest",
        key_deserializer=bytes.decode,
        value_deserializer=json.loads,
    )
    for _, message in zip(range(10), consumer, strict=False):
        print(message.key, message.value, dict(message.headers))
    consumer.close()


main(*sys.argv[1:3])
