"""`GEventHandler` and the hub that it watches."""

from __future__ import annotations

import gc
import threading

import gevent
import pytest

from pykafka.handlers import GEventHandler, greenlets


def test_a_hub_frees_its_watchers_in_its_own_thread() -> None:
    """The garbage collector freed a handler in another thread, and with it watchers that libev was about to call: a crash."""
    handler = GEventHandler()
    handler.breathe()
    turns = handler._hub._local.turns
    check = turns._check
    gc.disable()
    try:
        turns.circle = [handler, turns]
        del handler, turns
        collector = threading.Thread(target=gc.collect)
        collector.start()
        collector.join(60)
    finally:
        gc.enable()
    assert check.active
    gevent.sleep(0.05)
    assert not check.active


def test_a_handler_that_is_freed_in_its_own_thread_leaves_no_watcher() -> None:
    handler = GEventHandler()
    handler.breathe()
    check = handler._hub._local.turns._check
    del handler
    gc.collect()
    assert not check.active


def test_a_handler_that_is_freed_last_needs_no_name_of_its_module(monkeypatch: pytest.MonkeyPatch) -> None:
    """At the end of the interpreter the module's names are None before the last objects go: a TypeError was printed."""
    handler = GEventHandler()
    handler.breathe()
    turns = handler._hub._local.turns
    for name in ("_close", "_thread_number", "suppress"):
        monkeypatch.setattr(greenlets, name, None, raising=False)
    turns.__del__()
    assert not turns._check.active
