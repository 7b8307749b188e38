"""All codecs of 2.8.0 with what comes with it, big and many messages."""

import json
import sys

from pykafka import KafkaClient
from pykafka.common import CompressionType

hosts, zookeeper, name, group = sys.argv[1:5]
client = KafkaClient(hosts=hosts, broker_version="0.11.0")
topic = client.topics[name]
for kind in ("NONE", "GZIP"):
    with topic.get_producer(
        compression=getattr(CompressionType, kind), min_queued_messages=10, max_queued_messages=50, linger_ms=20,
        max_request_size=900000, retry_backoff_ms=250, partitioner=lambda pid, key: pid[0], required_acks=-1,
    ) as producer:
        for number in range(120):
            producer.produce(json.dumps({"kind": kind, "number": number, "text": "a" * 3000}).encode("utf-8"))
with topic.get_sync_producer(compression=CompressionType.GZIP, max_request_size=3086624) as producer:
    print(len(producer.produce(b"z" * 900000).value))
print(sorted(k for k in vars(CompressionType) if k.isupper())[:4], CompressionType.NONE, CompressionType.SNAPPY)
consumer = topic.get_simple_consumer(
    consumer_timeout_ms=1000, fetch_message_max_bytes=2 * 1024 * 1024, queued_max_messages=20, fetch_min_bytes=1
)
counts = {}
for message in consumer:
    if len(message.value) == 900000:
        counts["big"] = message.value.count(b"z")
        continue
    read = json.loads(message.value)
    counts.setdefault(read["kind"], []).append(read["number"])
print({kind: len(numbers) if isinstance(numbers, list) else numbers for kind, numbers in sorted(counts.items())})
print(counts["GZIP"] == list(range(120)))
consumer.stop()
