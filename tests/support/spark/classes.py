"""An archive of Spark's classes, as brokers have one: a JVM that starts with it needs half the CPU time until its query runs.

`python -m tests.support.spark.classes` makes it before the tests: as late as the first program of Spark, JVMs that start at the
same time would be without one. It also compiles the sources of Spark's Python workers (`sources.py`), and the class for local
files (`LocalFiles.java`). The archive is made of Spark doing a little of all that the tests have it do.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyspark

from tests.brokers.archives import class_archive, compiled, recording
from tests.support.spark.sources import compile_archives
from tests.support.spark.standalone import JVM_OPTIONS, ROOT, SPARK_HOME, spark_environment

#: How long Spark may take for the little that is recorded (s); where it takes longer, all continues without an archive.
RECORDING_TIMEOUT_S = 240.0
#: What runs for seconds gains nothing from the second compiler.
FIRST_COMPILER = "-XX:TieredStopAtLevel=1"
#: Alone, the first compiler is given 48 MB for its code. They are full after some hundred queries, and then the JVM fails.
ROOM_FOR_CODE = "-XX:ReservedCodeCacheSize=192m"
#: Hadoop starts a process for each file that it makes (`LocalFiles.java`): this way without a helper that starts it.
NO_HELPER = "-Djdk.lang.Process.launchMechanism=VFORK"
LOCAL_FILES = Path(__file__).with_name("LocalFiles.java")


def jvm_options(make: bool) -> list[str]:
    """Return the options with which Spark's JVMs start quickly.

    :param make: the archive, if there is none; it takes as long as a few starts, and is kept
    """
    found = class_archive(_place(), _record if make else lambda _: None)
    # A JVM that cannot use it says so on its standard output, which belongs to the tests.
    return [FIRST_COMPILER, ROOM_FOR_CODE, NO_HELPER, *found, *(["-Xlog:disable"] if found else [])]


def local_files() -> tuple[Path, dict[str, str]]:
    """Return the directory of a class for local files, and the settings of a session that takes it."""
    settings = {"fs.file.impl": "LocalFiles", "fs.AbstractFileSystem.file.impl": "LocalFiles$Context"}
    classes = compiled(LOCAL_FILES, SPARK_HOME / "jars", _place())
    return classes, {f"spark.hadoop.{name}": value for name, value in settings.items()}


def _place() -> Path:
    """Return the begin of the paths of what is made of Spark's jars."""
    jars = SPARK_HOME / "jars"
    # JVMs take an archive only for the very jars that it was made of.
    key = hashlib.sha256(f"{jars} {jars.stat().st_mtime_ns}".encode()).hexdigest()[:12]
    # Beside those jars, so that it goes when the virtual environment goes.
    place = Path(sys.prefix) / "share" / "pykafka-tests" / f"pyspark-{pyspark.__version__}-{key}"
    place.parent.mkdir(parents=True, exist_ok=True)
    return place


@contextmanager
def quick_starts(make: bool) -> Iterator[None]:
    """Make each JVM of Spark that a program starts in the block start quickly.

    :param make: as above; also compile PySpark's sources for their Python workers
    """
    if make:
        compile_archives()
    added = {
        JVM_OPTIONS: " ".join(f'"{option}"' for option in jvm_options(make)),
        # The JVM by which the scripts of Spark find out how to start another one.
        "SPARK_LAUNCHER_OPTS": f"{FIRST_COMPILER} -XX:+UseSerialGC",
    }
    before = {name: os.environ.get(name) for name in added}
    os.environ.update(added)
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name)
            if value is not None:
                os.environ[name] = value


def _record(archive: Path) -> None:
    with tempfile.TemporaryDirectory() as directory:
        command = [sys.executable, "-m", "tests.support.spark.classes", directory]
        # The end of what it says is nobody's business: Java names each class that it leaves out.
        process = subprocess.Popen(
            command,
            cwd=ROOT,
            env=spark_environment() | {JVM_OPTIONS: f'{FIRST_COMPILER} "{recording(archive)}" -Xlog:disable'},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            process.wait(RECORDING_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def main(directory: str) -> None:
    """Read, parse, count, land and write a topic, and wait for the end of Spark's JVM, which then writes the archive."""
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    from pykafka import KafkaClient
    from pykafka.embedded import EmbeddedCluster

    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    builder = builder.config("spark.driver.host", "127.0.0.1").config("spark.driver.bindAddress", "127.0.0.1")
    spark = builder.config("spark.sql.shuffle.partitions", "2").getOrCreate()
    with EmbeddedCluster(1, {"in": 1, "out": 1}) as cluster, KafkaClient(cluster.hosts) as client:
        with client.topics["in"].get_sync_producer() as producer:
            producer.produce(b'{"n": 1, "at": "2026-01-01T00:00:00Z"}')
        options = {"kafka.bootstrap.servers": cluster.hosts, "subscribe": "in", "startingOffsets": "earliest"}
        parsed = "from_json(CAST(value AS STRING), 'n INT, at TIMESTAMP') AS row"
        stream = spark.readStream.format("pykafka").options(**options).load().selectExpr(parsed, "offset")
        rows = stream.selectExpr("row.n", "row.at", "offset").withWatermark("at", "1 minute")
        counts = rows.groupBy("at").count().selectExpr("CAST(count AS STRING) AS value")
        landing = rows.selectExpr("*", "date(at) AS day").writeStream.partitionBy("day").format("parquet")
        copying = counts.writeStream.format("pykafka").option("kafka.bootstrap.servers", cluster.hosts)
        landing.option("checkpointLocation", f"{directory}/landing").trigger(availableNow=True).start(
            f"{directory}/landed"
        ).awaitTermination()
        copying.option("topic", "out").option("checkpointLocation", f"{directory}/copying").trigger(
            availableNow=True
        ).start().awaitTermination()
        spark.read.parquet(f"{directory}/landed").groupBy("day").count().collect()
        frame = spark.read.format("pykafka").options(**options).load().selectExpr("value")
        writer = frame.write.format("pykafka").mode("append").option("kafka.bootstrap.servers", cluster.hosts)
        writer.option("topic", "out").save()
        spark.stop()
    gateway = SparkContext._gateway
    assert gateway is not None
    gateway.shutdown()
    # It ends when nobody can tell it anything any more.
    gateway.proc.stdin.close()
    gateway.proc.wait()


if __name__ == "__main__":
    if sys.argv[1:]:
        main(sys.argv[1])
    else:
        jvm_options(make=True)
        local_files()
        compile_archives()
