"""SslConfig's files: the formats, what is said of those that cannot be used, changes, and what never shows."""

from __future__ import annotations

import builtins
import copy
import logging
import os
import pickle
import shutil
import ssl
import subprocess
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from pykafka import KafkaClient, SslConfig
from pykafka.connection import BrokerConnection
from pykafka.exceptions import TlsError
from pykafka.handlers import Handler
from pykafka.network.options import ConnectionSettings
from pykafka.security import certificate_stores
from pykafka.security.certificate_stores import as_file, blocks, validity
from tests.support.certs import Authority, Pems
from tests.support.peers import Ask


def _text(pems: Pems, name: str) -> str:
    return Path(pems.path(name)).read_text(encoding="utf-8")


def _subject(config: SslConfig) -> list[Any]:
    return [one["subject"] for one in config.context.get_ca_certs()]


@pytest.mark.parametrize("flatten", [str, str.encode, lambda text: text.replace("\n", "\\n")])
def test_authorities_in_every_form(pems: Pems, tmp_path: Path, flatten: Any) -> None:
    expected = _subject(SslConfig(pems.path("ca.pem")))
    assert _subject(SslConfig(flatten("a comment\n" + _text(pems, "ca.pem")))) == expected
    der = tmp_path / "ca.der"
    der.write_bytes(ssl.PEM_cert_to_DER_cert(_text(pems, "ca.pem")))
    assert _subject(SslConfig(der)) == expected
    assert _subject(SslConfig(Path(pems.path("ca.pem")))) == expected


def test_a_store_that_keytool_made(pems: Pems, tmp_path: Path) -> None:
    if shutil.which("keytool") is None:
        pytest.exit("there is no `keytool` here: install a JDK 17", returncode=1)
    for kind in ("PKCS12", "JKS"):
        subprocess.run(
            [
                *("keytool", "-importcert", "-noprompt", "-alias", "ca", "-file", pems.path("ca.pem")),
                *("-storetype", kind, "-keystore", str(tmp_path / kind), "-storepass", "changeit"),
            ],
            check=True,
            capture_output=True,
        )
    config = SslConfig(str(tmp_path / "PKCS12"), ca_password=lambda: "changeit")
    assert _subject(config) == _subject(SslConfig(pems.path("ca.pem")))
    with pytest.raises(TlsError, match=r"cafile '.*JKS' is a Java key store \(JKS\).*keytool -importkeystore"):
        _ = SslConfig(str(tmp_path / "JKS"), ca_password="changeit").context


@pytest.mark.parametrize(
    ("password", "text"),
    [(None, "cannot be opened; it needs its password"), ("wrong", "cannot be opened; is its password the right one?")],
)
def test_the_password_of_a_store(pems: Pems, password: str | None, text: str) -> None:
    with pytest.raises(TlsError, match=text) as caught:
        _ = SslConfig(pems.path("ca.pem"), pems.path("revoked.p12"), password=password).context
    assert "wrong" not in str(caught.value)


def test_a_store_without_the_package_that_reads_it(pems: Pems, monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def without(name: str, *args: Any) -> Any:
        if name.startswith("cryptography"):
            raise ImportError(name)
        return real(name, *args)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(TlsError, match="pip install cryptography"):
        _ = SslConfig(pems.path("ca.pem"), pems.path("revoked.p12"), password="x").context


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("empty", b""),
        ("cut", b"0"),
        ("cut12", b"0\x82\x01"),
        ("other", b"no certificate"),
        ("long", b"0\x84" + b"\xff" * 9),
    ],
)
def test_files_that_hold_something_else(tmp_path: Path, pems: Pems, name: str, content: bytes) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(TlsError, match="cafile .* cannot be used"):
        _ = SslConfig(str(path)).context
    with pytest.raises(TlsError, match="certfile .* cannot be used"):
        _ = SslConfig(pems.path("ca.pem"), str(path)).context


