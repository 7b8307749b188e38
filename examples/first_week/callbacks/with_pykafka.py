import sys
from collections import Counter

from pykafka import KafkaClient


def main(brokers: str, topic: str) -> None:
    outcomes: Counter[str] = Counter()
    with KafkaClient(brokers) as client, client.producer() as producer:
        for number in range(1000):
            producer.produce(
                topic,
                b"%d" % number,
                on_delivery=lambda error, delivery: outcomes.update(["stored" if error is None else "failed"]),
            )
    print(dict(outcomes))


main(*sys.argv[1:3])
