"""The first client of a process in uWSGI makes it report the fork, and names the options that are missing."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from pykafka.handlers import base, uwsgi


def _module(monkeypatch: pytest.MonkeyPatch, worker: int, *options: str, **members: Any) -> ModuleType:
    module = ModuleType("uwsgi")
    vars(module).update(opt=dict.fromkeys(options, True), worker_id=lambda: worker, masterpid=os.getpid, **members)
    monkeypatch.setitem(sys.modules, "uwsgi", module)
    return module


@pytest.mark.parametrize(
    ("worker", "options", "named"),
    [
        (0, ("enable-threads",), ["lazy-apps"]),
        (0, (), ["lazy-apps", "enable-threads"]),
        (1, ("lazy-apps",), ["enable-threads"]),
        (1, ("lazy-apps", "enable-threads"), []),
        (1, ("lazy-apps", "threads"), []),
        (1, ("lazy-apps", "gevent"), []),
    ],
)
def test_options_that_are_missing_are_named(
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    worker: int,
    options: tuple[str, ...],
    named: list[str],
) -> None:
    monkeypatch.setitem(sys.modules, "uwsgidecorators", None)
    _module(monkeypatch, worker, *options)
    with caplog.at_level(logging.WARNING):
        uwsgi.attend()
    assert len(caplog.messages) == len(named)
    assert all(name in message for name, message in zip(named, caplog.messages, strict=True))


def test_the_hook_joins_those_of_the_application(monkeypatch: pytest.MonkeyPatch) -> None:
    chain: list[Callable[[], None]] = []
    monkeypatch.setitem(sys.modules, "uwsgidecorators", SimpleNamespace(postfork_chain=chain))
    module = _module(monkeypatch, 0)
    uwsgi.attend()
    assert chain == [uwsgi.report_fork]
    assert not hasattr(module, "post_fork_hook")


def test_a_hook_that_is_there_is_called_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []
    module = _module(monkeypatch, 0, post_fork_hook=lambda: calls.append("application"))
    monkeypatch.setattr(uwsgi, "report_fork", lambda: calls.append("client"))
    uwsgi.attend()
    module.post_fork_hook()
    assert calls == ["client", "application"]


def test_the_fork_is_reported_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """uWSGI has called Python's hook already where py-call-osafterfork is set."""
    calls: list[int] = []
    hooks = SimpleNamespace(PyOS_AfterFork_Child=lambda: calls.append(1))
    monkeypatch.setattr(uwsgi, "ctypes", SimpleNamespace(pythonapi=hooks))
    uwsgi.report_fork()
    assert calls == []
    monkeypatch.setattr(base, "_number", -1)
    uwsgi.report_fork()
    assert calls == [1]
