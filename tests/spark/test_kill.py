"""Streaming queries whose driver, executors or workers are killed: nothing is lost, nothing landed twice."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

import pyarrow.parquet as pq
import pytest

from tests.spark.test_pipeline_programs import committed
from tests.support.spark import killed_job
from tests.support.spark.landing_job import STARTED
from tests.support.spark.standalone import StandaloneCluster, spark_environment
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
    :param python: of its workers
    """

    def __init__(self, topics: Topics, topic: str, path: Path, python: Path | str = sys.executable) -> None:
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
        self._python = str(python)

    @contextmanager
    def running(self) -> Iterator[subprocess.Popen[str]]:
        """Start it; whatever of it is left in the end is killed, driver and JVM at once."""
        environment = {**os.environ, "PYSPARK_PYTHON": self._python, "PYTHONPATH": str(ROOT)}
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


class Process(NamedTuple):
    """A process of this machine.

    :param pid: its id
    :param parent: the id of its parent
    :param words: its command line
    """

    pid: int
    parent: int
    words: str


def under(ancestors: set[int]) -> dict[int, Process]:
    """Return the processes that these have started, themselves or by others."""
    listed = subprocess.run(["ps", "-ww", "-eo", "pid=,ppid=,args="], capture_output=True, text=True, check=True).stdout
    rows = [Process(int(pid), int(parent), "".join(words)) for pid, parent, *words in map(_split, listed.splitlines())]
    everything = {one.pid: one for one in rows}

    def belongs(one: Process) -> bool:
        parent: Process | None = one
        while parent is not None:
            if parent.parent in ancestors:
                return True
            parent = everything.get(parent.parent)
        return False

    return {one.pid: one for one in rows if belongs(one)}


def _split(line: str) -> list[str]:
    return line.split(None, 2)


def python_workers(ancestors: set[int]) -> list[int]:
    """Return the ids of PySpark's workers under some processes: forks of its daemon, or of that of the tests."""
    daemons = {pid: one for pid, one in under(ancestors).items() if "spark.daemon" in one.words}
    return [pid for pid, one in daemons.items() if one.parent in daemons]


def executors(ancestors: set[int]) -> list[int]:
    """Return the ids of the JVMs that run tasks."""
    return [pid for pid, one in under(ancestors).items() if "CoarseGrainedExecutorBackend" in one.words]


def landed(path: Path) -> list[int]:
    """Read what landed, as far as the sink's log has it, without a session of Spark for that alone."""
    values = [
        value
        for file in committed(path / "data")
        for value in pq.read_table(file, partitioning=None)["value"].to_pylist()
    ]
    return sorted(int(value.partition(":")[2]) for value in values)


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.usefixtures("quick_spark")
@pytest.mark.timeout(1800)
def test_killed_driver_and_killed_workers(topics: Topics, quick_python: Path, tmp_path: Path) -> None:
    topic = topics.create()
    topics.numbered(topic, {0: 50})
    job = Job(topics, topic, tmp_path, quick_python)
    # It starts at latest: in the first micro-batch, which is empty, it notes where that was.
    job.kill_when(lambda: job.planned(0))
    topics.numbered(topic, {0: 12 * LIMIT}, first=50)
    job.kill_when(lambda: job.planned(2))
    killed: set[int] = set()
    with job.running() as process:

        def kill_a_worker() -> bool:
            # Not before tasks run: a fork of the daemon plans the query.
            for pid in python_workers({process.pid})[:1] if job.done(3) and len(killed) < 3 else ():
                os.kill(pid, signal.SIGKILL)
                killed.add(pid)
            return job.done(12)

        job.wait(process, kill_a_worker)
        assert process.wait(TIMEOUT_S) == 0, job.log()
    assert len(killed) == 3
    assert landed(tmp_path) == list(range(50, 50 + 12 * LIMIT))


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.usefixtures("quick_spark")
@pytest.mark.matrix
@pytest.mark.timeout(1800)
def test_driver_killed_anywhere(topics: Topics, tmp_path: Path) -> None:
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
    assert landed(tmp_path) == list(range(60 * LIMIT))


#: How often each is killed in a turn; three turns are thirty kills.
KILLS = {"driver": 3, "executor": 4, "worker": 3}
#: Faults of Spark's own that end a driver, and how often a run may end by them: PySpark says the first if a Python process of
#: it has not answered within ten seconds; Spark 4.3.0 the second if two queries send their first tasks at the same moment.
SPARKS_FAULTS, MAY_GIVE_UP = (
    ("connect back", "Task serialization failed: java.lang.IllegalStateException: Illegal size"),
    10,
)
#: Rows that are produced before each kill, to each of two partitions.
ROWS = 2000
#: The pause before a kill is up to so long (s).
LONGEST_S = 2.0


