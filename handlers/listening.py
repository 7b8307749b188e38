"""Sockets that listen."""

from __future__ import annotations

import socket
from typing import Any

from pykafka.handlers.base import Address, Handler

#: Connections that may wait to be accepted.
_WAITING = 16


def listen(handler: Handler, address: Address) -> Any:
    """Return a socket of the handler that listens at an address; the caller closes it.

    Connections of a server before, which the system still remembers, do not stand in the way; a server that listens there does.

    :param handler: makes the socket
    :param address: as `Handler.resolve` returns it
    :raises OSError: the address is in use, or none of this machine
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
