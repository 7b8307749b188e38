"""Chains of certificates, kinds of keys and names of hosts, at servers of this process with OpenSSL's security level 0."""

from __future__ import annotations

import socket
import ssl
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, Encoding, NoEncryption, PrivateFormat

from pykafka import KafkaClient, SslConfig
from pykafka.connection import BrokerConnection
from pykafka.exceptions import TlsError
from pykafka.handlers import Address, Handler
from pykafka.security.certificate_stores import as_file
from tests.support.peers import HOST, Ask, _obey

PASSWORD = "pass-of-a-key"
NAMES = x509.SubjectAlternativeName(
    [
        *(x509.DNSName(name) for name in ("localhost", "*.wild.example", "xn--bcher-kva.example")),
        *(x509.IPAddress(ip_address(address)) for address in (HOST, "::1")),
    ]
)
KEYS: dict[str, Callable[[], Any]] = {
    "ec": lambda: ec.generate_private_key(ec.SECP256R1()),
    "rsa": lambda: rsa.generate_private_key(65537, 2048),
    "ed25519": ed25519.Ed25519PrivateKey.generate,
    "weak": lambda: rsa.generate_private_key(65537, 1024),
}


@dataclass
class Made:
    """A certificate and its key."""

    certificate: x509.Certificate
    key: Any

    @property
    def pem(self) -> str:
        """The certificate."""
        return self.certificate.public_bytes(Encoding.PEM).decode()

    def key_pem(self, password: str | None = None) -> str:
        """Return the key, encrypted if there is a password."""
        locked = NoEncryption() if password is None else BestAvailableEncryption(password.encode())
        text: bytes = self.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, locked)
        return text.decode()


def make(
    name: str, issuer: Made | None = None, kind: str = "ec", days: tuple[int, int] = (-1, 7), has_names: bool = True
) -> Made:
    """Return a certificate, of an authority where it has no names of hosts."""
    key, now = KEYS[kind](), datetime.now(UTC)
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject if issuer is None else issuer.certificate.subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now + timedelta(days=days[0]))
        .not_valid_after(now + timedelta(days=days[1]))
        .add_extension(x509.BasicConstraints(ca=not has_names, path_length=None), critical=True)
    )
    if has_names:
        builder = builder.add_extension(NAMES, critical=False)
    signer = key if issuer is None else issuer.key
    return Made(builder.sign(signer, None if isinstance(signer, ed25519.Ed25519PrivateKey) else hashes.SHA256()), key)


class Chain:
    """An authority, one that it has signed, and one that has expired."""

    def __init__(self) -> None:
        self.root = make("root", has_names=False)
        self.between = make("between", self.root, has_names=False)
        self.expired = make("expired", days=(-9, -2), has_names=False)


@pytest.fixture(scope="module")
def chain() -> Chain:
    return Chain()


