"""Reading a known number of bytes from a socket that the caller brings along."""

from __future__ import annotations

from typing import Protocol

from pykafka.exceptions import SocketDisconnectedError


class Readable(Protocol):
    """The part of a socket that `recvall_into` uses."""

    def recv_into(self, buffer: memoryview, nbytes: int = 0, /) -> int: ...


def recvall_into(socket: Readable, bytea: bytearray, size: int) -> bytearray:
    """Read exactly `size` bytes into the front of a bytearray, which grows if it is too small.

    :param socket: connected; its own timeout holds for each read
    :param bytea: to read into
    :param size: how much (bytes)
    :return: the same bytearray
    :raises SocketDisconnectedError: the other end closed before that
    """
    if len(bytea) < size:
        bytea.extend(bytes(size - len(bytea)))
    with memoryview(bytea) as whole:
        done = 0
        while done < size:
            with whole[done:size] as rest:
                count = socket.recv_into(rest, size - done)
            if not count:
                raise SocketDisconnectedError(
                    f"the other end closed the connection after {done} of {size} bytes; it may have been stopped"
                )
            done += count
    return bytea
