"""GSSAPI, with a stand-in for the package `gssapi`; tests/integration/security has logins with real tickets."""

from __future__ import annotations

import pickle
import sys
import threading
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest

from pykafka import KafkaClient
from pykafka.exceptions import SaslAuthenticationFailed, TokenUnavailableError
from pykafka.handlers import Handler
from pykafka.metadata import brokers
from pykafka.security import kerberos
from pykafka.security.kerberos import Gssapi
from tests.support.sasl import NEW, OLD, SaslBroker
from tests.support.waiting import until

OFFER = b"\x01\x00\x00\x00"
LIMIT = 20.0
#: Codes of Kerberos' own table, as the package has them: without a sign.
NO_CACHE, EXPIRED, NO_KDC = (2**32 - 1765328384 + number for number in (195, 32, 156))


class GssError(Exception):
    def __init__(self, text: str, min_code: int = 0) -> None:
        self.min_code = min_code
        super().__init__(text)


class _Wrapped(NamedTuple):
    message: bytes


class Context:
    """A security context: the ticket, then the broker's proof."""

    made: list[Context] = []
    #: Called when a ticket is wanted.
    ask: Callable[[], object] = bool

    def __init__(self, name: Any, creds: Any, flags: Any, usage: str) -> None:
        self.name, self.creds, self.flags, self.usage = name, creds, flags, usage
        self.complete = False
        self.made.append(self)

    def step(self, token: bytes | None = None) -> bytes | None:
        if token is None:
            type(self).ask()
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
        RequirementFlag=SimpleNamespace(mutual_authentication=2, out_of_sequence_detection=8),
        exceptions=SimpleNamespace(GSSError=GssError),
    )
    monkeypatch.setitem(sys.modules, "gssapi", library)
    Context.made = []
    monkeypatch.setattr(Context, "ask", bool)
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
    assert Context.made[0].flags == [2, 8]


def test_principal_keytab_and_host() -> None:
    Gssapi("svc", principal="alice@TEST", keytab="/k", host="broker.test").begin("127.0.0.1")
    assert Context.made[0].name == ("svc@broker.test", "service")
    assert Context.made[0].creds == {
        "name": ("alice@TEST", "user"),
        "usage": "initiate",
        # not the user's cache, whose tickets may be another principal's
        "store": {"client_keytab": "/k", "ccache": "MEMORY:pykafka:alice@TEST:/k"},
    }
    Gssapi(principal="bob").begin("127.0.0.1")
    assert Context.made[1].creds == {"name": ("bob", "user"), "usage": "initiate"}


def test_a_broker_that_wants_a_layer_is_refused() -> None:
    for offer in (b"\x02\x00\x00\x00", b"\x01", b""):
        exchange = Gssapi().begin("localhost")
        assert exchange.step(None) == b"ticket"
        assert exchange.step(b"proof") == b""
        with pytest.raises(SaslAuthenticationFailed, match="security layer"):
            exchange.step(b"wrapped:" + offer)
        assert not exchange.complete


def test_a_broker_that_does_not_prove_itself() -> None:
    exchange = Gssapi("kafka", principal="alice@TEST").begin("localhost")
    exchange.step(None)
    with pytest.raises(
        SaslAuthenticationFailed, match="not proved by Kerberos that it is kafka/localhost: Major .* GSS"
    ):
        exchange.step(b"nonsense")
    exchange = Gssapi().begin("localhost")
    exchange.step(None)
    exchange.step(b"proof")
    with pytest.raises(SaslAuthenticationFailed, match="A token was invalid; check the broker's keytab"):
        exchange.step(b"nonsense")


@pytest.mark.parametrize(
    ("code", "options", "told"),
    [
        (0, {}, "Major (1): It failed, Minor (0): Nothing; check the ticket (klist)"),
        (NO_CACHE, {}, "No such file; run kinit, so that there is a ticket (klist shows them), or give keytab="),
        (NO_CACHE, {"principal": "a@T"}, "No such file; run kinit, so that there is a ticket of a@T (klist"),
        (NO_CACHE, {"principal": "a@T", "keytab": "/k"}, "it finds no keys of a@T in /k; check that this process can"),
        (EXPIRED, {}, "No such file; run kinit again, or give keytab="),
        (NO_KDC, {"keytab": "/k"}, "No such file; check the realm's kdc= in krb5.conf"),
    ],
)
def test_errors_of_kerberos_say_what_to_do(
    library: SimpleNamespace, code: int, options: dict[str, str], told: str
) -> None:
    def fail(**_: Any) -> None:
        raise GssError(f"Major (1): It failed, Minor ({code}): {'No such file' if code else 'Nothing'}", code)

    library.SecurityContext = fail
    with pytest.raises(TokenUnavailableError) as refused:
        Gssapi(**options).begin("localhost")
    assert f"to kafka/localhost: {told}" in str(refused.value)


