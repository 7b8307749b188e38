"""Features that the installed release of PySpark offers to sources."""

from __future__ import annotations

from importlib.util import find_spec


def limits_micro_batches() -> bool:
    """Return whether Spark limits micro-batches, and divides Trigger.AvailableNow into several: since PySpark 4.2."""
    return find_spec("pyspark.sql.streaming.datasource") is not None
