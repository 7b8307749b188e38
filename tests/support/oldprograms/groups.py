"""A group of one consumer: commits by hand and by itself, offsets fetched and printed, stop() and start()."""

import sys

from pykafka import KafkaClient
from pykafka.common import OffsetType

hosts, zookeeper, name, group = sys.argv[1:5]
client = KafkaClient(hosts=hosts, socket_timeout_ms=10000, offsets_channel_socket_timeout_ms=10000)
topic = client.topics[name]
with topic.get_sync_producer(partitioner=lambda partitions, key: partitions[int(key) % 2]) as producer:
    for number in range(10):
        producer.produce(b"value %d" % number, partition_key=b"%d" % number)
consumer = topic.get_simple_consumer(
    consumer_group=group.encode(), consumer_id=b"test_id", auto_offset_reset=OffsetType.EARLIEST,
    consumer_timeout_ms=1000, queued_max_messages=20, num_consumer_fetchers=2, fetch_message_max_bytes=512 * 1024,
)
print(consumer.held_offsets, sorted(consumer.fetch_offsets()))
taken = sorted(consumer.consume().value for _ in range(10))
print(taken, consumer.held_offsets, consumer.commit_offsets())
print(sorted(consumer.fetch_offsets()))
consumer.stop()
consumer = topic.get_simple_consumer(group, consumer_timeout_ms=500, auto_commit_enable=True, auto_commit_interval_ms=1)
print(consumer.held_offsets, list(consumer))
with topic.get_sync_producer(partitioner=lambda partitions, key: partitions[0]) as producer:
    producer.produce(b"more")
print([message.value for message in consumer])
consumer.stop()
consumer.start()
print(consumer.held_offsets)
with topic.get_sync_producer(partitioner=lambda partitions, key: partitions[1]) as producer:
    producer.produce(b"and more")
print(consumer.consume().value)
consumer.stop()
reader = topic.get_simple_consumer(consumer_group=group, auto_start=False, reset_offset_on_fetch=False)
for p_id, response in sorted(reader.fetch_offsets()):
    print(p_id, response.offset, response.metadata.decode(), response.err, response)
one = topic.get_simple_consumer(
    group, partitions=[topic.partitions[1]], reset_offset_on_start=True, consumer_timeout_ms=500
)
print([message.value for message in one], one.partitions.keys(), one.held_offsets)
one.commit_offsets([(topic.partitions[1], 2)])
one.stop()
again = topic.get_simple_consumer(group, consumer_timeout_ms=500)
print([message.value for message in again])
again.stop()
fresh = topic.get_simple_consumer(group + "-m", consumer_timeout_ms=500, auto_offset_reset=OffsetType.LATEST)
print(fresh.held_offsets, sorted(fresh.fetch_offsets()))
fresh.stop()
named = client.topics[name].get_simple_consumer(
    group + "-z", partitions=[client.topics[name].partitions[0]], consumer_timeout_ms=500
)
print([named.consume().offset for _ in range(3)], sorted(named.fetch_offsets()), named.held_offsets)
named.stop()
