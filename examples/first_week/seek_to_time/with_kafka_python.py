import sys

from kafka import KafkaConsumer, TopicPartition


def main(brokers: str, topic: str, since: str) -> None:
    consumer = KafkaConsumer(bootstrap_servers=brokers, consumer_timeout_ms=3000)
    partitions = [TopicPartition(topic, number) for number in consumer.partitions_for_topic(topic)]
    consumer.assign(partitions)
    for partition, found in consumer.offsets_for_times(dict.fromkeys(partitions, int(since))).items():
        if found is None:  # nothing as late as that
            consumer.seek_to_end(partition)
        else:
            consumer.seek(partition, found.offset)
    for message in consumer:
        print(message.value.decode())
    consumer.close()


main(*sys.argv[1:4])
