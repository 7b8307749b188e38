"""The end of child processes: what they have queued is delivered, or one warning says that it is lost."""

from __future__ import annotations

import subprocess
import sys

import pytest

from pykafka import KafkaClient
from pykafka.embedded import EmbeddedCluster
from tests.support.children import COUNT

LOST = "which ends it by os._exit(): messages that are queued then are lost"


def run(embedded: EmbeddedCluster, *how: str) -> tuple[int, list[str]]:
    """Run the program of children; return how many of their messages are there, and what was logged."""
    embedded.create_topic("t", partitions=1)
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", "tests.support.children", embedded.hosts, "t", *how],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    with KafkaClient(embedded.hosts) as client:
        return client.topics["t"].latest_available_offsets()[0].offset[0], done.stderr.splitlines()


@pytest.mark.parametrize("mode", ["threads", "greenlets"])
@pytest.mark.parametrize(
    ("kind", "method", "made"),
    [
        ("pool", "fork", "child"),
        ("pool", "fork", "before"),
        ("executor", "fork", "before"),
        ("executor", "spawn", "module"),
        ("process", "forkserver", "child"),
    ],
)
@pytest.mark.later("executor-spawn-module-threads", "process-forkserver-child-greenlets", "pool-fork-child-greenlets")
def test_children_of_multiprocessing_deliver_what_is_queued(
    embedded: EmbeddedCluster, kind: str, method: str, made: str, mode: str
) -> None:
    assert run(embedded, kind, method, made, mode) == (COUNT, [])


@pytest.mark.parametrize("kind", ["with", "flush", "sync", "celery", "daemon"])
def test_other_children_have_their_own_ways(embedded: EmbeddedCluster, kind: str) -> None:
    found, logged = run(embedded, kind, "fork", "before", "threads")
    assert found == COUNT
    assert logged == []


@pytest.mark.parametrize("mode", ["threads", "greenlets"])
def test_a_child_that_loses_messages_is_warned_once(embedded: EmbeddedCluster, mode: str) -> None:
    found, logged = run(embedded, "lost", "fork", "before", mode)
    assert found == 0
    assert len(logged) == COUNT
    for line in logged:
        assert line.startswith("WARNING process ")
        assert "was forked by __main__:_fork" in line
        assert LOST in line


#: Its `join` holds the hub or event loop, on a busy machine for seconds, and the clients do not report that.
IDLE_CHILDREN = """
import asyncio, logging, multiprocessing, sys
from pykafka import KafkaClient
from pykafka.aio import KafkaClient as AioClient
logging.basicConfig(level=logging.WARNING)
hosts, mode = sys.argv[1:]

def in_child():
    pass

def children():
    processes = [multiprocessing.get_context("fork").Process(target=in_child) for _ in range(2)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    assert [process.exitcode for process in processes] == [0, 0]

async def on_a_loop():
    async with AioClient(hosts, hold_report_ms=0) as client:
        producer = await (await client.topics["t"]).get_producer(linger_ms=60_000)
        consumer = await client.consumer("t", group="g", protocol="classic", auto_offset_reset="earliest")
        await (await (await client.producer()).produce("t", b"v"))
        assert await consumer.poll(timeout=20)
        await producer.produce(b"the parent's")
        children()
        await consumer.commit()

def elsewhere():
    with KafkaClient(hosts, use_greenlets=mode == "greenlets", hold_report_ms=0) as client:
        client.producer().produce("t", b"v").get(10)
        producer = client.topics["t"].get_producer(linger_ms=60_000)
        consumer = client.consumer("t", group="g", protocol="classic", auto_offset_reset="earliest")
        assert consumer.poll(timeout=20)
        producer.produce(b"the parent's")
        children()
        consumer.commit()

asyncio.run(on_a_loop()) if mode == "asyncio" else elsewhere()
"""


@pytest.mark.parametrize("mode", ["threads", "greenlets", "asyncio"])
def test_children_that_use_nothing_end_quietly(embedded: EmbeddedCluster, mode: str) -> None:
    embedded.create_topic("t", partitions=1)
    embedded.track_requests()
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", IDLE_CHILDREN, embedded.hosts, mode],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert len(embedded.requests("LeaveGroupRequest")) == 1  # the parent's
    with KafkaClient(embedded.hosts) as client:
        assert client.topics["t"].latest_available_offsets()[0].offset == [2]
