"""Code as users of PyKafka 2 have it, by the patterns of its documents, run as it stands on a real broker.

In each program only the address, the topic and the group are put in the place of others; for greenlets `use_greenlets=True`
is added, which 2.3 and later had too. Each topic has two partitions and holds ten messages, `0` to `9`, five in each.
"""

from __future__ import annotations

import json
import subprocess
import sys
import uuid
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from click.testing import CliRunner

from pykafka import KafkaClient
from pykafka.cli.app import tools
from pykafka.topic import Topic
from tests.brokers import KafkaCluster
from tests.support.topics import create_topic
from tests.support.zookeeper import ZooKeeper

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(400)]

#: {what it does: (program, what it prints)}
PROGRAMS = {
    "produces and reads": (
        """
from pykafka import KafkaClient
client = KafkaClient(hosts="127.0.0.1:9092")
print("my.test" in client.topics)
topic = client.topics["my.test"]
with topic.get_producer() as producer:
    for i in range(4):
        producer.produce(b"test message %d" % i ** 2)
consumer = topic.get_simple_consumer(consumer_timeout_ms=2000)
found = []
for message in consumer:
    if message is not None:
        found.append(message.value)
print(len(found), sorted(found)[-4:])
consumer.stop()
""",
        "True\n14 [b'test message 0', b'test message 1', b'test message 4', b'test message 9']\n",
    ),
    "produces synchronously to names of bytes": (
        """
from pykafka import KafkaClient
client = KafkaClient(hosts="127.0.0.1:9092", socket_timeout_ms=30 * 1000)
topic = client.topics[b"my.test"]
with topic.get_sync_producer() as producer:
    producer.produce(b"one", partition_key=b"key")
    producer.produce(message=b"two")
print(sum(offsets.offset[0] for offsets in topic.latest_available_offsets().values()))
print(sorted(offsets.offset[0] for offsets in topic.earliest_available_offsets().values()))
""",
        "12\n[0, 0]\n",
    ),
    "looks at delivery reports": (
        """
import queue
from pykafka import KafkaClient
client = KafkaClient(hosts="127.0.0.1:9092")
topic = client.topics["my.test"]
with topic.get_producer(delivery_reports=True, linger_ms=10, min_queued_messages=1) as producer:
    count = delivered = 0
    while count < 100:
        count += 1
        producer.produce(b"test msg", partition_key="{}".format(count).encode())
        if count % 50 == 0:
            while True:
                try:
                    msg, exc = producer.get_delivery_report(block=True, timeout=2)
                    if exc is not None:
                        print("Failed to deliver msg {}: {}".format(msg.partition_key, repr(exc)))
                    else:
                        delivered += 1
                except queue.Empty:
                    break
print(delivered)
""",
        "100\n",
    ),
    "rewinds to the last messages": (
        """
from itertools import islice
from pykafka import KafkaClient
from pykafka.common import OffsetType
client = KafkaClient(hosts="127.0.0.1:9092")
topic = client.topics["my.test"]
LAST_N_MESSAGES = 4
consumer = topic.get_simple_consumer(
    auto_offset_reset=OffsetType.LATEST, reset_offset_on_start=True, consumer_timeout_ms=5000)
rewind = LAST_N_MESSAGES // len(consumer._partitions)
offsets = [(p, op.last_offset_consumed - rewind) for p, op in consumer._partitions.items()]
offsets = [(p, o if o > -1 else -2) for p, o in offsets]
consumer.reset_offsets(offsets)
print(sorted((message.partition_id, message.offset) for message in islice(consumer, LAST_N_MESSAGES)))
""",
        "[(0, 3), (0, 4), (1, 3), (1, 4)]\n",
    ),
    "goes on where its group was": (
        """
from pykafka import KafkaClient
from pykafka.common import OffsetType
client = KafkaClient(hosts="127.0.0.1:9092")
topic = client.topics["my.test"]
consumer = topic.get_simple_consumer(
    consumer_group="mygroup", auto_offset_reset=OffsetType.EARLIEST, reset_offset_on_start=False)
first = [consumer.consume().value for _ in range(6)]
consumer.commit_offsets()
consumer.stop()
consumer_2 = topic.get_simple_consumer(consumer_group="mygroup", consumer_timeout_ms=1000)
rest = [message.value for message in consumer_2]
print(sorted(first + rest) == [b"%d" % i for i in range(10)], len(rest))
consumer_3 = topic.get_simple_consumer(consumer_group="mygroup", auto_offset_reset=OffsetType.EARLIEST,
                                       reset_offset_on_start=True, auto_commit_enable=True,
                                       auto_commit_interval_ms=500, consumer_timeout_ms=1000)
print(len(list(consumer_3)), sorted(consumer_3.held_offsets.values()))
consumer_3.stop()
""",
        "True 4\n10 [4, 4]\n",
    ),
    "reads some partitions, and starts again after errors": (
        """
from pykafka import KafkaClient
from pykafka.exceptions import LeaderNotAvailable, NoMessagesConsumedError, SocketDisconnectedError
client = KafkaClient(hosts="127.0.0.1:9092", broker_version="0.10.0")
topic = client.topics["my.test"]
consumer = topic.get_simple_consumer(partitions=[topic.partitions[1]], consumer_timeout_ms=1000)
try:
    print(consumer.consume().partition_id)
except SocketDisconnectedError:
    consumer.stop()
    consumer.start()
consumer.stop()
consumer.start()
print(len([message for message in consumer]))
producer = topic.get_producer()
try:
    producer.produce(b"test msg")
except (SocketDisconnectedError, LeaderNotAvailable):
    producer.stop()
    producer.start()
    producer.produce(b"test msg")
producer.stop()
""",
        "1\n4\n",
    ),
    "chooses partitions and compresses": (
        """
from pykafka import KafkaClient
from pykafka.common import CompressionType
from pykafka.partitioners import hashing_partitioner, HashingPartitioner
client = KafkaClient(hosts="127.0.0.1:9092")
topic = client.topics["my.test"]
for partitioner in (hashing_partitioner, HashingPartitioner(), lambda partitions, key: partitions[0]):
    with topic.get_producer(partitioner=partitioner, compression=CompressionType.GZIP) as producer:
        for _ in range(10):
            producer.produce(b"value", b"the same key")
print([offsets.offset[0] for _, offsets in sorted(topic.latest_available_offsets().items())])
""",
        "[15, 25]\n",
    ),
    "asks brokers by themselves": (
        """
from pykafka import KafkaClient
client = KafkaClient(hosts="127.0.0.1:9092")
client.update_cluster()
for broker_id, broker in client.brokers.items():
    print(broker_id == broker.id, broker.connected, broker.host.decode())
topic = client.cluster.topics["my.test"]
print([(p.id, p.leader.id, [r.id for r in p.replicas], [r.id for r in p.isr]) for p in topic.partitions.values()])
print(sorted(offset.offset[0] for offset in topic.fetch_offset_limits(-2).values()))
""",
        "True True 127.0.0.1\n[(0, 1, [1], [1]), (1, 1, [1], [1])]\n[0, 0]\n",
    ),
    "shares through the brokers": (
        """
from pykafka import KafkaClient
client = KafkaClient(hosts="127.0.0.1:9092")
topic = client.topics["my.test"]
def moved(consumer, old_offsets, new_offsets):
    print(old_offsets, new_offsets)
consumer = topic.get_balanced_consumer(consumer_group=b"mygroup", managed=True, auto_commit_enable=True,
                                       consumer_timeout_ms=2000, post_rebalance_callback=moved)
print(len([m for m in consumer if m is not None]))
consumer.stop()
""",
        "{} {0: -2, 1: -2}\n10\n",
    ),
    "shares through ZooKeeper": (
        """
from pykafka import KafkaClient
client = KafkaClient(hosts="127.0.0.1:9092")
topic = client.topics["my.test"]
balanced_consumer = topic.get_balanced_consumer(
    consumer_group="mygroup",
    auto_commit_enable=True,
    consumer_timeout_ms=2000,
    zookeeper_connect="127.0.0.1:2181"
)
print(len(list(balanced_consumer)))
balanced_consumer.commit_offsets()
balanced_consumer.stop()
""",
        "10\n",
    ),
    "makes its objects by hand": (
        """
from pykafka.balancedconsumer import BalancedConsumer
from pykafka.client import KafkaClient
from pykafka.managedbalancedconsumer import ManagedBalancedConsumer
from pykafka.producer import Producer
from pykafka.simpleconsumer import SimpleConsumer
client = KafkaClient(hosts="127.0.0.1:9092")
topic = client.topics["my.test"]
producer = Producer(client.cluster, topic, linger_ms=10, auto_start=False)
producer.start()
producer.produce(b"x")
producer.stop()
consumer = SimpleConsumer(topic, client.cluster, consumer_group="mygroup", num_consumer_fetchers=2,
                          queued_max_messages=100, consumer_timeout_ms=1000, auto_start=False)
consumer.start()
print(len(list(consumer)))
consumer.stop()
managed = ManagedBalancedConsumer(topic, client.cluster, b"mygroup", consumer_timeout_ms=1000)
print(isinstance(managed, BalancedConsumer), len(list(managed)))
managed.stop()
""",
        "11\nTrue 11\n",
    ),
    "consumes in a thread of its own until it is told to end": (
        """
import threading
from pykafka import KafkaClient
from pykafka.exceptions import ConsumerStoppedException
client = KafkaClient(hosts="127.0.0.1:9092")
consumer = client.topics["my.test"].get_simple_consumer()
found = []
def work():
    try:
        for message in consumer:
            found.append(message)
    except ConsumerStoppedException:
        print("stopped")
thread = threading.Thread(target=work)
thread.daemon = True
thread.start()
while len(found) < 10:
    thread.join(0.1)
consumer.stop()
thread.join(10)
print(len(found), thread.is_alive())
""",
        "stopped\n10 False\n",
    ),
}
#: A thread beside the hub is none of its greenlets: with `use_greenlets=True` such a program never worked.
THREADS_ONLY = {"consumes in a thread of its own until it is told to end"}