def test_text_without_a_certificate() -> None:
    with pytest.raises(TlsError, match="cafile <PEM text> cannot be used: it has no certificate"):
        _ = SslConfig("-----BEGIN CERTIFICATE-----").context


def test_secrets_show_nowhere(pems: Pems) -> None:
    key, locked = _text(pems, "client.key"), _text(pems, "locked.key")
    secret = key.splitlines()[1]
    config = SslConfig(pems.path("ca.pem"), key + _text(pems, "client.pem"), password="hunter2", ca_password="hunter2")
    shown = [repr(config), repr(ConnectionSettings(ssl_config=config)), repr(config.identity())]
    for wrong in (
        SslConfig(pems.path("ca.pem"), _text(pems, "client.pem"), locked, "hunter2"),
        SslConfig(pems.path("ca.pem"), _text(pems, "server.pem"), key, "hunter2"),
        SslConfig(key),
        SslConfig(pems.path("ca.pem"), key),
    ):
        with pytest.raises(TlsError) as caught:
            _ = wrong.context
        shown += [str(caught.value), repr(caught.value), repr(caught.value.__cause__), repr(wrong)]
    with pytest.raises(ValueError, match="needs certfile") as refused:
        SslConfig(None, keyfile=key)
    with pytest.raises(TypeError) as unlike:
        ConnectionSettings(ssl_config=key)  # type: ignore[arg-type]
    shown += [str(refused.value), str(unlike.value)]
    assert not [one for one in shown if secret in one or locked.splitlines()[1] in one or "hunter2" in one]


