"""`SocketHandler`: the network of all handlers that use the system's sockets."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import Any

from pykafka.handlers.base import Address, Handler, Stream
from pykafka.handlers.deadline import Patience
from pykafka.handlers.lookups import Reverse, is_numeric, look_up
from pykafka.handlers.patching import of_system
from pykafka.handlers.streams import WaiterFactory, connect_stream
from pykafka.handlers.tls import open_tls

#: The system gives a look-up up long before (s).
FOREVER_S = 1e6


class SocketHandler(Handler):
    """A handler over the system's sockets and resolver; its kind of concurrency decides how workers wait for them.

    :param make_waiter: makes what waits for a descriptor
    """

    def __init__(self, make_waiter: WaiterFactory) -> None:
        super().__init__()
        self._make_waiter = make_waiter

    @abstractmethod
    def _resolve_aside(
        self, host: str, port: int, patience: Patience, resolver: Callable[..., list[Any]] | None = None
    ) -> list[Address]:
        """Look a name up where the lookup can be left behind: the system's resolver has no deadline. As `resolve`.

        :param resolver: called instead of `getaddrinfo`
        """

    def resolve(
        self, host: str, port: int, timeout: float | None = None, wanted: Callable[[], bool] | None = None
    ) -> list[Address]:
        """Look a name up. As `Handler.resolve`."""
        if is_numeric(host):  # gevent's resolver would wait for a thread of the hub's pool
            return look_up(of_system("socket", "getaddrinfo"), host, port)
        return self._resolve_aside(host, port, Patience(FOREVER_S if timeout is None else timeout, wanted))

    @abstractmethod
    def _name_resolver(self) -> Callable[..., Any]:
        """Return the `getnameinfo` that this kind of concurrency calls in place."""

    def name_of(self, address: Address, timeout: float, wanted: Callable[[], bool] | None = None) -> str:
        """Look the name of an address up. As `Handler.name_of`."""
        reverse = Reverse(self._name_resolver())
        host, port = address.sockaddr[:2]
        found = self._resolve_aside(str(host), int(port), Patience(timeout, wanted), reverse)
        return str(found[0].sockaddr[0])

    def connect(
        self,
        address: Address,
        timeout: float,
        source_address: tuple[str, int] | None = None,
        wanted: Callable[[], bool] | None = None,
    ) -> Stream:
        """Connect to an address over TCP. As `Handler.connect`."""
        return connect_stream(self, address, Patience(timeout, wanted), source_address, self._make_waiter)

    def wrap_tls(self, stream: Stream, context: Any, server_hostname: str | None, timeout: float) -> Stream:
        """Speak TLS over a connected stream. As `Handler.wrap_tls`."""
        return open_tls(self, stream, context, server_hostname, timeout)
