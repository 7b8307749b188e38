"""`format("pykafka")` on a server of Spark Connect, which is what PySpark brings and has no further jar."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tarfile
import time
import venv
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from pykafka.cli import packing
from tests.brokers import KafkaCluster
from tests.support.spark.standalone import ROOT, SPARK_HOME, START_TIMEOUT_S, bare_environment, spark_environment
from tests.support.spark.topics import Record, Topics

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(900), pytest.mark.usefixtures("quick_spark")]
SETTINGS = {
    "spark.connect.grpc.binding.address": "127.0.0.1",
    "spark.connect.grpc.binding.port": "0",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.memory": "512m",
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": "2",
}


@contextmanager
def connect_server(directory: Path, environment: dict[str, str] | None = None) -> Iterator[str]:
    """Run a server for the length of the block; return its URL.

    :param environment: of the server; by default with this checkout and this Python
    """
    log = directory / "server.log"
    settings = [word for name, value in SETTINGS.items() for word in ("--conf", f"{name}={value}")]
    program = ["--class", "org.apache.spark.sql.connect.service.SparkConnectServer", "--master", "local[2]"]
    with log.open("wb") as file:
        server = subprocess.Popen(
            [str(SPARK_HOME / "bin" / "spark-submit"), *program, *settings],
            cwd=directory,
            env=environment or spark_environment(),
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
        )
    try:
        deadline = time.monotonic() + START_TIMEOUT_S
        while (found := re.search(r"Spark Connect server started at: \S*?:(\d+)", log.read_text())) is None:
            assert server.poll() is None, log.read_text()
            assert time.monotonic() < deadline, log.read_text()
            time.sleep(0.2)
        yield f"sc://127.0.0.1:{found[1]}"
    finally:
        server.terminate()
        server.wait(START_TIMEOUT_S)  # its JVM may take as long to end as to start


def test_connect(kafka: KafkaCluster, tmp_path: Path) -> None:
    """Batch and stream, read and write; and what is refused, is refused with our sentence."""
    reads_and_writes(kafka, tmp_path)


@pytest.mark.matrix
def test_connect_server_without_the_package(kafka: KafkaCluster, tmp_path: Path) -> None:
    """The client sends the archive with its session: the server's Python has only pyarrow, which Spark itself imports."""
    python, archive, arrow = tmp_path / "bare" / "bin" / "python", tmp_path / "pykafka.tar.gz", tmp_path / "arrow"
    venv.create(tmp_path / "bare", symlinks=True)
    packing.pack(packing.target(str(python)), archive)
    with tarfile.open(archive) as packed:
        members = [one for one in packed.getmembers() if one.name.startswith("pyarrow")]
        packed.extractall(arrow, members, filter="data")
    without = tmp_path / "small.tar.gz"
    packing.pack(packing.target(str(python)), without, without=("pyarrow",))
    assert without.stat().st_size < 10e6
    environment = bare_environment(python) | {"PYTHONPATH": str(arrow)}
    reads_and_writes(kafka, tmp_path, str(without), environment)


def reads_and_writes(
    kafka: KafkaCluster, tmp_path: Path, archive: str = "", environment: dict[str, str] | None = None
) -> None:
    """Run the client against a server, and check what it found."""
    topics = Topics(kafka.hosts)
    topic, copy = topics.create(2), topics.create(2)
    topics.produce(topic, [Record(b"%d" % n, b"k%d" % n, n % 2) for n in range(20)])
    with connect_server(tmp_path, environment) as remote:
        client = [
            sys.executable,
            "-m",
            "tests.support.spark.connect_client",
            remote,
            kafka.hosts,
            topic,
            copy,
            str(tmp_path),
            *filter(None, [archive]),
        ]
        done = subprocess.run(
            client, cwd=ROOT, env=spark_environment(), capture_output=True, text=True, timeout=600, check=False
        )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    values = sorted(str(n) for n in range(20))
    assert found["session"] == "pyspark.sql.connect.session"
    assert found["schema"].startswith("struct<key:binary,value:binary,topic:string,")
    assert found["values"] == found["landed"] == values
    assert (
        "option 'startingoffset' is not known to format('pykafka'); did you mean 'startingOffsets'?" in found["refused"]
    )
    assert sorted(record.value or b"" for record in topics.read(copy, 40)) == sorted(v.encode() for v in values * 2)
