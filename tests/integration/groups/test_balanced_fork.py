"""A balanced consumer of either kind, made before a fork: the parent stays the member it is, the child is another."""

from __future__ import annotations

import subprocess
import sys
import uuid
from collections.abc import Iterator

import pytest

from pykafka import KafkaClient
from tests.brokers import KafkaCluster
from tests.support.topics import create_topic
from tests.support.zookeeper import ZooKeeper

pytestmark = pytest.mark.kafka

SCRIPT = """
import logging, os, sys, time
hosts, zookeeper, topic, group, mode, kind = sys.argv[1:]
if mode == "greenlets":
    from gevent.os import fork, waitpid
else:
    from os import fork, waitpid
from pykafka import KafkaClient
logging.basicConfig(format="%(process)d %(levelname)s %(name)s %(message)s", level=logging.WARNING)
logging.getLogger("kazoo").setLevel(logging.ERROR)  # its greenlets complain in the child that they have no socket
client = KafkaClient(hosts, use_greenlets=mode == "greenlets", socket_timeout_ms=10_000)
options = {"managed": True, "heartbeat_interval_ms": 300} if kind == "managed" else {"zookeeper_hosts": zookeeper}
consumer = client.topics[topic].get_balanced_consumer(
    group, rebalance_backoff_ms=300, consumer_timeout_ms=300, auto_commit_enable=True, **options)
member = consumer._consumer_id
assert len(consumer.partitions) == 2

def halved():
    deadline = time.monotonic() + 20
    while len(consumer.partitions) != 1:
        assert time.monotonic() < deadline
        consumer.consume()

def consume_together():
    errors = []

    def consume():
        try:
            consumer.consume()
        except Exception as error:
            errors.append(repr(error))

    if mode == "greenlets":
        import gevent
        gevent.joinall([gevent.spawn(consume) for _ in range(6)])
    else:
        import threading
        workers = [threading.Thread(target=consume) for _ in range(6)]
        [worker.start() for worker in workers]
        [worker.join() for worker in workers]
    assert not errors, errors

child = fork()
if child == 0:
    grandchild = fork()
    if grandchild:
        _, status = waitpid(grandchild, 0)
        os._exit(status != 0)
    try:
        consume_together()
        halved()
        assert consumer._consumer_id != member
        client.close()
    except BaseException as error:
        print("child:", repr(error), file=sys.stderr, flush=True)
        os._exit(1)
    os._exit(0)
halved()
assert consumer._consumer_id == member
_, status = waitpid(child, 0)
deadline = time.monotonic() + 20
while len(consumer.partitions) != 2:
    assert time.monotonic() < deadline
    consumer.consume()
client.close()
sys.exit(status)
"""


@pytest.fixture(scope="module")
def zookeeper() -> Iterator[ZooKeeper]:
    with ZooKeeper() as zookeeper:
        yield zookeeper


@pytest.mark.parametrize("kind", ["zookeeper", "managed"])
@pytest.mark.parametrize("mode", ["threads", "greenlets"])
@pytest.mark.later("threads-managed", "greenlets-zookeeper")
def test_parent_and_child_are_two_members(kafka: KafkaCluster, zookeeper: ZooKeeper, mode: str, kind: str) -> None:
    with KafkaClient(kafka.hosts) as client:
        topic = create_topic(client, 2)
    arguments = (kafka.hosts, zookeeper.hosts, topic.name, f"g-{uuid.uuid4().hex[:8]}", mode, kind)
    done = subprocess.run(
        [sys.executable, "-W", "ignore::DeprecationWarning", "-c", SCRIPT, *arguments],
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
