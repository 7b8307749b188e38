"""PySpark's daemon, which imports what its workers need before it forks them, not each of them by itself.

A worker is forked for each plan and task, and took half a second of CPU time for imports. Programs that start Spark
themselves (`tests/spark/test_shipping.py` and others) have PySpark's own daemon, as users do, but for those that are killed
and start again and again.
"""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path

# A thread of its own, which a fork would lose.
os.environ["OPENBLAS_NUM_THREADS"] = "1"

import pyspark.daemon
import pyspark.sql.streaming.python_streaming_source_runner
import pyspark.sql.worker.plan_data_source_read
import pyspark.sql.worker.python_streaming_sink_runner
import pyspark.worker

import pykafka.spark.batch
import pykafka.spark.cluster
import pykafka.spark.session
import pykafka.spark.source  # noqa: F401
from pykafka.metadata import cluster  # noqa: F401


def write_python(path: Path) -> None:
    """Write a program that Spark can start as its Python: the present one, with this daemon in the place of PySpark's.

    Spark puts an archive of PySpark's sources first on the path; each process would compile them anew.

    :param path: of the program
    """
    python = shlex.quote(sys.executable)
    words = [
        f"#!/bin/sh\nexport PYTHONPATH={shlex.quote(os.environ['PYTHONPATH'])}",
        f'[ "$2" = pyspark.daemon ] && shift 2 && exec {python} -m {__name__} "$@"',
        f'exec {python} "$@"\n',
    ]
    path.write_text("\n".join(words))
    path.chmod(0o755)


if __name__ == "__main__":
    pyspark.daemon.manager()
