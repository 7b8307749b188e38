"""Which Python Spark's workers run: they look `format("pykafka")` up, and read and write.

Without PYSPARK_PYTHON Spark starts the `python3` of the PATH, whatever Python the driver is. A driver that is started as
`venv/bin/python job.py`, without activation, then has workers without this package, and Spark finds no such format.
"""

from __future__ import annotations

import logging
import os
import shutil
import sys

log = logging.getLogger("pykafka.spark")

#: Any of these says it, or says that Spark's JVM is started already or somewhere else.
_DECIDED = ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON", "PYSPARK_GATEWAY_PORT", "SPARK_REMOTE")


def offer_python() -> None:
    """Have Spark's workers run this Python, if nobody has said which and the `python3` of the PATH is another one.

    It takes effect where Spark is started after that; in a session of this machine alone that is there already, for what
    is registered from then on.
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
    """Return whether a Python is this one: of the same environment."""
    if found is None:
        return False
    # The links of environments lead to one and the same file: where they stand tells them apart.
    places = [os.path.realpath(os.path.dirname(one)) for one in (found, sys.executable)]
    return places[0] == places[1]