class ClusterJob:
    """Streams of one driver, on a cluster's executors or its own: by default a topic to files, and the same to another topic.

    :param master: of Spark
    :param words: the job's arguments, from the brokers on
    :param path: for files, checkpoints and the log
    :param program: the job
    :param cluster: master and workers; None: the driver runs the tasks
    :param python: of its workers
    """

    def __init__(
        self,
        master: str,
        words: list[str],
        path: Path,
        program: ModuleType = killed_job,
        cluster: StandaloneCluster | None = None,
        python: Path | str = sys.executable,
    ) -> None:
        self._python = str(python)
        self._command = [sys.executable, "-m", program.__name__, master, *words]
        self._program = program
        self._cluster = cluster
        self._path = path
        self._process: subprocess.Popen[bytes] | None = None
        #: How often the driver ended by a fault of Spark's own.
        self.given_up = 0

    @property
    def pid(self) -> int:
        """The id of the driver's process."""
        assert self._process is not None
        return self._process.pid

    @property
    def runs(self) -> bool:
        """Whether the driver runs."""
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        """Start the driver, and wait until its queries run."""
        environment = spark_environment() | {"PYSPARK_PYTHON": self._python}
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                self._command, cwd=ROOT, env=environment, stdout=log, stderr=log, start_new_session=True
            )
        self.wait(lambda: self._program.STARTED in self._log.read_text())

    def kill(self, kind: str) -> None:
        """Kill the driver, its JVM included, or one executor, or one of an executor's Python workers."""
        assert self._process is not None
        if kind == "driver":
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait(TIMEOUT_S)
            return
        find = executors if kind == "executor" else python_workers
        found: list[int] = []

        def killed() -> bool:
            found[:] = find({self.pid} if self._cluster is None else self._cluster.pids)
            try:
                if found:
                    os.kill(random.choice(found), signal.SIGKILL)
            except ProcessLookupError:  # it has ended: the next one then
                found.clear()
            return bool(found)

        self.wait(killed)

    def finish(self) -> None:
        """Wait until the queries have read the rest and the driver ends."""
        (self._path / self._program.END).touch()
        landed = self._path / self._program.LANDED
        self.wait(landed.exists)

    def end(self) -> None:
        """Kill what is left of the driver."""
        if self._process is not None and self._process.poll() is None:
            self.kill("driver")

    def wait(self, reached: Callable[[], bool]) -> None:
        """Wait until something is so while the driver runs."""
        assert self._process is not None
        deadline = time.monotonic() + TIMEOUT_S
        while not reached():
            if self._process.poll() is not None:
                log = self._log.read_text()
                assert any(fault in log for fault in SPARKS_FAULTS), log[-5000:]
                assert self.given_up < MAY_GIVE_UP, log[-5000:]
                self.given_up += 1
                self.start()
                deadline = time.monotonic() + TIMEOUT_S
            assert time.monotonic() < deadline, self._log.read_text()[-5000:]
            time.sleep(0.02)

    def get_on(self) -> None:
        """Wait until both queries have planned another micro-batch, so that each kill is a case of its own."""
        before = self.planned()
        self.wait(lambda: all(now > then for now, then in zip(self.planned(), before, strict=True)))

    def planned(self) -> tuple[int, ...]:
        """Return the number of each query's last micro-batch; -1 for none."""
        directories = (self._path / name / "offsets" for name in self._program.QUERIES)
        return tuple(max((int(file.name) for file in path.glob("[0-9]*")), default=-1) for path in directories)

    @property
    def _log(self) -> Path:
        return self._path / "log"


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.matrix
@pytest.mark.usefixtures("quick_spark")
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("turn", [1, 2, 3])
def test_ten_kills_on_a_cluster(topics: Topics, tmp_path: Path, turn: int) -> None:
    """Rows land once as files, and at least once in the other topic: thirty kills in three turns."""
    topic, out = topics.create(partitions=2), topics.create()
    seed = random.randrange(2**32)
    print(f"turn {turn}, seed {seed}")
    chance = random.Random(seed)
    kinds = [kind for kind, count in KILLS.items() for _ in range(count)]
    chance.shuffle(kinds)
    produced = 0
    with StandaloneCluster(tmp_path) as cluster:
        words = [topics.hosts, topic, out, str(tmp_path), str(ROWS // 2)]
        job = ClusterJob(cluster.url, words, tmp_path, cluster=cluster)
        try:
            topics.numbered(topic, {0: ROWS, 1: ROWS})
            produced += ROWS
            job.start()
            for kind in kinds:
                topics.numbered(topic, {0: ROWS, 1: ROWS}, first=produced)
                produced += ROWS
                job.get_on()
                time.sleep(chance.uniform(0, LONGEST_S))
                job.kill(kind)
                print(f"killed: {kind}, micro-batches planned: {job.planned()}", flush=True)
                if kind == "driver":
                    job.start()
            job.finish()
        finally:
            job.end()
    print(f"{sum(KILLS.values())} kills; {job.given_up} times the machine was too busy")
    expected = [f"{partition}:{n}" for partition in (0, 1) for n in range(produced)]
    landed = Counter(json.loads((tmp_path / killed_job.LANDED).read_text()))
    mirrored = Counter((record.value or b"").decode() for record in topics.read(out))
    for name, found in (("files", landed), ("topic", mirrored)):
        doubled = sum(found.values()) - len(found)
        print(f"{name}: {len(expected)} rows, {len(set(expected) - set(found))} lost, {doubled} doubled")
    assert landed == Counter(expected)
    assert set(mirrored) == set(expected)
