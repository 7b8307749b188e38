"""Produce and consume with this client and its peers on one real Kafka, interleaved: `python -m benchmarks`.

Each run is a process of its own, which prints what it took; runs of the clients take turns, so that a change of the
machine's speed hits all alike. Medians are shown, with messages per second and CPU seconds per million messages.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import time
from typing import Any

from benchmarks.clients import CONSUME, PRODUCE

RUN_TIMEOUT_S = 600


def run_one(direction: str, client: str, hosts: str, topic: str, messages: int, size: int) -> dict[str, float]:
    """Do the work of one run in this process and return what it took."""
    start, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_SELF)
    if direction == "produce":
        PRODUCE[client](hosts, topic, messages, size)
    else:
        CONSUME[client](hosts, topic, messages)
    wall, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_SELF)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {"wall": wall, "cpu": cpu, "rss_mib": after.ru_maxrss / 1024}


def spawn_one(direction: str, client: str, hosts: str, topic: str, args: argparse.Namespace) -> dict[str, float]:
    """Run one in a fresh process."""
    command = [sys.executable, "-m", "benchmarks", "--one", direction, client, hosts, topic]
    command += ["--messages", str(args.messages), "--size", str(args.size)]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=RUN_TIMEOUT_S, env=os.environ)
    if done.returncode:
        raise SystemExit(f"{direction} with {client} failed:\n{done.stderr[-3000:]}")
    result: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return result


def end_offsets(hosts: str, topic: str) -> int:
    """Return how many messages a topic has, as its partitions' end offsets say."""
    from pykafka import KafkaClient

    with KafkaClient(hosts=hosts) as client:
        return sum(answer.offset[0] for answer in client.topics[topic].latest_available_offsets().values())


def create_topic(hosts: str, topic: str, partitions: int) -> None:
    """Create a topic through confluent-kafka's admin client, so that no peer depends on ours."""
    from confluent_kafka.admin import AdminClient
    from confluent_kafka.cimpl import NewTopic

    admin = AdminClient({"bootstrap.servers": hosts})
    for future in admin.create_topics([NewTopic(topic, partitions, 1)]).values():
        future.result(30)


def measure(hosts: str, args: argparse.Namespace) -> list[dict[str, Any]]:
    """Run everything, interleaved, and return a row a run."""
    rows: list[dict[str, Any]] = []
    create_topic(hosts, "bench-consume", args.partitions)
    spawn_one("produce", "confluent-kafka", hosts, "bench-consume", args)
    for repetition in range(args.repeat):
        for client in args.clients:
            topic = f"bench-{client}-{repetition}"
            create_topic(hosts, topic, args.partitions)
            result = spawn_one("produce", client, hosts, topic, args)
            found = end_offsets(hosts, topic)
            if found != args.messages:
                raise SystemExit(f"{client} produced {args.messages} messages, but {topic} has {found}")
            rows.append({"direction": "produce", "client": client, **result})
            print(json.dumps(rows[-1]), file=sys.stderr)
        for client in args.clients:
            rows.append(
                {"direction": "consume", "client": client, **spawn_one("consume", client, hosts, "bench-consume", args)}
            )
            print(json.dumps(rows[-1]), file=sys.stderr)
    return rows


def report(rows: list[dict[str, Any]], args: argparse.Namespace) -> str:
    """Return the medians as a Markdown table."""
    lines = [
        f"{args.messages:,} messages of {args.size} bytes, {args.partitions} partitions, medians of {args.repeat}",
        "",
        "| direction | client | messages/s | CPU s per million | peak MiB |",
        "|---|---|---:|---:|---:|",
    ]
    for direction in ("produce", "consume"):
        for client in args.clients:
            runs = [row for row in rows if row["direction"] == direction and row["client"] == client]
            rate = statistics.median(args.messages / run["wall"] for run in runs)
            cpu = statistics.median(run["cpu"] / args.messages * 1e6 for run in runs)
            rss = statistics.median(run["rss_mib"] for run in runs)
            lines.append(f"| {direction} | {client} | {rate:,.0f} | {cpu:.2f} | {rss:.0f} |")
    return "\n".join(lines)


def main() -> None:
    """Parse the command line and run."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--hosts", help="brokers to use; by default a Kafka 4.3.1 is started")
    parser.add_argument("--clients", type=lambda text: text.split(","), default=list(PRODUCE), help="comma-separated")
    parser.add_argument("--messages", type=int, default=1_000_000)
    parser.add_argument("--size", type=int, default=100, help="bytes a message")
    parser.add_argument("--partitions", type=int, default=3)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--one", nargs=4, metavar=("DIRECTION", "CLIENT", "HOSTS", "TOPIC"), help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.one:
        direction, client, hosts, topic = args.one
        print(json.dumps(run_one(direction, client, hosts, topic, args.messages, args.size)))
        return
    if args.hosts:
        print(report(measure(args.hosts, args), args))
        return
    from tests.brokers import KafkaCluster

    with KafkaCluster("4.3.1") as cluster:
        print(report(measure(cluster.hosts, args), args))


if __name__ == "__main__":
    main()
