"""Spark for a pipeline: a session of its own, on this machine, on a cluster, or the one that spark-submit has made."""

from __future__ import annotations

import os
import shutil
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from py4j.protocol import Py4JError
from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from pykafka.spark.pipeline.causes import first_and_last
from pykafka.spark.pipeline.declaration import Declaration
from pykafka.spark.pipeline.errors import SparkMissingError

#: Settings that a declaration may have otherwise.
_DEFAULTS = {
    # What fails is told in a sentence; a log of it would be a hundred lines of stacks before that.
    "spark.log.level": "FATAL",
    # Its bar would be drawn over ours.
    "spark.ui.showConsoleProgress": "false",
    # By default a query that is stopped is waited for without limit.
    "spark.sql.streaming.stopTimeout": "30s",
}
_PYTHON_SETTING, _PYTHON_VARIABLE = "spark.pyspark.python", "PYSPARK_PYTHON"


@contextmanager
def session(declaration: Declaration, master: str = "") -> Iterator[SparkSession]:
    """Start Spark for the length of the block; a session that this process has already is used, and left as it is.

    :param declaration: whose settings it gets
    :param master: instead of the declaration's
    :raises SparkMissingError: there is no Java, or Spark does not start
    """
    if (there := SparkSession.getActiveSession()) is not None:
        yield there
        return
    # Set by spark-submit, which has started the JVM already.
    submitted = "PYSPARK_GATEWAY_PORT" in os.environ
    if submitted and master:
        raise SparkMissingError("spark-submit says which master it is: give --master to spark-submit itself")
    settings = {**_DEFAULTS, "spark.app.name": declaration.name}
    if not submitted:
        _need_java()
        # Workers on this machine are to have the packages that this process has.
        os.environ.setdefault(_PYTHON_VARIABLE, declaration.config.get(_PYTHON_SETTING, sys.executable))
        if master or declaration.master:
            settings["spark.master"] = master or declaration.master
    try:
        spark = _started({**settings, **declaration.config})
    except (PySparkException, Py4JError) as error:
        raise SparkMissingError(f"Spark does not start: {first_and_last(error)}") from error
    try:
        yield spark
    finally:
        spark.stop()


def kill() -> None:
    """Kill Spark where this process has started it: left to itself, its JVM would end with stacks of what was not done.

    What spark-submit has started is its own to end. Spark's temporary files stay.
    """
    gateway = SparkContext._gateway
    process = None if gateway is None else gateway.proc
    if process is not None:
        process.kill()


def _started(settings: dict[str, str]) -> SparkSession:
    before = signal.getsignal(signal.SIGINT)
    try:
        SparkContext.getOrCreate(SparkConf().setAll(list(settings.items())))
    finally:
        # Spark's own handler calls the JVM, also from within another call, which ends in stacks of both.
        if before is not None and signal.getsignal(signal.SIGINT) is not before:
            signal.signal(signal.SIGINT, before)
    spark: SparkSession = SparkSession.builder.config(map={**settings}).getOrCreate()
    return spark


def _need_java() -> None:
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home, "bin", "java")) if home else "java"
    if shutil.which(java) is None:
        where = f"JAVA_HOME is {home}, and has no bin/java" if home else "there is no `java` on the path"
        raise SparkMissingError(f"Spark needs Java 17 or later, and {where}: install a JDK, or point JAVA_HOME at one")
