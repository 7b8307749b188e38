"""`python -bb`, with which old programs look for text where bytes belong: nothing of the package itself raises."""

from __future__ import annotations

import subprocess
import sys

# pykafka.spark imports PySpark, which is not ours to mend.
PROGRAM = """
import importlib, pkgutil
import pykafka
for module in pkgutil.walk_packages(pykafka.__path__, "pykafka."):
    if not module.name.startswith("pykafka.spark") and not module.name.endswith("__main__"):
        importlib.import_module(module.name)
from pykafka import SslConfig
from pykafka.network.channel import group_channel
SslConfig(None)
print(group_channel(b"id"), group_channel("id"))
"""


def test_the_package_is_imported_under_bb() -> None:
    done = subprocess.run(
        [sys.executable, "-bb", "-W", "error::BytesWarning", "-c", PROGRAM],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (done.stdout, done.returncode) == ("group:b'id' group:id\n", 0), done.stderr
