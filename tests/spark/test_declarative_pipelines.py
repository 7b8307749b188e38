"""Spark Declarative Pipelines over format("pykafka"): the project that docs/spark.md shows, run by spark-pipelines."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import pyarrow.parquet as pq
import pytest

from tests.spark.conftest import ROOT
from tests.support.formats import avro_bytes
from tests.support.realschemas import record
from tests.support.spark.topics import Record, Topics

pytestmark = [
    *(pytest.mark.matrix, pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(1500)),
    pytest.mark.usefixtures("quick_spark"),
]
#: As the page shows it: Spark's own catalog ends with the run.
CATALOG = ("--conf", "spark.sql.catalogImplementation=hive")
SCHEMA = record("Flight", carrier="string", delay="int")


def shown(language: str) -> str:
    """Return the block of docs/spark.md about declarative pipelines."""
    page = (ROOT / "docs/spark.md").read_text()
    section = page.partition("\n## Declarative Pipelines\n")[2].partition("\n## ")[0]
    pattern = r"^```python\n(.*?)^```" if language == "python" else r"^(    name: flights\n(?:    .*\n)+)"
    found = re.search(pattern, section, re.MULTILINE | re.DOTALL if language == "python" else re.MULTILINE)
    assert found is not None
    return dedent(found[1])


def run(project: Path) -> None:
    """Run the project once, by a Spark of its own."""
    binaries = Path(sys.executable).parent
    environment = {
        **os.environ,
        **{"PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"},
        "PYTHONPATH": str(ROOT),
        "PATH": os.pathsep.join([str(binaries), os.environ["PATH"]]),
    }
    done = subprocess.run(
        [
            str(binaries / "spark-pipelines"),
            "run",
            "--spec",
            "spark-pipeline.yml",
            *CATALOG,
            "--conf",
            "spark.ui.enabled=false",
        ],
        env=environment,
        cwd=project,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, f"{done.stdout[-3000:]}\n{done.stderr[-3000:]}"


def test_the_project_of_the_page(topics: Topics, tmp_path: Path) -> None:
    """Two runs take each record once; a materialized view and a topic follow."""
    source, sink = topics.create(2), topics.create(1)
    data = str(tmp_path)
    program = shown("python").replace("localhost:9092", topics.hosts).replace("/data", data)
    program = program.replace('subscribe="flights"', f'subscribe="{source}"').replace(
        '"topic": "late"', f'"topic": "{sink}"'
    )
    assert source in program
    assert sink in program
    (tmp_path / "transformations").mkdir()
    (tmp_path / "transformations" / "flights.py").write_text(program)
    (tmp_path / "spark-pipeline.yml").write_text(shown("yaml").replace("/data", data))
    (tmp_path / "flight.avsc").write_text(json.dumps(SCHEMA))
    for first in (0, 50):
        rows = [{"carrier": "UA" if n % 2 else "AA", "delay": n} for n in range(first, first + 50)]
        topics.produce(source, [Record(avro_bytes(SCHEMA, row), None, n % 2) for n, row in enumerate(rows)])
        topics.produce(source, [Record(b"\xff", None, 0)])  # no flight
        run(tmp_path)
    files = list((tmp_path / "spark-warehouse").rglob("flights/*.parquet"))
    found = [row for file in files for row in pq.read_table(file).to_pylist()]
    assert sorted(row["delay"] for row in found) == list(range(100))
    (view,) = [pq.read_table(one).to_pylist() for one in [tmp_path / "spark-warehouse" / "delays"]]
    assert {row["carrier"]: row["count"] for row in view} == {"UA": 50, "AA": 50}
    assert sorted(json.loads(one.value or b"{}")["delay"] for one in topics.read(sink)) == list(range(41, 100))
