"""Waiting for a handler's workers without blocking them."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

import gevent

from pykafka.handlers import Handler
from tests.support import loops, virtual


def until(handler: Handler, happened: Callable[[], object], seconds: float = 30) -> None:
    """Wait until a condition is true.

    :param handler: whose workers go on meanwhile
    :param happened: asked every 20 ms
    :param seconds: after which the test fails
    """
    deadline = time.monotonic() + seconds
    while not happened():
        assert time.monotonic() < deadline, "it did not happen in time"
        handler.sleep(0.02)


class CutOff(BaseException):
    """The exception that ends a call in the middle, as a greenlet's timeout or Ctrl-C does."""


@contextmanager
def cut_off(handler: Handler, seconds: float) -> Iterator[None]:
    """End the block by raising `CutOff` wherever the main thread, or this greenlet, is by then.

    :param handler: of what is called in the block
    :param seconds: after which
    """

    def end(_number: int, frame: FrameType | None) -> None:
        if _loses_what_is_raised(frame):
            signal.setitimer(signal.ITIMER_REAL, 0.001)
        else:
            raise CutOff

    if handler.name == "asyncio":
        with loops.cancelled_after(seconds, CutOff):
            yield
        return
    if handler.name == "virtual":
        with virtual.thrown_after(handler, seconds, CutOff):
            yield
        return
    if handler.cooperative:
        with gevent.Timeout(seconds, CutOff):
            yield
        return
    former = signal.signal(signal.SIGALRM, end)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, former)


def _loses_what_is_raised(frame: FrameType | None) -> bool:
    """Return whether an object is being freed in this frame: Python prints an exception raised there, and goes on."""
    while frame is not None:
        file = frame.f_code.co_filename.rpartition("/")[2]
        if frame.f_code.co_name == "__del__" or file in ("_weakrefset.py", "weakref.py"):
            return True
        frame = frame.f_back
    return False
