"""A plugin of pytest: `-p tests.support.record --record FILE` writes each test's begin and end as a line of JSON, at once.

Whoever started pytest can tell from it how far the run is, and which test was under way when the process was gone.
`--only FILE`, a list of ids in JSON, leaves all other tests out: ids may hold what a command line cannot.
"""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest

RECORD = pytest.StashKey["Record"]()


class Record:
    """Write events without a buffer: a process that dies has written all of them, and a forked one writes none twice.

    :param path: of the file, which is begun anew
    """

    def __init__(self, path: str) -> None:
        self._descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND | os.O_CLOEXEC, 0o644)
        self._began = self._cpu_began = 0.0

    def say(self, **event: object) -> None:
        """Add a line."""
        os.write(self._descriptor, json.dumps(event).encode() + b"\n")

    def close(self) -> None:
        """Close the file."""
        os.close(self._descriptor)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Note a file that pytest could not collect."""
        if report.failed:
            self.say(event="uncollected", test=report.nodeid, why=told(report))

    @pytest.hookimpl(trylast=True)
    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Note the tests that are about to run."""
        self.say(event="collected", tests=[item.nodeid for item in session.items])

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> None:
        """Note that a test begins, and its time limit (s)."""
        self._began, self._cpu_began = time.monotonic(), cpu_s()
        self.say(event="begin", test=item.nodeid, limit=limit_of(item))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note each failure, and the outcome of a test after its last step."""
        if report.failed:
            self.say(event="failed", test=report.nodeid, why=told(report), shared=shared_cause(report))
        elif report.when == "call" or report.skipped:
            self.say(event=report.outcome if not hasattr(report, "wasxfail") else "xfailed", test=report.nodeid)

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        """Note that a test has ended, its duration, and the CPU time of this process and of children that ended (s)."""
        seconds, cpu = time.monotonic() - self._began, cpu_s() - self._cpu_began
        self.say(event="end", test=nodeid, seconds=round(seconds, 3), cpu=round(cpu, 3))

    def pytest_sessionfinish(self, exitstatus: int) -> None:
        """Note that pytest ended by itself."""
        self.say(event="finished", status=int(exitstatus))


def cpu_s() -> float:
    """Return the CPU time of this process, and of the children that it has waited for (s)."""
    return sum(os.times()[:4])


def told(report: pytest.TestReport | pytest.CollectReport) -> str:
    """Return all that pytest would print of a report."""
    return "\n".join([report.longreprtext, *(f"--- {title} ---\n{text}" for title, text in report.sections)])


def shared_cause(report: pytest.TestReport) -> str:
    """Return the failure that all users of a fixture share; empty where a test failed by itself."""
    crash = getattr(report.longrepr, "reprcrash", None)
    return str(crash) if report.when == "setup" and crash is not None else ""


def limit_of(item: pytest.Item) -> float:
    """Return the time (s) after which pytest-timeout ends a test; 0 for none."""
    marker = item.get_closest_marker("timeout")
    if marker is not None:
        return float(marker.args[0] if marker.args else marker.kwargs.get("timeout", 0))
    return float(item.config.getoption("timeout", None) or item.config.getini("timeout") or 0)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the two options."""
    parser.addoption("--record", metavar="FILE", help="write each test's begin and end there, as lines of JSON")
    parser.addoption("--only", metavar="FILE", help="run only the tests whose ids are listed there, in JSON")


def pytest_configure(config: pytest.Config) -> None:
    """Begin the record."""
    if path := config.getoption("record"):
        config.stash[RECORD] = record = Record(path)
        config.pluginmanager.register(record, "pykafka-record")


def pytest_unconfigure(config: pytest.Config) -> None:
    """End the record."""
    if (record := config.stash.get(RECORD, None)) is not None:
        config.pluginmanager.unregister(record)
        record.close()


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect tests that are not listed."""
    if path := config.getoption("only"):
        wanted = set(json.loads(Path(path).read_text()))
        config.hook.pytest_deselected(items=[item for item in items if item.nodeid not in wanted])
        items[:] = [item for item in items if item.nodeid in wanted]
