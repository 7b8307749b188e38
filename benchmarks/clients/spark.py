"""PySpark with this project's data source, and with Spark's own Kafka connector, at its defaults and tuned."""

from __future__ import annotations

import os
import re
import statistics
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from benchmarks.clients.base import Client, Job, Measures, Stopwatch
from pykafka.spark.columns import COLUMNS, HEADERS
from tests.support.spark.connector import connector_jars, connector_name

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

#: Rows of a first query, so that Spark's own start does not count.
WARM_UP_ROWS = 30_000
STREAM_BATCHES = 5
MICRO_BATCHES = 100
#: The tasks that read topics.
READS = (
    "spark_count",
    "spark_groupby",
    "spark_noop",
    "spark_parquet",
    "spark_stream",
    "spark_micro_batches",
    "spark_land",
)
Options = dict[str, str]


class Spark(Client):
    """A local session with two cores; CPU is that of the driver, the JVM and all Python workers together."""

    distributions: ClassVar[tuple[str, ...]] = ("pyspark",)
    source: ClassVar[str]
    needs_connector: ClassVar[bool] = False
    reading: ClassVar[Options] = {}
    writing: ClassVar[Options] = {}

    @contextmanager
    def session(self) -> Iterator[SparkSession]:
        """Start Spark, for as long as the block lasts."""
        from pyspark.sql import SparkSession

        os.environ["PYSPARK_PYTHON"] = sys.executable
        with tempfile.TemporaryDirectory(prefix="pykafka-bench-") as directory:
            builder: Any = SparkSession.builder
            builder = builder.master("local[2]").appName("pykafka-benchmarks")
            settings = {
                "spark.ui.enabled": "false",
                "spark.driver.host": "127.0.0.1",
                "spark.driver.bindAddress": "127.0.0.1",
                "spark.driver.memory": "2g",
                "spark.sql.shuffle.partitions": "2",
                "spark.log.level": "ERROR",
                "spark.sql.warehouse.dir": directory,
                "spark.jars": ",".join(map(str, connector_jars())) if self.needs_connector else "",
            }
            for name, value in settings.items():
                builder = builder.config(name, value)
            session: SparkSession = builder.getOrCreate()
            try:
                yield session
            finally:
                session.stop()

    def _read(self, spark: SparkSession, job: Job, rows: int | None = None) -> DataFrame:
        reader = spark.read.format(self.source).option("kafka.bootstrap.servers", job.hosts)
        reader = reader.option("subscribe", job.topic).option("startingOffsets", "earliest").options(**self.reading)
        if rows is not None:
            ends = ",".join(f'"{number}":{rows // job.partitions}' for number in range(job.partitions))
            reader = reader.option("endingOffsets", f'{{"{job.topic}":{{{ends}}}}}')
        return reader.load()

    def _timed(self, job: Job, watch: Stopwatch, query: Callable[[SparkSession, DataFrame], int | None]) -> Measures:
        with self.session() as spark:
            query(spark, self._read(spark, job, WARM_UP_ROWS))
            frame = self._read(spark, job)
            return _measured(job, watch, lambda: query(spark, frame))

    def spark_count(self, job: Job, watch: Stopwatch) -> Measures:
        """Count the rows of a topic."""
        return self._timed(job, watch, lambda _, frame: frame.count())

    def spark_groupby(self, job: Job, watch: Stopwatch) -> Measures:
        """Sum up lengths and counts by the first byte of the key."""

        def query(_: SparkSession, frame: DataFrame) -> int:
            groups = frame.selectExpr("substring(key, 8, 1) AS k", "length(value) AS n").groupBy("k")
            rows = groups.agg({"n": "sum", "*": "count"}).collect()
            return sum(row["count(1)"] for row in rows)

        return self._timed(job, watch, query)

    def spark_noop(self, job: Job, watch: Stopwatch) -> Measures:
        """Read everything into Spark's rows, and throw it away."""

        def query(_: SparkSession, frame: DataFrame) -> None:
            frame.write.format("noop").mode("overwrite").save()

        return self._timed(job, watch, query)

    def spark_parquet(self, job: Job, watch: Stopwatch) -> Measures:
        """Write a topic into Parquet files."""
        with tempfile.TemporaryDirectory(prefix="pykafka-bench-") as directory:

            def query(_: SparkSession, frame: DataFrame) -> None:
                frame.write.mode("overwrite").parquet(directory)

            measures = self._timed(job, watch, query)
            if not list(Path(directory).glob("*.parquet")):
                raise AssertionError("no Parquet files were written")
        return measures

    def spark_stream(self, job: Job, watch: Stopwatch) -> Measures:
        """Stream all there is in five micro-batches, into nothing."""
        return self._streamed(job, watch, STREAM_BATCHES)

    def spark_micro_batches(self, job: Job, watch: Stopwatch) -> Measures:
        """Stream all there is in a hundred micro-batches, into nothing."""
        return self._streamed(job, watch, MICRO_BATCHES)

    def _streamed(self, job: Job, watch: Stopwatch, batches: int) -> Measures:
        durations: list[float] = []

        def query(spark: SparkSession, directory: str) -> int:
            reader = spark.readStream.format(self.source).option("kafka.bootstrap.servers", job.hosts)
            reader = reader.option("subscribe", job.topic).option("startingOffsets", "earliest").options(**self.reading)
            stream = reader.option("maxOffsetsPerTrigger", str(job.messages // batches)).load()
            writer = stream.writeStream.format("noop").option("checkpointLocation", directory)
            running = writer.trigger(availableNow=True).start()
            running.awaitTermination()
            full = [progress for progress in running.recentProgress if progress["numInputRows"]]
            durations.extend(progress["durationMs"]["triggerExecution"] for progress in full)
            return sum(progress["numInputRows"] for progress in full)

        with self.session() as spark, tempfile.TemporaryDirectory(prefix="pykafka-bench-") as directory:
            spark.conf.set("spark.sql.streaming.numRecentProgressUpdates", str(2 * batches))
            self._read(spark, job, WARM_UP_ROWS).count()
            measures = _measured(job, watch, lambda: query(spark, f"{directory}/checkpoint"))
        return {**measures, "batch_p50_ms": statistics.median(durations)}

    def spark_land(self, job: Job, watch: Stopwatch) -> Measures:
        """Stream all there is into Parquet files with a log, in one micro-batch."""
        with self.session() as spark, tempfile.TemporaryDirectory(prefix="pykafka-bench-") as directory:
            self._read(spark, job, WARM_UP_ROWS).write.parquet(f"{directory}/rows")
            # A first stream costs some seconds more, which are Spark's own.
            rates = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", WARM_UP_ROWS).load()
            stream = rates.writeStream.option("checkpointLocation", f"{directory}/first").trigger(once=True)
            stream.format("parquet").start(f"{directory}/rates").awaitTermination()
            return _measured(job, watch, lambda: self._land(spark, job, Path(directory)))

    def _land(self, spark: SparkSession, job: Job, directory: Path) -> int:
        reader = spark.readStream.format(self.source).option("kafka.bootstrap.servers", job.hosts)
        reader = reader.option("subscribe", job.topic).option("startingOffsets", "earliest").options(**self.reading)
        writer = reader.load().writeStream.format("parquet").option("checkpointLocation", f"{directory}/checkpoint")
        running = writer.trigger(availableNow=True).start(f"{directory}/landed")
        running.awaitTermination()
        return sum(progress["numInputRows"] for progress in running.recentProgress)

    def spark_write(self, job: Job, watch: Stopwatch) -> Measures:
        """Write rows into a topic, acknowledged by all replicas."""

        def query(spark: SparkSession, rows: int, topic: str) -> None:
            wide = f"CAST(rpad(CAST(id AS STRING), {job.size}, 'x') AS BINARY) AS value"
            frame = spark.range(0, rows, 1, 2).selectExpr("CAST(CAST(id AS STRING) AS BINARY) AS key", wide)
            writer = frame.write.format(self.source).option("kafka.bootstrap.servers", job.hosts)
            writer.option("topic", topic).option("kafka.acks", "all").options(**self.writing).mode("append").save()

        with self.session() as spark:
            query(spark, WARM_UP_ROWS, f"{job.topic}-warm-up")
            return _measured(job, watch, lambda: query(spark, job.messages, job.topic))


class Ours(Spark):
    """format("pykafka")."""

    distributions: ClassVar = ("pyspark", "pyarrow")
    source = "pykafka"


class OursFromArrow(Ours):
    """A pipeline with writer = "arrow": the source's tasks write the files."""

    tunings: ClassVar = {"spark_land": 'kafka-tools pipeline, writer = "arrow"'}

    def _land(self, spark: SparkSession, job: Job, directory: Path) -> int:
        from pykafka.spark.pipeline import Declaration, Pipeline, StopRequest

        columns = [name for name in COLUMNS if name != HEADERS]  # those of the other clients
        file = directory / "land.toml"
        file.write_text(
            f'checkpoint = "{directory}/checkpoint"\n'
            f'[source]\nbrokers = "{job.hosts}"\ntopic = "{job.topic}"\ncolumns = {columns}\n'
            f'[sink]\nformat = "parquet"\nwriter = "arrow"\npath = "{directory}/landed"\n'
        )
        (progress,) = Pipeline(Declaration.load(file), spark, lambda _: None, StopRequest(0)).run()
        return progress.records


class Jvm(Spark):
    """format("kafka"): Spark's connector at its defaults."""

    source = "kafka"
    needs_connector = True
    tunings: ClassVar = dict.fromkeys((*READS, "spark_write"), f"{connector_name()}, defaults")


class JvmTuned(Jvm):
    """format("kafka") with larger fetches and batches."""

    reading: ClassVar = {
        "kafka.max.poll.records": "20000",
        "kafka.max.partition.fetch.bytes": str(8 * 1024 * 1024),
        "kafka.fetch.max.bytes": str(16 * 1024 * 1024),
        "kafka.receive.buffer.bytes": str(4 * 1024 * 1024),
    }
    writing: ClassVar = {"kafka.batch.size": "262144", "kafka.linger.ms": "20"}
    tunings: ClassVar = {
        **dict.fromkeys(READS, ", ".join(f"{name}={value}" for name, value in reading.items())),
        "spark_write": ", ".join(f"{name}={value}" for name, value in writing.items()),
    }


def _measured(job: Job, watch: Stopwatch, query: Callable[[], int | None]) -> Measures:
    before = tree_cpu_seconds()
    watch.start()
    rows = query()
    watch.stop()
    watch.cpu = tree_cpu_seconds() - before
    assert rows is None or rows == job.messages, f"{rows} rows, not {job.messages}"
    measures = {"rate": job.messages / watch.wall, "cpu_per_million": watch.cpu * 1e6 / job.messages}
    if workers := worker_peaks_mib():
        measures["worker_mib"] = max(workers)
    if shares := executor_shares_mib():
        # Executors have this much per core beside their JVM: one worker each, and all share a daemon.
        measures["executor_python_mib"] = sum(shares)
    return measures


class Process(NamedTuple):
    """A process as /proc has it.

    :param number: of it
    :param parent: number of the one that started it
    :param ticks: of CPU, user and system, with those of children that were waited for
    """

    number: int
    parent: int
    ticks: int


def process_tree() -> list[Process]:
    """List this process and all that it has started and that are still there."""
    children: dict[int, list[Process]] = {}
    found = []
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        try:
            with open(f"/proc/{entry}/stat") as file:
                # behind the name, which may have spaces: state, parent, ...; user, system, and those of children waited for
                fields = file.read().rpartition(")")[2].split()
        except OSError:  # it ended meanwhile
            continue
        process = Process(int(entry), int(fields[1]), sum(map(int, fields[11:15])))
        children.setdefault(process.parent, []).append(process)
        if process.number == os.getpid():
            found.append(process)
    for process in found:
        found += children.get(process.number, ())
    return found


def tree_cpu_seconds() -> float:
    """Return the CPU seconds of this process and all that it has started, those that have ended included."""
    return sum(process.ticks for process in process_tree()) / os.sysconf("SC_CLK_TCK")


def executor_shares_mib() -> list[float]:
    """Return the memory that each Python of this session's executor has now (MiB), pages that several share by their parts.

    Those are a daemon, and a worker for each core, which Spark keeps for the next task.
    """
    shares = []
    for process in process_tree():
        directory = Path(f"/proc/{process.number}")
        try:
            is_executors = b"pyspark.daemon\0pyspark.worker" in (directory / "cmdline").read_bytes()
            share = re.search(r"^Pss:\s+(\d+) kB", (directory / "smaps_rollup").read_text(), re.MULTILINE)
        except OSError:  # it ended meanwhile
            continue
        if is_executors and share is not None:
            shares.append(int(share[1]) / 1024)
    return shares


def worker_peaks_mib() -> list[float]:
    """Return how much memory each of Spark's Python workers has had in use at most (MiB)."""
    peaks = []
    for process in process_tree():
        directory = Path(f"/proc/{process.number}")
        try:
            is_worker = b"pyspark.daemon" in (directory / "cmdline").read_bytes()
            status = (directory / "status").read_text()
        except OSError:  # it ended meanwhile
            continue
        peak = re.search(r"^VmHWM:\s+(\d+) kB", status, re.MULTILINE)
        if is_worker and peak is not None:
            peaks.append(int(peak[1]) / 1024)
    return peaks
