"""The JAAS text of Kafka's Java clients."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykafka import DelegationToken, OAuthBearer, OidcClientCredentials, Plain, Scram
from pykafka.security.java_sasl import LoginModule, mechanism_of_jaas, parse_jaas

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"
OAUTH = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
KERBEROS = "com.sun.security.auth.module.Krb5LoginModule"


@pytest.mark.parametrize(
    ("text", "options"),
    [
        ('M required username="alice" password="x";', {"username": "alice", "password": "x"}),
        ("M required a=b c='d e' ;", {"a": "b", "c": "d e"}),
        ('M\n required\n  // no\n  a="/* no */"\n /* b=c\n */ ;', {"a": "/* no */"}),
        (r'M REQUIRED a="x\"y\\z\n\101";', {"a": 'x"y\\z\nA'}),
        ("M required a=-b/c:d@e.f;", {"a": "-b/c:d@e.f"}),
        ('M required a="юзер;=";', {"a": "юзер;="}),
        ("M required;", {}),
    ],
)
def test_entries(text: str, options: dict[str, str]) -> None:
    [module] = parse_jaas(text)
    assert (module.name, module.options) == ("M", options)


def test_several_entries_and_none() -> None:
    assert [module.name for module in parse_jaas("A required; B optional a=b;")] == ["A", "B"]
    assert parse_jaas(" // nothing ") == []


@pytest.mark.parametrize(
    "text",
    [
        "M",
        "M required",
        "M required a",
        "M required a=",
        "M required a=b",
        'M required a="b-secret',
        "M wrong a=b;",
        "M required =b;",
        "M required a=b-secret {",
        "M required a==b-secret;",
        'M required a="b"c-secret"d";',
        'M required a="b"c-secret=;',
        "b-secret c;",
        'M required a="b-secret\n";',
    ],
)
def test_what_is_no_jaas_text_is_refused_without_showing_it(text: str) -> None:
    with pytest.raises(ValueError, match="JAAS text") as refused:
        parse_jaas(text)
    assert "secret" not in str(refused.value)


@given(st.text(alphabet="ab =\"';\\{}\n/*", max_size=40))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        found = parse_jaas(text)
    except ValueError:
        return
    assert all(isinstance(module, LoginModule) for module in found)


@given(st.dictionaries(st.from_regex("[a-z]{1,8}", fullmatch=True), st.text(max_size=20), max_size=4))
def test_quoted_values_come_back(options: dict[str, str]) -> None:
    quoted = {
        name: "".join(f"\\{ord(one):03o}" if one in '"\\\r\n' else one for one in value)
        for name, value in options.items()
    }
    told = " ".join(f'{name}="{value}"' for name, value in quoted.items())
    text = f"M required {told};"
    assert parse_jaas(text)[0].options == options


def test_no_value_is_shown() -> None:
    assert "x-secret" not in repr(parse_jaas('M required a="x-secret";'))


def test_plain_and_scram() -> None:
    user = 'username="alice" password="x"'
    assert mechanism_of_jaas(f"{PLAIN} required {user};", "PLAIN") == Plain("alice", "x")
    assert mechanism_of_jaas(f"{SCRAM} required {user};", "SCRAM-SHA-256") == Scram("alice", "x", "SCRAM-SHA-256")
    token = mechanism_of_jaas(f"{SCRAM} required {user} tokenauth=true;", "SCRAM-SHA-512")
    assert token == DelegationToken("alice", "x")


@pytest.mark.parametrize("new", [False, True])
def test_oauth(new: bool) -> None:
    url = "https://idp.test/token"
    told = {"sasl.oauthbearer.token.endpoint.url": url}
    text = f'{OAUTH} required clientId="c" clientSecret="s" scope="k" extension_logicalCluster="l";'
    if new:
        text = f'{OAUTH} required extension_logicalCluster="l";'
        prefix = "sasl.oauthbearer.client.credentials."
        told |= {f"{prefix}client.id": "c", f"{prefix}client.secret": "s", "sasl.oauthbearer.scope": "k"}
    wanted = OAuthBearer(OidcClientCredentials(url, "c", "s", scope="k"), {"logicalCluster": "l"})
    assert mechanism_of_jaas(text, "OAUTHBEARER", told) == wanted


@pytest.mark.parametrize(
    ("text", "mechanism", "reason"),
    [
        ("", "PLAIN", "one login module, not 0"),
        (f'{PLAIN} required username="a" password="x-secret";' * 2, "PLAIN", "one login module, not 2"),
        (f'{PLAIN} required username="a" password="x-secret";', "SCRAM-SHA-256", "needs ScramLoginModule"),
        (f'{PLAIN} required username="a" password="x-secret";', "NTLM", "sasl.mechanism must be one of"),
        (f'{PLAIN} required user="a" password="x-secret";', "PLAIN", "lacks username="),
        (f'{SCRAM} required username="a" password="";', "SCRAM-SHA-256", "lacks password="),
        (f'{OAUTH} required unsecuredLoginStringClaim_sub="a";', "OAUTHBEARER", "token.endpoint.url"),
    ],
)
def test_what_cannot_be_used_is_refused(text: str, mechanism: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason) as refused:
        mechanism_of_jaas(text, mechanism)
    assert "x-secret" not in str(refused.value)


def test_kerberos(monkeypatch: pytest.MonkeyPatch) -> None:
    library: Any = ModuleType("gssapi")
    monkeypatch.setitem(sys.modules, "gssapi", library)
    text = f'{KERBEROS} required useKeyTab=true keyTab="/a/b.keytab" principal="alice@TEST";'
    made: Any = mechanism_of_jaas(text, "GSSAPI", {"sasl.kerberos.service.name": "kafka"})
    assert (made.service, made.principal, made.keytab) == ("kafka", "alice@TEST", "/a/b.keytab")
    told = {"sasl.kerberos.service.name": "kafka", "sasl.kerberos.domain.name": "broker.example"}
    made = mechanism_of_jaas(text, "GSSAPI", told)
    assert made.host == "broker.example"
    with pytest.raises(ValueError, match=r"sasl\.kerberos\.service\.name"):
        mechanism_of_jaas(text, "GSSAPI")
    for wrong, reason in (("useKeyTab=true", "lacks keyTab="), ('useTicketCache=true ticketCache="/c"', "KRB5CCNAME")):
        with pytest.raises(ValueError, match=reason):
            mechanism_of_jaas(f"{KERBEROS} required {wrong};", "GSSAPI", {"sasl.kerberos.service.name": "kafka"})