def test_a_library_without_stores_of_credentials(library: SimpleNamespace) -> None:
    def fail(**_: Any) -> None:
        raise NotImplementedError

    library.Credentials = fail
    with pytest.raises(TokenUnavailableError, match="takes no keytab= of a program"):
        Gssapi(keytab="/k").begin("localhost")


@pytest.fixture
def kdc(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """Yield a KDC that answers once this is set."""
    answers = threading.Event()
    monkeypatch.setattr(Context, "ask", lambda: answers.wait(LIMIT))
    yield answers
    answers.set()


def test_a_kdc_that_does_not_answer_holds_up_no_login(handler: Handler, kdc: threading.Event) -> None:
    credentials = Gssapi(keytab="/k")
    tickets = credentials.for_host("localhost.")
    assert credentials.for_host("localhost") is tickets
    with pytest.raises(
        TokenUnavailableError, match=r"no ticket to kafka/localhost came within 0\.1 s: the KDC does not"
    ):
        tickets.prepare(handler, 0.1)
    with pytest.raises(TokenUnavailableError):
        tickets.prepare(handler, LIMIT, lambda: False)
    assert not tickets.prepare(handler, 0.0)  # a renewal goes on with the session that it has
    assert len(Context.made) == 1  # all of them wait for the same answer
    kdc.set()
    assert tickets.prepare(handler, LIMIT)
    assert tickets.prepare(handler, 0.0)
    assert len(Context.made) == 1


def test_a_login_ends_in_time_although_the_kdc_does_not_answer(handler: Handler, kdc: threading.Event) -> None:
    with SaslBroker({"GSSAPI": served()}, apis=NEW, steps=3) as broker:
        with pytest.raises(TokenUnavailableError, match="the KDC does not answer"):
            KafkaClient(broker.hosts, handler=handler, sasl=Gssapi(), socket_timeout_ms=300)
        assert not kdc.is_set()
        kdc.set()
        with KafkaClient(broker.hosts, handler=handler, sasl=Gssapi()) as client:
            assert client.brokers


def test_a_kdc_slower_than_the_first_try_at_a_broker(handler: Handler, monkeypatch: pytest.MonkeyPatch) -> None:
    """A first try is short, as the broker may be down; the ticket still comes."""
    monkeypatch.setattr(brokers, "QUICK_CONNECT_MS", 100)
    never = threading.Event()
    monkeypatch.setattr(Context, "ask", lambda: never.wait(0.5))
    with SaslBroker({"GSSAPI": served()}, apis=NEW, steps=3) as broker:
        with KafkaClient(broker.hosts, handler=handler, sasl=Gssapi()) as client:
            assert client.brokers


def test_what_the_kdc_says_reaches_a_renewal(
    handler: Handler, library: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    tickets = Gssapi().for_host("localhost")

    def fail(**_: Any) -> None:
        raise GssError("Minor (1): Ticket expired", EXPIRED)

    library.SecurityContext = fail
    with pytest.raises(TokenUnavailableError, match="Ticket expired; run kinit again"):
        until(handler, lambda: tickets.prepare(handler, 0.0))
    with pytest.raises(TokenUnavailableError, match="Ticket expired"):
        tickets.prepare(handler, LIMIT)
    library.SecurityContext = Context
    monkeypatch.setattr(kerberos, "FRESH_S", 0.05)
    until(handler, lambda: tickets.prepare(handler, 0.0))
    handler.sleep(0.06)
    assert tickets.prepare(handler, LIMIT)
    assert len(Context.made) == 2


def test_without_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "gssapi", None)
    with pytest.raises(ImportError, match=r"pip install 'pykafka\[gssapi\]'"):
        Gssapi()


def test_credentials_travel() -> None:
    credentials = Gssapi("kafka", principal="alice@TEST", keytab="/k")
    assert pickle.loads(pickle.dumps(credentials)) == credentials
    credentials.for_host("localhost")
    assert pickle.loads(pickle.dumps(credentials)) == credentials
    with pytest.raises(ValueError, match="service must not be empty"):
        Gssapi("")
    for whole in ("kafka/broker.test", "kafka@TEST"):
        with pytest.raises(ValueError, match="service must be the first part of the brokers' principals"):
            Gssapi(whole)


def test_an_old_broker_takes_bare_tokens_where_it_is_named(handler: Handler) -> None:
    with SaslBroker({"GSSAPI": served()}, apis={}, steps=3, bare="GSSAPI") as broker:
        with KafkaClient(broker.hosts, handler=handler, sasl=Gssapi(), broker_version="0.9.0.1") as client:
            assert client.brokers
        assert broker.logins == 1
