"""Credentials as settings of librdkafka."""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from pykafka import DelegationToken, Gssapi, OAuthBearer, OAuthToken, Plain, Scram
from pykafka.compat.rdkafka.settings import sasl_settings
from pykafka.handlers import ThreadingHandler
from pykafka.security.mechanism import Credentials


def settings(sasl: Any, tls: Any = None) -> dict[str, Any]:
    cluster: Any = SimpleNamespace(sasl=sasl, ssl_config=tls, handler=ThreadingHandler())
    return sasl_settings(cluster)


def test_users() -> None:
    assert settings(None) == {}
    wanted = {"security.protocol": "sasl_plaintext", "sasl.username": "alice", "sasl.password": "x"}
    assert settings(Plain("alice", "x")) == {**wanted, "sasl.mechanism": "PLAIN"}
    wanted["security.protocol"] = "sasl_ssl"
    assert settings(Scram("alice", "x"), tls=object()) == {**wanted, "sasl.mechanism": "SCRAM-SHA-512"}


def test_tokens_come_by_a_callback() -> None:
    found = settings(OAuthBearer(lambda: OAuthToken("abc", expires_at=9e9, extensions={"a": "b"}), {"c": "d"}))
    assert found.pop("oauth_cb")("") == ("abc", 9e9, "", {"a": "b", "c": "d"})
    assert found == {"security.protocol": "sasl_plaintext", "sasl.mechanism": "OAUTHBEARER"}


def test_kerberos(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "gssapi", ModuleType("gssapi"))
    found = settings(Gssapi("svc", principal="alice@TEST", keytab="/k"))
    assert found["sasl.kerberos.service.name"] == "svc"
    assert (found["sasl.kerberos.principal"], found["sasl.kerberos.keytab"]) == ("alice@TEST", "/k")
    assert settings(Gssapi())["sasl.kerberos.kinit.cmd"] == "true"
    with pytest.raises(ValueError, match=r"leave out Gssapi\(host="):
        settings(Gssapi(host="broker.test"))


class Own(Credentials):
    """Credentials of a kind that librdkafka does not know."""

    name = "OWN"


def test_what_librdkafka_lacks_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match="does not log in with delegation tokens"):
        settings(DelegationToken("id", "x-secret"))
    with pytest.raises(ValueError, match="credentials of the kind Own"):
        settings(Own())
