"""BrokerConnection: frames out of it, and every way in which it fails, by name and with what to do."""

from __future__ import annotations

import gc
import re
import socket
import subprocess
import sys
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from pykafka.exceptions import (
    ConnectionRefused,
    ConnectTimeoutError,
    CorrelationIdError,
    FrameTooLargeError,
    KafkaException,
    NameResolutionError,
    NotKafkaError,
    ResponseTimeoutError,
    SocketDisconnectedError,
)
from pykafka.handlers import Address, Handler
from pykafka.network.channel import Channel
from pykafka.network.connection import BrokerConnection, join_small
from pykafka.network.dialing import Attempt
from tests.support.peers import HOST, Ask

Connect = Callable[..., BrokerConnection]


@pytest.fixture
def connect(handler: Handler, peers: dict[str, int]) -> Iterator[Connect]:
    """Yield a function that connects to a peer by name."""
    made: list[BrokerConnection] = []

    def connect(peer: str = "broker", host: str = HOST, timeout: int = 10_000) -> BrokerConnection:
        connection = BrokerConnection(host, peers[peer], handler)
        made.append(connection)
        connection.connect(timeout)
        return connection

    yield connect
    for connection in made:
        connection.disconnect()


def _ask(connection: BrokerConnection, number: int = 1, **answer: Any) -> None:
    connection.send(Ask(**answer).encode(number))


