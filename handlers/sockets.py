"""`SocketHandler`: the network of all handlers that use the system's sockets."""

from __future__ import annotations

import os
import socket
from abc import abstractmethod
from collections.abc import Callable
from typing import Any

from pykafka.handlers.base import Address, Handler, Listener, Stream
from pykafka.handlers.deadline import Deadline
from pykafka.handlers.listeners import SocketListener
from pykafka.handlers.lookups import Reverse, is_numeric, look_up
from pykafka.handlers.patching import of_system
from pykafka.handlers.streams import WaiterFactory, connect_stream
from pykafka.handlers.tls import open_tls

#: The system gives a look-up up long before (s).
FOREVER_S = 1e6

#: Connections that may wait to be accepted.
_WAITING = 16
#: Where Linux lists the descriptors of a process.
_DESCRIPTORS = "/proc/self/fd"


class SocketHandler(Handler):
    """A handler over the system's sockets and resolver; its kind of concurrency decides how workers wait for them.

    :param make_waiter: makes what waits for a descriptor
    """

    def __init__(self, make_waiter: WaiterFactory) -> None:
        super().__init__()
        self._make_waiter = make_waiter

    @abstractmethod
    def _resolve_aside(
        self, host: str, port: int, deadline: Deadline, resolver: Callable[..., list[Any]] | None = None
    ) -> list[Address]:
        """Look a name up in a worker that can be abandoned: the system's resolver has no deadline. As `resolve`.

        :param resolver: called instead of `getaddrinfo`
        """

    def resolve(
        self, host: str, port: int, timeout: float | None = None, wanted: Callable[[], bool] | None = None
    ) -> list[Address]:
        """Look a name up. As `Handler.resolve`."""
        if is_numeric(host):  # gevent's resolver would wait for a thread of the hub's pool
            return look_up(of_system("socket", "getaddrinfo"), host, port)
        return self._resolve_aside(host, port, Deadline(FOREVER_S if timeout is None else timeout, wanted))

    @abstractmethod
    def _name_resolver(self) -> Callable[..., Any]:
        """Return the `getnameinfo` that this kind of concurrency calls in place."""

    def name_of(self, address: Address, timeout: float, wanted: Callable[[], bool] | None = None) -> str:
        """Look the name of an address up. As `Handler.name_of`."""
        reverse = Reverse(self._name_resolver())
        host, port = address.sockaddr[:2]
        found = self._resolve_aside(str(host), int(port), Deadline(timeout, wanted), reverse)
        return str(found[0].sockaddr[0])

    def connect(
        self,
        address: Address,
        timeout: float,
        source_address: tuple[str, int] | None = None,
        wanted: Callable[[], bool] | None = None,
    ) -> Stream:
        """Connect to an address over TCP. As `Handler.connect`."""
        return connect_stream(self, address, Deadline(timeout, wanted), source_address, self._make_waiter)

    def listen(self, address: Address) -> Listener:
        """Listen for connections over TCP. As `Handler.listen`."""
        return SocketListener(self, address, self._make_waiter)

    def wrap_tls(self, stream: Stream, context: Any, server_hostname: str | None, timeout: float) -> Stream:
        """Speak TLS over a connected stream. As `Handler.wrap_tls`."""
        return open_tls(self, stream, context, server_hostname, timeout)


def listen(handler: Handler, address: Address) -> Any:
    """Return a socket of the handler that listens at an address; the caller closes it.

    Connections of a server before, which the system still remembers, do not stand in the way; a server that listens there does.

    :param handler: makes the socket
    :param address: as `Handler.resolve` returns it
    :raises OSError: the address is in use, or not of this machine
    """
    listener = handler.Socket(address.family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address.sockaddr)
        listener.listen(_WAITING)
    except BaseException:
        listener.close()
        raise
    return listener


def acknowledge_now() -> None:
    """Make the system acknowledge received data at once, on every TCP connection of this process; Linux only.

    By default the system delays an acknowledgement by 40 ms, to send it along with an answer. A peer that writes in small
    pieces, with Nagle's algorithm on, keeps the next piece back until then.
    """
    option = getattr(socket, "TCP_QUICKACK", None)
    # With a default timeout, an object for a descriptor would make that one non-blocking under its owner.
    if option is None or socket.getdefaulttimeout() is not None or not os.path.isdir(_DESCRIPTORS):
        return
    seen: set[str] = set()
    for entry in os.listdir(_DESCRIPTORS):
        try:
            target = os.readlink(f"{_DESCRIPTORS}/{entry}")
            if target in seen or not target.startswith("socket:"):
                continue
            connection = socket.socket(fileno=int(entry))
        except OSError:  # closed meanwhile
            continue
        seen.add(target)  # a connection may have several descriptors
        try:
            connection.setsockopt(socket.IPPROTO_TCP, option, 1)
        except OSError:  # of another kind
            continue
        finally:
            connection.detach()
