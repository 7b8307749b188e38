"""The Python of Spark's workers, which look `format("pykafka")` up, and read and write.

Without PYSPARK_PYTHON Spark starts the `python3` of the PATH, whatever Python the driver runs. A driver started as
`venv/bin/python job.py`, without activation, then has workers without this package, and Spark does not find the format.
"""

from __future__ import annotations

import logging
import os
import shutil
import sys

log = logging.getLogger("pykafka.spark")

#: Each of these sets the workers' Python, or shows that Spark's JVM runs already or elsewhere.
_DECIDED = ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON", "PYSPARK_GATEWAY_PORT", "SPARK_REMOTE")


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
    # The symlinks of environments point to one file; their own location tells them apart.
    places = [os.path.realpath(os.path.dirname(one)) for one in (found, sys.executable)]
    return places[0] == places[1]
