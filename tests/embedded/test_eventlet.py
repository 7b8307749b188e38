"""A process that eventlet has patched: the threads' handler runs on its green threads."""

from __future__ import annotations

import subprocess
import sys

import pytest

from pykafka.embedded import EmbeddedCluster

PATCHES = {
    "first": "import eventlet; eventlet.monkey_patch()",
    "late": "import pykafka, eventlet; eventlet.monkey_patch()",
    "but threads": "import eventlet; eventlet.monkey_patch(thread=False)",
}
SCRIPT = """
import logging, sys, threading, time
from pykafka import KafkaClient
logging.basicConfig(level=logging.WARNING)
hosts, = sys.argv[1:]
gaps, stop = [], []

def tick():
    last = time.monotonic()
    while not stop:
        eventlet.sleep(0.01)
        now = time.monotonic()
        gaps.append(now - last)
        last = now

with KafkaClient(hosts, socket_timeout_ms=10_000) as client:
    ticking = eventlet.spawn(tick)
    topic = client.topics["t"]
    with topic.get_sync_producer(required_acks=-1) as producer:
        made = []
        workers = [threading.Thread(target=lambda: made.append(producer.produce(b"v").offset)) for _ in range(20)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        assert len(made) == 20
    with topic.get_producer(compression=1, linger_ms=10) as producer:
        for number in range(500):
            producer.produce(b"x" * 500)
    assert client.producer().produce("t", b"v").get(10).offset >= 0
    simple = topic.get_simple_consumer(consumer_timeout_ms=500)
    assert sum(1 for _ in simple) == 521
    ticks = len(gaps)
    assert simple.consume() is None  # which waits for half a second
    waited = len(gaps) - ticks
    with client.consumer("t", group="g", auto_offset_reset="earliest") as consumer:
        assert consumer.poll(1, timeout=20)
    stop.append(True)
    ticking.wait()
print(waited, "ticks")
"""


@pytest.mark.parametrize("patch", PATCHES)
def test_a_patched_process_works_with_the_threads_handler(embedded: EmbeddedCluster, patch: str) -> None:
    embedded.create_topic("t", partitions=2)
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", PATCHES[patch] + SCRIPT, embedded.hosts],
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    if patch != "but threads":  # there the main thread waits, and its hub with it
        assert int(done.stdout.split()[0]) > 5


@pytest.mark.parametrize(
    ("code", "what"),
    [
        ("pykafka.KafkaClient('localhost:1', use_greenlets=True)", "use_greenlets=True"),
        ("pykafka.handlers.AsyncioHandler()", "pykafka.aio"),
    ],
)
def test_other_handlers_say_what_to_use_there(code: str, what: str) -> None:
    program = f"import eventlet; eventlet.monkey_patch(); import pykafka.handlers\n{code}"
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 1
    last = done.stderr.splitlines()[-1]
    assert last.startswith(f"RuntimeError: {what}")
    assert "make the client by KafkaClient(hosts)" in last
