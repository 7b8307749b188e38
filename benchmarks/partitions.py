"""The cost of many partitions in one plain consumer: `python -m benchmarks.partitions --help`."""

from __future__ import annotations

import argparse
import gc
import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from benchmarks.job import rss_kib
from pykafka import KafkaClient
from pykafka.admin import NewTopic
from pykafka.common import TopicPartition

#: So many partitions are created by one request: a broker takes seconds for a thousand.
STEP = 1000
#: The longest that a measured call may take (s).
LIMIT_S = 600.0


def main() -> None:
    """Measure consumers of some numbers of partitions, and print a line of JSON for each."""
    program = argparse.ArgumentParser(description=__doc__)
    program.add_argument("--partitions", type=int, nargs="+", default=[100, 1000, 10_000])
    program.add_argument("--scripted", action="store_true", help="against a scripted peer, not a Kafka 4.3.1")
    program.add_argument("--serve", type=int, help=argparse.SUPPRESS)
    options = program.parse_args()
    if options.serve is not None:
        serve(options.serve)
        return
    with scripted() if options.scripted else kafka() as hosts_for:
        for count in options.partitions:
            hosts, topic = hosts_for(count)
            print(
                json.dumps({"partitions": count, "scripted": options.scripted, **measure(hosts, topic, count)}),
                flush=True,
            )


@contextmanager
def kafka() -> Iterator[Callable[[int], tuple[str, str]]]:
    """Start a broker; yield what makes a topic there and returns hosts and name."""
    from tests.brokers import KafkaCluster

    with KafkaCluster(brokers=1) as cluster, KafkaClient(cluster.hosts, socket_timeout_ms=120_000) as client:

        def make(count: int) -> tuple[str, str]:
            name = f"partitions-{count}"
            client.admin.create_topics([NewTopic(name, partitions=min(count, STEP))])
            for reached in range(2 * STEP, count + STEP, STEP):
                client.admin.create_partitions({name: min(reached, count)})
            deadline = time.monotonic() + LIMIT_S
            while time.monotonic() < deadline:
                topic = client.cluster.ask_metadata([name]).topics[0]
                if len([part for part in topic.partitions if part.leader_id >= 0]) == count:
                    break
                time.sleep(0.5)
            with client.producer() as producer:
                for id_ in range(count):
                    producer.produce(name, b"x", partition=id_)
            return cluster.hosts, name

        yield make


@contextmanager
def scripted() -> Iterator[Callable[[int], tuple[str, str]]]:
    """Yield what starts a peer in a process of its own and returns its address and topic."""
    from tests.support.scripted import TOPIC

    peers: list[subprocess.Popen[str]] = []

    def start(count: int) -> tuple[str, str]:
        command = [sys.executable, "-m", "benchmarks.partitions", "--serve", str(count)]
        peer = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        peers.append(peer)
        assert peer.stdout is not None
        return peer.stdout.readline().strip(), TOPIC

    try:
        yield start
    finally:
        for peer in peers:
            peer.communicate(timeout=30)


def serve(count: int) -> None:
    """Act as a peer with so many partitions, one record in each, until the caller closes our input."""
    from tests.support.scripted import ManyPartitions, batch

    with ManyPartitions(count) as broker:
        broker.logs = dict.fromkeys(range(count), batch([b"x"]))
        print(broker.hosts, flush=True)
        sys.stdin.read()


def measure(hosts: str, topic: str, count: int) -> dict[str, float]:
    """Start a consumer, read each partition, move, pause and give up partitions, and close it; return the times (s)."""
    times: dict[str, float] = {}

    def timed(name: str, call: Callable[[], Any]) -> Any:
        gc.collect()
        began = time.perf_counter()
        found = call()
        times[f"{name}_s"] = round(time.perf_counter() - began, 3)
        return found

    gc.collect()
    before = rss_kib()
    with KafkaClient(hosts, socket_timeout_ms=120_000) as client:
        consumer: Any = timed("start", lambda: client.consumer(topic))
        timed("read", lambda: read(consumer, count))
        gc.collect()
        times["kib_each"] = round((rss_kib() - before) / count, 2)
        keys = consumer.assignment()
        timed("positions", lambda: [consumer.position(key) for key in keys])
        timed("pause", lambda: consumer.pause(*keys))
        timed("resume", lambda: consumer.resume(*keys))
        timed("seek", lambda: [consumer.seek(key, 0) for key in keys])
        timed("reread", lambda: read(consumer, count))
        timed("revoke", lambda: consumer.assign([TopicPartition(topic, 0)]))
        timed("assign", lambda: consumer.assign(keys))
        timed("close", consumer.close)
    return times


def read(consumer: Any, count: int) -> None:
    """Take so many records."""
    deadline = time.monotonic() + LIMIT_S
    while count > 0 and time.monotonic() < deadline:
        count -= len(consumer.poll(10_000, timeout=1.0))


if __name__ == "__main__":
    main()
