"""`format("pykafka")` on a server of Spark Connect, which is what PySpark brings and has no further jar."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.brokers import KafkaCluster
from tests.support.spark.standalone import ROOT, SPARK_HOME, START_TIMEOUT_S, spark_environment
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
def connect_server(directory: Path) -> Iterator[str]:
    """Run a server for the length of the block; return its URL."""
    log = directory / "server.log"
    settings = [word for name, value in SETTINGS.items() for word in ("--conf", f"{name}={value}")]
    program = ["--class", "org.apache.spark.sql.connect.service.SparkConnectServer", "--master", "local[2]"]
    with log.open("wb") as file:
        server = subprocess.Popen(
            [str(SPARK_HOME / "bin" / "spark-submit"), *program, *settings],
            cwd=directory,
            env=spark_environment(),
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
        server.wait(30)


def test_connect(kafka: KafkaCluster, tmp_path: Path) -> None:
    """Batch and stream, read and write; and what is refused, is refused with our sentence."""
    topics = Topics(kafka.hosts)
    topic, copy = topics.create(2), topics.create(2)
    topics.produce(topic, [Record(b"%d" % n, b"k%d" % n, n % 2) for n in range(20)])
    with connect_server(tmp_path) as remote:
        client = [
            sys.executable,
            "-m",
            "tests.support.spark.connect_client",
            remote,
            kafka.hosts,
            topic,
            copy,
            str(tmp_path),
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
