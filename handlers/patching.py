"""Functions that tell what gevent.monkey has replaced in this process, and give the originals; they never import gevent."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Any


def _monkey() -> Any:
    """Return gevent.monkey where this process has it."""
    # Another thread may be importing it at this moment: our own import waits for that.
    return import_module("gevent.monkey") if "gevent.monkey" in sys.modules else None


def is_patched(module: str) -> bool:
    """Return whether gevent.monkey has replaced parts of a module of the standard library."""
    monkey = _monkey()
    return monkey is not None and bool(monkey.is_module_patched(module))


def original(module: str, name: str) -> Any:
    """Return a member of a module of the standard library as it was before any patching."""
    monkey = _monkey()
    if monkey is not None:
        return monkey.get_original(module, name)
    return getattr(import_module(module), name)
