"""The module pykafka.cli.kafka_tools as scripts call it, and what it prints."""

import subprocess
import sys

from pykafka import KafkaClient

hosts, zookeeper, name, group = sys.argv[1:]
client = KafkaClient(hosts)
topic = client.topics[name]
with topic.get_sync_producer(partitioner=lambda partitions, key: partitions[0]) as producer:
    for number in range(5):
        producer.produce(b"%d" % number)


def tool(*arguments):
    done = subprocess.run(
        [sys.executable, "-m", "pykafka.cli.kafka_tools", "-b", hosts, *arguments],
        capture_output=True, text=True, timeout=60,
    )
    print(arguments[0], done.returncode)
    print("\n".join(line.rstrip() for line in done.stdout.splitlines() if name in line or line.startswith(tuple("0123456789 P-"))))


tool("desc_topic", name)
tool("print_offsets", name, "LATEST")
tool("print_offsets", name, "earliest")
tool("reset_offsets", name, group, "LATEST")
tool("print_consumer_lag", name, group)
tool("consume_topic", name, "-l", "3", "-t", "5")
