import sys

from pykafka import KafkaClient


def main(brokers: str, topic: str, since: str) -> None:
    with (
        KafkaClient(brokers) as client,
        client.consumer(topic, value_deserializer=bytes.decode, consumer_timeout_ms=3000) as consumer,
    ):
        consumer.seek_to_time(int(since))
        for record in consumer:
            print(record.value)


main(*sys.argv[1:4])
