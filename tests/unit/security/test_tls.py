"""TLS connections: who is trusted, who is shown, and what is said when that fails."""

from __future__ import annotations

import pickle
import socket
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pykafka.connection import BrokerConnection, SslConfig
from pykafka.exceptions import SocketDisconnectedError, TlsError
from pykafka.handlers import Address, Handler, ThreadingHandler
from pykafka.security import explain_tls_error
from tests.support.certs import Pems
from tests.support.peers import HOST, Ask

Configure = Callable[[Pems], Any]


def _trusting(pems: Pems, **kwargs: Any) -> SslConfig:
    return SslConfig(pems.path("ca.pem"), **kwargs)


def _showing(pems: Pems, key: str = "client.key", **kwargs: Any) -> SslConfig:
    return _trusting(pems, certfile=pems.path("client.pem"), keyfile=pems.path(key), **kwargs)


def _text(pems: Pems, name: str) -> str:
    return Path(pems.path(name)).read_text(encoding="utf-8")


def _in_store(pems: Pems) -> SslConfig:
    store = pems.path("revoked.p12")  # with a client's certificate and the authority's
    return SslConfig(store, store, password=Pems.password, ca_password=Pems.password)


def _context(pems: Pems) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=pems.path("ca.pem"))


def _ask(connection: BrokerConnection) -> None:
    connection.request(Ask())
    connection.response()


def _works(handler: Handler, port: int, config: Any, host: str = "localhost") -> None:
    connection = BrokerConnection(host, port, handler, ssl_config=config)
    connection.connect(10_000)
    try:
        connection.request(Ask(size=300_000))
        connection.request(Ask(size=3))
        assert len(connection.response()) == 300_000
        assert bytes(connection.response()) == b"\0\1\2"
    finally:
        connection.disconnect()


@pytest.mark.parametrize(
    ("peer", "config"),
    [
        ("tls_broker", _trusting),
        ("tls_broker", lambda pems: _trusting(pems).context),
        ("tls_broker", _context),
        ("tls_broker", lambda pems: pickle.loads(pickle.dumps(_trusting(pems)))),
        ("tls_broker_elsewhere", lambda pems: _trusting(pems, check_hostname=False)),
        ("tls_broker_asking", _showing),
        ("tls_broker_asking", lambda pems: _showing(pems, "locked.key", password=Pems.password)),
        ("tls_broker_asking", lambda pems: _showing(pems, "locked.key", password=lambda: Pems.password)),
        (
            "tls_broker_asking",
            lambda pems: SslConfig(_text(pems, "ca.pem"), _text(pems, "client.pem"), _text(pems, "client.key")),
        ),
        ("tls_broker_asking", lambda pems: pickle.loads(pickle.dumps(_in_store(pems)))),
        ("tls_broker_expired", lambda pems: _trusting(pems, verify=False)),
        ("tls_broker", lambda pems: _trusting(pems, ciphers="ECDHE+AESGCM", versions=("TLSv1.2", "TLSv1.2"))),
        ("tls_broker", lambda pems: _trusting(pems, crlfile=pems.path("revoked.crl"))),
    ],
)
@pytest.mark.parametrize("host", ["localhost", HOST])
def test_it_works(handler: Handler, peers: dict[str, int], pems: Pems, peer: str, config: Configure, host: str) -> None:
    _works(handler, peers[peer], config(pems), host)


