"""A streaming query whose driver or workers are killed: nothing is lost, nothing landed twice."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.support.spark.landing_job import STARTED
from tests.support.spark.topics import Topics

ROOT = Path(__file__).resolve().parents[2]
TIMEOUT_S = 300
#: Rows of a micro-batch.
LIMIT = 200


class Job:
    """A streaming query in a process of its own, from a topic into Parquet files.

    :param topics: of the broker
    :param topic: what it reads
    :param path: for files and checkpoint
    """

    def __init__(self, topics: Topics, topic: str, path: Path) -> None:
        self._command = [
            sys.executable,
            "-m",
            "tests.support.spark.landing_job",
            topics.hosts,
            topic,
            str(path),
            str(LIMIT),
        ]
        self._path = path

    @contextmanager
    def running(self) -> Iterator[subprocess.Popen[str]]:
        """Start it; whatever of it is left in the end is killed, driver and JVM at once."""
        environment = {**os.environ, "PYSPARK_PYTHON": sys.executable, "PYTHONPATH": str(ROOT)}
        with (self._path / "log").open("w") as log:
            process = subprocess.Popen(
                self._command, cwd=ROOT, env=environment, stdout=log, stderr=log, text=True, start_new_session=True
            )
            try:
                yield process
            finally:
                try:
                    os.killpg(process.pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass  # it has ended
                process.wait(TIMEOUT_S)

    def kill_when(self, reached: Callable[[], bool]) -> None:
        """Start it and kill it the moment that something is so."""
        with self.running() as process:
            self.wait(process, reached)

    def kill_after(self, delay: float) -> None:
        """Start it and kill it so long after its query has begun (s); it may have ended by then."""
        with self.running() as process:
            self.wait(process, self.started)
            try:
                process.wait(delay)
            except subprocess.TimeoutExpired:
                return
            assert process.returncode == 0, self.log()

    def wait(self, process: subprocess.Popen[str], reached: Callable[[], bool]) -> None:
        """Wait until something is so."""
        deadline = time.monotonic() + TIMEOUT_S
        while not reached():
            assert process.poll() is None, self.log()
            assert time.monotonic() < deadline, self.log()
            time.sleep(0.001)

    def planned(self, batch: int) -> bool:
        """Return whether the ends of a micro-batch stand in the checkpoint."""
        return (self._path / "checkpoint" / "offsets" / str(batch)).exists()

    def done(self, batch: int) -> bool:
        """Return whether a micro-batch is complete."""
        return (self._path / "checkpoint" / "commits" / str(batch)).exists()

    def started(self) -> bool:
        """Return whether the query of this run has begun."""
        return STARTED in self.log()

    def log(self) -> str:
        """Return what this run has printed last."""
        return (self._path / "log").read_text()[-5000:]


def python_workers(process: subprocess.Popen[str]) -> list[int]:
    """Return the ids of PySpark's workers under a driver: forks of its daemon."""
    found = subprocess.run(["ps", "-eo", "pid=,ppid=,args="], capture_output=True, text=True, check=True).stdout
    rows = [line.split(None, 2) for line in found.splitlines()]
    parents = {int(pid): int(parent) for pid, parent, *_ in rows}
    daemons = {int(row[0]) for row in rows if "pyspark.daemon" in row[-1] and len(row) == 3}

    def belongs(pid: int) -> bool:
        while pid := parents.get(pid, 0):
            if pid == process.pid:
                return True
        return False

    return [pid for pid in daemons if parents[pid] in daemons and belongs(pid)]


def landed(spark: SparkSession, path: Path) -> list[int]:
    rows = spark.read.schema("value string").parquet(str(path / "data")).collect()
    return sorted(int(row.value.partition(":")[2]) for row in rows)


@pytest.mark.slow
@pytest.mark.usefixtures("quick_spark")
@pytest.mark.timeout(1800)
def test_killed_driver_and_killed_workers(spark: SparkSession, topics: Topics, tmp_path: Path) -> None:
    topic = topics.create()
    topics.numbered(topic, {0: 50})
    job = Job(topics, topic, tmp_path)
    # It starts at latest: in the first micro-batch, which is empty, it notes where that was.
    job.kill_when(lambda: job.planned(0))
    topics.numbered(topic, {0: 12 * LIMIT}, first=50)
    job.kill_when(lambda: job.planned(2))
    killed: set[int] = set()
    with job.running() as process:

        def kill_a_worker() -> bool:
            # Not before tasks run: a fork of the daemon plans the query.
            for pid in python_workers(process)[:1] if job.done(3) and len(killed) < 3 else ():
                os.kill(pid, signal.SIGKILL)
                killed.add(pid)
            return job.done(12)

        job.wait(process, kill_a_worker)
        assert process.wait(TIMEOUT_S) == 0, job.log()
    assert len(killed) == 3
    assert landed(spark, tmp_path) == list(range(50, 50 + 12 * LIMIT))


@pytest.mark.slow
@pytest.mark.usefixtures("quick_spark")
@pytest.mark.matrix
@pytest.mark.timeout(1800)
def test_driver_killed_anywhere(spark: SparkSession, topics: Topics, tmp_path: Path) -> None:
    topic = topics.create()
    job = Job(topics, topic, tmp_path)
    job.kill_when(lambda: job.done(0))
    topics.numbered(topic, {0: 60 * LIMIT})
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    chance = random.Random(seed)
    for _ in range(10):
        job.kill_after(chance.uniform(0, 4))
    with job.running() as process:
        assert process.wait(5 * TIMEOUT_S) == 0, job.log()
    assert landed(spark, tmp_path) == list(range(60 * LIMIT))
