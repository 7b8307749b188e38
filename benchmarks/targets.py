"""The targets, as data: `report` compares the medians with them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from benchmarks.workloads import CODECS


@dataclass(frozen=True)
class Reading:
    """A figure of a client at a workload.

    :param workload: its name
    :param client: its name; `*` stands for characters: the best of those
    :param measure: as in a run's line: rate (messages/s), cpu_per_million (s), rate_per_cpu_s, p50_ms, ...
    """

    workload: str
    client: str
    measure: str


@dataclass(frozen=True)
class Target:
    """A bound on a figure, or on its ratio to another.

    :param text: what it asks
    :param reading: the figure
    :param least: the lower bound, or None
    :param most: the upper bound, or None
    :param against: the figure to divide by, or None
    """

    text: str
    reading: Reading
    least: float | None = None
    most: float | None = None
    against: Reading | None = None


def _throughput() -> Iterator[Target]:
    for workload, title in (
        ("produce-100B", "produce 100 B, acks=1"),
        ("produce-100B-acks-all", "produce 100 B, acks=all, idempotent"),
    ):
        rate = Reading(workload, "pykafka", "rate")
        yield Target(f"{title}: messages/s, to confluent-kafka's", rate, 1.3, None, _confluent(rate))
        yield Target(f"{title}: CPU s per million", Reading(workload, "pykafka", "cpu_per_million"), most=0.5)
        greenlets = Reading(workload, "pykafka-greenlets", "rate")
        yield Target(f"{title}: greenlets' messages/s, to threads'", greenlets, 0.85, None, rate)
    rate = Reading("consume-100B", "pykafka", "rate")
    yield Target("consume 100 B one at a time: messages/s, to tuned confluent-kafka's", rate, 3, None, _confluent(rate))
    yield Target(
        "consume 100 B one at a time: CPU s per million",
        Reading("consume-100B", "pykafka", "cpu_per_million"),
        most=0.5,
    )
    rate = Reading("consume-batch-100B", "pykafka", "rate")
    yield Target("consume_batch 100 B: messages/s, to tuned confluent-kafka's", rate, 2, None, _confluent(rate))
    yield Target(
        "consume_arrow, all columns: million messages/s per CPU second",
        Reading("consume-arrow-100B", "pykafka", "millions_per_cpu_s"),
        3,
    )
    yield Target(
        "consume_arrow, value and offset: million messages/s per CPU second",
        Reading("consume-arrow-100B-value-offset", "pykafka", "millions_per_cpu_s"),
        4,
    )
    for codec in CODECS:
        for task in ("produce", "consume"):
            rate = Reading(f"{task}-1KiB-{codec}", "pykafka", "rate")
            cpu = Reading(f"{task}-1KiB-{codec}", "pykafka", "cpu_per_million")
            yield Target(f"{task} 1 KiB {codec}: messages/s, to confluent-kafka's", rate, 1, None, _confluent(rate))
            yield Target(f"{task} 1 KiB {codec}: CPU, to confluent-kafka's", cpu, None, 1, _confluent(cpu))
    for task in ("produce", "consume"):
        rate = Reading(f"{task}-100B", "pykafka-pure", "rate")
        yield Target(
            f"{task} 100 B, pure Python: messages/s, to kafka-python's",
            rate,
            1,
            None,
            Reading(f"{task}-100B", "kafka-python", "rate"),
        )


def _secure() -> Iterator[Target]:
    for listener in ("ssl", "sasl-plaintext", "sasl-ssl"):
        for task in ("produce", "consume"):
            for client, title in (("pykafka", "threads"), ("pykafka-greenlets", "greenlets")):
                cpu = Reading(f"{task}-1KiB-{listener}", client, "cpu_per_million")
                yield Target(
                    f"{task} 1 KiB by {listener}, {title}: CPU, to confluent-kafka's", cpu, None, 1, _confluent(cpu)
                )


def _responsiveness() -> Iterator[Target]:
    for measure, title in (("p50_ms", "p50"), ("p99_ms", "p99")):
        reading = Reading("sync-latency", "pykafka", measure)
        yield Target(f"sync produce {title}, to confluent-kafka's", reading, None, 1, _confluent(reading))
    for client, title in (("pykafka", "threads"), ("pykafka-greenlets", "greenlets")):
        about = f"end to end at 1,000 msg/s, {title}"
        yield Target(f"{about}: p50, ms", Reading("end-to-end", client, "p50_ms"), most=0.4)
        yield Target(f"{about}: CPU us a message", Reading("end-to-end", client, "cpu_us"), most=90)
        yield Target(f"idle, {title}: wake-ups a second", Reading("idle", client, "wakeups_per_s"), most=60)
    for task, plain in (("producing", "produce-100B"), ("consuming", "consume-100B")):
        workload = f"hub-stall-{task}"
        for measure, most, title in (("stall_p99_ms", 3, "p99"), ("stall_p999_ms", 5, "p99.9")):
            reading = Reading(workload, "pykafka-greenlets", measure)
            yield Target(f"hub stall {task}: {title} above a bare ticker, ms", reading, most=most)
        rate = Reading(workload, "pykafka-greenlets", "rate")
        yield Target(
            f"hub stall {task}: messages/s, to threads' without a ticker",
            rate,
            0.8,
            None,
            Reading(plain, "pykafka", "rate"),
        )


def _loops() -> Iterator[Target]:
    for client, title in (("pykafka-asyncio", "asyncio"), ("pykafka-uvloop", "uvloop")):
        for task in ("produce", "consume"):
            reading = Reading(f"asyncio-{task}", client, "millions_per_cpu_s")
            peer = Reading(reading.workload, "aiokafka", reading.measure)
            yield Target(
                f"{title}, {task} 100 B one by one: messages per CPU second, to aiokafka's", reading, 10, None, peer
            )
        latency = Reading("asyncio-latency", client, "p50_ms")
        peer = Reading(latency.workload, "aiokafka", latency.measure)
        yield Target(f"{title}, sync produce p50, to aiokafka's", latency, None, 1, peer)
        for task in ("producing", "consuming"):
            stall = Reading(f"asyncio-stall-{task}", client, "stall_p99_ms")
            yield Target(f"{title}, loop stall {task}: p99 above a bare ticker, ms", stall, most=3)


def _front() -> Iterator[Target]:
    for client, title in (("pykafka", "threads"), ("pykafka-greenlets", "greenlets")):
        for workload, plain, about in (
            ("callbacks-any", "produce-any-100B", "any topic"),
            ("callbacks-topic", "produce-100B", "one topic"),
        ):
            rate = Reading(workload, client, "rate")
            without = Reading(plain, client, "rate")
            yield Target(f"{title}, {about}: messages/s with a callback each, to without", rate, 0.7, None, without)
        cost = Reading("transactions-1000-100B", client, "cpu_per_million")
        plain_cost = Reading("produce-any-100B-idempotent", client, "cpu_per_million")
        yield Target(f"{title}: CPU s in transactions of 1,000, to idempotent", cost, None, 1.1, plain_cost)


def _memory() -> Iterator[Target]:
    workload = "many-consumers"
    for client in ("pykafka", "pykafka-greenlets"):
        yield Target(f"200 consumers, {client}: KiB each", Reading(workload, client, "kib_each"), most=60)
        yield Target(f"200 consumers, {client}: set up in, s", Reading(workload, client, "setup_s"), most=2)
        yield Target(f"200 consumers, {client}: idle CPU, %", Reading(workload, client, "idle_cpu_percent"), most=5)
    # One worker for the broker's fetches, and those that every client has.
    yield Target("200 consumers, threads: threads in all", Reading(workload, "pykafka", "threads"), most=8)
    yield Target("200 consumers, greenlets: threads in all", Reading(workload, "pykafka-greenlets", "threads"), most=4)
    for client in ("pykafka", "pykafka-greenlets"):
        over = Reading("slow-reader", client, "rss_over_budget_mib")
        yield Target(f"10 GB through a slow reader, {client}: MiB above the budget", over, most=32)

    for client in ("pykafka", "pykafka-greenlets"):
        drift = Reading("endurance", client, "rss_drift_mib")
        yield Target(f"ten minutes, {client}: MiB from the first minute to the last", drift, most=4)


def _spark() -> Iterator[Target]:
    reads = [f"spark-read-{task}" for task in ("count", "groupby", "noop", "parquet")]
    others = ["spark-read-noop-snappy", "spark-read-noop-zstd", "spark-read-noop-1KiB"]
    bounds = {**dict.fromkeys(reads, (2.5, 1.5)), **dict.fromkeys(others, (1.5, 1.2)), "spark-stream": (1.7, None)}
    for workload, (least, least_tuned) in {**bounds, "spark-write": (1.6, 1.2)}.items():
        rate = Reading(workload, "spark-pykafka", "rate")
        yield Target(f"{workload}: rows/s, to the JVM connector's", rate, least, None, _connector(rate))
        if least_tuned is not None:
            tuned = _connector(rate, "spark-jvm-tuned")
            yield Target(f"{workload}: rows/s, to the tuned JVM connector's", rate, least_tuned, None, tuned)
    landing = Reading("spark-land", "spark-pykafka-arrow", "rate")
    yield Target(
        "spark-land, written by tasks: rows/s, to the JVM connector's", landing, 2.5, None, _connector(landing)
    )
    tuned = _connector(landing, "spark-jvm-tuned")
    yield Target("spark-land, written by tasks: rows/s, to the tuned JVM connector's", landing, 1.5, None, tuned)
    batch = Reading("spark-micro-batches", "spark-pykafka", "batch_p50_ms")
    yield Target("spark-micro-batches: median batch, to the JVM connector's", batch, None, 1, _connector(batch))
    for workload in (*reads, *others, "spark-stream", "spark-write"):
        memory = Reading(workload, "spark-pykafka", "worker_mib")
        yield Target(f"{workload}: a Python worker's memory at most, MiB", memory, most=300)


def _connector(reading: Reading, client: str = "spark-jvm") -> Reading:
    return Reading(reading.workload, client, reading.measure)


def _confluent(reading: Reading) -> Reading:
    # The best of its settings on this machine.
    return Reading(reading.workload, "confluent-kafka*", reading.measure)


TARGETS: tuple[Target, ...] = (
    *_throughput(),
    *_secure(),
    *_responsiveness(),
    *_loops(),
    *_front(),
    *_memory(),
    *_spark(),
)
