"""Runs of pytest of their own, with the plugin by its entry point, as users have it."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.entrypoints import ROOT, write_entry_points

Run = Callable[..., pytest.RunResult]
TIMEOUT_S = 120

#: In each project: no worker of a cluster or a client is left when the run ends.
CONFTEST = """
import threading
import time

import pytest


@pytest.fixture
def anyio_backend():
    return "asyncio"


def pytest_sessionfinish():
    deadline = time.monotonic() + 10
    # the watch for stalls ends a moment after the last client
    while left := [one.name for one in threading.enumerate() if one.name.startswith("pykafka")]:
        assert time.monotonic() < deadline, left
        time.sleep(0.02)
"""


@pytest.fixture(name="run")
def run_fixture(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> Run:
    """Return a function that runs a file of tests, with the plugin by its entry point."""
    found = [str(Path(path).resolve()) for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path]
    entry_points = write_entry_points(tmp_path_factory.mktemp("installed"))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(entry_points), str(ROOT), *found]))
    pytester.makeconftest(CONFTEST)

    def run(source: str, *options: str, ini: str = "") -> pytest.RunResult:
        pytester.makepyfile(test_user=source)
        loops = "asyncio_default_fixture_loop_scope = function"
        pytester.makeini(f"[pytest]\naddopts = --strict-markers\n{loops}\n{ini}")
        # Hypothesis, which these projects do not use, takes half the CPU time of such a run.
        left_out = ("-p", "no:cacheprovider", "-p", "no:hypothesispytest")
        return pytester.runpytest_subprocess(*left_out, *options, timeout=TIMEOUT_S)

    return run
