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


#: C code that forks (an application server, say) may not call Python's hook.
UNNOTICED = """
import ctypes, os, sys
from pykafka import KafkaClient
from pykafka.exceptions import UnnoticedForkError
hosts, topic = sys.argv[1:]
client = KafkaClient(hosts)
sync, queued = client.topics[topic].get_sync_producer(), client.topics[topic].get_producer(linger_ms=5)
front, consumer = client.producer(), client.consumer(topic, group="g-" + topic, auto_offset_reset="latest")
sync.produce(b"parent")
queued.produce(b"parent")
queued.flush()
consumer.poll(timeout=1.0)
child = ctypes.PyDLL(None).fork()  # the interpreter's lock is held, and the hook not called
if child == 0:
    calls = {
        "sync": lambda: sync.produce(b"child"),
        "queued": lambda: (queued.produce(b"child"), queued.flush()),
        "front": lambda: front.produce(topic, b"child").get(20),
        "one": lambda: consumer.one(20.0),
        "admin": lambda: client.admin.list_topics(),
    }
    for name, call in calls.items():
        try:
            call()
        except UnnoticedForkError as error:
            assert "lazy-apps" in str(error), error
            continue
        print(name, "did not raise")
    with KafkaClient(hosts) as own, own.topics[topic].get_sync_producer() as producer:
        producer.produce(b"by the child's own client")
    sys.stdout.flush()
    os._exit(0)
_, status = os.waitpid(child, 0)
sync.produce(b"parent")
client.close()
sys.exit(status)
"""


def test_calls_after_a_fork_without_the_hook_raise(kafka: KafkaCluster) -> None:
    """They used to hang, or to read the answers on the parent's connections; a client of the child's own works."""
    with KafkaClient(kafka.hosts) as client:
        topic = create_topic(client)
        arguments = ["-W", "ignore::DeprecationWarning", "-c", UNNOTICED, kafka.hosts, topic.name]
        done = subprocess.run([sys.executable, *arguments], capture_output=True, text=True, timeout=90, check=False)
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
        with topic.get_simple_consumer(consumer_timeout_ms=3_000) as consumer:
            assert Counter(message.value for message in consumer) == {b"parent": 3, b"by the child's own client": 1}
