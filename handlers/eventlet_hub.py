"""Waiting on eventlet's hub, in a process that eventlet has patched: `ThreadingHandler` runs there on green threads."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

from pykafka.handlers.streams import PollWaiter

P = ParamSpec("P")
R = TypeVar("R")

#: How long green threads may keep the hub before `breathe` yields to it (s).
HELD_MAX_S = 0.00025


class GreenWaiter:
    """Waits on eventlet's hub for a descriptor.

    :param fd: the descriptor
    :param writing: for which direction
    """

    def __init__(self, fd: int, writing: bool) -> None:
        from eventlet import hubs

        self._trampoline = hubs.trampoline
        self._closed_error: type[Exception] = hubs.IOClosed
        self._fd = fd
        self._writing = writing
        self._poll = PollWaiter(fd, writing)

    def wait(self, timeout: float) -> bool:
        """Return whether the descriptor became ready (or broke) in time (s)."""
        if timeout <= 0:
            return self._poll.wait(0.0)
        try:
            self._trampoline(
                self._fd, read=not self._writing, write=self._writing, timeout=timeout, timeout_exc=_TIMED_OUT
            )
        except _TimedOut:
            return False
        except self._closed_error:
            return True
        return True

    def close(self) -> None:
        """Return at once: the hub forgets a descriptor after each wait."""


class _TimedOut(Exception):
    """The timeout of a wait of ours, as opposed to one of the application."""


_TIMED_OUT = _TimedOut()


class GreenWatch:
    """Keeps eventlet's hub turning while green threads work."""

    def __init__(self) -> None:
        import eventlet
        from eventlet import hubs

        self._sleep: Callable[[float], object] = eventlet.sleep
        self._getcurrent: Callable[[], object] = eventlet.getcurrent
        self._get_hub: Callable[[], Any] = hubs.get_hub
        self._turned = time.monotonic()

    def breathe(self) -> None:
        """Yield to the hub if that was not done for HELD_MAX_S; a timer's function, which the hub itself runs, cannot yield."""
        if time.monotonic() - self._turned >= HELD_MAX_S and self._getcurrent() is not self._get_hub().greenlet:
            self._sleep(0)
            self._turned = time.monotonic()

    def offload(self, fn: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Call `fn` in place: what waits for the network waits on the hub, and eventlet's own threads are the application's."""
        return fn(*args, **kwargs)


def raise_in_main(error: BaseException) -> None:
    """Raise a signal handler's exception in this thread's main green thread; `threading` would swallow it."""
    from eventlet import hubs

    hub: Any = hubs.get_hub()
    hub.schedule_call_global(0, hub.greenlet.parent.throw, error)
