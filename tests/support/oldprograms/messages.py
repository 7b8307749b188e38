"""The content of a message: its fields, times, sizes and texts, with both kinds of broker_version."""

import datetime
import sys

from pykafka import KafkaClient
from pykafka.common import CompressionType
from pykafka.protocol import Message
from pykafka.utils import deserialize_utf8, serialize_utf8

hosts, zookeeper, name, group = sys.argv[1:5]
client = KafkaClient(hosts=hosts, broker_version="2.0.0")
topic = client.topics[name]
moment = datetime.datetime(2019, 5, 17, 12, 30, 15, 250000)
producer = topic.get_producer(linger_ms=10, partitioner=lambda partitions, key: partitions[0])
producer.produce(b"dated", b"key", timestamp=moment)
producer.produce(b"", timestamp=moment)
producer.produce(None, partition_key=b"gone", timestamp=moment)
producer.produce(b"\xff\x00", b"\x80", timestamp=moment)
producer.stop()
for kind in (CompressionType.NONE, CompressionType.GZIP):
    with topic.get_producer(linger_ms=10, compression=kind, partitioner=lambda pid, key: pid[0]) as producer:
        for number in range(3):
            producer.produce(b"packed %d" % number, timestamp=moment)
with topic.get_sync_producer(serializer=serialize_utf8, partitioner=lambda pid, key: pid[0]) as producer:
    sent = producer.produce("gr\xfcn", "schl\xfcssel", timestamp=moment)
    print(sent.value, sent.partition_key, sent.timestamp)
    producer.produce(None, None, timestamp=moment)
consumer = topic.get_simple_consumer(consumer_timeout_ms=1000)
for message in consumer:
    print(message.offset, message.value, message.partition_key, message.partition_id, message.partition.id,
          message.timestamp, message.timestamp_dt, len(message), bool(message),
          message.produce_attempt, message.partition is topic.partitions[0])
    last = message
print(isinstance(last, Message), type(last), type(last.timestamp), type(last.timestamp_dt), type(last.offset))
last.value = b"replaced"
print(last.value, last.timestamp_dt < datetime.datetime(2030, 1, 1), last.timestamp_dt.isoformat())
print((datetime.datetime(2019, 5, 18) - last.timestamp_dt).total_seconds(), last.timestamp_dt.tzinfo)
consumer.stop()
made = Message(b"made", partition_key=b"k")
print(made.value, made.partition_key, made.offset, made.partition_id, made.partition, made.compression_type, len(made))
text = topic.get_simple_consumer(consumer_timeout_ms=1000, deserializer=deserialize_utf8, partitions=[topic.partitions[0]])
text.reset_offsets([(topic.partitions[0], 3)])
print([text.consume().value for _ in range(8)])
text.stop()
