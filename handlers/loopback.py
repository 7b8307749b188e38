"""Tuning of connections that are not ours: those between this process and the programs that started it."""

from __future__ import annotations

import os
import socket

#: Where Linux lists the descriptors of a process.
_DESCRIPTORS = "/proc/self/fd"


def acknowledge_now() -> None:
    """Make the system acknowledge received data at once, on every TCP connection of this process; Linux only.

    By default the system delays an acknowledgement by 40 ms, to send it along with an answer. A peer that writes in small
    pieces, with Nagle's algorithm on, keeps the next piece back until then.
    """
    option = getattr(socket, "TCP_QUICKACK", None)
    # With a default timeout, an object for a descriptor would make that one non-blocking under its owner.
    if option is None or socket.getdefaulttimeout() is not None or not os.path.isdir(_DESCRIPTORS):
        return
    for entry in os.listdir(_DESCRIPTORS):
        try:
            if not os.readlink(f"{_DESCRIPTORS}/{entry}").startswith("socket:"):
                continue
            connection = socket.socket(fileno=int(entry))
        except OSError:  # closed meanwhile
            continue
        try:
            connection.setsockopt(socket.IPPROTO_TCP, option, 1)
        except OSError:  # of another kind
            continue
        finally:
            connection.detach()
