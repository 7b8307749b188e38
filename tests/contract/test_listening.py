"""Listening for connections: each handler can be a server, too."""

from __future__ import annotations

import os
import resource
import socket
from collections.abc import Iterator
from contextlib import closing

import pytest

from pykafka.handlers import Address, Handler
from pykafka.handlers.base import Listener, Stream
from tests.support.peers import HOST

LIMIT = 10.0


@pytest.fixture
def listener(handler: Handler) -> Iterator[Listener]:
    """Yield a listener at a free port."""
    with closing(handler.listen(_at(0))) as made:
        yield made


def _at(port: int) -> Address:
    return Address(socket.AF_INET, (HOST, port))


def _read(stream: Stream, size: int) -> bytes:
    buffer, filled = bytearray(size), 0
    while filled < size:
        count = stream.recv_into(memoryview(buffer)[filled:], LIMIT)
        assert count
        filled += count
    return bytes(buffer)


def test_a_peer_is_accepted_and_talked_to(handler: Handler, listener: Listener) -> None:
    assert listener.address.sockaddr[0] == HOST
    assert listener.address.sockaddr[1] > 0
    said: list[bytes] = []

    def serve() -> None:
        with closing(listener.accept(LIMIT)) as accepted:
            said.append(_read(accepted, 5))
            accepted.send([b"wel", b"come"], LIMIT)

    server = handler.spawn(serve)
    with closing(handler.connect(listener.address, LIMIT)) as stream:
        stream.send([b"hello"], LIMIT)
        assert _read(stream, 7) == b"welcome"
        assert stream.recv_into(bytearray(1), LIMIT) == 0
    assert server.join(LIMIT)
    assert (said, server.error) == ([b"hello"], None)
    assert "open" in repr(listener)


def test_peers_that_come_early_wait_their_turn(handler: Handler, listener: Listener) -> None:
    streams = [handler.connect(listener.address, LIMIT) for _ in range(20)]
    accepted = [listener.accept(LIMIT) for _ in streams]
    assert [one.getpeername() for one in accepted] == [one.getsockname() for one in streams]
    for stream in streams + accepted:
        stream.close()


@pytest.mark.real_system("look at sockets of the system")
def test_options_of_accepted_streams(handler: Handler, listener: Listener) -> None:
    with closing(handler.connect(listener.address, LIMIT)), closing(listener.accept(LIMIT)) as accepted:
        sock = accepted.socket  # type: ignore[attr-defined]  # each handler's streams have it
        assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
        assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
        assert not sock.getblocking()


@pytest.mark.parametrize("timeout", [0.0, 0.1])
def test_accepting_has_a_deadline(handler: Handler, listener: Listener, timeout: float) -> None:
    started = handler.now()
    with pytest.raises(TimeoutError):
        listener.accept(timeout)
    assert handler.now() - started >= timeout - 0.005


def test_closing_wakes_the_worker_that_accepts(handler: Handler, listener: Listener) -> None:
    ended: list[type[BaseException]] = []

    def serve() -> None:
        try:
            listener.accept(3600)
        except OSError as error:
            ended.append(type(error))

    server = handler.spawn(serve)
    handler.sleep(0.05)
    started = handler.now()
    listener.close()
    assert server.join(LIMIT)
    assert handler.now() - started < LIMIT
    assert len(ended) == 1
    assert not issubclass(ended[0], TimeoutError)
    assert "closed" in repr(listener)


@pytest.mark.real_system("look at sockets of the system")
def test_a_closed_listener_accepts_and_holds_nothing(handler: Handler, listener: Listener) -> None:
    number = listener._socket.fileno()  # type: ignore[attr-defined]  # what it must give back
    listener.close()
    listener.close()
    with pytest.raises(OSError, match="closed"):
        listener.accept(1)
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(number)
    with pytest.raises(ConnectionRefusedError):
        handler.connect(listener.address, LIMIT)


def test_peers_that_were_not_accepted_are_hung_up_on(handler: Handler, listener: Listener) -> None:
    with closing(handler.connect(listener.address, LIMIT)) as stream:
        listener.close()
        try:
            assert stream.recv_into(bytearray(1), LIMIT) == 0
        except ConnectionResetError:
            pass


def test_a_port_is_used_again_at_once(handler: Handler, listener: Listener) -> None:
    """Connections that the system still remembers do not stand in the way."""
    for _ in range(5):
        with closing(handler.connect(listener.address, LIMIT)), closing(listener.accept(LIMIT)):
            listener.close()
        listener = handler.listen(listener.address)
    listener.close()


def test_a_port_that_is_taken(handler: Handler, listener: Listener) -> None:
    with pytest.raises(OSError, match="in use"):
        handler.listen(listener.address)


def test_an_address_of_another_machine(handler: Handler) -> None:
    with pytest.raises(OSError, match="assign"):
        handler.listen(Address(socket.AF_INET, ("192.0.2.1", 0)))


@pytest.mark.real_system("look at sockets of the system")
def test_a_peer_that_has_left_before_it_was_accepted(handler: Handler, listener: Listener) -> None:
    for _ in range(3):
        stream = handler.connect(listener.address, LIMIT)
        stream.socket.setsockopt(  # type: ignore[attr-defined]  # so that it is a reset
            socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0"
        )
        stream.close()
    with closing(handler.connect(listener.address, LIMIT)) as stream:
        stream.send([b"x"], LIMIT)
        while True:
            with closing(listener.accept(LIMIT)) as accepted:
                if accepted.getsockname() and _is_of(accepted, stream):
                    assert _read(accepted, 1) == b"x"
                    return


def _is_of(accepted: Stream, stream: Stream) -> bool:
    try:
        return bool(accepted.getpeername() == stream.getsockname())
    except OSError:
        return False


@pytest.mark.real_system("look at sockets of the system")
def test_a_process_without_descriptors_accepts_when_it_has_some(handler: Handler, listener: Listener) -> None:
    """The worker of a server must not end because others have opened too many files."""
    with closing(handler.connect(listener.address, LIMIT)):
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        used = max(map(int, os.listdir("/proc/self/fd")))
        resource.setrlimit(resource.RLIMIT_NOFILE, (used + 1, hard))
        taken = []
        try:
            while True:
                taken.append(os.dup(0))
        except OSError:
            pass
        try:
            with pytest.raises(TimeoutError):
                listener.accept(0.1)
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
            for number in taken:
                os.close(number)
        listener.accept(LIMIT).close()


@pytest.mark.real_system("fork")
def test_a_forked_child_closes_its_own_descriptor_only(handler: Handler, listener: Listener) -> None:
    server = handler.spawn(lambda: listener.accept(LIMIT).close())
    handler.sleep(0.05)
    pid = os.fork()
    if not pid:
        code = 1
        try:
            listener.close()
            code = 0 if listener._socket.fileno() == -1 else 2  # type: ignore[attr-defined]
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    with closing(handler.connect(listener.address, LIMIT)) as stream:
        assert stream.recv_into(bytearray(1), LIMIT) == 0
    assert server.join(LIMIT)
    assert server.error is None


def test_accepting_does_not_hold_the_hub(handler: Handler, listener: Listener) -> None:
    ticks, stop = [0], handler.Event()

    def tick() -> None:
        while not stop.is_set():
            ticks[0] += 1
            handler.sleep(0.005)

    worker = handler.spawn(tick)
    with pytest.raises(TimeoutError):
        listener.accept(0.3)
    stop.set()
    assert worker.join(5)
    assert ticks[0] >= 5
