import sys
import time
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor

from confluent_kafka import Consumer, KafkaException, Producer


def handle(message):
    time.sleep(0.01)  # a call of some service
    if message.value() == b"bad":
        raise ValueError("cannot be handled")
    print(f"handled {message.key().decode()} {message.value().decode()}")


def handle_in_order(messages, producer, dead):
    for message in messages:
        for attempt in range(3):
            try:
                handle(message)
                break
            except ValueError:
                if attempt == 2:
                    producer.produce(dead, message.value(), message.key())
                time.sleep(0.1 * 2**attempt)


def batches(consumer):
    while batch := consumer.consume(100, timeout=5):
        for message in batch:
            if message.error():
                raise KafkaException(message.error())
        yield batch
    consumer.close()


def main(brokers: str, topic: str) -> None:
    settings = {"bootstrap.servers": brokers, "auto.offset.reset": "earliest", "enable.auto.commit": False}
    producer = Producer({"bootstrap.servers": brokers})
    consumer = Consumer({**settings, "group.id": topic})
    consumer.subscribe([topic])
    with ThreadPoolExecutor(20) as pool:
        for batch in batches(consumer):  # a batch at a time: the slowest message holds up all others
            by_key = defaultdict(list)
            for message in batch:
                by_key[message.key()].append(message)
            for done in [pool.submit(handle_in_order, one, producer, f"{topic}.dead") for one in by_key.values()]:
                done.result()
            if producer.flush(30):
                raise TimeoutError("dead letters were not written")
            consumer.commit(asynchronous=False)
    consumer = Consumer({**settings, "group.id": f"{topic}.dead"})
    consumer.subscribe([f"{topic}.dead"])
    for batch in batches(consumer):
        for message in batch:
            print("dead", message.key().decode(), message.value().decode())


main(*sys.argv[1:3])
