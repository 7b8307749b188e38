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
sys.exit(pytest.main(["-q", "-p", "no:cacheprovider", "-p", "no:xdist", "-k", "not gevent and not members",
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
