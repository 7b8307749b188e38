"""A system that starts no threads for a while."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest


@contextmanager
def no_threads(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Keep the system from starting threads meanwhile, and list the names of those refused."""
    refused: list[str] = []

    def refuse(thread: threading.Thread) -> None:
        refused.append(thread.name)
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", refuse)
        yield refused