@pytest.mark.parametrize(
    ("peer", "config", "text"),
    [
        ("tls_broker_elsewhere", _trusting, "the certificate does not name 'localhost'"),
        ("tls_broker", lambda pems: SslConfig(pems.path("stranger.pem")), "is not trusted"),
        ("tls_broker", lambda _: SslConfig(None), "is not trusted .* give SslConfig the cafile"),
        ("tls_broker", lambda _: SslConfig("/no/such/ca.pem"), "cafile '/no/such/ca.pem' cannot be used: No such file"),
        ("tls_broker", lambda pems: SslConfig(pems.path("ca.key")), "cafile '.*ca.key' cannot be used"),
        ("tls_broker", lambda pems: _showing(pems, "locked.key"), "cannot be used.* its password"),
        ("tls_broker", lambda pems: _showing(pems, "locked.key", password="wrong"), "cannot be used.* its password"),
        ("tls_broker", lambda pems: _showing(pems, "server.key"), "private key does not belong to the certificate"),
        ("tls_broker_expired", _trusting, "the certificate of 'localhost' has expired .* renew it on the broker"),
        ("tls_broker_early", _trusting, "the certificate of 'localhost' is not valid yet .* clock"),
        (
            "tls_broker_revoked",
            lambda pems: _trusting(pems, crlfile=pems.path("revoked.crl")),
            "the certificate of 'localhost' was revoked",
        ),
        ("tls12_echo", lambda pems: _trusting(pems, versions=("TLSv1.3", "TLSv1.3")), "no version of TLS in common"),
        ("tls_broker_12_asking", _trusting, r"give SslConfig a certfile and keyfile .* \(this client has none\)"),
        (
            "tls_broker_12_asking",
            lambda pems: _trusting(pems, certfile=pems.path("client-expired.p12"), password=Pems.password),
            "the broker refused the handshake .*the client certificate has expired",
        ),
        (
            "tls_broker_12_asking",
            lambda pems: _trusting(
                pems, certfile=pems.path("client-expired.pem"), keyfile=pems.path("client-expired.key")
            ),
            r"the client certificate has expired: renew it.* \(that of this client has expired, on 20\d\d-",
        ),
        (
            "tls_broker_12_asking",
            lambda pems: _trusting(pems, certfile=pems.path("client-stranger.p12"), password=Pems.password),
            "the broker does not trust the authority of the client certificate",
        ),
        ("tls_broker", lambda pems: _trusting(pems, crlfile=pems.path("ca.pem")), "crlfile .* no list of revoked"),
        ("tls_broker", lambda pems: _trusting(pems, ciphers="NO-SUCH"), "OpenSSL knows none of SslConfig's ciphers"),
        ("tls_broker", lambda pems: _showing(pems, "ca.pem"), "the private key is missing"),
        ("tls_broker", lambda pems: _trusting(pems, certfile=pems.path("client.key")), "the certificate is missing"),
        ("broker", _trusting, "the port may not be a TLS port|does not speak TLS"),
        ("http", _trusting, "what answers does not speak TLS"),
        ("hang_up", _trusting, "the port may not be a TLS port"),
        ("reset", _trusting, "the port may not be a TLS port"),
    ],
)
def test_it_fails_by_name(
    handler: Handler, peers: dict[str, int], pems: Pems, peer: str, config: Configure, text: str
) -> None:
    connection = BrokerConnection("localhost", peers[peer], handler, ssl_config=config(pems))
    with pytest.raises(TlsError, match=text) as caught:
        connection.connect(1_000)
    assert f"broker=localhost:{peers[peer]}" in str(caught.value)
    assert caught.value.ledger[-1].stage == "TLS" or "refused" in caught.value.ledger[-1].error
    assert not connection.connected


def test_a_port_that_does_not_answer_the_handshake(handler: Handler, peers: dict[str, int], pems: Pems) -> None:
    connection = BrokerConnection(HOST, peers["silent"], handler, ssl_config=_trusting(pems))
    with pytest.raises(TlsError, match=r"not answered in time; the port may not be a TLS port"):
        connection.connect(200)


def test_a_broker_that_wants_a_certificate(handler: Handler, peers: dict[str, int], pems: Pems) -> None:
    # In TLS 1.3 the client has finished its handshake when the server refuses: it shows on the first read.
    connection = BrokerConnection("localhost", peers["tls_broker_asking"], handler, ssl_config=_trusting(pems))
    connection.connect(5_000)
    with pytest.raises(SocketDisconnectedError, match=r"(?i)certificate.required"):
        _ask(connection)
    assert not connection.connected


def test_a_tls_port_spoken_to_in_plaintext(handler: Handler, peers: dict[str, int]) -> None:
    connection = BrokerConnection(HOST, peers["tls_broker"], handler)
    connection.connect(5_000)
    with pytest.raises(SocketDisconnectedError, match=r"TLS port"):
        _ask(connection)
    assert not connection.connected


