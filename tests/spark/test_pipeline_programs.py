"""kafka-tools pipeline as users run it: a process that gets signals, a cluster of Spark, spark-submit; and the examples."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from examples.flights import data
from pykafka.spark import __main__ as spark_program
from pykafka.spark.pipeline import Declaration, Pipeline, StopRequest
from pykafka.spark.pipeline.events import Progress
from tests.support.programs import Program, program
from tests.support.spark.standalone import SPARK_HOME, StandaloneCluster, spark_environment
from tests.support.spark.topics import Record, Topics

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(1200), pytest.mark.usefixtures("quick_spark")]
EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "pipelines"
END_TIMEOUT_S = 400.0
CONFIG = """
"spark.ui.enabled" = false
"spark.driver.host" = "127.0.0.1"
"spark.driver.bindAddress" = "127.0.0.1"
"spark.driver.memory" = "512m"
"spark.executor.memory" = "512m"
"spark.sql.session.timeZone" = "UTC"
"""


def declare(directory: Path, topics: Topics, topic: str, top: str = "", options: str = "") -> Path:
    """Write a declaration that lands a topic of numbers."""
    file = directory / "numbers.toml"
    file.write_text(
        f'checkpoint = "{directory}/checkpoint"\n{top}\n'
        f'[source]\nbrokers = "{topics.hosts}"\ntopic = "{topic}"\noptions = {{ {options} }}\n'
        '[parse]\nformat = "json"\nschema = "n INT"\n'
        '[[transform]]\nsql = "SELECT n, kafka.partition FROM records"\n'
        f'[sink]\nformat = "parquet"\npath = "{directory}/landed"\n'
        f"[spark.config]\n{CONFIG}"
    )
    return file


def numbers(topics: Topics, topic: str, span: range) -> None:
    """Produce numbers."""
    topics.produce(topic, [Record(json.dumps({"n": n}).encode(), None, n % 3) for n in span])


def landed(directory: Path) -> list[int]:
    """Read the numbers that landed, as far as the sink's log has them: what a run that was killed left does not count."""
    found: list[int] = []
    for file in committed(directory / "landed"):
        found += pq.read_table(file, partitioning=None)["n"].to_pylist()
    return sorted(found)


def committed(sink: Path) -> set[Path]:
    """List the files that the sink's log names."""
    files = set()
    for log in (sink / "_spark_metadata").glob("[0-9]*"):
        for line in log.read_text().splitlines()[1:]:
            files.add(Path(json.loads(line)["path"].removeprefix("file://")))
    return files


def run_pipeline(*arguments: str) -> str:
    """Run the command to its end, which must be a good one; return what it said."""
    with program("pykafka.cli", "pipeline", *arguments, environment=spark_environment()) as running:
        assert running.wait(END_TIMEOUT_S) == 0, running.output
    return running.output


def go_on(spark: SparkSession, file: Path, *overrides: str) -> Progress:
    """Run what is left in the session of the tests, which costs no start of Spark."""
    declaration = Declaration.load(file, [*overrides, "trigger=available_now"])
    (done,) = Pipeline(declaration, spark, lambda _: None, StopRequest(grace_s=30)).run()
    return done


def wait_for_batches(running: Program, count: int) -> None:
    """Wait until a run has reported so many micro-batches."""
    running.wait_for(f"micro-batch {count - 1},", timeout=END_TIMEOUT_S)


@pytest.mark.parametrize(
    ("number", "status"), [(signal.SIGTERM, 143), pytest.param(signal.SIGINT, 130, marks=pytest.mark.matrix)]
)
def test_signals(spark: SparkSession, topics: Topics, tmp_path: Path, number: signal.Signals, status: int) -> None:
    """The micro-batch that runs ends, nothing is left behind, and the next run continues."""
    topic = topics.create(3)
    numbers(topics, topic, range(3000))
    file = declare(tmp_path, topics, topic, top='trigger = "1 second"', options="maxOffsetsPerTrigger = 100")
    with program("pykafka.cli", "pipeline", str(file), environment=spark_environment()) as running:
        wait_for_batches(running, 2)
        running.signal(number)
        assert running.wait(END_TIMEOUT_S) == status, running.output
        assert running.descendants() == []
    assert "Traceback" not in running.output
    assert "Exception" not in running.output
    first = landed(tmp_path)
    assert 0 < len(first) < 3000
    assert f"numbers: {len(first):,} records read in " in running.output
    assert go_on(spark, file, "source.options.maxOffsetsPerTrigger=100000").records == 3000 - len(first)
    assert landed(tmp_path) == list(range(3000))


