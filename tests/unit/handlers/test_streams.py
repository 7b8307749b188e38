"""`SocketStream` on poll(2): a read that expects nothing waits first, and none misses bytes that are there."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from typing import Any

import pytest

from pykafka.handlers import ThreadingHandler
from pykafka.handlers.streams import PollWaiter, SocketStream

Ends = tuple[SocketStream, socket.socket, list[int]]


@pytest.fixture
def ends() -> Iterator[Ends]:
    """Yield a stream, the socket at its other end, and the sizes that each of its reads returned; -1: nothing was there."""
    near, far = socket.socketpair()
    reads: list[int] = []

    class Counted:
        def recv_into(self, buffer: Any) -> int:
            reads.append(-1)
            reads[len(reads) - 1] = count = near.recv_into(buffer)
            return count

        def __getattr__(self, name: str) -> Any:
            return getattr(near, name)

    sock: Any = Counted()
    stream = SocketStream(sock, PollWaiter, ThreadingHandler().breathe)
    try:
        yield stream, far, reads
    finally:
        stream.close()
        far.close()


def test_an_answer_that_is_awaited_costs_one_read(ends: Ends) -> None:
    stream, far, reads = ends
    handler, buffer = ThreadingHandler(), bytearray(10)
    far.send(b"first")
    assert stream.recv_into(buffer, 5) == 5

    def send() -> None:
        handler.sleep(0.1)
        far.send(b"second")

    answer = handler.spawn(send)
    assert stream.recv_into(buffer, 5) == 6
    assert answer.join(5)
    assert reads == [5, 6]


def test_what_fills_the_buffer_is_followed_by_a_read(ends: Ends) -> None:
    stream, far, reads = ends
    far.send(b"0123456789ab")
    assert stream.recv_into(bytearray(10), 5) == 10
    assert stream.recv_into(bytearray(10), 0) == 2
    assert reads == [10, 2]


def test_a_read_without_a_timeout_finds_what_has_come(ends: Ends) -> None:
    stream, far, reads = ends
    far.send(b"a")
    assert stream.recv_into(bytearray(10), 5) == 1
    far.send(b"bc")
    assert stream.recv_into(bytearray(10), 0) == 2
    with pytest.raises(TimeoutError):
        stream.recv_into(bytearray(10), 0)
    assert reads == [1, 2, -1]


def test_a_read_ends_in_time_and_at_the_end_of_the_connection(ends: Ends) -> None:
    stream, far, _ = ends
    far.send(b"a")
    assert stream.recv_into(bytearray(10), 5) == 1
    with pytest.raises(TimeoutError):
        stream.recv_into(bytearray(10), 0.05)
    far.close()
    assert stream.recv_into(bytearray(10), 5) == 0
