"""Sockets: resolving, connecting, reading and writing, plain and through TLS."""

from __future__ import annotations

import _socket
import os
import socket
import ssl
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

import pytest

from pykafka.handlers import Address, Handler, Stream
from pykafka.handlers.streams import HUB_SEND_MAX
from tests.support.certs import Pems
from tests.support.peers import HOST
from tests.support.waiting import until

SLACK = 1.5
LIMIT = 10.0


def _address(port: int) -> Address:
    return Address(socket.AF_INET, (HOST, port))


def _context(pems: Pems) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=pems.path("ca.pem"))


@contextmanager
def _connected(handler: Handler, peers: dict[str, int], pems: Pems, peer: str) -> Iterator[Stream]:
    stream = handler.connect(_address(peers[peer]), LIMIT)
    try:
        if peer.startswith("tls"):
            stream = handler.wrap_tls(stream, _context(pems), "localhost", LIMIT)
        yield stream
    finally:
        stream.close()


@pytest.fixture(params=["echo", "tls_echo", "tls12_echo"])
def stream(request: pytest.FixtureRequest, handler: Handler, peers: dict[str, int], pems: Pems) -> Iterator[Stream]:
    """Yield a stream to an echo, plain and through TLS."""
    with _connected(handler, peers, pems, request.param) as made:
        yield made


def _receive(stream: Stream, size: int, timeout: float = LIMIT) -> bytes:
    buffer, filled = bytearray(size), 0
    while filled < size:
        count = stream.recv_into(memoryview(buffer)[filled:], timeout)
        assert count, f"the peer closed after {filled} of {size} bytes"
        filled += count
    return bytes(buffer)


def test_a_deadline_that_is_a_century_away(stream: Stream) -> None:
    """Beyond what the system's own calls can wait."""
    stream.send([b"hello"], 3e9)
    assert _receive(stream, 5, 3e9) == b"hello"


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
@pytest.mark.parametrize("timeout", [None, 10.0])
def test_resolve(handler: Handler, host: str, timeout: float | None) -> None:
    found = handler.resolve(host, 9092, timeout)
    assert (HOST, 9092) in [address.sockaddr for address in found]
    assert len(found) == len(set(found))
    assert f"{HOST}:9092" in [address.text for address in found]


def test_resolve_ipv6_literal(handler: Handler) -> None:
    assert [address.text for address in handler.resolve("::1", 9092, 5)] == ["[::1]:9092"]


def test_resolve_a_name_that_leads_nowhere(handler: Handler) -> None:
    with pytest.raises(handler.GaiError):
        handler.resolve("no-such-host.invalid", 9092, 20)


@pytest.mark.real_system("wait for name servers")
def test_resolve_has_a_deadline(handler: Handler, monkeypatch: pytest.MonkeyPatch) -> None:
    released = handler.native.Event()

    def slow(*_: Any) -> list[Any]:
        released.wait(10)
        return []

    if handler.native is not handler or handler.name == "native":
        monkeypatch.setattr(handler.native, "_getaddrinfo", slow)
    else:
        monkeypatch.setattr(socket, "getaddrinfo", slow)
    started = handler.now()
    with pytest.raises(TimeoutError, match=r"slow\.example"):
        handler.resolve("slow.example", 9092, 0.1)
    assert handler.now() - started < SLACK
    released.set()


