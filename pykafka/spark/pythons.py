"""Checks of a planner's or worker's Python: it must have this package in the driver's version, and its dependencies."""

from __future__ import annotations

import logging
import os
import platform
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from pykafka import _version
from pykafka.spark.errors import PackageMissingError, ShippedVersionError

#: Modules that source and sink import, with the names of their packages.
NEEDED = {
    "pyarrow": "pyarrow",
    "crc32c": "crc32c",
    "cramjam": "cramjam",
}

log = logging.getLogger("pykafka.spark")

#: Each of these sets the workers' Python, or shows that Spark's JVM runs already or elsewhere.
_DECIDED = ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON", "PYSPARK_GATEWAY_PORT", "SPARK_REMOTE")


def here() -> str:
    """Return this Python as errors name it: its host and its path."""
    return f"the Python of Spark on {platform.node()}, {sys.executable},"


@cache
def need_all() -> None:
    """Check that this Python has the packages that source and sink import.

    :raises PackageMissingError: names those that are missing
    """
    missing = [package for module, package in NEEDED.items() if find_spec(module) is None]
    if missing:
        raise PackageMissingError(
            f"{here()} lacks {', '.join(missing)}, which pykafka {_version.__version__} needs there: make an archive with "
            "`kafka-tools spark-pack` and submit the job as it says, or install the package with its extra `spark` in "
            "that Python"
        )


@contextmanager
def formats_needed() -> Iterator[None]:
    """Name this Python if a package of the extra formats is missing.

    :raises PackageMissingError: names the package
    """
    try:
        yield
    except PackageMissingError:
        raise
    except ImportError as error:
        raise PackageMissingError(
            f"{here()} cannot import {error.name or 'a package'}, which Avro, Protobuf or JSON Schema needs there ({error}): "
            "install the extra formats in that Python, or make its archive with `kafka-tools spark-pack --add fastavro --add "
            "grpcio-tools --add googleapis-common-protos --add jsonschema`"
        ) from error


def check(wanted: str) -> None:
    """Check this Python.

    :param wanted: the version of this package where Spark planned the query
    :raises ShippedVersionError: this Python has another one
    :raises PackageMissingError: a package is missing
    """
    if wanted != _version.__version__:
        raise ShippedVersionError(
            f"{here()} has pykafka {_version.__version__} in {Path(_version.__file__).parent}, and the driver planned the "
            f"query with {wanted}: make them the same, with an archive of the driver's by `kafka-tools spark-pack` or by "
            "installing that version there"
        )
    need_all()


def offer_python() -> None:
    """Set the Python of Spark's workers to this one, unless it is set or the `python3` of the PATH is this one.

    It affects a Spark that starts later; in a running session on this machine alone, it affects what is registered from
    then on.
    """
    if not sys.executable or any(os.environ.get(name) for name in _DECIDED) or _is_this(shutil.which("python3")):
        return
    context = getattr(sys.modules.get("pyspark.core.context"), "SparkContext", None)
    session = getattr(context, "_active_spark_context", None)
    if session is not None and str(session.master).startswith("local"):
        session.pythonExec = sys.executable
    if getattr(context, "_gateway", None) is None:
        os.environ["PYSPARK_PYTHON"] = sys.executable
        log.info("PYSPARK_PYTHON is set to %s: the python3 of the PATH is another one", sys.executable)


def why_not_found() -> str:
    """Return which Python Spark asks for the format, and runs its sources with, and what to do if it is the wrong one."""
    variable = next((name for name in ("PYSPARK_DRIVER_PYTHON", "PYSPARK_PYTHON") if os.environ.get(name)), None)
    asked = "python3" if variable is None else os.environ[variable]
    found = shutil.which(asked)
    place = " (there is no such program here)" if found is None else f" ({found})" if found != asked else ""
    by = "as neither PYSPARK_DRIVER_PYTHON nor PYSPARK_PYTHON is set" if variable is None else f"by {variable}"
    sentence = f"Spark asks {asked}{place}, {by}: "
    if variable == "PYSPARK_DRIVER_PYTHON":
        sentence += "executors run that program, too; unset PYSPARK_DRIVER_PYTHON, and "
    return (
        f"{sentence}set PYSPARK_PYTHON to a Python that has this package on the driver and the executors, such as "
        f"{sys.executable} if that is everywhere, or ship the package as `kafka-tools spark-pack` says"
    )


def _is_this(found: str | None) -> bool:
    """Return whether a Python is of the same environment as this one."""
    if found is None:
        return False
    # The symlinks of environments point to one file; their own location differs.
    places = [os.path.realpath(os.path.dirname(one)) for one in (found, sys.executable)]
    return places[0] == places[1]


def limits_micro_batches() -> bool:
    """Return whether Spark limits micro-batches, and divides Trigger.AvailableNow into several: since PySpark 4.2."""
    return find_spec("pyspark.sql.streaming.datasource") is not None