def test_certificates_are_read_anew_when_they_change(
    handler: Handler, peers: dict[str, int], pems: Pems, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    ca, client, key = tmp_path / "ca.pem", tmp_path / "client.pem", tmp_path / "client.key"
    ca.write_text(_text(pems, "ca.pem"))
    client.write_text(_text(pems, "client-stranger.pem"))
    key.write_text(_text(pems, "client-stranger.key"))
    config = SslConfig(str(ca), str(client), str(key))
    first = config.context
    assert config.context is first

    # One file after the other: between the two, the old certificate stays in use.
    client.write_text(_text(pems, "client.pem"))
    with caplog.at_level(logging.INFO):
        assert config.context is first
        assert config.context is first
    warnings = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert len(warnings) == 1
    assert "the old ones stay in use" in warnings[0]
    assert "private key does not belong" in warnings[0]
    key.write_text(_text(pems, "client.key"))
    with caplog.at_level(logging.INFO):
        second = config.context
    assert second is not first
    assert "certificates have changed; new connections use them" in caplog.text
    connection = BrokerConnection("localhost", peers["tls_broker_asking"], handler, ssl_config=config)
    connection.connect(10_000)
    connection.request(Ask(size=3))
    assert bytes(connection.response()) == b"\0\1\2"

    # Half-written, and gone: the connection that is there goes on, and new ones use what was read last.
    ca.write_text(_text(pems, "ca.pem")[:100])
    assert config.context is second
    ca.unlink()
    assert config.context is second
    connection.request(Ask(size=3))
    assert bytes(connection.response()) == b"\0\1\2"
    connection.disconnect()
    ca.write_text(_text(pems, "stranger.pem"))
    with pytest.raises(TlsError, match="is not trusted"):
        connection.connect(10_000)
    assert config.context not in {first, second}


def test_a_link_that_leads_elsewhere_is_a_change(pems: Pems, tmp_path: Path) -> None:
    link = tmp_path / "ca.pem"  # as Kubernetes replaces secrets
    link.symlink_to(pems.path("ca.pem"))
    config = SslConfig(str(link))
    before = _subject(config)
    link.unlink()
    link.symlink_to(pems.path("stranger.pem"))
    assert _subject(config) != before


def test_nothing_to_begin_with_is_an_error(tmp_path: Path) -> None:
    config = SslConfig(str(tmp_path / "none.pem"))
    for _ in range(2):
        with pytest.raises(TlsError, match="No such file"):
            _ = config.context


def test_copies_have_contexts_of_their_own(pems: Pems) -> None:
    config = SslConfig(_text(pems, "ca.pem"), _text(pems, "client.key") + _text(pems, "client.pem"))
    for other in (copy.copy(config), pickle.loads(pickle.dumps(config))):
        assert other.context is not config.context


def test_true_is_short_for_the_systems_authorities() -> None:
    found = ConnectionSettings(ssl_config=True).ssl_config  # type: ignore[arg-type]
    assert isinstance(found, SslConfig)
    assert found.cafile is None
    assert found.context.check_hostname
    assert ConnectionSettings(ssl_config=False).ssl_config is None  # type: ignore[arg-type]


def test_tls_and_ssl_config_are_two_names_of_one_option(peers: dict[str, int]) -> None:
    with pytest.raises(TypeError, match="tls and ssl_config are two names of one option"):
        KafkaClient(f"127.0.0.1:{peers['refused']}", ssl_config=True, tls=SslConfig())
    with pytest.raises(TypeError, match=r"must be an SslConfig or an ssl\.SSLContext, not str"):
        KafkaClient(f"127.0.0.1:{peers['refused']}", tls="ca.pem")  # type: ignore[arg-type]


@pytest.mark.parametrize("memory", [True, False])
def test_keys_reach_openssl_by_a_path_that_is_gone_afterwards(memory: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not memory:
        monkeypatch.delattr(os, "memfd_create")
    with as_file("secret") as path:
        assert Path(path).read_text(encoding="utf-8") == "secret"
        assert os.stat(path).st_mode & 0o077 in {0, 0o077}  # the second one of memory that no other process reaches
        assert memory == path.startswith("/proc/self/fd/")
    assert not Path(path).exists()


def test_validity(pems: Pems) -> None:
    now = datetime.now(UTC)
    for name, days in (("expired", (-9, -2)), ("early", (2, 9)), ("client", (0, 7))):
        found = validity(_text(pems, f"{name}.pem"))
        assert found is not None
        assert all(
            abs(one - now - timedelta(days=day)) < timedelta(hours=1) for one, day in zip(found, days, strict=True)
        )
    assert validity("") is None
    assert validity("-----BEGIN CERTIFICATE-----\nQUJD\n-----END CERTIFICATE-----") is None
    assert validity("-----BEGIN CERTIFICATE-----\nÄ\n-----END CERTIFICATE-----") is None


def test_notes_about_the_clients_certificate(pems: Pems) -> None:
    now_ms = round(datetime.now(UTC).timestamp() * 1000)

    def note(certfile: str | None) -> str:
        return SslConfig(None, certfile).identity_note(now_ms)

    assert note(None) == "this client has none"
    assert note(pems.path("client.pem")) == ""
    assert "has expired, on 20" in note(_text(pems, "expired.pem"))
    assert "is not valid before 20" in note(pems.path("early.pem"))
    assert note(pems.path("none.pem")) == ""
    assert note(pems.path("revoked.p12")) == ""


def test_old_encrypted_keys_keep_their_headers() -> None:
    text = (
        "-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,00\n\nQUJD\n"
        "-----END RSA PRIVATE KEY-----\n"
    )
    assert blocks(text, "PRIVATE KEY") == text


def test_an_authority_of_tests_signs_what_openssl_reads(pems: Pems, tmp_path: Path) -> None:
    Authority(Path(pems.path("ca.pem")), Path(pems.path("ca.key"))).sign(tmp_path, "one")
    assert certificate_stores.read_store(str(tmp_path / "one.pem"), "x", None) is None
    _ = SslConfig(pems.path("ca.pem"), str(tmp_path / "one.pem"), str(tmp_path / "one.key")).context
