"""What a process does about connections that are not ours: those to the programs that have started it."""

from __future__ import annotations

import os
import socket

#: Where Linux lists the descriptors of a process.
_DESCRIPTORS = "/proc/self/fd"


def acknowledge_now() -> None:
    """Have the system acknowledge at once what every TCP connection of this process has received; Linux only.

    It waits 40 ms for an answer to send along. A peer that writes in small pieces, and has not turned Nagle's algorithm
    off, keeps the next piece back until then.
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
