"""The same contract in a process where gevent.monkey has patched everything, before and after pykafka was imported."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent

#: What a worker pool does, and what one does that imports too early.
ORDERS = {
    "before": "from gevent import monkey; monkey.patch_all()",
    "after": "import pykafka.connection, pykafka.handlers; from gevent import monkey; monkey.patch_all()",
}

RUN = """
{patch}
import sys, pytest
sys.exit(pytest.main(["-q", "-W", "ignore:Module already imported", "-p", "no:cacheprovider", "-p", "no:xdist",
                      "-k", "not gevent and not members and not asyncio and not uvloop and not virtual",
                      "--timeout-method=signal", "--ignore=tests/contract/test_patched.py", "tests/contract"]))
"""


@pytest.mark.parametrize("order", list(ORDERS))
@pytest.mark.timeout(400)
def test_the_contract_holds_in_a_patched_process(order: str) -> None:
    environment = {**os.environ, "PYKAFKA_TEST_PATCHED": "1", "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", RUN.format(patch=ORDERS[order])],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=150,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-2000:]


HALF_IMPORTED = """
import sys, threading, time
sys.path.insert(0, sys.argv[1])
from pykafka.handlers import patching
importer = threading.Thread(target=__import__, args=("gevent.monkey",))
importer.start()
while "gevent.monkey" not in sys.modules:
    time.sleep(0.001)
assert patching.original("select", "poll") == "select.poll as it was"
assert patching.is_patched("select") is False
importer.join()
"""


def test_a_process_that_is_just_importing_gevent_is_waited_for(tmp_path: Path) -> None:
    """A client made while another thread imports gevent.monkey ended in an AttributeError: the module was there, half-way."""
    (tmp_path / "gevent").mkdir()
    (tmp_path / "gevent" / "__init__.py").write_text("")
    (tmp_path / "gevent" / "monkey.py").write_text(
        "import time\n"
        "time.sleep(0.5)\n"
        "def get_original(module, name): return f'{module}.{name} as it was'\n"
        "def is_module_patched(module): return False\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", HALF_IMPORTED, str(tmp_path)], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
