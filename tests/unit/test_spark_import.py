"""What Spark pays for finding the format: every pyspark_* module is imported at the first look-up of a Python source."""

from __future__ import annotations

import subprocess
import sys

READING = """
import sys
from pykafka.spark import microbatch, reader
print(*sorted(sys.modules))
"""
PROGRAM = """
import sys
import pyspark.sql.datasource
before = set(sys.modules)
from pyspark_pykafka import DefaultSource
new = set(sys.modules) - before
assert DefaultSource.name() == "pykafka"
print(*sorted(new))
"""


def test_finding_the_format_loads_no_client() -> None:
    result = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=60, check=True)
    loaded = set(result.stdout.split())
    assert "pykafka.spark.source" in loaded
    heavy = {"pykafka.client", "pykafka.protocol.messages", "pyarrow", "gevent", "kazoo", "cramjam", "socket", "ssl"}
    assert not loaded & heavy


def test_reading_loads_no_consumers_and_producers() -> None:
    """A worker's first task waits for every import."""
    result = subprocess.run([sys.executable, "-c", READING], capture_output=True, text=True, timeout=60, check=True)
    loaded = set(result.stdout.split())
    assert "pykafka.cluster" in loaded
    heavy = {"pykafka.client", "pykafka.simpleconsumer", "pykafka.producer.producer", "gevent", "kazoo", "pyspark.pandas"}
    assert not loaded & heavy
