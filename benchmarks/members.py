"""The cost of many members of groups in one process with one client: `python -m benchmarks.members --help`."""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import time
from contextlib import nullcontext
from itertools import pairwise
from typing import Any

from benchmarks.footprint import descriptors, os_threads
from benchmarks.idle import Rest
from benchmarks.job import rss_kib
from pykafka import KafkaClient, KafkaConsumer
from pykafka.admin import NewTopic
from pykafka.handlers.aio import AsyncioHandler
from pykafka.handlers.bridge import bridged

#: Time for the first fetches (s), and for connections that are used while members join to be closed again.
SETTLE_S = 15.0
#: The pause between two records of a partition (s).
FLOW_S = 0.05


def main() -> None:
    """Measure once, and print a line of JSON."""
    program = argparse.ArgumentParser(description=__doc__)
    program.add_argument("--hosts", help="brokers to use; by default a Kafka 4.3.1 is started")
    program.add_argument("--members", type=int, default=100)
    program.add_argument("--groups", type=int, default=10)
    program.add_argument("--on", choices=["threads", "gevent", "asyncio"], default="threads")
    program.add_argument("--session-ms", type=int, default=6000)
    program.add_argument(
        "--flow", action="store_true", help="also send records, and tell the longest gap while members go"
    )
    program.add_argument("--rest", type=float, default=20.0, help="how long to count what is used at rest (s)")
    options = program.parse_args()
    if options.hosts is None:
        from tests.brokers import KafkaCluster

        config = {"group.initial.rebalance.delay.ms": 1000}
        kafka: Any = KafkaCluster(brokers=1, config=config)
    else:
        kafka = nullcontext()
    with kafka as cluster:
        hosts = options.hosts or cluster.hosts
        if options.on == "asyncio":
            result = asyncio.run(bridged(measure, hosts, options))
        else:
            result = measure(hosts, options)
    print(json.dumps(result))


def client_of(hosts: str, on: str) -> KafkaClient:
    """Return a client on threads, greenlets or the running loop."""
    if on == "asyncio":
        return KafkaClient(hosts, handler=AsyncioHandler())
    return KafkaClient(hosts, use_greenlets=on == "gevent")


def measure(hosts: str, options: argparse.Namespace) -> dict[str, Any]:
    """Measure members that join, rest and leave; return the cost of each of that."""
    with client_of(hosts, options.on) as client:
        handler = client.cluster.handler
        topic, each = f"members-{time.time_ns()}", options.members // options.groups
        client.admin.create_topics([NewTopic(topic, partitions=each)])
        gc.collect()
        before = descriptors(), os_threads(), rss_kib()
        consumers = [
            client.consumer(
                topic,
                group=f"{topic}-{number % options.groups}",
                assignor="cooperative-sticky",
                session_timeout_ms=options.session_ms,
                heartbeat_interval_ms=options.session_ms // 3,
                auto_commit=False,
            )
            for number in range(options.members)
        ]
        stopping = handler.Event()
        peak = [0, 0]

        gaps: dict[tuple[int, int], list[float]] = {}

        def read(consumer: KafkaConsumer[Any, Any]) -> None:
            while not stopping.is_set() and consumer in consumers:
                for record in consumer.poll(timeout=1.0):
                    gaps.setdefault((id(consumer), record.partition), []).append(handler.now())

        start = handler.now()
        workers = [handler.spawn(read, consumer) for consumer in consumers]
        while not all(len(consumer.assignment()) == 1 for consumer in consumers):
            peak = [max(peak[0], descriptors()), max(peak[1], os_threads())]
            handler.sleep(0.1)
        joined = handler.now() - start
        handler.sleep(SETTLE_S)
        gc.collect()
        at_rest = descriptors(), os_threads(), rss_kib()
        rest = Rest()
        handler.sleep(options.rest)
        used = rest.measures()
        flow = flowing(client, topic, consumers, gaps) if options.flow else {}
        held = sum(len(consumer.assignment()) for consumer in consumers)
        stopping.set()
        for worker in workers:
            worker.join()
        start = handler.now()
        closing = [handler.spawn(consumer.close) for consumer in consumers]
        for worker in closing:
            worker.join()
        return {
            "members": options.members,
            "groups": options.groups,
            "on": options.on,
            "join_s": round(joined, 1),
            "fds_joining": peak[0] - before[0],
            "threads_joining": peak[1] - before[1],
            "fds": at_rest[0] - before[0],
            "threads": at_rest[1] - before[1],
            "kib_each": round((at_rest[2] - before[2]) / options.members, 1),
            **{name: round(value, 1) for name, value in used.items()},
            **flow,
            "partitions_held": held,
            "close_s": round(handler.now() - start, 1),
        }


def flowing(
    client: KafkaClient, topic: str, consumers: list[KafkaConsumer[Any, Any]], seen: dict[tuple[int, int], list[float]]
) -> dict[str, float]:
    """Send to all partitions all the time; return the longest time without a record, at rest and while a member leaves (ms)."""
    handler = client.cluster.handler
    ending = handler.Event()

    def send() -> None:
        with client.producer(linger_ms=1) as producer:
            while not ending.is_set():
                for id_ in client.cluster.topics[topic].partitions:
                    producer.produce(topic, b"x", partition=id_)
                handler.sleep(FLOW_S)

    def longest(since: float, keys: set[tuple[int, int]]) -> float:
        until = handler.now()
        times = [[since, *(at for at in list(seen.get(key, ())) if at > since), until] for key in keys]
        return round(1000 * max(after - before for one in times for before, after in pairwise(one)))

    sending = handler.spawn(send)
    handler.sleep(3.0)
    leaver = consumers[0]
    stays = {(id(one), key.partition) for one in consumers[1:] for key in one.assignment()}
    start = handler.now()
    handler.sleep(5.0)
    at_rest = longest(start, stays)
    start = handler.now()
    consumers.remove(leaver)
    leaver.close()
    while sum(len(one.assignment()) for one in consumers) <= len(consumers):
        handler.sleep(0.05)
    took = handler.now() - start
    handler.sleep(1.0)
    found = {"gap_at_rest_ms": at_rest, "gap_in_rebalance_ms": longest(start, stays), "rebalance_s": round(took, 1)}
    ending.set()
    sending.join()
    return found


if __name__ == "__main__":
    main()
