"""A query that writes in transactions, while its driver, executors, Python workers and brokers are killed.

To a read_committed reader each row is there once, though the rows of a repeated micro-batch go to other tasks.
"""

from __future__ import annotations

import os
import random
import signal
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from pykafka import KafkaClient
from tests.brokers import KafkaCluster
from tests.java_judge.kafka_java import run_source
from tests.spark.test_kill import ClusterJob, python_workers
from tests.support.features import KAFKA_VERSION
from tests.support.spark import exactly_once_job
from tests.support.spark.standalone import StandaloneCluster
from tests.support.spark.topics import Topics
from tests.support.topics import wait_in_sync

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.spark,
    pytest.mark.slow,
    pytest.mark.needs("listed transactions"),
    pytest.mark.usefixtures("quick_spark"),
    pytest.mark.timeout(1500),
]
PARTITIONS = 2
#: Rows that are produced before each kill, to each partition, and the most rows of a micro-batch.
ROWS, LIMIT = 100, 100
#: The pause before a kill is up to so long (s).
LONGEST_S = 1.5


def test_killed_driver_and_worker(kafka: KafkaCluster, topics: Topics, quick_python: Path, tmp_path: Path) -> None:
    """The short form: a driver in one process with its tasks is killed at random, and so is one of its workers."""
    topic, out = topics.create(partitions=PARTITIONS), topics.create(partitions=PARTITIONS)
    topics.numbered(topic, {0: ROWS, 1: ROWS})
    chance = seeded()
    job = ClusterJob("local[2]", words(kafka, topic, out, tmp_path), tmp_path, exactly_once_job, python=quick_python)
    try:
        job.start()
        job.get_on()
        for worker in python_workers({job.pid})[-1:]:
            os.kill(worker, signal.SIGKILL)
        topics.numbered(topic, {0: ROWS, 1: ROWS}, first=ROWS)
        time.sleep(chance.uniform(0, 1))
        if job.runs:  # a local task is not tried again: its query may have ended by the above
            job.kill("driver")
        job.start()
        job.finish()
    finally:
        job.end()
    judge(kafka, out, 2 * ROWS)


#: Twenty-five kills: how often each is killed in a turn. Four turns are a hundred.
KILLS = {"driver": 6, "executor": 6, "worker": 6, "broker": 7}


@pytest.mark.matrix
@pytest.mark.parametrize("turn", [1, 2, 3, 4])
def test_twenty_five_kills(kafka3: KafkaCluster, tmp_path: Path, turn: int) -> None:
    topics, chance = Topics(kafka3.hosts), seeded()
    topic, out = (topics.create(partitions=PARTITIONS, replicas=3, min_insync_replicas="2") for _ in range(2))
    kinds = [kind for kind, count in KILLS.items() for _ in range(count)]
    chance.shuffle(kinds)
    produced, down = 0, None
    with StandaloneCluster(tmp_path) as cluster:
        job = ClusterJob(cluster.url, words(kafka3, topic, out, tmp_path), tmp_path, exactly_once_job, cluster)
        try:
            topics.numbered(topic, {0: ROWS, 1: ROWS})
            produced += ROWS
            job.start()
            for kind in kinds:
                topics.numbered(topic, {0: ROWS, 1: ROWS}, first=produced)
                produced += ROWS
                job.get_on()
                time.sleep(chance.uniform(0, LONGEST_S))
                if kind == "broker":
                    down = chance.randint(1, 3)
                    kafka3.kill(down)
                    time.sleep(chance.uniform(0, 3 * LONGEST_S))
                    kafka3.start(down)
                    down = None
                    with KafkaClient(kafka3.hosts) as client:
                        wait_in_sync(client)  # else Kafka 4.3.1 may lose a commit at the next one: docs/transactions.md
                else:
                    job.kill(kind)
                print(f"killed: {kind}, micro-batches planned: {job.planned()}", flush=True)
                if kind == "driver":
                    job.start()
            job.finish()
        finally:
            job.end()
            if down is not None:
                kafka3.start(down)
    print(f"turn {turn}: {len(kinds)} kills; the query has ended {job.given_up} times by itself; {job.planned()}")
    judge(kafka3, out, produced)


def seeded() -> random.Random:
    """Return randomness whose seed is printed."""
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    return random.Random(seed)


def words(kafka: KafkaCluster, topic: str, out: str, path: Path) -> list[str]:
    """Return the arguments of the job, from the brokers on."""
    return [kafka.hosts, topic, out, str(path), str(LIMIT)]


def judge(kafka: KafkaCluster, topic: str, rows: int) -> None:
    """Compare what read_committed readers see, Kafka's own and ours, with what was to be written to the topic."""
    wanted = Counter(f"{partition}:{n}" for partition in range(PARTITIONS) for n in range(rows))
    lines = "\n".join(f"{kafka.hosts} {topic} {partition}" for partition in range(PARTITIONS))
    java = Counter(run_source("Committed.java", KAFKA_VERSION, lines).split())
    ours = Counter(values(kafka.hosts, topic, "read_committed"))
    everything = Counter(values(kafka.hosts, topic, "read_uncommitted"))
    lost, doubled = wanted - java, java - wanted
    print(f"{sum(wanted.values())} rows, {sum(lost.values())} lost, {sum(doubled.values())} doubled", end="; ")
    print(f"{sum((everything - wanted).values())} more were written and aborted")
    assert java == ours == wanted
    assert not wanted - everything


def values(hosts: str, topic: str, level: str) -> Iterator[str]:
    """Yield the values that a reader sees."""
    with (
        KafkaClient(hosts) as client,
        client.consumer(topic, isolation_level=level, consumer_timeout_ms=2000) as consumer,
    ):
        for message in consumer:
            yield (message.value or b"").decode()
