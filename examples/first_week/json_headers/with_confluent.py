import json
import sys

from confluent_kafka import Consumer, KafkaException, Producer


def main(brokers: str, topic: str) -> None:
    producer = Producer({"bootstrap.servers": brokers})
    for number in range(10):
        value = json.dumps({"order": number}).encode()
        producer.produce(topic, value, key=f"customer-{number % 3}".encode(), headers={"source": b"shop"})
    producer.flush()
    consumer = Consumer({"bootstrap.servers": brokers, "group.id": "no-group", "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    try:
        for _ in range(10):
            message = consumer.poll(30)
            if message is None:
                raise TimeoutError("no message for 30 s")
            if message.error():
                raise KafkaException(message.error())
            print(message.key().decode(), json.loads(message.value()), dict(message.headers()))
    finally:
        consumer.close()


main(*sys.argv[1:3])