@pytest.mark.matrix
@pytest.mark.parametrize("dry_run", [False, True])
def test_cluster(topics: Topics, tmp_path: Path, dry_run: bool) -> None:
    """On a master and two workers: a dry run, or a run by --master and one by spark-submit that continues."""
    topic = topics.create(3)
    numbers(topics, topic, range(600))
    file = declare(tmp_path, topics, topic)
    with StandaloneCluster(tmp_path) as cluster:
        if dry_run:
            output = run_pipeline(str(file), "--dry-run", "--master", cluster.url)
            assert f"on {cluster.url}: an executor reads the source" in output
            assert "numbers: nothing is wrong" in output
            return
        output = run_pipeline(str(file), "--master", cluster.url)
        assert "numbers: 600 records read in 1 micro-batches" in output
        assert landed(tmp_path) == list(range(600))
        assert cluster.executors() == {"worker1", "worker2"}

        numbers(topics, topic, range(600, 700))
        settings = ["--conf", "spark.driver.host=127.0.0.1", "--conf", "spark.driver.bindAddress=127.0.0.1"]
        submitted = subprocess.run(
            [
                str(SPARK_HOME / "bin" / "spark-submit"),
                *("--master", cluster.url, "--driver-memory", "512m", "--conf", "spark.ui.enabled=false"),
                *settings,
                str(spark_program.__file__),
                str(file),
            ],
            cwd=tmp_path,
            env=spark_environment(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=END_TIMEOUT_S,
            check=False,
        )
    assert submitted.returncode == 0, submitted.stdout + submitted.stderr
    assert "numbers: 100 records read in 1 micro-batches" in submitted.stdout
    assert landed(tmp_path) == list(range(700))


def test_examples(spark: SparkSession, topics: Topics, tmp_path: Path) -> None:
    """examples/pipelines: flights land by origin and month, what is none is kept apart, and a copy is the same."""
    topic, copy = topics.create(2), topics.create(2)
    flights = list(data.flights(500))
    values = [json.dumps(flight).encode() for flight in flights]
    topics.produce(topic, [Record(value, b"k", n % 2) for n, value in enumerate([*values, b"no flight"])])
    common = [f"source.brokers={topics.hosts}", f"source.topic={topic}"]
    common += [f"spark.config.{line}" for line in filter(None, CONFIG.splitlines())]
    paths = {"checkpoint": "checkpoint", "malformed.path": "malformed", "sink.path": "flights"}
    own = [f"{key}={tmp_path}/land/{name}" for key, name in paths.items()]
    output = run_pipeline(str(EXAMPLES / "land.toml"), *(f"--set={override}" for override in [*common, *own]))
    departed = [flight for flight in flights if flight["dep_delay"] is not None]
    assert "land: 501 records read in 1 micro-batches" in output
    assert "1 of them malformed" in output
    files = committed(tmp_path / "land" / "flights")
    rows = [row for file in files for row in pq.read_table(file, partitioning=None).to_pylist()]
    assert sorted((row["carrier"], row["flight"], row["dep_delay"]) for row in rows) == sorted(
        (flight["carrier"], flight["flight"], flight["dep_delay"]) for flight in departed
    )
    assert {file.parent.parent.name for file in files} == {f"origin={flight['origin']}" for flight in departed}

    go_on(spark, EXAMPLES / "mirror.toml", *common, f"checkpoint={tmp_path}/mirror", f"sink.topic={copy}")
    assert sorted((r.partition, r.value) for r in topics.read(copy, 501)) == sorted(
        (r.partition, r.value) for r in topics.read(topic, 501)
    )


def test_module_is_the_command(tmp_path: Path) -> None:
    """`python -m pykafka.spark` takes what the command takes."""
    done = subprocess.run(
        [sys.executable, "-m", "pykafka.spark", str(tmp_path / "none.toml")],
        cwd=tmp_path,
        env=spark_environment(),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 2
    assert "none.toml' does not exist" in done.stderr
