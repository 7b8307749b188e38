"""What Spark pays for finding the format: every pyspark_* module is imported at the first look-up of a Python source."""

from __future__ import annotations

import subprocess
import sys

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
