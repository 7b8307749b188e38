"""Connections through SOCKS5 and HTTP proxies: what reaches the broker, what a failure says, what is kept secret."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from typing import Any

import pytest

from pykafka import KafkaClient, SslConfig
from pykafka.exceptions import (
    ConnectionRefused,
    ConnectTimeoutError,
    KafkaException,
    NoBrokersAvailableError,
    ProxyError,
)
from pykafka.handlers import Handler
from pykafka.network.connection import BrokerConnection
from pykafka.network.options import ConnectionSettings
from pykafka.network.proxies import Proxy, valid_proxy
from tests.support.certs import Pems
from tests.support.peers import Ask
from tests.support.scripted import ScriptedBroker, batch
from tests.support.tunnels import TunnelProxy

SECRET = "pass:word@1"
QUOTED = "pass%3Aword%401"
SCHEMES = ["socks5", "socks5h", "http"]


@pytest.fixture
def tunnel() -> Iterator[TunnelProxy]:
    with TunnelProxy() as found:
        yield found


@pytest.fixture
def guarded() -> Iterator[TunnelProxy]:
    """Yield a proxy that wants a login."""
    with TunnelProxy("joe", SECRET, {"broker.invalid": "127.0.0.1"}) as found:
        yield found


def connection(handler: Handler, port: int, proxy: Any, host: str = "127.0.0.1", **settings: Any) -> BrokerConnection:
    return BrokerConnection(host, port, handler, settings=ConnectionSettings(proxy=proxy, **settings))


@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_client_produces_and_consumes_through_a_proxy(handler: Handler, tunnel: TunnelProxy, scheme: str) -> None:
    with (
        ScriptedBroker(batch([b"one", b"two"])) as broker,
        KafkaClient(broker.hosts, handler=handler, proxy=tunnel.url(scheme)) as client,
    ):
        topic = client.topics["scripted"]
        with topic.get_sync_producer() as producer:
            producer.produce(b"three")
        consumer = topic.get_simple_consumer(consumer_timeout_ms=20_000)
        assert [message.value for message in (consumer.consume(), consumer.consume()) if message] == [b"one", b"two"]
        consumer.stop()
        port = int(broker.hosts.split(":")[1])
        assert set(tunnel.asked) == {("127.0.0.1", port)}
        assert len(tunnel.asked) >= 3


@pytest.mark.parametrize("scheme", ["socks5h", "http"])
def test_the_proxy_looks_names_up_and_takes_a_login(
    handler: Handler, guarded: TunnelProxy, peers: dict[str, int], scheme: str
) -> None:
    proxy = Proxy(scheme, "127.0.0.1", guarded.port, "joe", SECRET)
    made = connection(handler, peers["broker"], proxy, "broker.invalid")
    made.connect(5000)
    made.request(Ask(size=100))
    assert len(made.response()) == 100
    made.disconnect()
    assert guarded.asked == [("broker.invalid", peers["broker"])]


@pytest.mark.parametrize("scheme", SCHEMES)
def test_tls_inside_the_tunnel_checks_the_brokers_name(
    handler: Handler, tunnel: TunnelProxy, peers: dict[str, int], pems: Pems, scheme: str
) -> None:
    config = SslConfig(pems.path("ca.pem"))
    made = connection(handler, peers["tls_broker"], tunnel.url(scheme), ssl_config=config)
    made.connect(5000)
    made.request(Ask(size=300_000))
    assert len(made.response()) == 300_000
    made.disconnect()
    wrong = connection(handler, peers["tls_broker_elsewhere"], tunnel.url(scheme), ssl_config=config)
    with pytest.raises(KafkaException) as raised:
        wrong.connect(5000)
    assert [attempt.stage for attempt in raised.value.ledger] == ["TLS"]


def failing(
    handler: Handler, proxy: str, port: int, error: type[KafkaException], timeout: int = 5000
) -> KafkaException:
    made = connection(handler, port, proxy)
    with pytest.raises(error) as raised:
        made.connect(timeout)
    assert SECRET not in repr(raised.value) + str(raised.value.ledger) + str(pickle.dumps(raised.value))
    return raised.value


@pytest.mark.parametrize("scheme", SCHEMES)
def test_each_failure_names_stage_and_remedy(
    handler: Handler, guarded: TunnelProxy, peers: dict[str, int], scheme: str
) -> None:
    login = f"{scheme}://joe:{QUOTED}@127.0.0.1:"
    known = peers["broker"]
    found = failing(handler, guarded.url(scheme, login=False), known, ProxyError)
    assert found.ledger[-1].stage == "PROXY"
    assert "user and a password" in str(found)
    found = failing(handler, f"{scheme}://joe:wrong@127.0.0.1:{guarded.port}", known, ProxyError)
    assert "refuses user 'joe'" in str(found)
    found = failing(handler, f"{login}{guarded.port}", peers["refused"], ProxyError)
    assert f"does not connect to 127.0.0.1:{peers['refused']}" in str(found)
    found = failing(handler, f"{login}{peers['refused']}", known, ConnectionRefused)
    assert found.ledger[-1].stage == "TCP"
    assert "is the proxy running" in str(found)
    found = failing(handler, f"{scheme}://no-such-host.invalid:1", known, ProxyError)
    assert (found.ledger[-1].stage, found.ledger[-1].address) == ("DNS", "no-such-host.invalid:1")
    guarded.rude = True
    found = failing(handler, f"{login}{guarded.port}", known, ProxyError)
    assert "hung up" in str(found)
    guarded.rude, guarded.silent = False, True
    found = failing(handler, f"{login}{guarded.port}", known, ConnectTimeoutError, 300)
    assert "in time" in str(found)


@pytest.mark.parametrize(
    ("scheme", "peer"), [("socks5", "http"), ("socks5h", "echo"), ("http", "broker"), ("http", "echo")]
)
def test_a_peer_that_is_no_such_proxy_is_named(handler: Handler, peers: dict[str, int], scheme: str, peer: str) -> None:
    made = connection(handler, 9092, f"{scheme}://127.0.0.1:{peers[peer]}")
    with pytest.raises((ProxyError, ConnectTimeoutError)) as raised:
        made.connect(500)
    assert raised.value.ledger[-1].stage == "PROXY"


def test_closing_a_client_ends_a_handshake_under_way(handler: Handler, tunnel: TunnelProxy) -> None:
    tunnel.silent = True
    made = connection(handler, 9092, tunnel.url("socks5h"))
    outcome: list[BaseException] = []

    def connect() -> None:
        try:
            made.connect(60_000)
        except KafkaException as error:
            outcome.append(error)

    worker = handler.spawn(connect)
    while made._dialer._opening is None:
        handler.sleep(0.01)
    made.give_up()
    assert worker.join(20)
    assert "given up by this client" in str(outcome[0])


def test_a_client_that_finds_no_proxy_says_so(handler: Handler, peers: dict[str, int]) -> None:
    with pytest.raises(NoBrokersAvailableError, match="is the proxy running"):
        KafkaClient(
            "broker.invalid:9092", handler=handler, proxy=f"socks5h://joe:{QUOTED}@127.0.0.1:{peers['refused']}"
        )


@pytest.mark.parametrize(
    "text",
    [
        "nonsense",
        "ftp://host:1",
        "socks5h://",
        "socks5h://host:99999",
        "http://host:1/path",
        f"socks5://joe:{SECRET * 90}@h",
        f"socks5://joe\udc80:{SECRET}@h:1080",
    ],
)
def test_what_is_no_proxy_is_refused_by_name(text: str) -> None:
    with pytest.raises(ValueError, match="proxy") as raised:
        ConnectionSettings(proxy=text)
    assert SECRET not in str(raised.value)
    with pytest.raises(TypeError, match="proxy must be a str"):
        ConnectionSettings(proxy=1)  # type: ignore[arg-type]


def test_a_password_is_in_no_repr() -> None:
    settings = ConnectionSettings(proxy=f"http://joe:{QUOTED}@[::1]:8080")
    assert settings.proxy == Proxy("http", "::1", 8080, "joe", SECRET)
    assert SECRET not in repr(settings) + str(settings.proxy) + f"{settings.proxy!r}"
    assert valid_proxy("socks5h://host") == Proxy("socks5h", "host", 1080)


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize(("host", "port"), [("h", 70_000), ("h", -1), ("", 9092), ("a\0b", 9092)])
def test_no_proxy_is_asked_for_what_is_no_address(
    handler: Handler, tunnel: TunnelProxy, scheme: str, host: str, port: int
) -> None:
    """Metadata of a cluster may name any text and any number of 32 bits."""
    settings = ConnectionSettings(proxy=tunnel.url(scheme))
    with pytest.raises(KafkaException, match="no host and port to connect to"):
        BrokerConnection(host, port, handler, settings=settings).connect(5000)


@pytest.mark.parametrize("scheme", ["socks5h", "http"])
@pytest.mark.parametrize("host", ["\u00e4" * 70 + ".test", "\u00e4\udc80.test"])
def test_a_name_that_cannot_be_written_is_an_error_of_the_connection(
    handler: Handler, tunnel: TunnelProxy, scheme: str, host: str
) -> None:
    settings = ConnectionSettings(proxy=tunnel.url(scheme))
    with pytest.raises(ProxyError, match="cannot be asked for this host; correct the address"):
        BrokerConnection(host, 9092, handler, settings=settings).connect(5000)


def test_an_error_repeats_little_of_what_a_proxy_says() -> None:
    proxy = valid_proxy("http://127.0.0.1:3128")
    assert proxy is not None
    way = proxy.tunnel("broker.test", 9092)
    way.next_bytes()
    with pytest.raises(ProxyError) as refused:
        way.received(b"HTTP/1.1 502 " + b"x" * 50_000 + b"\r\n\r\n")
    assert len(str(refused.value)) < 500