@pytest.fixture(scope="module")
def zookeeper(kafka: KafkaCluster) -> Iterator[str]:
    """Yield the hosts of a ZooKeeper: the brokers' own, or another one."""
    if kafka.zookeeper_hosts:
        yield kafka.zookeeper_hosts
        return
    with ZooKeeper() as zookeeper:
        yield zookeeper.hosts


def make_topic(client: KafkaClient) -> Topic:
    topic = create_topic(client, 2)
    with topic.get_producer(partitioner=lambda parts, key: parts[int(key) % 2], linger_ms=1) as producer:
        for number in range(10):
            producer.produce(b"%d" % number, partition_key=b"%d" % number)
    return topic


@pytest.fixture
def client(kafka: KafkaCluster) -> Iterator[KafkaClient]:
    with KafkaClient(hosts=kafka.hosts) as client:
        yield client


@pytest.mark.parametrize("name", PROGRAMS)
def test_it_runs_unchanged(kafka: KafkaCluster, zookeeper: str, client: KafkaClient, name: str) -> None:
    program, printed = PROGRAMS[name]
    modes = {"threads": "KafkaClient(hosts", "greenlets": "KafkaClient(use_greenlets=True, hosts"}
    if name in THREADS_ONLY:
        del modes["greenlets"]
    with ExitStack() as stack:
        # Side by side, as most of their time is that which a consumer waits for more.
        running = {
            mode: stack.enter_context(
                subprocess.Popen(
                    [sys.executable, "-W", "error", "-c", put_in(program, kafka, zookeeper, make_topic(client), made)],
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    text=True,
                )
            )
            for mode, made in modes.items()
        }
        try:
            told = {mode: (*process.communicate(timeout=60), process.returncode) for mode, process in running.items()}
        finally:
            for process in running.values():
                process.kill()
    assert told == dict.fromkeys(modes, (printed, "", 0))


