"""The costs of a fake cluster, beside librdkafka's mock: `python -m tests.support.fake_cost [--messages 500000]`.

Each figure is the median of some tries in this process: the start until a client is connected, the memory of a partition with
nothing in it, messages a second through one broker, and the CPU time of both sides together for a message.
"""

from __future__ import annotations

import argparse
import gc
import statistics
import time
import tracemalloc
from collections.abc import Callable

import confluent_kafka

from pykafka import KafkaClient
from pykafka.testing import FakeCluster

TRIES = 5
PARTITIONS = 400
VALUE = b"v" * 100


#: The mock writes no line about itself.
MOCK = {"log_level": 3}


def started_ms() -> float:
    """Return how long a fake cluster of three brokers takes to start."""
    began = time.perf_counter()
    with FakeCluster(3):
        return (time.perf_counter() - began) * 1e3


def mock_started_ms() -> float:
    """Return how long librdkafka's mock of three brokers takes to start, with the first metadata."""
    began = time.perf_counter()
    producer = confluent_kafka.Producer({**MOCK, "test.mock.num.brokers": 3})
    producer.list_topics(timeout=10)
    return (time.perf_counter() - began) * 1e3


def partition_kb() -> float:
    """Return the memory of an empty partition of a fake cluster, in kB."""
    with FakeCluster(1) as cluster:
        tracemalloc.start()
        cluster.create_topic("many", PARTITIONS)
        held, _ = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        return held / PARTITIONS / 1000


def produced(count: int) -> tuple[float, float]:
    """Return messages a second through one fake broker, and the CPU time of a message in microseconds."""
    with FakeCluster(1, {"orders": 1}) as cluster, KafkaClient(cluster.hosts) as client:
        topic = client.topics["orders"]
        began, cpu = time.perf_counter(), time.process_time()
        with topic.get_producer(linger_ms=5) as producer:
            for _ in range(count):
                producer.produce(VALUE)
        return count / (time.perf_counter() - began), (time.process_time() - cpu) / count * 1e6


def mock_produced(count: int) -> tuple[float, float]:
    """Return the same for confluent-kafka and librdkafka's mock of one broker."""
    producer = confluent_kafka.Producer(
        {**MOCK, "test.mock.num.brokers": 1, "linger.ms": 5, "queue.buffering.max.messages": count}
    )
    producer.list_topics(timeout=10)
    began, cpu = time.perf_counter(), time.process_time()
    for _ in range(count):
        producer.produce("orders", VALUE, partition=0)
    producer.flush()
    return count / (time.perf_counter() - began), (time.process_time() - cpu) / count * 1e6


def median(tries: int, measure: Callable[[], float]) -> float:
    """Return the median of some tries."""
    found = []
    for _ in range(tries):
        gc.collect()
        found.append(measure())
    return statistics.median(found)


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--messages", type=int, default=500_000, help="messages of 100 B to produce")
    count = parser.parse_args().messages
    print(f"start, three brokers: {median(TRIES, started_ms):.1f} ms; mock {median(TRIES, mock_started_ms):.1f} ms")
    print(f"an empty partition: {median(TRIES, partition_kb):.1f} kB")
    for name, produce in (("fake", produced), ("mock", mock_produced)):
        rates, cpu = zip(*(produce(count) for _ in range(TRIES)), strict=True)
        print(f"{name}: {statistics.median(rates):,.0f} messages a second, {statistics.median(cpu):.2f} us of CPU each")


if __name__ == "__main__":
    main()
