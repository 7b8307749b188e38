import sys
import time

from pykafka import KafkaClient, Record, Retry


def handle(record: Record[str, str]) -> None:
    time.sleep(0.01)  # a call of some service
    if record.value == "bad":
        raise ValueError("cannot be handled")
    print(f"handled {record.key} {record.value}")


def main(brokers: str, topic: str) -> None:
    with KafkaClient(brokers) as client:
        with client.consumer(
            topic, group=topic, key_deserializer=bytes.decode, value_deserializer=bytes.decode
        ) as consumer:
            letters = f"{topic}.dead"
            consumer.parallel(handle, workers=20, retry=Retry(2), dead_letters=letters, idle_timeout=5).run()
        with client.consumer(f"{topic}.dead", consumer_timeout_ms=3000) as consumer:
            for record in consumer:
                print("dead", (record.key or b"").decode(), (record.value or b"").decode())


main(*sys.argv[1:3])
