import sys
from collections import Counter

from kafka import KafkaProducer


def main(brokers: str, topic: str) -> None:
    outcomes: Counter[str] = Counter()
    producer = KafkaProducer(bootstrap_servers=brokers, acks="all")
    for number in range(1000):
        future = producer.send(topic, b"%d" % number)
        future.add_callback(lambda metadata: outcomes.update(["stored"]))
        future.add_errback(lambda error: outcomes.update(["failed"]))
    producer.close()
    print(dict(outcomes))


main(*sys.argv[1:3])
