"""Interrupts at each step at which Python looks for signals."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any


class Interrupted(BaseException):
    """The exception that Ctrl-C, or another handler of a signal, raises in a worker."""


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
