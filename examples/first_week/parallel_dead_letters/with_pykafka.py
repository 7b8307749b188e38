import sys
import time

from pykafka import KafkaClient, Record
from pykafka.parallel.retry import Retry


def handle(record: Record[str, str]) -> None:
    time.sleep(0.01)  # a call of some service
    if record.value == "bad":
        raise ValueError("cannot be handled")
    print("handled", record.key, record.value)


def main(brokers: str, topic: str) -> None:
    text = {"key_deserializer": bytes.decode, "value_deserializer": bytes.decode, "consumer_timeout_ms": 5000}
    with KafkaClient(brokers) as client:
        with client.consumer(topic, group=topic, consumer_timeout_ms=5000) as consumer:
            consumer.parallel(handle, workers=20, order="key", retry=Retry(2), dead_letters=f"{topic}.dead").run()
        for record in client.consumer(f"{topic}.dead", consumer_timeout_ms=3000):
            print("dead", record.key, record.value)


main(*sys.argv[1:3])
