"""Both sides of SASL: what brokers answer to a login, and what clients send to the fake cluster."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator
from typing import Any

from pykafka.security.kerberos import GssapiExchange
from pykafka.security.oauth import OAuthExchange, OAuthToken, _expiry
from pykafka.security.scram import Scram, ScramExchange
from pykafka.testing.sasl import LoginRefusedError, Sasl
from tests.fuzz.judge import Target
from tests.fuzz.targets.traps import json_traps

_NONCE = "rOprNGfwEbeRWgbNEkqO"
_USER = Scram("user", "pencil", "SCRAM-SHA-256")
_BROKERS = Sasl({"user": "pencil"}, check_token=lambda token: "user" if token.startswith("t.") else None)
_ANY_TOKEN = Sasl({"user": "pencil"}, mechanisms=["OAUTHBEARER"])


class _Unwrapped:
    def __init__(self, message: bytes) -> None:
        self.message = message


class _Context:
    """A security context of Kerberos that is complete, and unwraps each token to itself."""

    complete = True

    def unwrap(self, token: bytes) -> _Unwrapped:
        """Return the token."""
        return _Unwrapped(token)

    def wrap(self, message: bytes, encrypt: bool) -> _Unwrapped:
        """Return the message."""
        return _Unwrapped(message)


def _answered(step: Callable[[bytes | None], bytes | None], data: bytes) -> list[bytes | None]:
    """Return what one side says to the other's messages, which a 0xFF divides."""
    return [step(message) for message in data.split(b"\xff")[:4]]


def scram(data: bytes) -> object:
    """Log in by SCRAM at a broker that answers the input; "NONCE" in it stands for the client's nonce."""
    exchange = ScramExchange(_USER, _NONCE)
    first = exchange.step(None)
    # As many iterations as a login allows take a second each: the sum of all is not what is tried here.
    said = _answered(exchange.step, data.replace(b"NONCE", _NONCE.encode()).replace(b"i=4", b"i=4096,x=4"))
    return first, said, exchange.complete


def oauth(data: bytes) -> object:
    """Log in by OAUTHBEARER at a broker that answers the input; and read the input as a token."""
    exchange = OAuthExchange(OAuthToken("secret-token"), {}, lambda _: None)
    first = exchange.step(None)
    said = _answered(exchange.step, data)
    return first, said, exchange.complete


def token(data: bytes) -> object:
    """Read when a token ends."""
    return _expiry(data.decode("latin-1"))


def gssapi(data: bytes) -> object:
    """Choose a security layer from a broker's offer."""
    exchange: Any = object.__new__(GssapiExchange)
    exchange._context, exchange._errors, exchange.complete = _Context(), OSError, False
    return exchange.step(data), exchange.complete


def at_brokers(data: bytes) -> object:
    """Log in at the fake cluster; the first byte has the mechanism, and 0xFF divides messages."""
    if not data:
        return None
    name, brokers = (
        ("PLAIN", _BROKERS),
        ("SCRAM-SHA-256", _BROKERS),
        ("SCRAM-SHA-512", _BROKERS),
        ("OAUTHBEARER", _BROKERS),
        ("OAUTHBEARER", _ANY_TOKEN),
    )[data[0] % 5]
    exchange = brokers.exchange(name, "nonce", 1_000_000)
    try:
        said = _answered(lambda message: exchange.step(message or b""), data[1:])
    except LoginRefusedError as error:
        return str(error)
    return said, exchange.user, exchange.expires_ms


def _jwt(claims: object) -> bytes:
    return _signed(json.dumps(claims).encode())


def _signed(claims: bytes) -> bytes:
    """Return a token without a signature."""
    return b".".join([base64.urlsafe_b64encode(part).rstrip(b"=") for part in (b'{"alg": "none"}', claims)] + [b""])


def _jwts() -> Iterator[bytes]:
    yield b"opaque"
    yield _jwt({"exp": "never"})
    yield from map(_signed, json_traps({"exp": 4_000_000_000}))


def _scram() -> Iterator[bytes]:
    salt = base64.b64encode(b"salt-of-16-bytes")
    yield b"r=NONCEmore,s=" + salt + b",i=4096"
    yield b"r=NONCEmore,s=" + salt + b",i=4096\xffv=" + base64.b64encode(bytes(32))
    yield b"r=NONCEmore,s=" + salt + b",i=4096\xffe=other-error"
    yield b"r=NONCEmore,s=" + salt + b",i=99,m=ext"


def _oauth() -> Iterator[bytes]:
    yield b""
    yield b'{"status":"invalid_token","scope":"kafka","openid-configuration":"https://idp.example.org"}'
    yield b'{"status":"invalid_token"}\xff\x01'
    yield from json_traps({"status": "invalid_token"})


def _at_brokers() -> Iterator[bytes]:
    yield b"\0\0user\0pencil"
    yield b"\0user\0user\0wrong"
    for kind in (b"\1", b"\2"):
        yield kind + b"n,,n=user,r=abc"
        yield kind + b"n,a=user,n=user,r=abc\xffc=biws,r=abcnonce,p=" + base64.b64encode(bytes(32))
    for kind in (b"\3", b"\4"):
        yield kind + b"n,,\1auth=Bearer " + _jwt({"sub": "user", "exp": 4_000_000_000}) + b"\1\1"
        yield kind + b"n,,\1auth=Bearer " + _jwt({"sub": "user", "exp": 1e308}) + b"\1\1\xff\1"
        for claims in json_traps({"sub": "user", "exp": 4_000_000_000}):
            yield kind + b"n,,\1auth=Bearer " + _signed(claims) + b"\1\1"


TARGETS = [
    Target("scram", scram, _scram),
    Target("oauth", oauth, _oauth),
    Target("jwt", token, _jwts),
    Target("gssapi", gssapi, lambda: [b"\1\0\0\0", b"\7\0\xff\xff", b""]),
    Target("fake-logins", at_brokers, _at_brokers),
]
