"""The module pykafka.cli.kafka_tools as scripts call it, and whether it prints what they look for."""

import subprocess
import sys

from pykafka import KafkaClient

hosts, zookeeper, name, group = sys.argv[1:5]
client = KafkaClient(hosts)
topic = client.topics[name]
with topic.get_sync_producer(partitioner=lambda partitions, key: partitions[0]) as producer:
    for number in range(5):
        producer.produce(b"%d" % number)


def tool(*arguments):
    done = subprocess.run(
        [sys.executable, "-m", "pykafka.cli.kafka_tools", "-b", hosts, "-o", "1.0.0", *arguments],
        capture_output=True, text=True, timeout=60,
    )
    print(arguments[0], done.returncode in (0, 2))
    return done.stdout.split()


consumer = topic.get_simple_consumer(group)
consumer.commit_offsets([(topic.partitions[0], 2)])
consumer.stop()
print(name in " ".join(tool("print_topics")))
print("5" in tool("print_offsets", name, "LATEST"))
print("3" in tool("print_consumer_lag", name, group))
tool("create_topic", name + "-made", "-p", "2", "-r", "1")
client.update_cluster()
print(len(client.topics[name + "-made"].partitions))
tool("delete_topic", name + "-made")
tool("desc_topic", name + "-unknown")
