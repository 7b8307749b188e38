import sys

from confluent_kafka import Consumer, KafkaException, TopicPartition


def main(brokers: str, topic: str, since: str) -> None:
    consumer = Consumer({"bootstrap.servers": brokers, "group.id": "no-group", "enable.auto.commit": False})
    partitions = consumer.list_topics(topic, timeout=30).topics[topic].partitions
    found = consumer.offsets_for_times([TopicPartition(topic, number, int(since)) for number in partitions], timeout=30)
    consumer.assign(found)
    while (message := consumer.poll(3)) is not None:
        if message.error():
            raise KafkaException(message.error())
        print(message.value().decode())
    consumer.close()


main(*sys.argv[1:4])