# -- frames ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [0, 1, 4_000, 16_380, 16_381, 65_528, 65_536, 1_000_000, 5_000_000])
@pytest.mark.parametrize("host", [HOST, b"127.0.0.1", "localhost"])
def test_frames_of_any_size(connect: Connect, size: int, host: str) -> None:
    connection = connect(host=host)
    assert connection.connected
    for number in (7, 8):
        _ask(connection, number, size=size)
    for number in (7, 8):
        frame = connection.receive()
        assert frame[:4] == number.to_bytes(4, "big")
        assert len(frame) == 4 + size
        assert frame.readonly
        assert frame[4:] == (bytes(range(251)) * (size // 251 + 1))[:size]


def test_a_frame_outlives_the_next(connect: Connect) -> None:
    connection = connect()
    for number in range(50):
        _ask(connection, number, size=number * 1000)
    frames = [connection.receive() for _ in range(50)]
    assert [int.from_bytes(frame[:4], "big") for frame in frames] == list(range(50))


def test_ipv6(handler: Handler, peers: dict[str, int]) -> None:
    connection = BrokerConnection("::1", peers["broker6"], handler)
    assert connection.address == f"[::1]:{peers['broker6']}"
    connection.connect(10_000)
    _ask(connection, 5)
    assert connection.receive() == (5).to_bytes(4, "big")
    connection.disconnect()


@pytest.mark.parametrize("split", [1, 4, 6, 100])
def test_a_late_frame_is_read_on(connect: Connect, split: int) -> None:
    connection = connect()
    whole = (104).to_bytes(4, "big") + bytes(104)
    _ask(connection, raw=whole[:split].hex())
    with pytest.raises(ResponseTimeoutError, match="no answer within"):
        connection.receive(timeout=0.1)
    assert connection.poll(0.01) is None
    assert connection.connected
    _ask(connection, raw=whole[split:].hex())
    assert connection.receive() == bytes(104)


def test_small_buffers_are_joined_and_large_ones_not_copied() -> None:
    large = bytes(100_000)
    joined = join_small([b"a", bytearray(b"b"), large, memoryview(b"c"), b"d", large])
    assert joined == [b"ab", large, b"cd", large]
    assert joined[1] is large


# -- what goes wrong on the way there --------------------------------------------------------------------------------


def _failure(connection: BrokerConnection, timeout: int = 10_000, attempts: int = 1) -> KafkaException:
    with pytest.raises(SocketDisconnectedError) as caught:
        connection.connect(timeout, attempts)
    assert not connection.connected
    assert connection.host in str(caught.value)
    assert str(connection.port) in str(caught.value)
    assert all(isinstance(attempt, Attempt) for attempt in caught.value.ledger)
    return caught.value


def test_nobody_listens(handler: Handler, peers: dict[str, int]) -> None:
    error = _failure(BrokerConnection(HOST, peers["refused"], handler))
    assert isinstance(error, ConnectionRefused)
    assert "refused; is the broker running" in str(error)
    [attempt] = error.ledger
    assert (attempt.stage, attempt.address, attempt.error) == (
        "TCP",
        f"{HOST}:{peers['refused']}",
        "Connection refused",
    )
    assert str(attempt).startswith(f"TCP {HOST}:{peers['refused']}: Connection refused (")


def test_nobody_answers(handler: Handler, peers: dict[str, int]) -> None:
    started = handler.now()
    error = _failure(BrokerConnection(HOST, peers["swallows"], handler), timeout=200)
    assert handler.now() - started < 2
    assert isinstance(error, ConnectTimeoutError)
    assert re.search(r"did not answer within (200|1\d\d) ms; a firewall", str(error))


def test_no_such_host(handler: Handler) -> None:
    error = _failure(BrokerConnection("no-such-host.invalid", 9092, handler), timeout=20_000)
    assert isinstance(error, NameResolutionError)
    assert [attempt.stage for attempt in error.ledger] == ["DNS"]


def test_a_host_that_is_no_name(handler: Handler) -> None:
    assert isinstance(_failure(BrokerConnection("a" * 70 + ".example", 9092, handler)), NameResolutionError)


def test_every_attempt_is_on_the_ledger(handler: Handler, peers: dict[str, int]) -> None:
    error = _failure(BrokerConnection(HOST, peers["refused"], handler), attempts=3)
    assert [attempt.stage for attempt in error.ledger] == ["TCP"] * 3


def _addresses(*ports: int) -> list[Address]:
    return [Address(socket.AF_INET, (HOST, port)) for port in ports]


@pytest.mark.parametrize("bad", ["refused", "swallows"])
def test_each_address_is_tried(
    handler: Handler, peers: dict[str, int], monkeypatch: pytest.MonkeyPatch, bad: str
) -> None:
    found = _addresses(peers[bad], peers["broker"])
    monkeypatch.setattr(handler, "resolve", lambda *_, **__: found)
    connection = BrokerConnection("kafka.example", 9092, handler)
    connection.connect(1000)
    _ask(connection, 3)
    assert connection.receive() == (3).to_bytes(4, "big")
    connection.disconnect()


def test_all_addresses_fail(handler: Handler, peers: dict[str, int], monkeypatch: pytest.MonkeyPatch) -> None:
    found = _addresses(peers["swallows"], peers["refused"])
    monkeypatch.setattr(handler, "resolve", lambda *_, **__: found)
    error = _failure(BrokerConnection("kafka.example", 9092, handler), timeout=400)
    assert [attempt.address for attempt in error.ledger] == [address.text for address in found]


def test_a_taken_source_port_does_not_break_the_second_connection(handler: Handler, peers: dict[str, int]) -> None:
    with socket.socket() as free:
        free.bind((HOST, 0))
        port = free.getsockname()[1]
    made = []
    for _ in range(3):
        connection = BrokerConnection(HOST, peers["broker"], handler, source_host=HOST, source_port=port)
        connection.connect(10_000)
        _ask(connection)
        connection.receive()
        made.append(connection)
    streams = [connection._stream for connection in made]
    assert [stream.getsockname()[1] == port for stream in streams if stream is not None] == [True, False, False]
    for connection in made:
        connection.disconnect()


def test_a_source_that_is_not_ours(handler: Handler, peers: dict[str, int]) -> None:
    error = _failure(BrokerConnection(HOST, peers["broker"], handler, source_host="192.0.2.1"))
    assert "'192.0.2.1'" in str(error)
    assert "source_address" in str(error)


# -- what goes wrong later -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("peer", "answer", "error", "text"),
    [
        (
            "broker",
            {"close": True},
            SocketDisconnectedError,
            "closed the connection without an answer; if this is a TLS",
        ),
        ("broker", {"cut": 2}, SocketDisconnectedError, r"in mid-answer \(2 bytes"),
        ("broker", {"size": 100, "cut": 50}, SocketDisconnectedError, r"in mid-answer \(50 bytes"),
        ("broker", {"size": 100_000, "cut": 50_004}, SocketDisconnectedError, r"\(50000 of 100004 bytes"),
        ("broker", {"raw": "ffffffff"}, FrameTooLargeError, "of -1 bytes"),
        ("broker", {"raw": "20000001"}, FrameTooLargeError, "of 536870913 bytes"),
        ("broker", {"raw": "15030300020228"}, NotKafkaError, "it is a TLS port; give KafkaClient an ssl_config"),
        ("broker", {"raw": b"SSH-2.0-x\r\n".hex()}, NotKafkaError, "SSH-2.0-x"),
        ("http", {}, NotKafkaError, "HTTP/1.1 400 Bad Request"),
        ("hang_up", {}, SocketDisconnectedError, r"without an answer|connection was lost"),
        ("reset", {}, SocketDisconnectedError, r"connection was lost \(Connection reset by peer\)"),
    ],
)
def test_an_answer_that_is_none(
    connect: Connect, peer: str, answer: dict[str, Any], error: type[Exception], text: str
) -> None:
    connection = connect(peer)
    _ask(connection, **answer)
    with pytest.raises(error, match=text) as caught:
        connection.receive()
    assert f"broker={connection.address}" in str(caught.value)
    assert not connection.connected
    for again in (connection.receive, lambda: connection.send([b"x"])):
        with pytest.raises(error, match=text):
            again()
    connection.reconnect()
    assert repr(connection) == f"<BrokerConnection {connection.address} connected>"
    connection.disconnect()
    with pytest.raises(SocketDisconnectedError, match="closed by this client"):
        connection.receive()


class _Caller:
    """An object that the user of a connection holds."""


def _fails_for(call: Callable[[], object]) -> weakref.ref[_Caller]:
    """Meet an error with something in hand, and return a weak reference to that."""
    caller = _Caller()
    with pytest.raises(KafkaException):
        call()
    return weakref.ref(caller)


@pytest.mark.parametrize("ending", ["hang_up", "reset"])
def test_the_error_that_is_kept_does_not_keep_who_met_it(connect: Connect, ending: str) -> None:
    connection = connect(ending)
    _ask(connection)
    for met in (_fails_for(connection.receive), _fails_for(connection.receive)):
        gc.collect()
        assert met() is None


def test_an_error_of_connecting_does_not_keep_who_met_it(handler: Handler, peers: dict[str, int]) -> None:
    channel = Channel(
        handler, lambda: BrokerConnection(HOST, peers["refused"], handler), lambda connection: None, 1_000
    )
    for met in (_fails_for(channel.open), _fails_for(channel.open)):  # the second is told what the first has met
        gc.collect()
        assert met() is None


def test_before_it_is_connected(handler: Handler) -> None:
    connection = BrokerConnection("kafka.example", 9092, handler)
    connection.disconnect()
    with pytest.raises(SocketDisconnectedError, match=r"not connected; .*broker=kafka\.example:9092"):
        connection.receive()
    with pytest.raises(SocketDisconnectedError, match="not connected"):
        connection.send([b"x"])


def test_a_broker_that_closes_after_answers(connect: Connect) -> None:
    connection = connect()
    _ask(connection)
    _ask(connection, close=True)
    connection.receive()
    with pytest.raises(SocketDisconnectedError, match="may have been stopped, or have found it idle"):
        connection.receive()


def test_a_broker_that_does_not_read(connect: Connect) -> None:
    connection = connect("silent")
    with pytest.raises(SocketDisconnectedError, match=r"did not take a request within 0\.2 s"):
        connection.send([bytes(32_000_000)], timeout=0.2)
    assert not connection.connected


def test_another_worker_disconnects(handler: Handler, connect: Connect) -> None:
    connection = connect()

    def disconnect_soon() -> None:
        handler.sleep(0.05)
        connection.disconnect()

    worker = handler.spawn(disconnect_soon)
    with pytest.raises(SocketDisconnectedError):
        connection.receive(timeout=30)
    assert worker.join(5)
    connection.disconnect()
    assert not connection.connected


# -- the documented way of use ---------------------------------------------------------------------------------------


def test_one_request_after_the_other(connect: Connect) -> None:
    connection = connect()
    for size in (3, 5):
        connection.request(Ask(size=size))
    assert [bytes(connection.response()) for _ in range(2)] == [b"\0\1\2", b"\0\1\2\3\4"]


def test_correlation_ids_are_checked(connect: Connect) -> None:
    connection = connect()
    connection.request(Ask(number=9))
    with pytest.raises(CorrelationIdError, match="request 9 came where 0 was due"):
        connection.response()
    assert not connection.connected


def test_the_timeout_of_connect_is_that_of_answers(connect: Connect) -> None:
    connection = connect(timeout=100)
    connection.request(Ask(silent=True))
    with pytest.raises(ResponseTimeoutError, match=r"0\.1 s"):
        connection.response()


def test_dropping_it_closes_it(connect: Connect, handler: Handler, peers: dict[str, int]) -> None:
    connection = BrokerConnection(HOST, peers["broker"], handler)
    connection.connect(10_000)
    stream = connection._stream
    assert stream is not None
    assert stream.fileno() >= 0
    del connection
    gc.collect()
    assert stream.fileno() == -1
    assert repr(BrokerConnection("h", 1, handler)) == "<BrokerConnection h:1 not connected>"


def test_the_interpreters_end_is_silent(peers: dict[str, int]) -> None:
    code = f"""
from pykafka.network.channel import Channel
from pykafka.connection import BrokerConnection
from pykafka.handlers import GEventHandler, RequestHandler, ThreadingHandler
kept = []
for handler in (ThreadingHandler(), GEventHandler(), GEventHandler().native):
    connection = BrokerConnection({HOST!r}, {peers["broker"]}, handler)
    connection.connect(5000)
    kept.append(connection)
    connection = BrokerConnection({HOST!r}, {peers["broker"]}, handler)
    connection.connect(5000)
    requests = RequestHandler(handler, connection)
    requests.start()
    kept.append(requests)
"""
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, timeout=30, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
