"""The job of examples/spark, as docs/spark-job.md shows it, and the notebook."""

from __future__ import annotations

import json
import re
import signal
import sys
from collections import Counter
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import nbformat
import pyarrow.parquet as pq
import pytest
from nbclient import NotebookClient

from pykafka import KafkaClient
from pykafka.admin import NewTopic
from pykafka.embedded import EmbeddedCluster
from pykafka.registry.schemas import with_id
from tests.brokers import KafkaCluster
from tests.docs.pages import ROOT, programs
from tests.support.formats import avro_bytes
from tests.support.programs import Program, program, run
from tests.support.registrystub import RegistryStub

HERE = ROOT / "examples" / "spark"
SALES = "examples.spark.sales"
SCHEMA = json.loads((HERE / "order.avsc").read_text())
MINUTE_MS = 60_000
START_MS = 1_700_000_000_000 - 1_700_000_000_000 % (10 * MINUTE_MS)
#: In windows that end before the last order, which only moves the watermark.
ORDERS: list[dict[str, Any]] = [
    {"shop": "AB"[number % 2], "cents": number, "at": START_MS + number * MINUTE_MS} for number in range(60)
]
LAST = {"shop": "Z", "cents": 0, "at": START_MS + 600 * MINUTE_MS}


def expected() -> Counter[tuple[str, int]]:
    """Return the cents of each shop and window."""
    sums: Counter[tuple[str, int]] = Counter()
    for order in ORDERS:
        sums[order["shop"], order["at"] // (10 * MINUTE_MS)] += order["cents"]
    return sums


def in_files(directory: Path) -> list[tuple[tuple[str, int], int]]:
    """Return the sums in Parquet that Spark's log of the directory names."""
    names = [
        json.loads(line)["path"]
        for log in sorted((directory / "sales" / "_spark_metadata").glob("[0-9]*"))
        for line in log.read_text().splitlines()[1:]
    ]
    rows = [row for name in names for row in pq.read_table(name.removeprefix("file://")).to_pylist()]
    return [((row["shop"], int(row["start"].timestamp()) // 600), row["cents"]) for row in rows]


def in_topic(hosts: str, topic: str) -> list[tuple[tuple[str, int], int]]:
    """Return the sums in a topic, as readers of committed transactions see it."""
    with KafkaClient(hosts) as client:
        consumer = client.consumer(topic, isolation_level="read_committed", consumer_timeout_ms=3000)
        with consumer:
            rows = [json.loads(record.value or b"") for record in consumer]
    return [((row["shop"], _tens_of_minutes(row["start"])), row["cents"]) for row in rows]


def _tens_of_minutes(text: str) -> int:
    return int(datetime.fromisoformat(text).timestamp()) // 600


@pytest.fixture
def registry() -> Iterator[RegistryStub]:
    """Yield a registry with the schema of the topic."""
    with RegistryStub() as stub:
        yield stub


def job(kafka: KafkaCluster, registry: RegistryStub, names: tuple[str, str], directory: Path, *more: str) -> Any:
    """Start the job."""
    source, sink = names
    options = ["--brokers", kafka.hosts, "--registry", registry.url, "--source", source, "--sink", sink]
    options += ["--prefix", sink, "--directory", str(directory), *more]
    return program(SALES, *options, environment={"PYSPARK_PYTHON": sys.executable})


def logged(running: Program) -> list[dict[str, Any]]:
    """Return the lines of the job's log."""
    return [json.loads(line.partition(" sales ")[2]) for line in running.lines if ' sales {"' in line]


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.timeout(300)
def test_the_job_on_a_cluster_in_the_process(tmp_path: Path) -> None:
    """As the page says to test the whole job: `--once`, and without transactions."""
    with EmbeddedCluster(topics={"orders": 2, "sales": 1}) as cluster:
        with KafkaClient(cluster.hosts) as client, client.producer() as producer:
            for order in [*ORDERS, LAST]:
                producer.produce("orders", avro_bytes(SCHEMA, order))
        options = ["--brokers", cluster.hosts, "--schema", str(HERE / "order.avsc"), "--prefix", "", "--once"]
        environment = {"PYSPARK_PYTHON": sys.executable}
        status, output = run(SALES, *options, "--directory", str(tmp_path), timeout=200, environment=environment)
        assert status == 0, output
        for found in (in_files(tmp_path), in_topic(cluster.hosts, "sales")):
            assert sorted(found) == sorted(expected().items())


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.kafka
@pytest.mark.matrix
@pytest.mark.timeout(400)
def test_a_job_that_is_stopped_and_started_counts_each_order_once(
    kafka: KafkaCluster, registry: RegistryStub, tmp_path: Path
) -> None:
    names = f"orders-{tmp_path.name}", f"sales-{tmp_path.name}"
    number = registry.add(f"{names[0]}-value", SCHEMA)["id"]
    values = [with_id(number) + avro_bytes(SCHEMA, order) for order in [*ORDERS, LAST]]
    with KafkaClient(kafka.hosts) as client:
        client.admin.create_topics([NewTopic(names[0], 2), NewTopic(names[1], 1)])
        with client.producer() as producer:
            for value in [b"no order", *values[:35]]:
                producer.produce(names[0], value)
        with job(kafka, registry, names, tmp_path) as running:
            for query in ("files", "topic"):
                running.wait_for(f'"query": "sales-{query}", "batch": 1', timeout=120)
            running.signal(signal.SIGTERM)
            assert running.wait(60) == 0, running.output
            assert "Exception" not in running.output.replace("SparkEnv not active", ""), running.output
        assert sum(line["unreadable"] for line in logged(running)) == 2, "once a query"
        with client.producer() as producer:
            for value in values[35:]:
                producer.produce(names[0], value)
    with job(kafka, registry, names, tmp_path, "--once") as running:
        assert running.wait(120) == 0, running.output
    lines = logged(running)
    assert {line["behind"] for line in lines} == {0}
    with KafkaClient(kafka.hosts) as client:
        for group in ("sales-files", "sales-topic"):
            offsets = client.admin.list_group_offsets(group)[group]
            assert sum(one.offset for place, one in offsets.items() if place.topic == names[0]) == len(values) + 1
    assert {line["unreadable"] for line in lines} == {0}
    for found in (in_files(tmp_path), in_topic(kafka.hosts, names[1])):
        assert sorted(found) == sorted(expected().items())


def test_the_page_shows_the_job() -> None:
    page = {block.argument: block.text for block in programs(ROOT / "docs" / "spark-job.md") if block.mode == "file"}
    assert page["sales.py"] == (HERE / "sales.py").read_text()
    assert (HERE / "order.avsc").read_text() in (ROOT / "docs" / "spark-job.md").read_text()


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.matrix
@pytest.mark.timeout(300)
def test_the_notebook_draws_the_progress_of_a_stream(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path))
    notebook: Any = nbformat.read(HERE / "progress.ipynb", as_version=4)  # type: ignore[no-untyped-call]
    NotebookClient(notebook, timeout=120, resources={"metadata": {"path": str(tmp_path)}}).execute()
    outputs = [output for cell in notebook.cells if cell.cell_type == "code" for output in cell.outputs]
    text = "".join(output.text for output in outputs if output.output_type == "stream")
    assert "micro-batch 7: 5000 records" in text, text
    assert re.search(r"^micro-batch 0: 5000 records in .* s, 35000 behind$", text, re.MULTILINE), text
    assert any("image/png" in output.get("data", {}) for output in outputs)
