"""The workloads, as data: tasks, numbers and sizes of messages, clients."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase

THREADS_AND_PEERS = ("pykafka", "pykafka-greenlets", "pykafka-pure", "confluent-kafka", "aiokafka", "kafka-python")
IN_PROCESS = (*THREADS_AND_PEERS, "confluent-kafka-default")
OURS_AND_CONFLUENT = ("pykafka", "pykafka-greenlets", "confluent-kafka")
HUBS = ("pykafka-greenlets", "confluent-kafka", "aiokafka", "kafka-python")
SPARK = ("spark-pykafka", "spark-jvm", "spark-jvm-tuned")

CODECS = ("none", "snappy", "lz4", "zstd")
#: Bytes of a value, and how many of those a run moves.
SIZES = {"10B": (10, 2_000_000), "100B": (100, 2_000_000), "1KiB": (1024, 500_000), "10KiB": (10_240, 100_000)}


@dataclass(frozen=True)
class Workload:
    """One task to measure.

    :param name: its name on the command line and in reports
    :param task: the method of a client that runs it
    :param clients: the clients that support it
    :param messages: number of messages, for clients that are not slow
    :param size: bytes of a value
    :param partitions: of each topic
    :param topics: number of topics
    :param codec: none, snappy, lz4 or zstd
    :param acks: 1, or -1 for all replicas in sync
    :param idempotent: whether producers are idempotent
    :param reads: whether it needs topics with messages
    :param writes: whether the topics must have exactly `messages` more afterwards
    :param keyed: whether the messages to read have keys of 8 bytes
    :param columns: for Arrow, None for all
    :param listener: of the brokers: PLAINTEXT, SSL, SASL_PLAINTEXT (a login by SCRAM-SHA-512) or SASL_SSL
    :param seconds: approximate duration of a run, for estimates
    """

    name: str
    task: str
    clients: tuple[str, ...]
    messages: int
    size: int = 100
    partitions: int = 3
    topics: int = 1
    codec: str = "none"
    acks: int = 1
    idempotent: bool = False
    reads: bool = False
    writes: bool = False
    keyed: bool = False
    columns: tuple[str, ...] | None = None
    listener: str = "PLAINTEXT"
    seconds: int = 5


def _throughput() -> Iterable[Workload]:
    size, messages = SIZES["100B"]
    produce = Workload("produce-100B", "produce", (*IN_PROCESS, "aiokafka-batches"), messages, size, writes=True)
    consume = Workload("consume-100B", "consume", IN_PROCESS, messages, size, reads=True)
    yield produce
    yield replace(produce, name="produce-100B-acks-all", acks=-1, idempotent=True, clients=THREADS_AND_PEERS)
    yield consume
    yield replace(consume, name="consume-batch-100B", task="consume_batch")
    arrow = replace(consume, task="consume_arrow", clients=("pykafka", "pykafka-greenlets"))
    yield replace(arrow, name="consume-arrow-100B")
    yield replace(arrow, name="consume-arrow-100B-value-offset", columns=("value", "offset"))
    size, messages = SIZES["1KiB"]
    for codec in CODECS:
        for base in (produce, consume):
            yield replace(
                base,
                name=f"{base.task}-1KiB-{codec}",
                size=size,
                messages=messages,
                codec=codec,
                clients=OURS_AND_CONFLUENT,
            )


def _growth() -> Iterable[Workload]:
    # One thing changes at a time, from 100 bytes in one topic of three partitions.
    for workload in list(_throughput()):
        if workload.name not in ("produce-100B", "consume-100B"):
            continue
        base = replace(workload, clients=OURS_AND_CONFLUENT)
        for name, (size, messages) in SIZES.items():
            if name not in ("100B", "1KiB"):  # measured among the others
                yield replace(base, name=f"{base.task}-{name}", size=size, messages=messages)
        for partitions in (1, 10, 100, 1000):
            yield replace(base, name=f"{base.task}-100B-{partitions}-partitions", partitions=partitions)
        yield replace(base, name=f"{base.task}-100B-100-topics", topics=100)


def _secure() -> Iterable[Workload]:
    for task in ("produce", "consume"):
        base = next(workload for workload in _throughput() if workload.name == f"{task}-1KiB-none")
        for listener in ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"):
            yield replace(base, name=f"{task}-1KiB-{listener.lower().replace('_', '-')}", listener=listener)


def _responsiveness() -> Iterable[Workload]:
    peers = ("pykafka", "pykafka-greenlets", "confluent-kafka", "aiokafka", "kafka-python")
    front = ("pykafka-front", "pykafka-front-greenlets")
    yield Workload("sync-latency", "sync_latency", ("bare-socket", *front, *peers), 2000, partitions=1)
    yield Workload("end-to-end", "end_to_end", (*front, *peers), 5000, partitions=1, seconds=8)
    yield Workload("idle", "idle", OURS_AND_CONFLUENT, 0, seconds=25)
    yield Workload("hub-stall-producing", "hub_stall_producing", HUBS, 0, seconds=14)
    yield Workload("hub-stall-consuming", "hub_stall_consuming", HUBS, 2_000_000, reads=True, seconds=14)


def _loops() -> Iterable[Workload]:
    loops = ("pykafka-asyncio", "pykafka-uvloop", "aiokafka")
    size, messages = SIZES["100B"]
    yield Workload("asyncio-produce", "produce", loops, messages, size, writes=True)
    yield Workload("asyncio-produce-acks-all", "produce", loops, messages, size, writes=True, acks=-1, idempotent=True)
    yield Workload("asyncio-consume", "consume", loops, messages, size, reads=True)
    yield Workload("asyncio-latency", "sync_latency", ("bare-socket", *loops, "confluent-kafka"), 2000, partitions=1)
    yield Workload("asyncio-end-to-end", "end_to_end", (*loops, "confluent-kafka"), 5000, partitions=1, seconds=8)
    yield Workload("asyncio-stall-producing", "hub_stall_producing", loops, 0, seconds=14)
    yield Workload("asyncio-stall-consuming", "hub_stall_consuming", loops, messages, reads=True, seconds=14)


def _front() -> Iterable[Workload]:
    ours, loops = ("pykafka", "pykafka-greenlets"), ("pykafka-asyncio",)
    size, messages = SIZES["100B"]
    any_topic = Workload("produce-any-100B", "produce_any", ours, messages, size, writes=True)
    yield any_topic
    idempotent = replace(any_topic, name="produce-any-100B-idempotent", acks=-1, idempotent=True, messages=500_000)
    yield idempotent
    # The markers of their ends are in the log, too, so that its offsets do not count the messages.
    yield replace(idempotent, name="transactions-1000-100B", task="produce_transactions", writes=False)
    peers = ("confluent-kafka", "aiokafka")
    yield replace(
        any_topic, name="callbacks-any", task="produce_any_callbacks", clients=(*ours, *loops, *peers), seconds=8
    )
    yield replace(any_topic, name="callbacks-topic", task="produce_callbacks", seconds=8)
    records = Workload("records-100B", "records", ours, 500_000, size, reads=True, keyed=True)
    yield records
    for order in ("key", "none"):
        yield replace(records, name=f"parallel-{order}", task=f"parallel_{order}", clients=(*ours, *loops), seconds=20)


def _memory() -> Iterable[Workload]:
    peers = ("pykafka", "pykafka-greenlets", "confluent-kafka", "aiokafka", "kafka-python")
    yield Workload("many-consumers", "many_consumers", peers, 0, seconds=16)
    size, messages = SIZES["10KiB"]
    yield Workload("slow-reader", "slow_reader", OURS_AND_CONFLUENT, messages, size, reads=True, seconds=60)


def _endurance() -> Iterable[Workload]:
    # At 20,000 messages a second: ten minutes.
    clients = ("pykafka", "pykafka-greenlets")
    yield Workload("endurance", "endurance", clients, 12_000_000, writes=True, acks=-1, seconds=610)


def _spark() -> Iterable[Workload]:
    read = Workload("", "spark_noop", SPARK, 5_000_000, reads=True, keyed=True, seconds=25)
    for task in ("count", "groupby", "noop", "parquet"):
        yield replace(read, name=f"spark-read-{task}", task=f"spark_{task}")
    for codec in ("snappy", "zstd"):
        yield replace(read, name=f"spark-read-noop-{codec}", codec=codec)
    yield replace(read, name="spark-read-noop-1KiB", size=1024, messages=1_000_000)
    yield replace(read, name="spark-stream", task="spark_stream")
    yield replace(read, name="spark-micro-batches", task="spark_micro_batches", messages=1_000_000, seconds=50)
    yield replace(read, name="spark-land", task="spark_land", clients=("spark-pykafka-arrow", *SPARK))
    yield Workload("spark-write", "spark_write", SPARK, 2_000_000, writes=True, acks=-1, seconds=25)


SETS: dict[str, tuple[Workload, ...]] = {
    "throughput": tuple(_throughput()),
    "responsiveness": tuple(_responsiveness()),
    "asyncio": tuple(_loops()),
    "front": tuple(_front()),
    "memory": tuple(_memory()),
    "growth": tuple(_growth()),
    "secure": tuple(_secure()),
    "endurance": tuple(_endurance()),
    "spark": tuple(_spark()),
}
WORKLOADS: dict[str, Workload] = {workload.name: workload for some in SETS.values() for workload in some}


def select(patterns: Iterable[str], clients: Iterable[str] | None = None) -> list[Workload]:
    """Return workloads, in the order of their list.

    :param patterns: names of workloads or of sets; `*` and `?` stand for characters
    :param clients: only these; None for all that can
    :raises ValueError: a pattern, or a client, chooses nothing
    """
    chosen: set[str] = set()
    for pattern in patterns:
        named = {workload.name for workload in SETS.get(pattern, ())}
        named |= {name for name in WORKLOADS if fnmatchcase(name, pattern)}
        if not named:
            raise ValueError(f"no workload is called {pattern}: there are {', '.join([*SETS, *WORKLOADS])}")
        chosen |= named
    selected = [workload for name, workload in WORKLOADS.items() if name in chosen]
    if clients is None:
        return selected
    wanted = list(clients)
    able = {client for workload in selected for client in workload.clients}
    if unable := [client for client in wanted if client not in able]:
        raise ValueError(f"{', '.join(unable)} can do none of these; {', '.join(sorted(able))} can")
    narrowed = [
        replace(workload, clients=tuple(client for client in workload.clients if client in wanted))
        for workload in selected
    ]
    return [workload for workload in narrowed if workload.clients]
