"""Reading a known number of bytes from a socket that the caller brings along."""

from __future__ import annotations

from typing import Protocol

from pykafka.exceptions import SocketDisconnectedError


class Readable(Protocol):
    """The part of a socket that `recvall_into` uses."""

    def recv(self, bufsize: int, /) -> bytes: ...


def recvall_into(socket: Readable, bytea: bytearray, size: int) -> bytearray:
    """Read exactly `size` bytes into the front of a bytearray, which grows if it is too small.

    :param socket: connected; its own timeout holds for each read
    :param bytea: to read into
    :param size: how much (bytes)
    :return: the same bytearray
    :raises SocketDisconnectedError: the other end closed before that, or reading failed, which is its `__cause__`
    """
    done = 0
    while done < size:
        place = f"after {done} of {size} bytes"
        try:
            chunk = socket.recv(size - done)
        except OSError as error:
            raise SocketDisconnectedError(f"reading from the connection failed {place}: {error}") from error
        if not chunk:
            raise SocketDisconnectedError(f"the other end closed the connection {place}; it may have been stopped")
        bytea[done : done + len(chunk)] = chunk
        done += len(chunk)
    return bytea