@contextmanager
def serving(
    made: Made,
    *further: Made,
    asks: Made | None = None,
    newest: ssl.TLSVersion | None = None,
    family: socket.AddressFamily = socket.AF_INET,
) -> Iterator[tuple[int, list[str | None]]]:
    """Serve on a thread; yield the port and the names that clients ask for."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.set_ciphers("ALL:@SECLEVEL=0")
    identity = SslConfig(None, "".join(one.pem for one in (made, *further)), made.key_pem()).identity()
    assert identity is not None
    with as_file(identity.key + identity.certificates) as path:
        context.load_cert_chain(path)
    if asks is not None:
        context.load_verify_locations(cadata=asks.pem)
        context.verify_mode = ssl.CERT_REQUIRED
    if newest is not None:
        context.minimum_version, context.maximum_version = ssl.TLSVersion.MINIMUM_SUPPORTED, newest
    asked: list[str | None] = []
    context.sni_callback = lambda _sock, name, _context: asked.append(name)
    listener = socket.create_server(("::1" if family is socket.AF_INET6 else HOST, 0), family=family)

    def run(peer: socket.socket) -> None:
        with suppress(OSError, EOFError), peer:
            with context.wrap_socket(peer, server_side=True, do_handshake_on_connect=False) as wrapped:
                try:
                    wrapped.do_handshake()
                except ssl.SSLError:
                    time.sleep(0.2)  # a reset must not overtake the alert
                    raise
                _obey(wrapped)

    def accept() -> None:
        with suppress(OSError):
            while True:
                peer, _ = listener.accept()
                threading.Thread(target=run, args=(peer,), daemon=True).start()

    thread = threading.Thread(target=accept, daemon=True)
    thread.start()
    try:
        yield listener.getsockname()[1], asked
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join(10)


def ask(handler: Handler, port: int, config: Any, host: str = "localhost") -> None:
    """Connect, and exchange a request and an answer."""
    connection = BrokerConnection(host, port, handler, ssl_config=config)
    connection.connect(10_000)
    try:
        connection.request(Ask(size=3))
        assert bytes(connection.response()) == b"\0\1\2"
    finally:
        connection.disconnect()


def test_any_certificate_of_a_chain_may_be_trusted(handler: Handler, chain: Chain) -> None:
    """As in Java's truststores, which often hold the issuing authority alone."""
    server = make("server", chain.between)
    with serving(server, chain.between) as (port, _):
        for trusted in (chain.root, chain.between, server):
            ask(handler, port, SslConfig(trusted.pem))
        with pytest.raises(TlsError, match="is not trusted"):
            ask(handler, port, SslConfig(chain.expired.pem))
    with serving(server) as (port, _):
        ask(handler, port, SslConfig(chain.between.pem))
        with pytest.raises(
            TlsError, match=r"unable to get local issuer.*the broker may not send the certificates between"
        ):
            ask(handler, port, SslConfig(chain.root.pem))


def test_an_authority_that_has_expired(handler: Handler, chain: Chain) -> None:
    with serving(make("server", chain.expired)) as (port, _):
        with pytest.raises(TlsError, match="has expired .*or that of its authority"):
            ask(handler, port, SslConfig(chain.expired.pem))


def test_what_is_too_weak_for_openssl(handler: Handler, chain: Chain) -> None:
    weak = make("weak", chain.root, "weak")
    with (
        serving(weak) as (port, _),
        pytest.raises(TlsError, match=r"is too weak .*new certificate, with RSA of 2048 bits"),
    ):
        ask(handler, port, SslConfig(chain.root.pem))
    with pytest.raises(TlsError, match="certificate in SslConfig's certfile or keyfile <PEM text> is too weak"):
        _ = SslConfig(chain.root.pem, weak.pem, weak.key_pem()).context


@pytest.mark.filterwarnings("ignore:ssl.TLSVersion:DeprecationWarning")
def test_a_broker_of_outdated_tls(handler: Handler, chain: Chain) -> None:
    with serving(make("server", chain.root), newest=ssl.TLSVersion.TLSv1_1) as (port, _):
        with pytest.raises(TlsError, match="no version of TLS in common"):
            ask(handler, port, SslConfig(chain.root.pem))


@pytest.mark.parametrize(
    ("host", "asked"),
    [
        (HOST, None),
        ("::1", None),
        ("localhost", "localhost"),
        ("b-1.wild.example", "b-1.wild.example"),
        ("b-1.wild.example.", "b-1.wild.example"),
        ("b\u00fccher.example", "xn--bcher-kva.example"),
    ],
)
def test_names_of_hosts(
    handler: Handler, chain: Chain, monkeypatch: pytest.MonkeyPatch, host: str, asked: str | None
) -> None:
    family = socket.AF_INET6 if host == "::1" else socket.AF_INET
    with serving(make("server", chain.root), family=family) as (port, names):
        found = [Address(family, (host if family is socket.AF_INET6 else HOST, port))]
        monkeypatch.setattr(handler, "resolve", lambda *_, **__: found)
        ask(handler, port, SslConfig(chain.root.pem), host)
        assert names == [asked]
        with pytest.raises(TlsError, match=r"does not name 'a\.b\.wild\.example'"):
            ask(handler, port, SslConfig(chain.root.pem), "a.b.wild.example")


