"""`SocketListener`: a socket of the system that listens for connections, and a way to wait for them."""

from __future__ import annotations

import errno
import socket
import time
from typing import TYPE_CHECKING

from pykafka.handlers.base import Address, Stream, process_number
from pykafka.handlers.patching import of_system
from pykafka.handlers.streams import HUB_SEND_MAX, SocketStream, WaiterFactory, prepare_socket

if TYPE_CHECKING:
    from pykafka.handlers.base import Handler

#: Connections that may wait to be accepted.
WAITING = 128
#: What accept(2) reports of a connection that its peer has given up already.
_GONE = {errno.ECONNABORTED, errno.EINTR, errno.EPROTO, errno.EAGAIN}
#: The process, or the system, has no room for another connection: it waits until there is some.
_NO_ROOM = {errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM}
#: How long a worker waits before it looks for room again (s).
_ROOM_S = 0.05
#: How long a worker waits at most for a listener that another one closes (s): not every system wakes it.
_LOOK_S = 1.0


class SocketListener:
    """A listening socket of the system. One worker at a time may accept, and any worker may close it.

    :param handler: the handler that the accepting worker belongs to
    :param address: where to listen; port 0 for any free one
    :param make_waiter: makes what waits for the socket
    :raises OSError: the address is in use, or not of this machine
    """

    def __init__(self, handler: Handler, address: Address, make_waiter: WaiterFactory) -> None:
        self._handler = handler
        self._make_waiter = make_waiter
        self._pid = process_number()
        self._closed = False
        self._accepting = False
        self._socket: socket.socket = of_system("socket", "socket")(address.family, socket.SOCK_STREAM)
        try:
            self._socket.setblocking(False)
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            self._socket.bind(address.sockaddr)
            self._socket.listen(WAITING)
            self._waiter = make_waiter(self._socket.fileno(), False)
        except BaseException:
            self._socket.close()
            raise
        #: Where it listens, with the port that the system chose.
        self.address = Address(address.family, self._socket.getsockname())

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.address.text} {'closed' if self._closed else 'open'}>"

    def accept(self, timeout: float) -> Stream:
        """Wait for a connection. As `Listener.accept`."""
        self._accepting = True
        try:
            deadline = time.monotonic() + timeout
            while not self._closed:
                if self._pid != process_number():  # the copy of a greenlet of the parent, in a forked child
                    raise OSError(errno.EBADF, "the listener belongs to the process that this one was forked from")
                try:
                    # Not `accept()`, which makes a socket of the class that a patched process has by that name.
                    number, _ = self._socket._accept()  # type: ignore[attr-defined]
                except BlockingIOError:
                    self._waiter.wait(min(self._left(deadline), _LOOK_S))
                    continue
                except OSError as error:
                    if error.errno in _NO_ROOM:
                        self._handler.sleep(min(self._left(deadline), _ROOM_S))
                    elif error.errno not in _GONE and not self._closed:
                        raise
                    continue
                try:
                    return self._stream(number)
                except OSError:
                    continue  # macOS: the peer has gone already
            raise OSError(errno.EBADF, "the listener was closed")
        finally:
            self._accepting = False
            if self._closed:
                self._let_go()

    def _left(self, deadline: float) -> float:
        left = deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError(errno.ETIMEDOUT, "no peer connected in time") from None
        return left

    def _stream(self, number: int) -> SocketStream:
        handler, own = self._handler, self._socket
        accepted = of_system("socket", "socket")(own.family, own.type, own.proto, fileno=number)
        try:
            prepare_socket(accepted)
            send_max = HUB_SEND_MAX if handler.cooperative else None
            return SocketStream(accepted, self._make_waiter, handler.breathe, send_max, lambda: handler.has_ended)
        except BaseException:
            accepted.close()
            raise

    def close(self) -> None:
        """Stop listening, and wake the worker that accepts. As `Listener.close`."""
        if self._closed:
            return
        self._closed = True
        # shutdown() would end listening for the parent process, too.
        if self._pid == process_number():
            try:
                self._socket.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass  # macOS: the worker looks by itself
        if self._pid != process_number() or self._handler.has_ended:
            self._accepting = False  # it was a worker of the parent, or of a loop that is closed
        self._let_go()

    def _let_go(self) -> None:
        if not self._accepting:
            self._socket.close()
            self._waiter.close()
