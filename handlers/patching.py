"""Functions that return what gevent or eventlet has replaced in this process, and the originals; they import neither."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Any

#: The modules by which gevent and eventlet patch a process.
PATCHERS = frozenset({"gevent.monkey", "eventlet.patcher"})


def _monkey() -> Any:
    """Return gevent.monkey if this process has it."""
    # Another thread may be importing it at this moment: our own import waits for that.
    return import_module("gevent.monkey") if "gevent.monkey" in sys.modules else None


def is_patched(module: str) -> bool:
    """Return whether gevent.monkey has replaced parts of a module of the standard library."""
    monkey = _monkey()
    return monkey is not None and bool(monkey.is_module_patched(module))


def original(module: str, name: str) -> Any:
    """Return a member of a module of the standard library as it was before gevent's patching."""
    monkey = _monkey()
    if monkey is not None:
        return monkey.get_original(module, name)
    return getattr(import_module(module), name)


def is_patched_by_eventlet() -> bool:
    """Return whether threads are eventlet's green threads in this process."""
    patcher: Any = sys.modules.get("eventlet.patcher")
    return patcher is not None and bool(patcher.is_monkey_patched("thread"))


def refuse_eventlet(what: str) -> None:
    """Raise an error in a process whose threads eventlet has replaced.

    :param what: what does not run on eventlet's hub
    :raises RuntimeError: eventlet has patched this process
    """
    if is_patched_by_eventlet():
        raise RuntimeError(
            f"{what} cannot run in a process that eventlet has patched: make the client by KafkaClient(hosts), which uses "
            "eventlet's green threads there"
        )


def of_system(module: str, name: str) -> Any:
    """Return a member of `select` or `socket` as it was before gevent's and eventlet's patching.

    Eventlet even removes `select.poll`.
    """
    patcher: Any = sys.modules.get("eventlet.patcher")
    if patcher is not None and patcher.is_monkey_patched(module):
        return getattr(patcher.original(module), name)
    return original(module, name)


def on_event_loop() -> bool:
    """Return whether an event loop of asyncio runs in this thread."""
    events: Any = sys.modules.get("asyncio.events")
    return events is not None and events._get_running_loop() is not None
