"""A client that was made before a fork works on in the child, and leaves to the parent what is the parent's."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter

import pytest

from pykafka import KafkaClient
from tests.brokers import KafkaCluster
from tests.support.topics import create_topic

SCRIPT = """
import logging, os, sys
hosts, topic, mode = sys.argv[1:]
if mode == "greenlets":
    from gevent.os import fork, waitpid
else:
    from os import fork, waitpid
from pykafka import KafkaClient
logging.basicConfig(format="%(process)d %(levelname)s %(name)s %(message)s", level=logging.WARNING)
client = KafkaClient(hosts, use_greenlets=mode == "greenlets", socket_timeout_ms=10_000)
producer = client.topics[topic].get_producer(
    required_acks=-1, linger_ms=60_000, min_queued_messages=50_000, pending_timeout_ms=10_000
)
producer.produce(b"before the fork 0")
producer.flush()
consumer = client.topics[topic].get_simple_consumer(consumer_timeout_ms=15_000)
first = consumer.consume()
for number in range(100):
    producer.produce(b"queued by the parent %d" % number)
child = fork()
if child == 0:
    for number in range(100):
        producer.produce(b"by the child %d" % number)
    producer.stop()
    assert consumer.consume().offset == first.offset + 1
    client.close()
    sys.stdout.flush()
    os._exit(0)
_, status = waitpid(child, 0)
for number in range(100):
    producer.produce(b"by the parent %d" % number)
producer.stop()
assert consumer.consume().offset == first.offset + 1
client.close()
sys.exit(status)
"""


@pytest.mark.parametrize("mode", ["threads", "greenlets"])
def test_parent_and_child_go_on_each_with_their_own(kafka: KafkaCluster, mode: str) -> None:
    with KafkaClient(kafka.hosts) as client:
        topic = create_topic(client)
        with topic.get_sync_producer() as producer:
            for _ in range(3):
                producer.produce(b"first")
        done = subprocess.run(
            [sys.executable, "-W", "ignore::DeprecationWarning", "-c", SCRIPT, kafka.hosts, topic.name, mode],
            capture_output=True,
            text=True,
            timeout=90,
            check=False,
        )
        assert (done.returncode, done.stderr) == (0, "")
        with topic.get_simple_consumer(consumer_timeout_ms=3_000) as consumer:
            found = Counter(message.value for message in consumer)
    assert found.pop(b"first") == 3
    assert set(found.values()) == {1}
    assert Counter(value.rpartition(b" ")[0] for value in found if value is not None) == {
        b"before the fork": 1,
        b"queued by the parent": 100,
        b"by the child": 100,
        b"by the parent": 100,
    }
