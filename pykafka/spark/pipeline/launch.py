"""Spark for a pipeline: a session of its own, on this machine or on a cluster, or the session of spark-submit."""

from __future__ import annotations

import logging
import os
import re
import shutil
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from py4j.protocol import Py4JError
from pyspark import SparkConf, SparkContext, __version__
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from pykafka.spark.pipeline import lakes
from pykafka.spark.pipeline.causes import first_and_last, first_line
from pykafka.spark.pipeline.declaration import Declaration
from pykafka.spark.pipeline.errors import SparkMissingError

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
#: Settings that count only where the JVM is started, or Spark's launcher reads.
_AT_LAUNCH = re.compile(r"spark[.](driver|submit|jars|files|archives)\b")
_PYTHON_SETTING, _PYTHON_VARIABLE = "spark.pyspark.python", "PYSPARK_PYTHON"


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
    wanted = lakes.settings(declaration, __version__)
    settings = {**_DEFAULTS, "spark.app.name": declaration.name}
    if not submitted:
        _need_java()
        # Workers on this machine must have the packages of this process.
        os.environ.setdefault(_PYTHON_VARIABLE, declaration.config.get(_PYTHON_SETTING, sys.executable))
        if master or declaration.master:
            settings["spark.master"] = master or declaration.master
    try:
        spark = _started({**settings, **wanted}, declaration.hide)
    except (PySparkException, Py4JError) as error:
        raise SparkMissingError(f"Spark does not start: {first_and_last(error)}") from error
    try:
        yield spark
    finally:
        _end(spark)


def redaction() -> dict[str, str]:
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


def public(settings: dict[str, str], hide: Callable[[str], str]) -> dict[str, str]:
    """Return the settings without those that have secrets, but for what must be there when the JVM starts.

    :param hide: takes secrets out of a text
    """
    named = re.compile(redaction()["spark.redaction.regex"])
    return {
        name: value
        for name, value in settings.items()
        if _AT_LAUNCH.match(name) or not (named.search(name) or hide(value) != value)
    }


def _started(settings: dict[str, str], hide: Callable[[str], str]) -> SparkSession:
    before = signal.getsignal(signal.SIGINT)
    try:
        # PySpark starts the JVM with settings as its arguments, which everybody on this machine can read: the others follow
        # when it runs. (Made first: beside a JVM, a SparkConf would have the JVM's settings alone.)
        conf, shown = (SparkConf().setAll(list(some.items())) for some in (settings, public(settings, hide)))
        for name, value in redaction().items():
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


def _need_java() -> None:
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home, "bin", "java")) if home else "java"
    if shutil.which(java) is None:
        where = f"JAVA_HOME is {home}, and has no bin/java" if home else "there is no `java` on the path"
        raise SparkMissingError(f"Spark needs Java 17 or later, and {where}: install a JDK, or point JAVA_HOME at one")
