import re
import sys

from pykafka import KafkaClient


def main(brokers: str, prefix: str) -> None:
    with KafkaClient(brokers) as client:
        consumer = client.consumer(re.compile(f"{prefix}-(now|later)"), group=prefix)

        class Later:
            def on_assigned(self, partitions):
                consumer.pause(*(one for one in partitions if one.topic.endswith("-later")))

        with consumer:
            consumer.listener = Later()
            for count, record in enumerate(consumer, 1):
                print(record.topic.removeprefix(prefix), record.value.decode())
                if count == 3:
                    consumer.resume(*consumer.paused())
                if count == 6:
                    consumer.commit()
                    break


main(*sys.argv[1:3])
