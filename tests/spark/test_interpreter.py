"""Which Python Spark's workers run, where the driver's environment is not activated."""

from __future__ import annotations

import os
import subprocess
import sys
import venv
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
JOB = """
import sys
sys.path.insert(0, {root!r})
{before}
from pyspark.sql import SparkSession
spark = (
    SparkSession.builder.master("local[1]")
    .config("spark.ui.enabled", "false")
    .config("spark.driver.host", "127.0.0.1")
    .config("spark.driver.bindAddress", "127.0.0.1")
    .config("spark.driver.extraJavaOptions", "-XX:TieredStopAtLevel=1")
    .getOrCreate()
)
{after}
options = {{"kafka.bootstrap.servers": "127.0.0.1:1", "subscribe": "a"}}
print("columns:", *spark.read.format("pykafka").options(**options).load().columns)
spark.stop()
"""
LATER = "from pykafka.spark import KafkaDataSource; spark.dataSource.register(KafkaDataSource)"


@pytest.mark.spark
@pytest.mark.timeout(600)
@pytest.mark.usefixtures("quick_spark")
@pytest.mark.parametrize(
    ("before", "after"), [("import pykafka.spark", ""), ("", LATER)], ids=["imported before", "registered after"]
)
def test_the_drivers_own_python_is_found(tmp_path: Path, before: str, after: str) -> None:
    # `venv/bin/python job.py`: the python3 of the PATH is another one, without this package. It was DATA_SOURCE_NOT_FOUND.
    venv.create(tmp_path / "other", symlinks=True)
    job = tmp_path / "job.py"
    job.write_text(JOB.format(root=str(ROOT), before=before, after=after))
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYSPARK_", "PYTHON"))}
    environment = {**kept, "PATH": os.pathsep.join([str(tmp_path / "other" / "bin"), os.environ["PATH"]])}
    done = subprocess.run(
        [sys.executable, str(job)],
        env=environment,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert "columns: key value topic" in done.stdout
