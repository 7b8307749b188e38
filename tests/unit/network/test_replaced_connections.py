"""Programs of PyKafka 2 that replace or wrap the constructor and `connect()` of BrokerConnection, or a method of SslConfig."""

from __future__ import annotations

import socket
from typing import Any

import pytest

import pykafka.broker
from pykafka import KafkaClient, SslConfig
from pykafka.cluster import Cluster
from pykafka.connection import BrokerConnection
from pykafka.exceptions import NoBrokersAvailableError
from pykafka.handlers import GEventHandler, Handler, ThreadingHandler
from pykafka.network.options import ConnectionSettings
from pykafka.security import Plain
from tests.support.certs import Pems
from tests.support.peers import HOST, Ask
from tests.support.sasl import NEW, USERS, SaslBroker
from tests.support.scripted import TOPIC, ScriptedBroker

#: A name that has no address: connections go elsewhere only because a program says so.
NOWHERE = "kafka.invalid"


def replace(monkeypatch: pytest.MonkeyPatch, broker: ScriptedBroker, **attributes: Any) -> list[Any]:
    """Replace the constructor by one that sets what PyKafka 2's set, but for another address; return its handlers."""
    address = broker.hosts.split(":")
    made = []

    def init(
        self: Any,
        host: str,
        port: int,
        handler: Any,
        buffer_size: int = 1024 * 1024,
        source_host: str = "",
        source_port: int = 0,
        ssl_config: Any = None,
    ) -> None:
        made.append((host, port, handler))
        self._buff = bytearray(buffer_size)
        self.host, self.port = address[0], int(address[1])
        self._handler = handler
        self._socket = None
        self.source_host = source_host
        self.source_port = source_port
        self._wrap_socket = ssl_config.wrap_socket if ssl_config else lambda x: x
        vars(self).update(attributes)

    monkeypatch.setattr(BrokerConnection, "__init__", init)
    return made


