import sys
import time
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor

from kafka import KafkaConsumer, KafkaProducer


def handle(message):
    time.sleep(0.01)  # a call of some service
    if message.value == b"bad":
        raise ValueError("cannot be handled")
    print(f"handled {message.key.decode()} {message.value.decode()}")


def handle_in_order(messages, producer, dead):
    for message in messages:
        for attempt in range(3):
            try:
                handle(message)
                break
            except ValueError:
                if attempt == 2:
                    producer.send(dead, message.value, message.key).get(30)
                time.sleep(0.1 * 2**attempt)


def batches(consumer):
    while found := consumer.poll(5000, max_records=100):
        yield [message for messages in found.values() for message in messages]
    consumer.close()


def main(brokers: str, topic: str) -> None:
    settings = {"bootstrap_servers": brokers, "auto_offset_reset": "earliest", "enable_auto_commit": False}
    producer = KafkaProducer(bootstrap_servers=brokers)
    consumer = KafkaConsumer(topic, group_id=topic, **settings)
    with ThreadPoolExecutor(20) as pool:
        for batch in batches(consumer):  # a batch at a time: the slowest message holds up all others
            by_key = defaultdict(list)
            for message in batch:
                by_key[message.key].append(message)
            for done in [pool.submit(handle_in_order, one, producer, f"{topic}.dead") for one in by_key.values()]:
                done.result()
            consumer.commit()
    for batch in batches(KafkaConsumer(f"{topic}.dead", **settings)):
        for message in batch:
            print("dead", message.key.decode(), message.value.decode())
    producer.close()


main(*sys.argv[1:3])
