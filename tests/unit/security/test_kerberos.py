"""GSSAPI, with a stand-in for the package `gssapi`; tests/integration/security has logins with real tickets."""

from __future__ import annotations

import pickle
import sys
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest

from pykafka import KafkaClient
from pykafka.exceptions import SaslAuthenticationFailed, TokenUnavailableError
from pykafka.handlers import Handler
from pykafka.security.kerberos import Gssapi
from tests.support.sasl import NEW, OLD, SaslBroker

OFFER = b"\x01\x00\x00\x00"


class GssError(Exception):
    pass


class _Wrapped(NamedTuple):
    message: bytes


class Context:
    """A security context: the ticket, then the broker's proof."""

    made: list[Context] = []

    def __init__(self, name: Any, creds: Any, usage: str) -> None:
        self.name, self.creds, self.usage = name, creds, usage
        self.complete = False
        self.made.append(self)

    def step(self, token: bytes | None = None) -> bytes | None:
        if token is None:
            return b"ticket"
        if token != b"proof":
            raise GssError("Major (851968): Unspecified GSS failure")
        self.complete = True
        return None

    def unwrap(self, token: bytes) -> _Wrapped:
        if not token.startswith(b"wrapped:"):
            raise GssError("A token was invalid")
        return _Wrapped(token.removeprefix(b"wrapped:"))

    def wrap(self, message: bytes, encrypt: bool) -> _Wrapped:
        assert not encrypt
        return _Wrapped(b"wrapped:" + message)


@pytest.fixture(autouse=True)
def library(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """Put the stand-in where `import gssapi` finds it."""
    library = SimpleNamespace(
        Name=lambda name, kind: (name, kind),
        NameType=SimpleNamespace(hostbased_service="service", user="user"),
        Credentials=lambda **options: options,
        SecurityContext=Context,
        exceptions=SimpleNamespace(GSSError=GssError),
    )
    monkeypatch.setitem(sys.modules, "gssapi", library)
    Context.made = []
    return library


def served(offer: bytes = OFFER) -> Callable[[], Callable[[bytes], bytes | None]]:
    """Return the broker's side."""

    def begin() -> Callable[[bytes], bytes | None]:
        script = [(b"ticket", b"proof"), (b"", b"wrapped:" + offer), (b"wrapped:\x01\x00\x00\x00", None)]

        def step(token: bytes) -> bytes | None:
            wanted, answer = script.pop(0)
            assert token == wanted
            return answer

        return step

    return begin


@pytest.mark.parametrize("apis", [OLD, NEW], ids=["old", "new"])
def test_a_login(handler: Handler, apis: dict[Any, int]) -> None:
    with SaslBroker({"GSSAPI": served()}, apis=apis, steps=3) as broker:
        with KafkaClient(broker.hosts, handler=handler, sasl=Gssapi("kafka")) as client:
            assert client.brokers
        assert broker.logins == 1
    assert Context.made[0].name == ("kafka@127.0.0.1", "service")
    assert Context.made[0].creds is None


def test_principal_keytab_and_host() -> None:
    Gssapi("svc", principal="alice@TEST", keytab="/k", host="broker.test").begin("127.0.0.1")
    assert Context.made[0].name == ("svc@broker.test", "service")
    assert Context.made[0].creds == {
        "name": ("alice@TEST", "user"),
        "usage": "initiate",
        "store": {"client_keytab": "/k"},
    }


def test_a_broker_that_wants_a_layer_is_refused() -> None:
    for offer in (b"\x02\x00\x00\x00", b"\x01", b""):
        exchange = Gssapi().begin("localhost")
        assert exchange.step(None) == b"ticket"
        assert exchange.step(b"proof") == b""
        with pytest.raises(SaslAuthenticationFailed, match="security layer"):
            exchange.step(b"wrapped:" + offer)
        assert not exchange.complete


def test_errors_of_kerberos_are_named(library: SimpleNamespace) -> None:
    exchange = Gssapi("kafka", principal="alice@TEST").begin("localhost")
    exchange.step(None)
    with pytest.raises(TokenUnavailableError, match=r"Unspecified GSS failure; check the ticket \(klist\)"):
        exchange.step(b"nonsense")
    exchange = Gssapi().begin("localhost")
    exchange.step(None)
    exchange.step(b"proof")
    with pytest.raises(TokenUnavailableError, match="A token was invalid"):
        exchange.step(b"nonsense")

    def fail(**_: Any) -> None:
        raise GssError("No Kerberos credentials available")

    library.SecurityContext = fail
    with pytest.raises(TokenUnavailableError, match="No Kerberos credentials available"):
        Gssapi().begin("localhost")


def test_without_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "gssapi", None)
    with pytest.raises(ImportError, match=r"pip install 'pykafka\[gssapi\]'"):
        Gssapi()


def test_credentials_travel() -> None:
    credentials = Gssapi("kafka", principal="alice@TEST", keytab="/k")
    assert pickle.loads(pickle.dumps(credentials)) == credentials
    with pytest.raises(ValueError, match="service must not be empty"):
        Gssapi("")


def test_an_old_broker_takes_bare_tokens_where_it_is_named(handler: Handler) -> None:
    with SaslBroker({"GSSAPI": served()}, apis={}, steps=3, bare="GSSAPI") as broker:
        with KafkaClient(broker.hosts, handler=handler, sasl=Gssapi(), broker_version="0.9.0.1") as client:
            assert client.brokers
        assert broker.logins == 1
