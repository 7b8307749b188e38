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


def _is_this(found: str | None) -> bool:
    """Return whether a Python is of the same environment as this one."""
    if found is None:
        return False
    # The symlinks of environments point to one file; their own location tells them apart.
    places = [os.path.realpath(os.path.dirname(one)) for one in (found, sys.executable)]
    return places[0] == places[1]
