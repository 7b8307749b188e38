"""Sockets on an event loop: `LoopWaiter` waits for a descriptor; `LoopSocket` is a socket that blocks its worker alone."""

from __future__ import annotations

import asyncio
import errno
import os
import socket
from collections.abc import Callable
from typing import Any, TypeVar

from pykafka.handlers.looplocks import Loop, was_given

R = TypeVar("R")


class LoopWaiter:
    """Waits on an event loop for a descriptor.

    The loop watches the descriptor during a wait only: so whoever closes it, in whatever thread, leaves nothing behind.

    :param loop: the loop
    :param fd: the descriptor
    :param writing: for which direction
    """

    __slots__ = ("_add", "_fd", "_loop", "_remove")

    def __init__(self, loop: Loop, fd: int, writing: bool) -> None:
        self._loop = loop
        self._fd = fd
        self._add: Callable[..., object] = loop.loop.add_writer if writing else loop.loop.add_reader
        self._remove: Callable[[int], object] = loop.loop.remove_writer if writing else loop.loop.remove_reader

    def wait(self, timeout: float) -> bool:
        """Return whether the descriptor became ready (or broke) in time (s)."""
        self._loop.require()
        future = self._loop.loop.create_future()
        self._add(self._fd, self._note, future)
        try:
            return self._loop.wait(future, max(timeout, 0.0))
        finally:
            if not was_given(future):
                self._remove(self._fd)

    def _note(self, future: asyncio.Future[bool]) -> None:
        if not future.done():
            self._remove(self._fd)
            future.set_result(True)

    def close(self) -> None:
        """Return at once: the loop has forgotten the descriptor."""


class LoopSocket(socket.socket):
    """A socket whose calls wait in the bridge, within its timeout; it belongs to the loop that runs when it waits."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        super().setblocking(False)
        self._patience: float | None = socket.getdefaulttimeout()

    def settimeout(self, value: float | None) -> None:
        """Set how long each call waits (s); None for as long as it takes, 0 not at all."""
        self._patience = value

    def gettimeout(self) -> float | None:
        """Return how long each call waits (s)."""
        return self._patience

    def setblocking(self, flag: bool) -> None:
        """Set whether calls wait."""
        self._patience = None if flag else 0.0

    def _wait(self, writing: bool) -> None:
        waiter = LoopWaiter(Loop(asyncio.get_running_loop()), self.fileno(), writing)
        if not waiter.wait(1e9 if self._patience is None else self._patience):
            raise TimeoutError("timed out")

    def _try(self, writing: bool, call: Callable[..., R], *args: Any) -> R:
        while True:
            try:
                return call(*args)
            except BlockingIOError:
                if self._patience == 0:
                    raise
                self._wait(writing)

    def connect(self, address: Any) -> None:
        """Connect to an address."""
        code = self.connect_ex(address)
        if code in {errno.EINPROGRESS, errno.EWOULDBLOCK, errno.EINTR} and self._patience != 0:
            self._wait(True)
            code = self.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if code:
            raise OSError(code, os.strerror(code))

    def accept(self) -> tuple[LoopSocket, Any]:
        """Return the next connection and its address."""
        fd, address = self._try(False, super()._accept)  # type: ignore[misc]
        return type(self)(self.family, self.type, self.proto, fileno=fd), address

    def recv(self, size: int, flags: int = 0, /) -> bytes:
        """Return at most this many bytes; none where the peer has closed."""
        return self._try(False, super().recv, size, flags)

    def recv_into(self, buffer: Any, nbytes: int = 0, flags: int = 0) -> int:
        """Read into a buffer, and return how many bytes."""
        return self._try(False, super().recv_into, buffer, nbytes, flags)

    def send(self, data: Any, flags: int = 0, /) -> int:
        """Send some of the bytes, and return how many."""
        return self._try(True, super().send, data, flags)

    def sendall(self, data: Any, flags: int = 0, /) -> None:
        """Send all of the bytes."""
        left = memoryview(data).cast("B")
        while left:
            left = left[self.send(left, flags) :]
