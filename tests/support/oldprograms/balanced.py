"""Balanced consumers through ZooKeeper and through the brokers, with callbacks, alone and as two."""

import sys
import time

from kazoo.client import KazooClient
from pykafka import BalancedConsumer, KafkaClient, ManagedBalancedConsumer
from pykafka.common import OffsetType

hosts, zookeeper, name, group = sys.argv[1:5]
client = KafkaClient(hosts=hosts)
topic = client.topics[name]
with topic.get_producer(partitioner=lambda partitions, key: partitions[int(key) % 2], linger_ms=1) as producer:
    for number in range(10):
        producer.produce(b"%d" % number, partition_key=b"%d" % number)


def moved(consumer, old_offsets, new_offsets):
    print("moved", sorted(old_offsets.items()), sorted(new_offsets.items()), type(consumer).__name__)


def rewinding(consumer, old_offsets, new_offsets):
    return {partition: 2 for partition in new_offsets}


consumer = topic.get_balanced_consumer(
    group, zookeeper_connect=zookeeper, auto_commit_enable=True, consumer_timeout_ms=1000,
    rebalance_max_retries=10, rebalance_backoff_ms=500, post_rebalance_callback=moved,
)
print(isinstance(consumer, BalancedConsumer), consumer._running, consumer.topic.name.decode(), type(consumer.partitions).__name__)
print(sorted(consumer.partitions), sorted(consumer.held_offsets.items()))
print(sorted(message.value for message in consumer if message is not None), consumer.consume(block=False))
print(sorted(consumer.held_offsets.items()), consumer.commit_offsets())
consumer.stop()
print("stopped", sorted(consumer.held_offsets.items()), sorted(consumer.partitions))
managed = topic.get_balanced_consumer(
    consumer_group=(group + "-m").encode(), managed=True, auto_offset_reset=OffsetType.EARLIEST, auto_start=False,
    consumer_timeout_ms=1500, auto_commit_enable=True, auto_commit_interval_ms=100, post_rebalance_callback=rewinding,
)
print(isinstance(managed, ManagedBalancedConsumer), managed.start(), sorted(managed.held_offsets.items()))
print(sorted((message.partition.id, message.offset, message.value) for message in managed))
managed.stop()
zk = KazooClient(hosts=zookeeper)
zk.start()
kazoo = topic.get_balanced_consumer(
    group + "-z", zookeeper=zk, consumer_timeout_ms=800, reset_offset_on_start=True, rebalance_backoff_ms=300)
other = topic.get_balanced_consumer(
    group + "-z", zookeeper_connect=zookeeper, consumer_timeout_ms=800, rebalance_backoff_ms=300)
for _ in range(100):
    if len(kazoo.partitions) == len(other.partitions) == 1:
        break
    time.sleep(0.1)
print(sorted([*kazoo.partitions, *other.partitions]))
paths = "/consumers/{}-z".format(group)
print(sorted(zk.get_children(paths)), len(zk.get_children(paths + "/ids")))
owned = [zk.get_children(paths + "/owners/" + child) for child in zk.get_children(paths + "/owners")]
print(sorted(owned[0]))
other.stop()
kazoo.stop()
print(zk.connected, len(zk.get_children(paths + "/ids")))
zk.stop()
