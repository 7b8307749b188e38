"""Forked processes: their numbers, forks that Python did not notice, and the function that ends a child abruptly."""

from __future__ import annotations

import inspect
import os
import sys
from collections.abc import Iterator
from types import FrameType

from pykafka.exceptions import UnnoticedForkError
from pykafka.handlers.ahead import calls_ahead

_number = os.getpid()
#: The frame of the function that forked this process and will end it by `os._exit()`; None if there is none.
_forker: FrameType | None = None

#: Flags of the code of generators, coroutines and asynchronous generators.
_SUSPENDS = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR
#: Names of methods that deliver what is queued.
_DELIVERING = {"flush", "close", "stop"}


def process_number() -> int:
    """Return the number of this process, as of its start or of the last fork that Python's hook reported."""
    return _number


def check_process() -> None:
    """Raise an error in a child that was forked without Python's hook; this makes a system call.

    The workers of the client do not exist in such a child, and its connections are still those of the parent: without this
    check a call would wait for ever, or take the answers that the parent waits for.

    :raises UnnoticedForkError: `os.register_at_fork` did not work here
    """
    if os.getpid() != _number:
        raise UnnoticedForkError(
            f"process {os.getpid()} was forked from process {_number} without Python's hook for forks, so the Kafka client "
            "of the parent cannot be used in it: make the client in this process, or fork by os.fork() (uWSGI: set "
            "lazy-apps = true)"
        )


def notice_fork() -> bool:
    """Return whether this process is a child that was forked without Python's hook; it counts as reported from then on."""
    if os.getpid() == _number:
        return False
    _after_fork()
    return True


def abrupt_forker() -> str | None:
    """Return the name of the function that forked this process, if it will end the process by `os._exit()`.

    :returns: "module:function"; None if no such function is running or its call of `os._exit()` is not ahead, as in the process
        of a daemon, or if that function, or one that runs now, has a call that may deliver what is queued
    """
    global _forker
    frame = _forker
    if frame is None:
        return None
    if not _is_running(frame):
        _forker = None
        return None
    if "_exit" not in calls_ahead(frame):  # as after `if os.fork(): os._exit(0)`
        return None
    if any(_delivers(caller) for caller in _callers(frame)):
        return None
    return f"{frame.f_globals.get('__name__', '?')}:{frame.f_code.co_qualname}"


def _is_running(frame: FrameType) -> bool:
    """Return whether a function has not returned, in whatever thread or greenlet; True of coroutines and generators."""
    if frame.f_code.co_flags & _SUSPENDS:  # clear() would close one that is suspended
        return True
    try:
        frame.clear()
    except RuntimeError:
        return True
    return False


def _delivers(caller: FrameType) -> bool:
    """Return whether a function has a call that may deliver what is queued, or waits for a delivery later: `delivery.get()`."""
    names = caller.f_code.co_names
    return not _DELIVERING.isdisjoint(names) or ("get" in names and "get" in calls_ahead(caller))


def _callers(last: FrameType) -> Iterator[FrameType]:
    """Yield a frame, and those of all threads that are not the package's, in each thread up to that frame."""
    yield last
    for top in sys._current_frames().values():
        frame: FrameType | None = top
        while frame is not None and frame is not last:
            if not frame.f_globals.get("__name__", "").startswith("pykafka."):
                yield frame
            frame = frame.f_back


def _after_fork() -> None:
    global _number, _forker
    _number = os.getpid()
    frame: FrameType | None = sys._getframe()
    while frame is not None:
        names = frame.f_code.co_names
        if "_exit" in names and any(name.endswith("fork") for name in names):
            break
        frame = frame.f_back
    _forker = frame


os.register_at_fork(after_in_child=_after_fork)