@pytest.mark.real_system("wait for name servers")
def test_a_lookup_that_nobody_wants_any_more_is_not_waited_for(
    handler: Handler, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Closing waited for the name server, for as long as a connect may take."""
    released = silence(handler, monkeypatch)
    wanted: list[None] = [None]
    outcome: list[object] = []

    def look_up() -> None:
        try:
            handler.resolve("slow.example", 9092, 3600, lambda: bool(wanted))
        except ConnectionAbortedError as error:
            outcome.append(error)

    worker = handler.spawn(look_up)
    try:
        handler.sleep(0.05)
        wanted.clear()
        assert worker.join(SLACK)
        assert outcome
    finally:
        released.set()


@pytest.mark.real_system("wait for name servers")
def test_lookups_that_hang_are_few(handler: Handler, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each connect that was tried again left another thread behind."""
    asked: list[Any] = []
    released = silence(handler, monkeypatch, asked)
    try:
        for age in (0.0, 3600.0):
            monkeypatch.setattr("pykafka.handlers.lookups.SHARED_S", 3600.0 - age)
            for _ in range(8):
                with pytest.raises(TimeoutError):
                    handler.resolve("slow.example", 9092, 0.01)
            until(handler, lambda: len(asked) == (3 if age else 1))  # noqa: B023 - called here
    finally:
        released.set()


def silence(handler: Handler, monkeypatch: pytest.MonkeyPatch, asked: list[Any] | None = None) -> Any:
    """Keep name servers from answering until the returned event is set.

    :param asked: gets each question
    """
    released = handler.native.Event()

    def slow(*question: Any, **_: Any) -> list[Any]:
        if asked is not None:
            asked.append(question)
        released.wait(30)
        return []

    monkeypatch.setattr(_socket, "getaddrinfo", slow)  # what all lookups end in
    return released


@pytest.mark.real_system("wait for name servers")
def test_names_that_nobody_knows_hold_up_nothing_else(handler: Handler, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten lookups that hung took the ten threads of a hub, and nothing could be compressed or unpacked any more."""
    released = handler.native.Event()

    def slow(*_: Any, **__: Any) -> list[Any]:
        released.wait(30)
        return []

    # what all of Python's and gevent's end in, whichever thread that is in
    monkeypatch.setattr(_socket, "getaddrinfo", slow)
    late: list[object] = []

    def look_up() -> None:
        try:
            handler.resolve("slow.example", 9092, 15)
        except TimeoutError as error:
            late.append(error)

    workers = [handler.spawn(look_up) for _ in range(12)]
    try:
        handler.sleep(0.2)
        started = handler.now()
        assert handler.offload(sum, [1, 2]) == 3
        assert handler.now() - started < 10
    finally:
        released.set()
    assert all(worker.join(SLACK + 10) for worker in workers)
    assert not late


def test_echo(stream: Stream) -> None:
    stream.send([b"to and ", bytearray(b"fro"), memoryview(b" again"), b""], LIMIT)
    assert _receive(stream, 16) == b"to and fro again"
    assert stream.getpeername()[0] == HOST
    assert stream.getsockname()[1] > 0
    assert stream.fileno() >= 0


@pytest.mark.real_system("look at sockets of the system")
def test_options(handler: Handler, peers: dict[str, int]) -> None:
    with closing(handler.connect(_address(peers["echo"]), LIMIT)) as stream:
        sock: Any = stream
        assert sock.socket.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
        assert sock.socket.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)


@pytest.mark.parametrize("pieces", [1, 3, 3000])
def test_one_reads_while_another_writes(handler: Handler, stream: Stream, pieces: int) -> None:
    # Far more than the buffers between hold: the writer must wait for the reader, and neither for the other's lock.
    data = os.urandom(8_000_000 // pieces)
    sent = handler.spawn(stream.send, [data] * pieces, LIMIT)
    assert _receive(stream, len(data) * pieces) == data * pieces
    assert sent.join(LIMIT)
    assert sent.error is None


@pytest.mark.real_system("count writes of the system")
def test_large_writes_do_not_hold_the_hub(handler: Handler, stream: Stream, monkeypatch: pytest.MonkeyPatch) -> None:
    size, breaths, ticks, stop = 20_000_000, [0], [0], handler.Event()
    let_turn = handler.breathe

    def breathe() -> None:
        breaths[0] += 1
        let_turn()

    def tick() -> None:
        while not stop.is_set():
            handler.sleep(0.001)
            ticks[0] += 1

    def read() -> None:
        buffer, left = bytearray(1 << 20), size
        while left:
            left -= stream.recv_into(buffer, LIMIT)
            let_turn()

    monkeypatch.setattr(handler, "breathe", breathe)
    monkeypatch.setattr(getattr(stream, "_stream", stream), "_breathe", breathe)  # what TLS goes over, or the stream
    workers = [handler.spawn(tick), handler.spawn(read)]
    stream.send([bytes(size)], LIMIT)
    while_writing = ticks[0]
    assert workers[1].join(LIMIT)
    stop.set()
    assert workers[0].join(5)
    assert [worker.error for worker in workers] == [None, None]
    if handler.cooperative:
        # Counts, as how long a turn takes is the machine's; a write that held the hub would let it turn once or twice.
        assert while_writing > 2
        assert breaths[0] >= size // HUB_SEND_MAX


def test_reading_has_a_deadline(handler: Handler, stream: Stream) -> None:
    for timeout in (0.0, 0.1):
        started = handler.now()
        with pytest.raises(TimeoutError):
            stream.recv_into(bytearray(10), timeout)
        assert timeout - 0.005 <= handler.now() - started < timeout + SLACK
    stream.send([b"still there"], LIMIT)
    assert _receive(stream, 11) == b"still there"


def test_writing_has_a_deadline(handler: Handler, peers: dict[str, int]) -> None:
    with closing(handler.connect(_address(peers["silent"]), LIMIT)) as stream:
        started = handler.now()
        with pytest.raises(TimeoutError):
            stream.send([bytes(32_000_000)], 0.2)
        assert 0.195 <= handler.now() - started < 0.2 + SLACK


def test_closing_wakes_the_reader(handler: Handler, stream: Stream) -> None:
    woken: list[object] = []

    def read() -> None:
        try:
            woken.append(stream.recv_into(bytearray(10), 30))
        except OSError as error:
            woken.append(type(error))

    worker = handler.spawn(read)
    handler.sleep(0.05)
    stream.close()
    stream.close()
    assert worker.join(5)
    assert worker.error is None
    assert woken in ([0], [OSError])
    assert stream.fileno() == -1
    with pytest.raises(OSError, match="closed"):
        stream.recv_into(bytearray(10), 1)
    with pytest.raises(OSError, match="closed"):
        stream.send([b"x"], 1)


def test_closing_wakes_the_writer(handler: Handler, peers: dict[str, int]) -> None:
    stream = handler.connect(_address(peers["silent"]), LIMIT)
    failures: list[type[BaseException]] = []

    def write() -> None:
        try:
            stream.send([bytes(32_000_000)], 30)
        except OSError as error:
            failures.append(type(error))

    worker = handler.spawn(write)
    handler.sleep(0.05)
    stream.close()
    assert worker.join(5)
    assert len(failures) == 1
    assert not issubclass(failures[0], TimeoutError)
    assert stream.fileno() == -1


def test_a_peer_that_hangs_up_is_the_end(handler: Handler, peers: dict[str, int]) -> None:
    with closing(handler.connect(_address(peers["hang_up"]), LIMIT)) as stream:
        stream.send([b"x"], LIMIT)
        assert stream.recv_into(bytearray(10), LIMIT) == 0
        assert stream.recv_into(bytearray(10), LIMIT) == 0


def test_a_peer_that_resets_is_an_error(handler: Handler, peers: dict[str, int]) -> None:
    with closing(handler.connect(_address(peers["reset"]), LIMIT)) as stream:
        stream.send([b"x"], LIMIT)
        with pytest.raises(ConnectionResetError):
            stream.recv_into(bytearray(10), LIMIT)


def test_connecting_where_nobody_listens(handler: Handler, peers: dict[str, int]) -> None:
    with pytest.raises(ConnectionRefusedError):
        handler.connect(_address(peers["refused"]), LIMIT)


def test_connecting_has_a_deadline(handler: Handler, peers: dict[str, int]) -> None:
    started = handler.now()
    with pytest.raises(TimeoutError):
        handler.connect(_address(peers["swallows"]), 0.2)
    assert 0.195 <= handler.now() - started < 0.2 + SLACK


def test_source_address(handler: Handler, peers: dict[str, int]) -> None:
    with closing(handler.connect(_address(peers["echo"]), LIMIT, ("127.0.0.9", 0))) as stream:
        assert stream.getsockname()[0] == "127.0.0.9"
    with pytest.raises(OSError, match="assign"):
        handler.connect(_address(peers["echo"]), LIMIT, ("192.0.2.1", 0))


@pytest.mark.parametrize("peer", ["silent", "tls_echo"])
def test_waiting_for_a_peer_does_not_hold_the_hub(
    handler: Handler, peers: dict[str, int], pems: Pems, peer: str
) -> None:
    ticks, stop = [0], handler.Event()

    def tick() -> None:
        while not stop.is_set():
            ticks[0] += 1
            handler.sleep(0.005)

    worker = handler.spawn(tick)
    with _connected(handler, peers, pems, peer) as stream, pytest.raises(TimeoutError):
        stream.recv_into(bytearray(1), 0.3)
    stop.set()
    assert worker.join(5)
    assert ticks[0] >= 5


@pytest.mark.real_system("speak TLS")
def test_a_handshake_has_a_deadline(handler: Handler, peers: dict[str, int], pems: Pems) -> None:
    started = handler.now()
    with closing(handler.connect(_address(peers["silent"]), LIMIT)) as stream, pytest.raises(TimeoutError):
        handler.wrap_tls(stream, _context(pems), "localhost", 0.2)
    assert 0.195 <= handler.now() - started < 0.2 + SLACK


@pytest.mark.real_system("speak TLS")
def test_a_handshake_that_is_hung_up_on(handler: Handler, peers: dict[str, int], pems: Pems) -> None:
    with closing(handler.connect(_address(peers["hang_up"]), LIMIT)) as stream, pytest.raises(ConnectionResetError):
        handler.wrap_tls(stream, _context(pems), "localhost", LIMIT)


@pytest.mark.real_system("speak TLS")
def test_certificates_are_checked(handler: Handler, peers: dict[str, int], pems: Pems) -> None:
    for context, name in ((_context(pems), "other.example"), (ssl.create_default_context(), "localhost")):
        with (
            closing(handler.connect(_address(peers["tls_echo"]), LIMIT)) as stream,
            pytest.raises(ssl.SSLCertVerificationError),
        ):
            handler.wrap_tls(stream, context, name, LIMIT)


class _OnlyWraps:
    """A context with wrap_socket() alone, as other TLS libraries offer."""

    def __init__(self, pems: Pems) -> None:
        self._context = _context(pems)

    def wrap_socket(self, sock: Any) -> Any:
        """Put TLS around a socket."""
        return self._context.wrap_socket(sock, server_hostname="localhost")


@pytest.mark.real_system("speak TLS")
def test_objects_that_only_wrap_sockets(handler: Handler, peers: dict[str, int], pems: Pems) -> None:
    stream = handler.connect(_address(peers["tls_echo"]), LIMIT)
    if handler.cooperative:
        with closing(stream), pytest.raises(TypeError, match="_OnlyWraps has wrap_socket"):
            handler.wrap_tls(stream, _OnlyWraps(pems), "localhost", LIMIT)
        return
    with closing(handler.wrap_tls(stream, _OnlyWraps(pems), "localhost", LIMIT)) as wrapped:
        data = os.urandom(3_000_000)
        worker = handler.spawn(wrapped.send, [data[:1000], data[1000:]], LIMIT)
        assert _receive(wrapped, len(data)) == data
        assert worker.join(LIMIT)
        with pytest.raises(TimeoutError):
            wrapped.recv_into(bytearray(1), 0.05)


@pytest.mark.real_system("look at sockets of the system")
def test_sockets_of_the_handlers_class(handler: Handler, peers: dict[str, int]) -> None:
    sock = handler.Socket(socket.AF_INET, socket.SOCK_STREAM)
    with closing(sock):
        sock.settimeout(LIMIT)
        sock.connect((HOST, peers["echo"]))
        sock.sendall(b"plain")
        assert sock.recv(100) == b"plain"


@pytest.mark.real_system("speak TLS")
def test_many_at_once(handler: Handler, peers: dict[str, int], pems: Pems) -> None:
    done = []

    def talk(number: int) -> None:
        with _connected(handler, peers, pems, ("echo", "tls_echo")[number % 2]) as stream:
            for turn in range(5):
                data = bytes([number, turn]) * 10_000
                stream.send([data], LIMIT)
                assert _receive(stream, len(data)) == data
        done.append(number)

    started = time.monotonic()
    workers = [handler.spawn(talk, number) for number in range(20)]
    assert all(worker.join(20) for worker in workers)
    assert sorted(done) == list(range(20))
    assert time.monotonic() - started < 20
