"""Spark imports every pyspark_* module at the first look-up of a Python source: ours is cheap."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

READING = """
import sys
from pykafka.metadata import cluster  # by session.cluster_for
from pykafka.spark import microbatch, reader
print(*sorted(sys.modules))
"""
PICKLING = """
import sys
from pyspark.sql.types import BinaryType, StructField, StructType
from pykafka.spark.source import KafkaDataSource
source = KafkaDataSource({"kafka.bootstrap.servers": "localhost:1", "subscribe": "t"})
source.streamReader(StructType([StructField("value", BinaryType())]))
print(*sorted(sys.modules))
"""
PROGRAM = """
import sys
import pyspark.sql.datasource
before = set(sys.modules)
from pyspark_pykafka import DefaultSource
new = set(sys.modules) - before
assert DefaultSource.name() == "pykafka"
print(*sorted(new))
"""


def test_finding_the_format_loads_no_client() -> None:
    result = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=60, check=True)
    loaded = set(result.stdout.split())
    assert "pykafka.spark.source" in loaded
    heavy = {"pykafka.client", "pykafka.protocol.wire", "pyarrow", "gevent", "kazoo", "cramjam", "socket", "ssl"}
    assert not loaded & heavy


def test_reading_loads_no_consumers_and_producers() -> None:
    """A worker's first task waits for every import."""
    result = subprocess.run([sys.executable, "-c", READING], capture_output=True, text=True, timeout=60, check=True)
    loaded = set(result.stdout.split())
    assert "pykafka.metadata.cluster" in loaded
    heavy = {
        "pykafka.client",
        "pykafka.compat.simple_consumer",
        "pykafka.compat.producer",
        "gevent",
        "kazoo",
        "pyspark.pandas",
    }
    assert not loaded & heavy


def test_pickling_a_streams_reader_loads_no_client() -> None:
    """The process in which Spark only pickles a stream's reader does not connect, and the query's start waits for it."""
    result = subprocess.run([sys.executable, "-c", PICKLING], capture_output=True, text=True, timeout=60, check=True)
    loaded = set(result.stdout.split())
    assert "pykafka.spark.stream" in loaded or "pykafka.spark.stream41" in loaded
    heavy = {"pykafka.metadata.cluster", "pykafka.network.node", "pykafka.protocol.wire", "pykafka.spark.progress"}
    assert not loaded & heavy


@pytest.mark.parametrize(
    ("named", "other_first", "expected"),
    [
        ({}, True, "this"),
        ({}, False, None),
        ({"PYSPARK_PYTHON": "py"}, True, "py"),
        ({"PYSPARK_GATEWAY_PORT": "1"}, True, None),
    ],
)
def test_workers_run_this_python_where_nobody_says_otherwise(
    tmp_path: Path, named: dict[str, str], other_first: bool, expected: str | None
) -> None:
    other = tmp_path / "python3"
    other.symlink_to(sys.executable)
    here = str(Path(sys.executable).parent)
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYSPARK_")}
    path = os.pathsep.join([str(tmp_path), here] if other_first else [here])
    result = subprocess.run(
        [sys.executable, "-c", "import os, pykafka.spark; print(os.environ.get('PYSPARK_PYTHON'))"],
        env={**kept, "PATH": path, **named},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert result.stdout.strip() == str(sys.executable if expected == "this" else expected)


def test_an_older_pyspark_is_named(tmp_path: Path) -> None:
    """PySpark 3 has no sources in Python."""
    (tmp_path / "pyspark" / "sql").mkdir(parents=True)
    for name, text in (("", "__version__ = '3.5.3'"), ("cloudpickle/", ""), ("sql/", "")):
        file = tmp_path / "pyspark" / name / "__init__.py"
        file.parent.mkdir(exist_ok=True)
        file.write_text(text)
    path = os.pathsep.join([str(tmp_path), *sys.path])
    for words in (("-c", "import pykafka.spark"), ("-m", "pykafka.cli", "pipeline", "--init")):
        result = subprocess.run(
            [sys.executable, *words],
            env={**os.environ, "PYTHONPATH": path},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        last = result.stderr.splitlines()[-1]
        assert result.returncode == 1, result.stderr
        assert f"needs PySpark 4.0 or later, and {sys.executable} has 3.5.3: pip install" in last
