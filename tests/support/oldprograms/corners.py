"""Less common calls: full queues, no acknowledgements, new topics, hidden ones, dead bootstrap hosts, dict views, internals."""

import collections
import itertools
import json
import pickle
import sys
import threading
import time

import pykafka
from pykafka import KafkaClient
from pykafka.common import OffsetType
from pykafka.exceptions import ProducerQueueFullError
from pykafka.membershipprotocol import RoundRobinProtocol

hosts, zookeeper, name, group = sys.argv[1:5]
client = KafkaClient(hosts="127.0.0.1:9," + hosts, source_address="127.0.0.1:0", socket_timeout_ms=5000)
topic = client.topics[name]
first = lambda partitions, key: partitions[0]  # noqa: E731
full = topic.get_producer(
    block_on_queue_full=False, max_queued_messages=3, min_queued_messages=100, linger_ms=1500, partitioner=first
)
count = 0
try:
    for count in range(50):
        full.produce(b"queued %d" % count)
except ProducerQueueFullError as error:
    print("full", count, isinstance(error, pykafka.exceptions.KafkaException))
full.stop()
waiting = topic.get_producer(max_queued_messages=2, linger_ms=100, partitioner=first)
for count in range(7):
    waiting.produce(b"waited %d" % count)
waiting.stop()
unacknowledged = topic.get_producer(required_acks=0, linger_ms=10, partitioner=first, delivery_reports=True)
unacknowledged.produce(b"unacknowledged")
print(unacknowledged.get_delivery_report(timeout=10)[1])
unacknowledged.stop()
print(len(topic.partitions), list(topic.partitions.keys()), [p.id for p in topic.partitions.values()])
consumer = topic.get_simple_consumer(consumer_timeout_ms=700, fetch_min_bytes=1, fetch_wait_max_ms=50)
print(json.dumps(consumer.held_offsets), consumer.consume(True).value, consumer.consume(False) is None or "buffered")
print([m.offset for m in consumer], [m.offset for m in consumer], consumer._partitions[topic.partitions[0]].last_offset_consumed)
consumer.reset_offsets()
print(consumer.held_offsets, [m.value for m in itertools.islice(consumer, 2)])
consumer.reset_offsets([(p, OffsetType.LATEST) for p in topic.partitions.values()])
print(consumer.held_offsets, consumer.consume())
consumer.stop()
latest = topic.get_simple_consumer(auto_offset_reset=OffsetType.LATEST, consumer_timeout_ms=700)
print(latest.held_offsets, len(list(latest)))
latest.stop()
late = topic.get_simple_consumer(group + "-z", auto_offset_reset=OffsetType.LATEST, consumer_timeout_ms=300)
print(late.held_offsets, late.consume())
late.stop()
made = name + "-auto"
print(made in client.topics, made.encode() in client.topics)
auto = client.topics[made]
with auto.get_sync_producer(linger_ms=1) as producer:
    producer.produce(b"the first")
client.update_cluster()
print(made in [key.decode() for key in client.topics], len(auto.partitions), auto is client.topics[made.encode()])
print(sum(o.offset[0] for o in auto.latest_available_offsets().values()), isinstance(client.topics, dict))
hidden = KafkaClient(hosts, exclude_internal_topics=False)
hidden.cluster.get_group_coordinator(group.encode())
for _ in range(50):
    hidden.update_cluster()
    if b"__consumer_offsets" in hidden.topics:
        break
    time.sleep(0.1)
print(b"__consumer_offsets" in hidden.topics, len(hidden.topics[b"__consumer_offsets"].partitions))
both = topic.get_balanced_consumer(
    group, managed=True, membership_protocol=RoundRobinProtocol, consumer_timeout_ms=700, heartbeat_interval_ms=1000
)
print(len(list(both)), both.generation_id if hasattr(both, "generation_id") else None, sorted(both.partitions))
both.commit_offsets()
both.stop()
shared = topic.get_sync_producer(partitioner=first, linger_ms=1)
threads = [threading.Thread(target=lambda n=n: [shared.produce(b"of thread %d" % n) for _ in range(3)]) for n in range(3)]
for thread in threads:
    thread.start()
    thread.join()
shared.stop()
reader = topic.get_simple_consumer(consumer_timeout_ms=700)
print(sorted(collections.Counter(m.value for m in reader).items())[-4:])
reader.stop()
print(pickle.loads(pickle.dumps(topic.latest_available_offsets())))
broker = client.brokers[1]
print(broker.connected, type(broker.request_metadata()).__name__, topic._cluster is client.cluster, broker.offsets_channel_connected)
