"""Spark for a pipeline: a session of its own, on this machine or on a cluster, or the session of spark-submit."""

from __future__ import annotations

import logging
import os
import re
import shutil
import signal
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from py4j.protocol import Py4JError
from pyspark import SparkConf, SparkContext, __version__
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from pykafka.spark.pipeline.declaration import Declaration
from pykafka.spark.pipeline.errors import DeclarationError, SparkMissingError, first_and_last, first_line
from pykafka.spark.pipeline.model import TITLES, TableSink
from pykafka.spark.pipeline.tables import Problem

log = logging.getLogger("pykafka.spark.pipeline")

#: Settings that a declaration may override.
_DEFAULTS = {
    # The program reports errors as a sentence; a log would print a hundred lines of stacks before it.
    "spark.log.level": "FATAL",
    # Spark's progress bar would draw over ours.
    "spark.ui.showConsoleProgress": "false",
    # By default Spark waits without limit for a query that stops.
    "spark.sql.streaming.stopTimeout": "30s",
}
#: Options of format("pykafka") with secrets whose names and values Spark's own settings do not know.
_MORE_SECRETS = "jaas|keystore[.]key|^proxy$"
#: Settings that count only if the JVM is started, or Spark's launcher reads.
_AT_LAUNCH = re.compile(r"spark[.](driver|submit|jars|files|archives)\b")
_PYTHON_SETTING, _PYTHON_VARIABLE = "spark.pyspark.python", "PYSPARK_PYTHON"

_PACKAGES, _EXCLUDES, _EXTENSIONS = "spark.jars.packages", "spark.jars.excludes", "spark.sql.extensions"
#: What Delta's jars depend on and Spark has itself: another release beside it could contradict that.
_OF_SPARK = (
    "com.fasterxml.jackson.core:jackson-annotations",
    "com.fasterxml.jackson.core:jackson-core",
    "com.fasterxml.jackson.core:jackson-databind",
    "com.github.luben:zstd-jni",
    "com.google.code.findbugs:jsr305",
    "commons-pool:commons-pool",
    "io.airlift:aircompressor",
    "org.apache.hadoop:hadoop-client-api",
    "org.apache.hadoop:hadoop-client-runtime",
    "org.apache.logging.log4j:log4j-api",
    "org.apache.logging.log4j:log4j-core",
    "org.apache.logging.log4j:log4j-slf4j2-impl",
    "org.apache.parquet:parquet-column",
    "org.apache.parquet:parquet-common",
    "org.apache.parquet:parquet-encoding",
    "org.apache.parquet:parquet-format-structures",
    "org.apache.parquet:parquet-hadoop",
    "org.apache.parquet:parquet-jackson",
    "org.roaringbitmap:RoaringBitmap",
    "org.scala-lang:scala-library",
    "org.slf4j:slf4j-api",
    "org.xerial.snappy:snappy-java",
)
#: Settings by which a user brings jars.
_JARS = (_PACKAGES, "spark.jars", "spark.driver.extraClassPath")


@contextmanager
def session(declaration: Declaration, master: str = "") -> Iterator[SparkSession]:
    """Start Spark for the length of the block. A session that this process already has is used, and left running.

    :param declaration: the pipeline, whose settings the session gets
    :param master: replaces the declaration's master
    :raises SparkMissingError: Java is missing, or Spark does not start
    :raises DeclarationError: a sink's format is not made for this release of Spark
    """
    if (there := SparkSession.getActiveSession()) is not None:
        yield there
        return
    # spark-submit sets it, and has started the JVM already.
    submitted = "PYSPARK_GATEWAY_PORT" in os.environ
    if submitted and master:
        raise SparkMissingError("spark-submit sets the master: give --master to spark-submit itself")
    wanted = table_settings(declaration, __version__)
    settings = {**_DEFAULTS, "spark.app.name": declaration.name}
    if not submitted:
        need_java()
        # Workers on this machine must have the packages of this process.
        os.environ.setdefault(_PYTHON_VARIABLE, declaration.config.get(_PYTHON_SETTING, sys.executable))
        if master or declaration.master:
            settings["spark.master"] = master or declaration.master
    try:
        spark = _started({**settings, **wanted}, declaration.redact)
    except (PySparkException, Py4JError) as error:
        raise SparkMissingError(f"Spark does not start: {first_and_last(error)}") from error
    try:
        yield spark
    finally:
        _end(spark)


def redaction_settings() -> dict[str, str]:
    """Return settings of Spark by which no plan, page or log of its own shows the secrets among options."""
    return {
        "spark.redaction.regex": f"(?i)secret|password|token|access[.]?key|{_MORE_SECRETS}",
        "spark.sql.redaction.options.regex": f"(?i)url|{_MORE_SECRETS}",
    }


def kill() -> None:
    """Kill the Spark of this process: its JVM would otherwise end with stacks of the interrupted work.

    A session of spark-submit is not ours to kill. Spark's temporary files stay.
    """
    gateway = SparkContext._gateway
    process = None if gateway is None else gateway.proc
    if process is not None:
        process.kill()


def public(settings: dict[str, str], redact: Callable[[str], str]) -> dict[str, str]:
    """Return the settings without those that have secrets, but for what must be there when the JVM starts.

    :param redact: takes secrets out of a text
    """
    named = re.compile(redaction_settings()["spark.redaction.regex"])
    return {
        name: value
        for name, value in settings.items()
        if _AT_LAUNCH.match(name) or not (named.search(name) or redact(value) != value)
    }