def test_a_replaced_constructor_sends_connections_elsewhere(handler: Handler, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program for a jump box; it took none of what this client passed besides the documented arguments."""
    with ScriptedBroker() as broker:
        made = replace(monkeypatch, broker)
        with KafkaClient(f"{NOWHERE}:9092", handler=handler) as client:
            assert list(client.topics) == [TOPIC]
        assert made[0] == (NOWHERE, 9092, handler)


def test_a_replaced_constructor_still_logs_in(handler: Handler, monkeypatch: pytest.MonkeyPatch) -> None:
    with SaslBroker(apis=NEW) as broker:
        replace(monkeypatch, broker)
        with KafkaClient(f"{NOWHERE}:9092", handler=handler, sasl=Plain("alice", USERS["alice"])) as client:
            assert list(client.topics) == [TOPIC]
        assert broker.logins == 1


def test_a_connection_of_a_replaced_constructor(
    handler: Handler, peers: dict[str, int], pems: Pems, monkeypatch: pytest.MonkeyPatch
) -> None:
    def init(self: Any, host: Any, port: int, handler: Any, **arguments: Any) -> None:
        self.host, self.port, self._handler, self._socket = host, port, handler, None
        self._wrap_socket = arguments["ssl_config"].wrap_socket

    monkeypatch.setattr(BrokerConnection, "__init__", init)
    config = SslConfig(pems.path("ca.pem"))
    connection = BrokerConnection(b"localhost", peers["tls_broker"], handler, ssl_config=config)
    assert not connection.connected
    assert connection.address == f"localhost:{connection.port}"
    connection.connect(10_000)
    assert connection.is_tls
    connection.request(Ask(size=3))
    assert bytes(connection.response()) == b"\0\1\2"
    connection.disconnect()


@pytest.mark.parametrize("name", ["__init__", "connect"])
def test_wrapped_methods(handler: Handler, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    original = getattr(BrokerConnection, name)
    calls = []

    def init(
        self: Any,
        host: Any,
        port: Any,
        handler: Any,
        buffer_size: Any = 1,
        source_host: Any = "",
        source_port: Any = 0,
        ssl_config: Any = None,
    ) -> None:
        original(self, host, port, handler, buffer_size, source_host, source_port, ssl_config)
        calls.append(self)

    def connect(self: Any, timeout: int, attempts: int = 1) -> None:
        original(self, timeout, attempts)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        assert self._socket.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
        calls.append(self)

    monkeypatch.setattr(BrokerConnection, name, {"__init__": init, "connect": connect}[name])
    with ScriptedBroker() as broker, KafkaClient(broker.hosts, handler=handler) as client:
        assert list(client.topics) == [TOPIC]
    assert calls
    assert all(isinstance(connection, BrokerConnection) for connection in calls)


def test_a_wrapped_constructor_may_give_other_tls(
    handler: Handler, peers: dict[str, int], pems: Pems, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = BrokerConnection.__init__
    config = SslConfig(pems.path("ca.pem"))

    def init(self: Any, *arguments: Any, **named: Any) -> None:
        original(self, *arguments, **{**named, "ssl_config": config})

    monkeypatch.setattr(BrokerConnection, "__init__", init)
    connection = BrokerConnection("localhost", peers["tls_broker"], handler, ssl_config=None)
    connection.configure(ConnectionSettings())
    connection.connect(10_000)
    assert connection.is_tls
    connection.disconnect()


@pytest.mark.parametrize("own", [False, True], ids=["of the constructor", "of the connection"])
def test_a_wrap_socket_of_the_program(monkeypatch: pytest.MonkeyPatch, own: bool) -> None:
    """With threads: it is given the connected socket, and returns what is read and written from then on."""
    wrapped = []

    def wrap(sock: socket.socket) -> socket.socket:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        wrapped.append(sock)
        return sock

    with ScriptedBroker() as broker:
        if own:
            original = BrokerConnection.__init__

            def init(self: Any, *arguments: Any, **named: Any) -> None:
                original(self, *arguments, **named)
                self._wrap_socket = wrap

            monkeypatch.setattr(BrokerConnection, "__init__", init)
        else:
            replace(monkeypatch, broker, _wrap_socket=wrap)
        with KafkaClient(broker.hosts, handler=ThreadingHandler()) as client:
            assert list(client.topics) == [TOPIC]
    assert wrapped


@pytest.mark.parametrize("way", ["subclass", "class", "instance"])
def test_a_wrap_socket_of_a_changed_ssl_config(
    peers: dict[str, int], pems: Pems, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    wrapped = []

    def wrap(config: SslConfig, sock: Any) -> Any:
        wrapped.append(sock)
        return config.context.wrap_socket(sock, server_hostname="localhost")

    class Changed(SslConfig):
        wrap_socket = wrap  # type: ignore[assignment]

    config = (Changed if way == "subclass" else SslConfig)(pems.path("ca.pem"))
    if way == "class":
        monkeypatch.setattr(SslConfig, "wrap_socket", wrap)
    elif way == "instance":
        config.wrap_socket = lambda sock: wrap(config, sock)  # type: ignore[method-assign, misc, assignment]
    connection = BrokerConnection(HOST, peers["tls_broker"], ThreadingHandler(), ssl_config=config)
    connection.connect(10_000)
    connection.request(Ask(size=3))
    assert bytes(connection.response()) == b"\0\1\2"
    connection.disconnect()
    assert len(wrapped) == 1


def test_the_socket_of_a_connection(handler: Handler, peers: dict[str, int], pems: Pems) -> None:
    for peer, config in [("broker", None), ("tls_broker", SslConfig(pems.path("ca.pem")))]:
        connection = BrokerConnection("localhost", peers[peer], handler, ssl_config=config)
        assert not connection._socket
        connection.connect(10_000)
        assert connection._socket.getpeername()[1] == peers[peer]
        with pytest.raises(TypeError, match=r"give KafkaClient proxy="):
            connection._socket = connection._socket
        connection.disconnect()
        assert not connection._socket


def test_greenlets_refuse_a_wrap_socket_that_would_block(monkeypatch: pytest.MonkeyPatch) -> None:
    with ScriptedBroker() as broker:
        replace(monkeypatch, broker, _wrap_socket=lambda sock: sock.makefile())
        with pytest.raises(NoBrokersAvailableError, match="would block every greenlet"):
            KafkaClient(broker.hosts, handler=GEventHandler())


def test_a_wrapped_constructor_of_cluster(handler: Handler, monkeypatch: pytest.MonkeyPatch) -> None:
    original = Cluster.__init__

    def init(
        self: Any,
        hosts: Any,
        handler: Any,
        socket_timeout_ms: int = 30_000,
        offsets_channel_socket_timeout_ms: int = 10_000,
        exclude_internal_topics: bool = True,
        source_address: str = "",
        zookeeper_hosts: Any = None,
        ssl_config: Any = None,
        broker_version: str = "0.9.0",
    ) -> None:
        assert hosts == f"{NOWHERE}:9092"
        original(self, broker.hosts, handler, socket_timeout_ms, source_address=source_address)

    monkeypatch.setattr(Cluster, "__init__", init)
    with ScriptedBroker() as broker, KafkaClient(f"{NOWHERE}:9092", handler=handler) as client:
        assert list(client.topics) == [TOPIC]


def test_a_class_in_place_of_that_of_broker(handler: Handler, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[str] = []

    class Elsewhere(BrokerConnection):
        def __init__(self, host: Any, port: int, handler: Any, **arguments: Any) -> None:
            address, port_there = broker.hosts.split(":")
            super().__init__(address, int(port_there), handler, **arguments)
            made.append(host)

    monkeypatch.setitem(vars(pykafka.broker), "BrokerConnection", Elsewhere)
    with ScriptedBroker() as broker, KafkaClient(f"{NOWHERE}:9092", handler=handler) as client:
        assert list(client.topics) == [TOPIC]
    assert made[0] == NOWHERE
