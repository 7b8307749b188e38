"""The tour of the documentation: topics, producers, a consumer, a loop that skips None."""

import sys

from pykafka import KafkaClient

hosts, zookeeper, name, group = sys.argv[1:5]
client = KafkaClient(hosts=hosts)
print(name.encode() in client.topics, name in [key.decode() for key in client.topics.keys()])
topic = client.topics[name.encode()]
print(topic.name, topic.name.decode("utf-8"), type(topic.partitions), sorted(topic.partitions))
with topic.get_sync_producer() as producer:
    for number in range(4):
        sent = producer.produce(b"test message %d" % number**2)
    print(type(sent).__name__, sent.value, sent.partition_key, sent.partition_id, sent.offset)
with topic.get_producer(linger_ms=50) as producer:
    for number in range(6):
        print(producer.produce("asynchronous {}".format(number).encode("ascii")).partition_id, end=" ")
print()
consumer = topic.get_simple_consumer(consumer_timeout_ms=800)
found = []
for message in consumer:
    if message is not None:
        found.append((message.partition_id, message.offset, message.value))
print(sorted(found))
print(consumer.held_offsets, consumer.topic is topic, sorted(consumer.partitions))
print(consumer.consume(), consumer.consume(block=False))
consumer.stop()