def put_in(program: str, kafka: KafkaCluster, zookeeper: str, topic: Topic, made: str) -> str:
    """Put the address, the topic, a group and how a client is made in their places."""
    replacements = {
        "127.0.0.1:9092": kafka.hosts,
        "127.0.0.1:2181": zookeeper,
        "my.test": topic.name,
        "mygroup": f"g-{uuid.uuid4().hex[:8]}",
        "KafkaClient(hosts": made,
    }
    for old, new in replacements.items():
        program = program.replace(old, new)
    return program


def test_the_console_as_of_old(kafka: KafkaCluster, client: KafkaClient, tmp_path: Path) -> None:
    """Calls as they stood in scripts: the broker and its version first, names in the places they had."""
    topic = make_topic(client)
    group, made, out = f"g-{uuid.uuid4().hex[:8]}", f"t-{uuid.uuid4().hex[:8]}", f"{tmp_path}/messages"
    first = ["-b", kafka.hosts, "-o", "0.10.0"]

    def called(*arguments: str) -> str:
        done = CliRunner().invoke(tools, [*first, *arguments])
        assert (done.exit_code, done.stderr) == (0, ""), arguments
        return done.stdout

    command = [sys.executable, "-m", "pykafka.cli", *first, "print_topics"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert topic.name in done.stdout
    assert topic.name in called("desc_topic", topic.name)
    assert "5" in called("print_offsets", topic.name, "LATEST")
    assert "0" in called("print_offsets", topic.name, "2020-01-01T00:00:00")
    called("reset_offsets", topic.name, group, "EARLIEST")
    assert "10" in called("print_consumer_lag", topic.name, group)
    assert group in called("print_managed_consumer_groups", topic.name)
    assert {*called("consume_topic", topic.name, "-l", "3", "-t", "5000").split()} < {*"0123456789"}
    called("consume_topic", topic.name, "-l", "2", "-o", out)
    assert called("create_topic", made, "-p", "2", "-r", "1", "-c", json.dumps({"cleanup.policy": "compact"}))
    assert made in called("print_topics")
    called("delete_topic", made)
