"""Interrupts at each step at which Python looks for signals."""

from __future__ import annotations

import gc
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any


class Interrupted(BaseException):
    """The exception that Ctrl-C, or another handler of a signal, raises in a worker."""


@contextmanager
def interrupted_starts(name: str) -> Iterator[None]:
    """Interrupt this thread in its wait for another one that it starts, and that has begun.

    :param name: how the thread's name begins
    """
    start, caller = threading.Thread.start, threading.current_thread()

    def begin(self: threading.Thread) -> None:
        start(self)
        if self.name.startswith(name) and threading.current_thread() is caller:
            raise Interrupted

    threading.Thread.start = begin  # type: ignore[method-assign]
    try:
        yield
    finally:
        threading.Thread.start = start  # type: ignore[method-assign]


def interrupting(*files: str) -> Iterator[Callable[[Callable[[], Any]], Any]]:
    """Yield what calls a function and interrupts it: one step later each time, until there is no such step any more.

    The steps: as a function of these files begins, and as a function of C returns to one of them. The garbage collector waits
    until the call has ended: Python ignores an interrupt inside a `__del__`, so it would not reach the call.
    """
    interrupt_at = 0
    ended = False

    def call(function: Callable[[], Any]) -> Any:
        nonlocal ended
        step = 0

        def note(frame: FrameType, event: str, called: Any) -> None:
            nonlocal step
            if sys.version_info >= (3, 15) and getattr(called, "__name__", "") == "__enter__":
                return  # reported, and followed by no look for signals
            if event in ("call", "c_return") and frame.f_code.co_filename.endswith(files):
                step += 1
                if step == interrupt_at:
                    raise Interrupted

        gc.disable()
        sys.setprofile(note)
        try:
            return function()
        finally:
            sys.setprofile(None)
            gc.enable()
            ended = step < interrupt_at

    while not ended:
        interrupt_at += 1
        yield call
