import sys
from collections import Counter

from confluent_kafka import Producer


def main(brokers: str, topic: str) -> None:
    outcomes: Counter[str] = Counter()
    producer = Producer({"bootstrap.servers": brokers, "acks": "all"})
    for number in range(1000):
        while True:
            try:
                producer.produce(
                    topic,
                    b"%d" % number,
                    on_delivery=lambda error, message: outcomes.update(["stored" if error is None else "failed"]),
                )
                break
            except BufferError:  # the queue is full: only poll() makes room
                producer.poll(0.1)
        producer.poll(0)
    producer.flush()
    print(dict(outcomes))


main(*sys.argv[1:3])
