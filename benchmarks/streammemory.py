"""The memory of the Python process that Spark runs on the driver for each stream, with and without this package's part."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]

_LOOK = """
import sys
import pyspark.sql.streaming.python_streaming_source_runner
for name in sys.argv[1:]:
    __import__(name)
sizes = dict(line.split(":") for line in open("/proc/self/smaps_rollup").read().splitlines()[1:])
print(*(int(sizes[name].split()[0]) for name in ("Rss", "Private_Dirty")))
"""
#: What each figure is of, and the modules that the process imports beyond Spark's.
PARTS = {"spark alone": (), "with this package": ("pyspark_pykafka", "pykafka.spark.stream")}


def _environment() -> dict[str, str]:
    """Return the environment of such a process: PySpark comes out of its archives, and is compiled anew."""
    spec = find_spec("pyspark")
    assert spec is not None
    assert spec.origin is not None
    archives = map(str, sorted(Path(spec.origin).parent.glob("python/lib/*.zip")))
    return os.environ | {"PYTHONPATH": os.pathsep.join([*archives, str(ROOT)])}


def measures() -> dict[str, tuple[float, float]]:
    """Return for each part the resident memory, and what of it no other process shares (MiB)."""
    found = {}
    for part, modules in PARTS.items():
        done = subprocess.run(
            [sys.executable, "-c", _LOOK, *modules],
            check=True,
            capture_output=True,
            text=True,
            timeout=120,
            env=_environment(),
        )
        resident, private = (int(word) / 1024 for word in done.stdout.split())
        found[part] = resident, private
    return found


def show() -> int:
    """Print the figures."""
    for part, (resident, private) in measures().items():
        print(f"{part:20} {resident:6.1f} MiB resident, {private:6.1f} MiB of it its own")
    return 0
