"""A Spark session for all tests here, and topics for each."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark import __version__
from pyspark.sql import DataFrame, SparkSession

from tests.brokers import KafkaCluster
from tests.support.spark.classes import local_files, quick_starts
from tests.support.spark.connector import has_connector
from tests.support.spark.daemon import write_python
from tests.support.spark.topics import Topics

ROOT = Path(__file__).resolve().parents[2]
HERE = Path(__file__).resolve().parent
collect_ignore = [] if has_connector() else ["test_jvm_connector.py", "test_interchange.py"]
#: No table format is made for this one.
collect_ignore += [] if __version__.startswith(("4.0.", "4.1.", "4.2.")) else ["test_pipeline_lakes.py"]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests with a session, which take long on a busy machine, and ignore PySpark's own warnings."""
    for item in items:
        if HERE not in item.path.parents or "spark" not in getattr(item, "fixturenames", ()):
            continue
        item.add_marker(pytest.mark.spark)
        if item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(600))
        item.add_marker(pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning"))
        # Sockets of py4j's gateway, which PySpark leaves to the garbage collector.
        item.add_marker(pytest.mark.filterwarnings("ignore::ResourceWarning"))
        item.add_marker(pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"))


@pytest.fixture(scope="session")
def quick_python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a Python for Spark whose workers have imported what they need before they are forked."""
    os.environ["PYTHONPATH"] = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    python = tmp_path_factory.mktemp("python") / "python"
    write_python(python)
    return python


@pytest.fixture(scope="session")
def spark(quick_python: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """Yield a local session whose Python workers are of this Python and see this checkout."""
    builder = (
        SparkSession.builder.master("local[2]")
        .appName("pykafka-tests")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.warehouse.dir", str(tmp_path_factory.mktemp("warehouse")))
        .config("spark.log.level", "ERROR")
    )
    classes, settings = local_files()
    for name, value in settings.items():
        builder = builder.config(name, value)
    # One start alone is not worth an archive.
    with quick_starts(make=False), pytest.MonkeyPatch.context() as patched:
        patched.setenv("PYSPARK_PYTHON", str(quick_python))
        # The last place of Spark's class path: before others, the archive would not fit.
        patched.setenv("SPARK_DIST_CLASSPATH", str(classes))
        session: SparkSession = builder.getOrCreate()
    # Most programs that tests start have PySpark's own daemon.
    os.environ["PYSPARK_PYTHON"] = sys.executable
    yield session
    session.stop()


@pytest.fixture(scope="session")
def topics(kafka: KafkaCluster) -> Topics:
    """Yield the topics of the real broker, connected already: the watch for leftovers would count that."""
    found = Topics(kafka.hosts)
    found.create()
    return found


@pytest.fixture
def read(spark: SparkSession, topics: Topics) -> Callable[..., DataFrame]:
    """Return `read(subscribe=..., ...)`: a batch DataFrame of the real broker."""

    def load(schema: str | None = None, **options: Any) -> DataFrame:
        reader = spark.read.format("pykafka").option("kafka.bootstrap.servers", topics.hosts).options(**options)
        return (reader.schema(schema) if schema else reader).load()

    return load


@pytest.fixture
def read_stream(spark: SparkSession, topics: Topics) -> Callable[..., DataFrame]:
    """Return `read_stream(subscribe=..., ...)`: a streaming DataFrame of the real broker."""

    def load(**options: Any) -> DataFrame:
        reader = spark.readStream.format("pykafka").option("kafka.bootstrap.servers", topics.hosts)
        return reader.options(**options).load()

    return load
