import sys

from confluent_kafka import Consumer, KafkaException


def main(brokers: str, prefix: str) -> None:
    def pause_later(consumer, partitions):
        consumer.assign(partitions)
        later.extend(one for one in partitions if one.topic.endswith("-later"))
        consumer.pause(later)

    later = []
    consumer = Consumer(
        {
            "bootstrap.servers": brokers,
            "group.id": prefix,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    consumer.subscribe([f"^{prefix}-(now|later)$"], on_assign=pause_later)
    try:
        for count in range(1, 7):
            message = consumer.poll(30)
            if message is None:
                raise TimeoutError("no message for 30 s")
            if message.error():
                raise KafkaException(message.error())
            print(message.topic().removeprefix(prefix), message.value().decode())
            if count == 3:
                consumer.resume(later)
        consumer.commit(asynchronous=False)
    finally:
        consumer.close()


main(*sys.argv[1:3])