def test_the_dot_behind_a_name_is_not_part_of_it(
    handler: Handler, peers: dict[str, int], pems: Pems, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = [Address(socket.AF_INET, (HOST, peers["tls_broker"]))]
    monkeypatch.setattr(handler, "resolve", lambda *_, **__: found)
    _works(handler, peers["tls_broker"], _trusting(pems), "localhost.")


class _Foreign:
    """A context with wrap_socket() alone, as other TLS libraries offer."""

    def __init__(self, context: ssl.SSLContext) -> None:
        self._context = context

    def wrap_socket(self, sock: Any) -> Any:
        """Put TLS around a socket."""
        return self._context.wrap_socket(sock, server_hostname="localhost")


def test_objects_with_wrap_socket_only(handler: Handler, peers: dict[str, int], pems: Pems) -> None:
    config = _Foreign(_context(pems))
    if not handler.cooperative:
        _works(handler, peers["tls_broker"], config)
        return
    connection = BrokerConnection("localhost", peers["tls_broker"], handler, ssl_config=config)
    with pytest.raises(TlsError, match=r"_Foreign has wrap_socket\(\) only.* give an SslConfig or an ssl.SSLContext"):
        connection.connect(5_000)


class _Broken:
    def wrap_socket(self, sock: Any) -> Any:
        """Fail as other TLS libraries do."""
        raise LookupError("some library's own error")


@pytest.mark.parametrize(
    ("config", "text"), [(_Foreign(ssl.create_default_context()), "is not trusted"), (_Broken(), "own error")]
)
def test_foreign_objects_fail_by_name_too(peers: dict[str, int], config: Any, text: str) -> None:
    connection = BrokerConnection("localhost", peers["tls_broker"], ThreadingHandler(), ssl_config=config)
    with pytest.raises(TlsError, match=text):
        connection.connect(5_000)


@pytest.mark.parametrize("name", [None, "localhost"])
def test_wrap_socket_as_documented(peers: dict[str, int], pems: Pems, name: str | None) -> None:
    with (
        socket.create_connection((HOST, peers["tls_echo"]), timeout=10) as plain,
        _trusting(pems).wrap_socket(plain, name) as wrapped,
    ):
        wrapped.sendall(b"hello")
        assert wrapped.recv(10) == b"hello"


def test_host_names_are_checked_by_default(pems: Pems) -> None:
    config = _trusting(pems)
    assert config.context.check_hostname
    assert config.context.verify_mode is ssl.CERT_REQUIRED
    assert config.context is config.context
    assert config.context.minimum_version >= ssl.TLSVersion.TLSv1_2
    assert "password" not in repr(_showing(pems, password="secret"))


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"versions": ("1.2", "1.3")}, r"versions must be .*, not \('1.2', '1.3'\)"),
        ({"versions": ("TLSv1.3",)}, "versions must be"),
        ({"versions": "TLSv1.3"}, "versions must be"),
        ({"versions": ("TLSv1.3", "TLSv1.2")}, "versions must be the oldest and the newest"),
        ({"keyfile": "client.key"}, "keyfile 'client.key' needs certfile="),
    ],
)
def test_what_no_connection_could_be_made_with(options: dict[str, Any], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        SslConfig(None, **options)


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (ssl.SSLError(1, "[SSL: TLSV13_ALERT_CERTIFICATE_REQUIRED] it is"), "TLSV13_ALERT_CERTIFICATE_REQUIRED"),
        (ssl.SSLError(1, "[SSL: SSLV3_ALERT_CERTIFICATE_REVOKED] it is"), "the client certificate was revoked"),
        (ssl.SSLError(1, "[SSL: TLSV1_UNRECOGNIZED_NAME] it is"), "does not know the host name"),
        (ssl.SSLError(1, "[SSL: TLSV1_ALERT_DECRYPT_ERROR] it is"), "may not belong to the certificate"),
        (TimeoutError("late"), "not answered in time"),
        (TypeError("only wraps"), "only wraps"),
        (ConnectionResetError(104, "reset"), "may not be a TLS port"),
    ],
)
def test_every_failure_has_its_sentence(error: Exception, text: str) -> None:
    assert text in explain_tls_error(error, "kafka.example")
