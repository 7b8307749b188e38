"""The warning about credentials that are sent without TLS: one line for each client, unless it is allowed."""

from __future__ import annotations

import ssl
import warnings
from pathlib import Path
from typing import Any

import pytest

from pykafka import KafkaClient, OAuthBearer, OidcClientCredentials, Plain, Scram
from pykafka.handlers import Handler
from pykafka.network.options import ConnectionSettings
from pykafka.registry.client import Registry
from pykafka.security import DelegationToken, SslConfig
from pykafka.security.cleartext import warn_of_cleartext
from pykafka.spark.formats.options import RegistryOptions
from tests.support.loops import Concurrency
from tests.support.sasl import MECHANISMS, USERS, SaslBroker

PLAIN, SCRAM = Plain("alice", USERS["alice"]), Scram("alice", USERS["alice"])
JWT = "eyJhbGciOiJub25lIn0.eyJzdWIiOiJtZSJ9.c2ln"
SECRETS = (USERS["alice"], JWT, "the-secret")


def _bearer() -> dict[str, Any]:
    return {**MECHANISMS, "OAUTHBEARER": lambda: lambda token: b""}


def _logged(caplog: pytest.LogCaptureFixture) -> list[str]:
    found = [one for one in caplog.records if one.name == "pykafka.security.cleartext"]
    assert {one.levelname for one in found} <= {"WARNING"}
    texts = [one.getMessage() for one in found]
    assert not [text for text in texts for secret in SECRETS if secret in text]
    return texts


@pytest.mark.on_asyncio
@pytest.mark.parametrize("sasl", [PLAIN, OAuthBearer(JWT)], ids=["PLAIN", "OAUTHBEARER"])
@pytest.mark.parametrize("allowed", [False, True])
def test_one_line_for_each_client(
    concurrency: Concurrency, sasl: Any, allowed: bool, caplog: pytest.LogCaptureFixture
) -> None:
    with SaslBroker(_bearer(), steps=1) as server, warnings.catch_warnings():
        warnings.simplefilter("error")
        for number in range(2):
            options: dict[str, Any] = {"allow_cleartext_credentials": True} if allowed else {}
            with KafkaClient(server.hosts, sasl=sasl, **options, **concurrency()) as client:
                for _ in range(3):
                    client.brokers[1].drop_connections()
                    client.update_cluster()
            texts = _logged(caplog)
            assert len(texts) == (0 if allowed else number + 1)
        for text in texts:
            assert sasl.name in text
            assert server.hosts in text
            assert "allow_cleartext_credentials=True" in text
        assert server.logins > 6


def test_a_login_that_reveals_no_secret_is_not_warned_of(handler: Handler, caplog: pytest.LogCaptureFixture) -> None:
    with SaslBroker() as server, KafkaClient(server.hosts, sasl=SCRAM, handler=handler):
        assert _logged(caplog) == []
    warn_of_cleartext(DelegationToken("id", "the-secret"), None, "b:1")
    for config in (SslConfig(), ssl.create_default_context()):
        warn_of_cleartext(PLAIN, config, "b:1")
    warn_of_cleartext(None, None, "b:1")
    assert _logged(caplog) == []


@pytest.mark.parametrize("text", ["true", "false"])
def test_a_key_of_configurations(text: str, caplog: pytest.LogCaptureFixture, tmp_path: Path) -> None:
    with SaslBroker() as server:
        lines = {
            "bootstrap.servers": server.hosts,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "PLAIN",
            "sasl.username": "alice",
            "sasl.password": USERS["alice"],
            "allow.cleartext.credentials": text,
        }
        file = tmp_path / "client.properties"
        file.write_text("".join(f"{key}={value}\n" for key, value in lines.items()))
        KafkaClient.from_config(file).close()
        assert len(_logged(caplog)) == (text == "false")


def test_a_value_that_is_no_flag_is_refused() -> None:
    with pytest.raises(TypeError, match="allow_cleartext_credentials must be True or False"):
        KafkaClient("127.0.0.1:1", allow_cleartext_credentials="false")  # type: ignore[arg-type]


@pytest.mark.parametrize("tls", [None, SslConfig()], ids=["plaintext", "TLS"])
@pytest.mark.parametrize("url", ["http://idp.example.org/token?x=the-secret", "http://127.0.0.1:1/token"])
def test_a_token_endpoint_without_tls_is_in_the_same_line(
    url: str, tls: SslConfig | None, caplog: pytest.LogCaptureFixture
) -> None:
    warn_of_cleartext(OAuthBearer(OidcClientCredentials(url, "me", "the-secret")), tls, "b:1")
    (text,) = _logged(caplog)
    assert url.partition("?")[0] in text
    assert ("to the brokers (b:1)" in text) == (tls is None)


@pytest.mark.parametrize("allowed", [False, True])
def test_a_token_endpoint_that_loses_tls_is_warned_of(allowed: bool, caplog: pytest.LogCaptureFixture) -> None:
    """`set_credentials()` with the mechanism of before; the same endpoint again has its line already."""
    first, *others = (
        OAuthBearer(OidcClientCredentials(f"{url}/token", "me", "the-secret"))
        for url in (
            "https://a.example",
            "http://a.example",
            "http://a.example",
            "http://b.example",
            "https://b.example",
        )
    )
    settings = ConnectionSettings(sasl=first, ssl_config=SslConfig(), allow_cleartext_credentials=allowed)
    counts = []
    for other in others:
        settings.set_credentials(other, None, "b:1")
        counts.append(len(_logged(caplog)))
    assert counts == ([0, 0, 0, 0] if allowed else [1, 1, 2, 2])


def test_a_token_endpoint_with_tls_is_not_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    endpoint = OidcClientCredentials("https://idp.example.org/token", "me", "the-secret")
    warn_of_cleartext(OAuthBearer(endpoint), SslConfig(), "b:1")
    assert _logged(caplog) == []


@pytest.mark.parametrize("login", [{"user": "me", "password": "the-secret"}, {"token": "the-secret"}], ids=str)
def test_a_registry_s_login_without_tls(handler: Handler, login: Any, caplog: pytest.LogCaptureFixture) -> None:
    Registry("https://r.example.org", handler, **login)
    Registry("http://r.example.org", handler)
    Registry("http://r.example.org", handler, allow_cleartext_credentials=True, **login)
    assert _logged(caplog) == []
    Registry(["https://a.example.org", "http://127.0.0.1:1"], handler, **login)
    (text,) = _logged(caplog)
    assert "http://127.0.0.1:1" in text
    assert "a.example.org" not in text


@pytest.mark.parametrize("allowed", [False, True])
def test_a_registry_of_spark(handler: Handler, allowed: bool, caplog: pytest.LogCaptureFixture) -> None:
    given = {"registry": "http://r.example.org", "registry_token": "the-secret"}
    given |= {"registry_allow_cleartext_credentials": "true"} if allowed else {}
    RegistryOptions.connect(given, handler)
    assert len(_logged(caplog)) == (not allowed)
