"""Options of security as other Python clients name them."""

from __future__ import annotations

import ssl
import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from pykafka import Gssapi, KafkaClient, OAuthBearer, Plain, Scram, SslConfig
from pykafka.handlers import ThreadingHandler
from pykafka.security.option_names import NAMES, OtherNames, security_of
from tests.support.sasl import USERS, SaslBroker

USER = {"sasl_plain_username": "alice", "sasl_plain_password": "x-secret"}


def test_the_types_are_complete() -> None:
    assert sorted(OtherNames.__annotations__) == sorted(NAMES)


def test_nothing_changes_what_is_ours() -> None:
    ours, tls = Plain("a", "b"), SslConfig("/ca.pem")
    assert security_of({}, ours, tls) == (ours, tls)
    assert security_of(dict.fromkeys(NAMES), ours, None) == (ours, None)
    assert security_of({"security_protocol": "SASL_SSL"}, ours, tls) == (ours, tls)


@pytest.mark.parametrize(
    ("name", "wanted"),
    [("PLAIN", Plain("alice", "x-secret")), ("scram-sha-256", Scram("alice", "x-secret", "SCRAM-SHA-256"))],
)
def test_users(name: str, wanted: Any) -> None:
    assert security_of({"sasl_mechanism": name, "security_protocol": "SASL_PLAINTEXT", **USER}, None, None) == (
        wanted,
        None,
    )


def test_tokens() -> None:
    provider = SimpleNamespace(token=lambda: "abc", extensions=lambda: {"a": "b"})
    made, _ = security_of({"sasl_mechanism": "OAUTHBEARER", "sasl_oauth_token_provider": provider}, None, None)
    assert isinstance(made, OAuthBearer)
    value, _, extensions = made.get(ThreadingHandler())
    assert (value, extensions) == ("abc", {"a": "b"})

    async def token() -> str:
        return "abc"

    with pytest.raises(TypeError, match="a coroutine"):
        security_of(
            {"sasl_mechanism": "OAUTHBEARER", "sasl_oauth_token_provider": SimpleNamespace(token=token)}, None, None
        )


def test_kerberos(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "gssapi", ModuleType("gssapi"))
    options = {"sasl_mechanism": "GSSAPI", "sasl_kerberos_service_name": "svc", "sasl_kerberos_domain_name": "host"}
    assert security_of(options, None, None)[0] == Gssapi("svc", host="host")


def test_tls() -> None:
    context = ssl.create_default_context()
    assert security_of({"ssl_context": context}, None, None) == (None, context)
    _, made = security_of({"ssl_cafile": "/ca.pem", "ssl_check_hostname": False}, None, None)
    assert isinstance(made, SslConfig)
    assert (made.cafile, made.check_hostname) == ("/ca.pem", False)
    assert isinstance(security_of({"security_protocol": "SSL"}, None, None)[1], SslConfig)


@pytest.mark.parametrize(
    ("options", "ours", "reason"),
    [
        ({"sasl_mechanism": "PLAIN", **USER}, {"sasl": Plain("a", "b")}, "sasl= and sasl_mechanism= say the same"),
        ({"ssl_cafile": "x"}, {"tls": SslConfig("y")}, "ssl_config= and ssl_cafile= say the same"),
        ({"security_protocol": "PLAINTEXT"}, {"sasl": Plain("a", "b")}, "use SASL_PLAINTEXT"),
        ({"security_protocol": "SSL", "sasl_mechanism": "PLAIN", **USER}, {}, "use SASL_SSL"),
        ({"security_protocol": "SASL_SSL"}, {}, "needs credentials"),
        ({"security_protocol": "PLAINTEXT", "ssl_cafile": "x"}, {}, "has no TLS, and ssl_cafile= was given: use SSL"),
        ({"security_protocol": "PLAINTEXT"}, {"tls": SslConfig("y")}, "has no TLS, and ssl_config= was given"),
        ({"security_protocol": "TLS"}, {}, "security_protocol must be one of"),
        ({"sasl_mechanism": "NTLM"}, {}, "sasl_mechanism must be one of"),
        (USER, {}, "sasl_plain_username= needs sasl_mechanism="),
        ({"sasl_mechanism": "PLAIN", "sasl_plain_username": "a"}, {}, "needs sasl_plain_password="),
        ({"sasl_mechanism": "OAUTHBEARER", **USER}, {}, "does not use sasl_plain_username="),
        ({"ssl_context": object(), "ssl_cafile": "x"}, {}, "leave out ssl_cafile="),
    ],
)
def test_contradictions_are_refused_by_name(options: dict[str, Any], ours: dict[str, Any], reason: str) -> None:
    with pytest.raises(ValueError, match=reason) as refused:
        security_of(options, ours.get("sasl"), ours.get("tls"))
    assert "x-secret" not in str(refused.value)


def test_a_client_understands_them() -> None:
    with SaslBroker() as broker:
        with KafkaClient(
            broker.hosts,
            security_protocol="SASL_PLAINTEXT",
            sasl_mechanism="SCRAM-SHA-512",
            sasl_plain_username="alice",
            sasl_plain_password=USERS["alice"],
        ) as client:
            assert client.brokers
    with pytest.raises(TypeError, match="no option sasl_plain_user"):
        KafkaClient("127.0.0.1:1", sasl_plain_user="alice")  # type: ignore[call-arg]
