import re
import sys

from pykafka import KafkaClient, TopicPartition


def main(brokers: str, prefix: str) -> None:
    class Later:
        def on_assigned(self, partitions: list[TopicPartition]) -> None:
            consumer.pause(*(one for one in partitions if one.topic.endswith("-later")))

    with (
        KafkaClient(brokers) as client,
        client.consumer(re.compile(f"{prefix}-(now|later)"), group=prefix, listener=Later()) as consumer,
    ):
        for count, record in enumerate(consumer, 1):
            print(record.topic.removeprefix(prefix), (record.value or b"").decode())
            if count == 3:
                consumer.resume(*consumer.paused())
            if count == 6:
                consumer.commit()
                break


main(*sys.argv[1:3])
