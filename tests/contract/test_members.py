"""The contract itself: every handler has what it declares, and nothing besides."""

from __future__ import annotations

import inspect
import subprocess
import sys
from typing import Any

import pytest

from pykafka.handlers import AsyncioHandler, GEventHandler, Handler, ThreadingHandler
from pykafka.handlers.native import NativeHandler
from pykafka.testing.virtual import VirtualHandler

HANDLERS = [ThreadingHandler, GEventHandler, NativeHandler, AsyncioHandler, VirtualHandler]
DECLARED = {name for name in {*vars(Handler), *Handler.__annotations__} if not name.startswith("_")}
#: Of the documents, and of DESIGN.md: renaming one breaks what others have built on it.
PROMISED = {
    *("Event", "Lock", "RLock", "Semaphore", "Queue", "local", "worker_local", "QueueEmptyError", "QueueFullError"),
    *("Socket", "SockErr", "GaiError", "spawn", "sleep", "now", "time_ms", "breathe", "offload", "awaited", "resolve"),
    *(
        "connect",
        "listen",
        "name_of",
        "wrap_tls",
        "native",
        "spawn_in",
        "post",
        "say",
        "here",
        "may_wait",
        "has_ended",
        "require_wait",
        "at_fork",
        "kazoo",
        "kazoo_client",
        "report",
        "random",
        "name",
        "cooperative",
        "system_clock",
    ),
}


def test_the_contract_declares_what_was_promised() -> None:
    assert DECLARED == PROMISED


def test_no_member_is_missing_or_extra(handler: Handler) -> None:
    assert {name for name in dir(handler) if not name.startswith("_")} == DECLARED


@pytest.mark.parametrize("cls", HANDLERS)
@pytest.mark.parametrize("name", sorted(DECLARED))
def test_signatures_are_the_contracts(cls: type[Handler], name: str) -> None:
    declared: Any = vars(Handler).get(name)
    found: Any = inspect.getattr_static(cls, name, None)
    if not inspect.isfunction(declared):
        assert inspect.isfunction(found) is False
        return
    assert list(inspect.signature(found).parameters) == list(inspect.signature(declared).parameters)
    assert found.__doc__


def test_every_member_is_documented() -> None:
    members = {name: vars(Handler)[name] for name in DECLARED & set(vars(Handler))}
    undocumented = [
        name
        for name, member in members.items()
        if (inspect.isfunction(member) or isinstance(member, property)) and not member.__doc__
    ]
    assert undocumented == []


def test_exceptions_of_queues_are_the_standard_librarys(handler: Handler) -> None:
    import queue
    import socket

    assert handler.QueueEmptyError is queue.Empty
    assert handler.QueueFullError is queue.Full
    assert handler.SockErr is OSError
    assert handler.GaiError is socket.gaierror
    assert isinstance(handler.Socket, type)


def _run(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_gevent_is_not_imported_before_it_is_needed() -> None:
    code = "import sys, pykafka.handlers as h; h.ThreadingHandler(); print([m for m in sys.modules if 'gevent' in m])"
    assert _run(code) == "[]"


def test_greenlets_without_gevent_name_the_extra() -> None:
    code = """
import sys
sys.modules["gevent"] = None
import pykafka.handlers
try:
    pykafka.handlers.GEventHandler()
except ImportError as error:
    print(error, error.name)
"""
    assert _run(code) == "greenlets need gevent: pip install gevent gevent"


def test_asyncio_and_greenlet_are_not_imported_before_they_are_needed() -> None:
    code = "import sys, pykafka; pykafka.handlers.ThreadingHandler(); print({'asyncio', 'greenlet'} & set(sys.modules))"
    assert _run(code) == "set()"


def test_asyncio_without_greenlet_names_the_extra() -> None:
    code = """
import sys
sys.modules["greenlet"] = None
import pykafka.handlers
try:
    pykafka.handlers.AsyncioHandler
except ImportError as error:
    print(error, error.name)
"""
    assert _run(code) == "asyncio needs greenlet: pip install greenlet greenlet"


def test_nothing_is_patched_by_us() -> None:
    code = """
import socket, threading, time, pykafka.handlers
before = socket.socket, threading.Thread, threading.Lock, time.sleep
handler = pykafka.handlers.GEventHandler()
handler.native.sleep(0)
from gevent import monkey
assert before == (socket.socket, threading.Thread, threading.Lock, time.sleep)
print(monkey.saved)
"""
    assert _run(code) == "{}"
