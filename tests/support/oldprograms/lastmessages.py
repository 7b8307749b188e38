"""The last messages of a topic, offsets by time and of segments, and offsets as people compare and print them."""

import calendar
import datetime as dt
import itertools
import math
import sys

from pykafka import KafkaClient
from pykafka.simpleconsumer import OffsetType

hosts, zookeeper, name, group = sys.argv[1:5]
client = KafkaClient(hosts)
topic = client.topics[name]
print(topic.earliest_available_offsets() == topic.latest_available_offsets(), topic.latest_available_offsets())
with topic.get_sync_producer(partitioner=lambda pid, key: pid[0]) as producer:
    for number in range(7):
        producer.produce(b"%d" % number)
print(topic.latest_available_offsets()[0].offset[0] - topic.earliest_available_offsets()[0].offset[0])
print(topic.latest_available_offsets()[0][0][0], topic.latest_available_offsets()[0]._asdict())
offsets = {key: value.offset[0] for key, value in topic.latest_available_offsets().items()}
print(offsets, sum(offsets.values()), [p.latest_available_offset() for p in topic.partitions.values()])
print(topic.partitions[0].earliest_available_offset(), topic.partitions[0].fetch_offset_limit(-1))
print(topic.fetch_offset_limits(-1), topic.fetch_offset_limits(OffsetType.EARLIEST))
consumer = topic.get_simple_consumer(
    auto_offset_reset=OffsetType.LATEST, reset_offset_on_start=True, consumer_timeout_ms=1000
)
print(sorted((p.id, op.last_offset_consumed) for p, op in consumer._partitions.items()), consumer.held_offsets)
rewind = int(math.ceil(4 / len(consumer._partitions)))
rewound = [(p, op.last_offset_consumed - rewind) for p, op in consumer._partitions.items()]
rewound = [(p, (o if o > -1 else -2)) for p, o in rewound]
print(sorted((p.id, o) for p, o in rewound))
consumer.reset_offsets(rewound)
print([(m.offset, m.value) for m in itertools.islice(consumer, rewind)])
consumer.reset_offsets([(topic.partitions[0], OffsetType.EARLIEST), (topic.partitions[1], OffsetType.LATEST)])
print(consumer.held_offsets, [m.value for m in consumer], consumer.held_offsets)
consumer.reset_offsets([(topic.partitions[0], 3)])
print([m.offset for m in consumer])
consumer.stop()
ago = calendar.timegm(dt.datetime(2012, 1, 1).utctimetuple()) * 1000
print(sorted(topic.fetch_offset_limits(ago)), sorted(topic.fetch_offset_limits(dt.datetime(2012, 1, 1))))
