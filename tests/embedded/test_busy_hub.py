"""An application that has filled the thread pool of its hub: the client waits for none of these threads."""

from __future__ import annotations

import subprocess
import sys

import pytest

from pykafka.embedded import EmbeddedCluster

SCRIPT = """
import sys, time
hosts, patched = sys.argv[1:]
if patched == "patched":
    from gevent import monkey
    monkey.patch_all()
import gevent
from gevent.monkey import get_original
from pykafka import KafkaClient

pool = gevent.get_hub().threadpool
jobs = [pool.spawn(get_original("time", "sleep"), 4.0) for _ in range(pool.maxsize)]
started = time.monotonic()
with KafkaClient(hosts, use_greenlets=patched != "patched") as client:
    topic = client.topics["t"]
    with topic.get_sync_producer(required_acks=-1, compression=1) as producer:
        producer.produce(b"x" * 200_000)  # large enough to be compressed aside
    assert topic.get_simple_consumer(consumer_timeout_ms=10_000).consume() is not None
print(time.monotonic() - started)
"""


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
@pytest.mark.parametrize("patched", ["patched", "unpatched"])
def test_a_client_does_not_wait_for_threads_of_the_hub(embedded: EmbeddedCluster, patched: str, host: str) -> None:
    embedded.create_topic("t", partitions=1)
    hosts = embedded.hosts.replace("127.0.0.1", host)
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", SCRIPT, hosts, patched],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert float(done.stdout) < 3.0
