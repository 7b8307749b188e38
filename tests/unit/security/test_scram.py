"""PLAIN and SCRAM: the tables of the mechanisms."""

from __future__ import annotations

import base64
import pickle
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykafka import DelegationToken, Plain, Scram
from pykafka.exceptions import SaslAuthenticationFailed
from pykafka.security.scram import ITERATIONS_MAX, ScramExchange
from tests.support.sasl import Refused, scram

# The example of RFC 7677, section 3.
NONCE = "rOprNGfwEbeRWgbNEkqO"
SERVER_FIRST = b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
CLIENT_FINAL = (
    b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
)
SERVER_FINAL = b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="


def pencil(mechanism: str = "SCRAM-SHA-256") -> ScramExchange:
    exchange = ScramExchange(Scram("user", "pencil", mechanism), NONCE)
    assert exchange.step(None) == b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
    return exchange


def test_the_example_of_the_rfc() -> None:
    exchange = pencil()
    assert exchange.step(SERVER_FIRST) == CLIENT_FINAL
    assert not exchange.complete
    assert exchange.step(SERVER_FINAL) is None
    assert exchange.complete


@pytest.mark.parametrize("algorithm", ["sha256", "sha512"])
@pytest.mark.parametrize("name", ["user", "a=b,c", "=2C", "юзер", "Ⅸ"])
def test_the_broker_knows_the_name_and_the_password(name: str, algorithm: str) -> None:
    mechanism = f"SCRAM-SHA-{algorithm[3:]}"
    password = f"pass,of={name}\u00ad\u2168"  # as it is: Kafka knows no SASLprep
    exchange = Scram(name, password, mechanism).begin("localhost")
    broker = scram({name: password}, algorithm)
    assert exchange.step(broker(exchange.step(broker(exchange.step(None) or b"")) or b"")) is None
    assert exchange.complete


def test_a_wrong_password_is_refused_by_the_broker() -> None:
    exchange = Scram("user", "wrong").begin("localhost")
    broker = scram({"user": "right"}, "sha512")
    with pytest.raises(Refused):
        broker(exchange.step(broker(exchange.step(None) or b"")) or b"")


def test_a_broker_that_does_not_know_the_password_is_refused() -> None:
    exchange = pencil()
    exchange.step(SERVER_FIRST)
    with pytest.raises(SaslAuthenticationFailed, match="does not know the password"):
        exchange.step(b"v=" + base64.b64encode(bytes(32)))
    assert not exchange.complete


@pytest.mark.parametrize("final", [b"", b"v=", b"x=1", b"v=%%%"])
def test_a_broker_that_does_not_prove_itself_is_refused(final: bytes) -> None:
    exchange = pencil()
    exchange.step(SERVER_FIRST)
    with pytest.raises(SaslAuthenticationFailed):
        exchange.step(final)


def test_the_broker_s_own_words_are_in_the_error() -> None:
    exchange = pencil()
    exchange.step(SERVER_FIRST)
    with pytest.raises(SaslAuthenticationFailed, match="unknown-user.*check user name and password"):
        exchange.step(b"e=unknown-user")


@pytest.mark.parametrize(
    ("first", "reason"),
    [
        (b"r=other,s=W22Z,i=4096", "another nonce"),
        (b"r=rOprNGfwEbeRWgbNEkqO,s=W22Z,i=4096", "another nonce"),
        (SERVER_FIRST.replace(b"4096", b"4095"), "4095 iterations"),
        (SERVER_FIRST.replace(b"4096", str(ITERATIONS_MAX + 1).encode()), "iterations"),
        (SERVER_FIRST.replace(b"4096", b"99999999999999999999"), "number of iterations"),
        (SERVER_FIRST.replace(b"4096", b"-1"), "number of iterations"),
        (SERVER_FIRST.replace(b"4096", "\uff14\uff10\uff19\uff16".encode()), "number of iterations"),
        (SERVER_FIRST.replace(b"s=W22ZaJ0SNY7soEsUEjb6gQ==", b"s="), "no salt"),
        (SERVER_FIRST.replace(b"W22Z", b"!!!!"), "not in base64"),
        (b"m=ext," + SERVER_FIRST, "extension"),
        (SERVER_FIRST + b"," + SERVER_FIRST, "no message of SCRAM"),
        (b"\xff\xfe", "no text"),
        (b"", "no message of SCRAM"),
    ],
)
def test_nonsense_of_the_broker_is_refused(first: bytes, reason: str) -> None:
    with pytest.raises(SaslAuthenticationFailed, match=reason):
        pencil().step(first)