def _started(settings: dict[str, str], redact: Callable[[str], str]) -> SparkSession:
    before = signal.getsignal(signal.SIGINT)
    try:
        # PySpark starts the JVM with settings as its arguments, which everybody on this machine can read: the others follow
        # when it runs. (Made first: beside a JVM, a SparkConf would have the JVM's settings alone.)
        conf, shown = (SparkConf().setAll(list(some.items())) for some in (settings, public(settings, redact)))
        for name, value in redaction_settings().items():
            conf.setIfMissing(name, value)
        SparkContext._ensure_initialized(conf=shown)
        SparkContext.getOrCreate(conf)
    finally:
        # Spark's own handler calls the JVM, also from within another call, which ends in stacks of both.
        if before is not None and signal.getsignal(signal.SIGINT) is not before:
            signal.signal(signal.SIGINT, before)
    spark: SparkSession = SparkSession.builder.config(map={**settings}).getOrCreate()
    return spark


def _end(spark: SparkSession) -> None:
    """Stop Spark. One that is gone cannot be stopped: what the run raised says it, and stays the error."""
    try:
        spark.stop()
    except (Py4JError, OSError) as error:  # py4j lets a refused connection through
        log.warning("Spark did not stop: %s", first_line(error))


def need_java() -> None:
    """Raise if there is no Java, which Spark needs."""
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home, "bin", "java")) if home else "java"
    if shutil.which(java) is None:
        where = f"JAVA_HOME is {home}, and has no bin/java" if home else "there is no `java` on the path"
        raise SparkMissingError(f"Spark needs Java 17 or later, and {where}: install a JDK, or point JAVA_HOME at one")


@dataclass(frozen=True)
class Lake:
    """A format of tables.

    :param artifact: the beginning of its jar's name
    :param packages: Maven coordinates by the release of PySpark that they are made for
    :param extension: the class that adds its SQL
    :param catalog: the class of its catalogs
    :param excludes: what the packages depend on and Spark has
    """

    artifact: str
    packages: Mapping[str, str]
    extension: str
    catalog: str
    excludes: tuple[str, ...] = ()


LAKES = {
    "delta": Lake(
        "delta-spark",
        {
            "4.0": "io.delta:delta-spark_4.0_2.13:4.4.0",
            "4.1": "io.delta:delta-spark_4.1_2.13:4.4.0",
            # Made for this one, and not for later ones of its line.
            "4.2.0": "io.delta:delta-spark_4.2_2.13:4.4.0",
        },
        "io.delta.sql.DeltaSparkSessionExtension",
        "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        _OF_SPARK,
    ),
    "iceberg": Lake(
        "iceberg-spark-runtime",
        {
            "4.0": "org.apache.iceberg:iceberg-spark-runtime-4.0_2.13:1.11.0",
            "4.1": "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.11.0",
        },
        "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
        "org.apache.iceberg.spark.SparkCatalog",
    ),
}


def table_settings(declaration: Declaration, release: str) -> dict[str, str]:
    """Return the declaration's settings of Spark, with those that its tables need.

    :param release: of PySpark
    :raises DeclarationError: a format is not made for this release
    """
    found = dict(declaration.config)
    packages: list[str] = []
    excludes: list[str] = []
    extensions: list[str] = []
    problems: list[Problem] = []
    for output in declaration.outputs:
        sink = output.sink
        if not isinstance(sink, TableSink):
            continue
        lake = LAKES[sink.format]
        if not any(lake.artifact in declaration.config.get(setting, "") for setting in _JARS):
            package = next((text for made, text in lake.packages.items() if f"{release}.".startswith(f"{made}.")), None)
            if package is None:
                problems.append(Problem(f"{output.place} format", _why(sink.format, lake, release)))
                continue
            packages.append(package)
            excludes += lake.excludes
        extensions.append(lake.extension)
        for setting, text in _catalog(sink, lake).items():
            if found.setdefault(setting, text) != text and setting not in declaration.config:
                problems.append(
                    Problem(f"{output.place} warehouse", "contradicts that of another sink in the same catalog")
                )
    if problems:
        raise DeclarationError(declaration.name, problems)
    for setting, wanted in ((_PACKAGES, packages), (_EXCLUDES, excludes), (_EXTENSIONS, extensions)):
        already = [part for part in declaration.config.get(setting, "").split(",") if part]
        joined = ",".join(dict.fromkeys([*already, *wanted]))
        if joined:
            found[setting] = joined
    return found


def _why(kind: str, lake: Lake, release: str) -> str:
    made = ", ".join(lake.packages)
    return (
        f"{kind!r} needs jars that are made for one release of Spark: {TITLES[kind]} has them for {made}, and this is "
        f"PySpark {release}; install one of those, or name jars of your own in [spark.config] {_PACKAGES!r}"
    )


def _catalog(sink: TableSink, lake: Lake) -> dict[str, str]:
    """Return the settings of the catalog of a table."""
    if sink.format == "delta":
        return {"spark.sql.catalog.spark_catalog": lake.catalog}
    if not sink.warehouse:
        return {}
    name = f"spark.sql.catalog.{sink.table.partition('.')[0]}"
    return {name: lake.catalog, f"{name}.type": "hadoop", f"{name}.warehouse": sink.warehouse}
