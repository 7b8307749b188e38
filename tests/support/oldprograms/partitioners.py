"""Partitioners: the ones that come along, functions, and classes of one's own."""

import hashlib
import sys

from pykafka import KafkaClient
from pykafka.partitioners import BasePartitioner, GroupHashingPartitioner, HashingPartitioner, RandomPartitioner
from pykafka.partitioners import hashing_partitioner
from pykafka.producer import CompressionType, Producer

hosts, zookeeper, name, group = sys.argv[1:5]


class Rotating(BasePartitioner):
    def __init__(self):
        self.seen = []

    def __call__(self, partitions, key=None):
        self.seen.append((isinstance(partitions, list), [p.id for p in partitions], key))
        return sorted(partitions)[len(self.seen) % len(partitions)]


def by_md5(partitions, key):
    return partitions[int(hashlib.md5(key).hexdigest(), 16) % len(partitions)]


client = KafkaClient(hosts=hosts)
topic = client.topics[name]
rotating = Rotating()
choices = {
    "hashing": hashing_partitioner,
    "own hash": HashingPartitioner(hash_func=len),
    "random": RandomPartitioner(),
    "function": by_md5,
    "class": rotating,
    "first": lambda pid, key: pid[0],
}
for what, partitioner in sorted(choices.items()):
    with topic.get_producer(partitioner=partitioner, linger_ms=1, compression=CompressionType.GZIP) as producer:
        print(what, [producer.produce(b"value", b"key %d" % number).partition_id for number in range(8)])
print(rotating.seen)
parts = list(topic.partitions.values())
groups = GroupHashingPartitioner(lambda key: int(hashlib.sha1(key).hexdigest(), 16), 2)
print(sorted({groups(parts, b"key").id for _ in range(50)}))
print(hashing_partitioner(parts, b"k").id, RandomPartitioner()(parts, None).id, max(parts).id, parts[0] < parts[1])
print(parts[0] == topic.partitions[0], parts[0] != parts[1], {parts[0]: 1}[topic.partitions[0]], parts[0].topic.name.decode())
producer = Producer(client.cluster, topic, partitioner=hashing_partitioner, linger_ms=0, auto_start=False)
producer.start()
producer.produce(b"by hand", b"k")
producer.stop()
print(topic.latest_available_offsets())