@given(st.binary(max_size=60) | st.text(max_size=60).map(str.encode), st.booleans())
def test_no_nonsense_of_the_broker_passes(nonsense: bytes, final: bool) -> None:
    exchange = pencil()
    if final:
        exchange.step(SERVER_FIRST)
    with pytest.raises(SaslAuthenticationFailed):
        exchange.step(nonsense)
    assert not exchange.complete


def test_nonces_differ() -> None:
    credentials = Scram("user", "pencil")
    assert len({credentials.begin("localhost").step(None) for _ in range(50)}) == 50


def test_a_delegation_token_says_that_it_is_one() -> None:
    token = DelegationToken("id-1", b"\x01\x02\x03")
    first = token.begin("localhost").step(None)
    assert first is not None
    assert first.startswith(b"n,,n=id-1,r=")
    assert first.endswith(b",tokenauth=true")
    assert token == DelegationToken("id-1", "AQID")


def test_plain() -> None:
    exchange = Plain("user", "päss").begin("localhost")
    assert exchange.step(None) == "\0user\0päss".encode()
    assert exchange.complete


@pytest.mark.parametrize("kind", [Plain, Scram])
@pytest.mark.parametrize(
    ("user", "password", "error"),
    [
        ("", "x", ValueError),
        ("x", "", ValueError),
        ("a\0b", "x", ValueError),
        ("a", "secret\0", ValueError),
        (None, "x", TypeError),
        ("a", b"secret", TypeError),
        ("a", "secret\ud800", ValueError),
    ],
)
def test_bad_credentials_are_refused_without_showing_them(
    kind: type[Any], user: Any, password: Any, error: type[Exception]
) -> None:
    with pytest.raises(error) as refused:
        kind(user, password)
    assert "secret" not in str(refused.value)
    assert refused.value.__cause__ is None
    assert "name" in str(refused.value) or "password" in str(refused.value)


def test_a_mechanism_that_does_not_exist_is_refused() -> None:
    with pytest.raises(ValueError, match="SCRAM-SHA-256, SCRAM-SHA-512"):
        Scram("user", "pencil", "SCRAM-SHA-1")


@pytest.mark.parametrize(
    "credentials", [Plain("user", "pencil"), Scram("user", "pencil"), DelegationToken("user", "pencil")]
)
def test_credentials_travel_and_show_no_secret(credentials: Any) -> None:
    if isinstance(credentials, Scram):
        credentials.salted(b"salt", 4096)
    copied = pickle.loads(pickle.dumps(credentials))
    assert copied == credentials
    assert copied.name == credentials.name
    assert hash(copied) == hash(credentials)
    assert "user" in repr(copied)
    assert "pencil" not in repr(copied)
    assert copied != type(credentials)("user", "other")


def test_a_salted_password_is_computed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    credentials = Scram("user", "pencil")
    first = credentials.salted(b"salt", 4096)
    monkeypatch.setattr("hashlib.pbkdf2_hmac", None)
    assert credentials.salted(b"salt", 4096) is first


def test_a_refusal_s_words_stay_in_one_line() -> None:
    exchange = Scram("user", "pencil").begin("")
    nonce = (exchange.step(None) or b"").decode().partition("r=")[2]
    exchange.step(f"r={nonce}x,s=YQ==,i=4096".encode())
    with pytest.raises(SaslAuthenticationFailed, match=r"refuses the login \(no \[2J WARN\); check"):
        exchange.step(b"e=no\n\x1b[2J\nWARN")