@pytest.mark.parametrize("kind", ["ec", "rsa", "ed25519"])
def test_kinds_of_keys(handler: Handler, chain: Chain, kind: str) -> None:
    me = make("me", chain.between, kind)
    with serving(make("server", chain.root, kind), asks=chain.root) as (port, _):
        for key, password in ((me.key_pem(), None), (me.key_pem(PASSWORD), PASSWORD)):
            ask(handler, port, SslConfig(chain.root.pem, me.pem + chain.between.pem, key, password))
        with pytest.raises(TlsError, match="the first one there.*put that certificate before those of authorities"):
            ask(handler, port, SslConfig(chain.root.pem, chain.between.pem + me.pem, me.key_pem()))


def test_stores_of_openssl_and_keytool(handler: Handler, chain: Chain, tmp_path: Path) -> None:
    """Legacy ones, too: RC2 and triple DES, which OpenSSL 3 itself reads only when it is asked to."""
    me = make("me", chain.between)
    (tmp_path / "me.pem").write_text(me.key_pem() + me.pem + chain.between.pem)
    legacy = ["-legacy", "-certpbe", "PBE-SHA1-RC2-40", "-keypbe", "PBE-SHA1-3DES"]
    with serving(make("server", chain.root), asks=chain.root) as (port, _):
        for name, password, options in (("new", "p\u00e4ss", []), ("legacy", "changeit", legacy), ("open", "", [])):
            store = tmp_path / f"{name}.p12"
            command = ["openssl", "pkcs12", "-export", "-in", str(tmp_path / "me.pem"), "-out", str(store), *options]
            subprocess.run([*command, "-passout", f"pass:{password}"], check=True, capture_output=True)
            ask(handler, port, SslConfig(chain.root.pem, store, password=password))
        copy = tmp_path / "copy.p12"
        command = ["keytool", "-importkeystore", "-noprompt", "-srckeystore", str(tmp_path / "legacy.p12")]
        command += ["-srcstorepass", "changeit", "-destkeystore", str(copy), "-deststorepass", "changeit"]
        subprocess.run([*command, "-deststoretype", "PKCS12"], check=True, capture_output=True)
        ask(handler, port, SslConfig(chain.root.pem, copy, password="changeit"))


def test_a_handshake_that_stalls_blocks_nobody_else(handler: Handler, chain: Chain) -> None:
    """The server answers with the beginning of a record, and no more."""
    with socket.create_server((HOST, 0)) as listener:
        held: list[socket.socket] = []

        def stall() -> None:
            peer, _ = listener.accept()
            held.append(peer)
            peer.recv(1 << 16)
            peer.sendall(b"\x16\x03\x03\x01\x00\x02")

        thread = threading.Thread(target=stall, daemon=True)
        thread.start()
        ticks: list[float] = []
        done = threading.Event()

        def tick() -> None:
            while not done.is_set():
                ticks.append(handler.now())
                handler.sleep(0.02)

        ticker = handler.spawn(tick, name="ticker")
        connection = BrokerConnection(HOST, listener.getsockname()[1], handler, ssl_config=SslConfig(chain.root.pem))
        with pytest.raises(TlsError, match="not answered in time"):
            connection.connect(600)
        done.set()
        ticker.join(10)
        thread.join(10)
        held[0].close()
    assert max(after - before for before, after in pairwise(ticks)) < 0.4


def test_what_is_refused_where_it_enters() -> None:
    for name in ("cafile", "certfile", "keyfile", "crlfile"):
        empty: dict[str, Any] = {name: ""}
        with pytest.raises(ValueError, match=f"{name} is empty: give a file, or leave it out"):
            SslConfig(**empty)
    with pytest.raises(ValueError, match="is a context for servers"):
        KafkaClient("127.0.0.1:1", tls=ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER))
