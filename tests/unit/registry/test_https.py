"""A schema registry over https: certificates, logins, proxies, and what it says instead of a schema."""

from __future__ import annotations

import ssl
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from pykafka.exceptions import RegistryError, RegistryUnavailableError
from pykafka.handlers import Handler
from pykafka.registry.client import Registry
from pykafka.registry.schemas import Schema
from pykafka.security import SslConfig
from pykafka.spark.formats import make_decoder
from tests.support.certs import Pems, make_pems
from tests.support.formats import CLICK
from tests.support.registrystub import Other, RegistryStub
from tests.support.secrets import Search
from tests.support.tunnels import TunnelProxy

Start = Callable[..., RegistryStub]
PASSWORD = "hunter2-and-more"


@pytest.fixture(scope="module")
def pems(tmp_path_factory: pytest.TempPathFactory) -> Pems:
    return make_pems(tmp_path_factory.mktemp("certs"))


@pytest.fixture
def start(pems: Pems) -> Iterator[Start]:
    """Yield what starts a registry with a certificate of this name, which asks for one of clients if that is wanted."""
    with ExitStack() as stack:

        def begin(
            name: str = "server", mutual: bool = False, user: str | None = None, token: str | None = None
        ) -> RegistryStub:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(pems.path(f"{name}.pem"), pems.path(f"{name}.key"))
            if mutual:
                context.verify_mode = ssl.CERT_REQUIRED
                context.load_verify_locations(pems.path("ca.pem"))
            made = stack.enter_context(RegistryStub(tls=context, user=user, token=token))
            made.add("a-value", CLICK)
            return made

        yield begin


def test_a_registry_with_a_certificate_of_an_authority(start: Start, pems: Pems, handler: Handler) -> None:
    trusted = SslConfig(pems.path("ca.pem"))
    for login in ({"user": "me", "password": "secret"}, {"token": "t0ken"}, {}):
        server = start(**{key: value for key, value in login.items() if key != "password"})
        assert Registry(server.url, handler, ssl_config=trusted, **login).schema(1).kind == "AVRO"  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("name", "cafile", "words"),
    [
        ("server", None, "not trusted .*: give the cafile of its authority"),
        ("server", "stranger.pem", "not trusted .*: give the cafile of its authority"),
        (
            "stranger",
            None,
            "not trusted .*self-signed.*: give the cafile of its authority, or of the certificate itself",
        ),
        ("elsewhere", "ca.pem", "not trusted .*mismatch.*: use an address that the certificate names"),
        ("expired", "ca.pem", "not trusted .*expired.*: the registry needs a new certificate"),
        ("early", "ca.pem", "not trusted .*not yet valid.*: check the clocks"),
    ],
)
def test_a_certificate_that_is_not_trusted(
    start: Start, pems: Pems, handler: Handler, name: str, cafile: str | None, words: str
) -> None:
    server = start(name)
    trusted = None if cafile is None else SslConfig(pems.path(cafile))
    with pytest.raises(RegistryError, match=words) as caught:
        Registry(server.url, handler, ssl_config=trusted, token="t0ken").schema(1)
    assert not caught.value.retriable
    assert server.asked == []


def test_a_registry_that_asks_for_a_certificate(start: Start, pems: Pems, handler: Handler) -> None:
    server = start(mutual=True)
    known = SslConfig(pems.path("ca.pem"), pems.path("client.pem"), pems.path("client.key"))
    assert Registry(server.url, handler, ssl_config=known).schema(1).kind == "AVRO"
    options = {"registry": server.url, "topic": "a", "registry_cafile": pems.path("ca.pem")}
    mine = {"registry_certfile": pems.path("client.pem"), "registry_keyfile": pems.path("locked.key")}
    assert make_decoder("avro", {**options, **mine, "registry_key_password": pems.password}).ddl.startswith("`id`")
    for certificate in ([], ["client-stranger.pem", "client-stranger.key"]):
        config = SslConfig(pems.path("ca.pem"), *map(pems.path, certificate))
        with pytest.raises(RegistryError, match=r"TLS with .* fails .*(certfile and keyfile)") as caught:
            Registry(server.url, handler, ssl_config=config).schema(1)
        assert not caught.value.retriable


def test_https_to_a_port_without_it(handler: Handler) -> None:
    with RegistryStub() as server:
        with pytest.raises(RegistryError, match="speaks no TLS there: is its address http://"):
            Registry(server.url.replace("http:", "https:"), handler).schema(1)


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_carries_no_login_to_another_host(handler: Handler, status: int) -> None:
    with RegistryStub() as thief, RegistryStub(user="me") as server:
        server.fail(status, 1, headers={"Location": f"{thief.url}/schemas/ids/1"})
        with pytest.raises(RegistryError, match="it leads elsewhere, where no login is sent"):
            Registry(server.url, handler, user="me", password=PASSWORD).schema(1)
        assert thief.asked == []


def test_a_registry_behind_a_proxy(start: Start, pems: Pems, handler: Handler, monkeypatch: pytest.MonkeyPatch) -> None:
    server = start(token="hunter3-and-more")
    trusted = SslConfig(pems.path("ca.pem"))
    registry = Registry(server.url, handler, ssl_config=trusted, token="hunter3-and-more", timeout_ms=2000)
    with TunnelProxy("me", PASSWORD) as proxy:
        monkeypatch.setenv("https_proxy", f"http://me:{PASSWORD}@127.0.0.1:{proxy.port}")
        for name in ("no_proxy", "NO_PROXY"):
            monkeypatch.delenv(name, raising=False)
        assert registry.schema(1).kind == "AVRO"
        assert proxy.asked == [("127.0.0.1", server.port)]
        proxy.refuses = True
        with pytest.raises(RegistryUnavailableError, match="does not answer: .*[Tt]unnel") as caught:
            registry.schema(2)
        search = Search(PASSWORD, "hunter3-and-more")
        search.look_at_error(caught.value)
        assert search.verdict() == []


@pytest.mark.parametrize("other", [Other.SILENT, Other.SLOW, Other.SLOW_HEAD])
@pytest.mark.later("threads-Other.SLOW]", "gevent-Other.SILENT", "threads-Other.SLOW_HEAD")
def test_a_registry_that_is_silent_or_slow_ends_by_the_deadline(handler: Handler, other: Other) -> None:
    with RegistryStub() as server:
        server.behave(other)
        began = time.monotonic()
        registry = Registry(server.url, handler, request_timeout_ms=400, timeout_ms=1000)
        with pytest.raises(RegistryUnavailableError, match="does not answer: .*timed out.*in 1 s: check its address"):
            registry.schema(1)
        assert time.monotonic() - began < 20
        server.behave(None)
        server.add("a", "string")
        assert registry.schema(1).text == "string"


@pytest.mark.parametrize("status", [429, 503])
def test_a_registry_that_wants_peace_has_it(handler: Handler, status: int, monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []
    monkeypatch.setattr(handler, "sleep", slept.append)
    with RegistryStub() as server:
        server.add("a", "string")
        server.fail(status, 1, headers={"Retry-After": "7"})
        server.fail(
            status, 1, headers={"Date": "Sun, 06 Nov 1994 08:49:37 GMT", "Retry-After": "Sun, 06 Nov 1994 08:49:47 GMT"}
        )
        server.fail(status, 1, headers={"Retry-After": "soon"})
        assert Registry(server.url, handler).schema(1).text == "string"
    assert slept[:2] == [7, 10]
    assert slept[2] < 6


@pytest.mark.parametrize(
    "said",
    ["Mon, 01 Jan 99999999999 00:00:00 GMT", "Mon, 01 Jan 2024 00:00:00 +99999999999999", "()"],
)
def test_a_time_for_peace_that_is_none(handler: Handler, said: str) -> None:
    with RegistryStub() as server:
        server.add("a", "string")
        server.fail(503, 1, headers={"Date": "Sun, 06 Nov 1994 08:49:37 GMT", "Retry-After": said})
        assert Registry(server.url, handler).schema(1).text == "string"


def test_an_address_that_wants_peace_does_not_hold_up_the_others(handler: Handler) -> None:
    with RegistryStub() as resting, RegistryStub() as failing:
        failing.add("a", "string")
        resting.fail(503, 1, headers={"Retry-After": "3600"})
        failing.fail(503, 2)
        assert Registry([resting.url, failing.url], handler).schema(1).text == "string"
        assert (len(resting.asked), len(failing.asked)) == (1, 3)


def test_a_registry_that_asks_for_a_longer_pause_than_there_is_time(handler: Handler) -> None:
    with RegistryStub() as server:
        server.fail(429, 1, headers={"Retry-After": "3600"})
        with pytest.raises(
            RegistryUnavailableError, match="429 .*asked once in 60 s, and asks for a pause of 3600 s: give it a longer"
        ):
            Registry(server.url, handler).schema(1)
        assert len(server.asked) == 1


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (200, "answers what no schema registry does: is that its address"),
        (400, "answers 400 to GET /schemas/ids/1; check the request"),
        (401, "answers 401 .*; check its user and password, or its token"),
        (403, "answers 403 .*; this login may not do that"),
        (404, "answers 404 .*; is that its address"),
        (500, "answers 500 .*asked once in 60 s, and asks"),
        (502, "answers 502 .*asked once in 60 s, and asks"),
    ],
)
@pytest.mark.parametrize(
    "body", [b"<html><title>Sign in</title>", b"{", b"\xff\xfe", b'{"error_code": {}, "message": []}', b"9" * 9999]
)
def test_pages_of_something_else_are_told_by_their_status(
    handler: Handler, status: int, words: str, body: bytes
) -> None:
    with RegistryStub() as server:
        server.fail(status, 2, body, {"Retry-After": "3600"})
        with pytest.raises(RegistryError, match=words) as caught:
            Registry(server.url, handler).schema(1)
        assert len(str(caught.value)) < 500


def test_an_id_that_becomes_another_schema(handler: Handler) -> None:
    with RegistryStub() as server:
        server.add("a-value", CLICK)
        registry = Registry(server.url, handler)
        assert registry.latest("a-value").id == 1
        server.schemas[0]["schema"] = server.schemas[0]["schema"].replace(",", " , ")
        assert registry.latest("a-value").id == 1
        server.schemas[0]["schema"] = '"long"'
        with pytest.raises(RegistryError, match="has another schema 1 than before: it was created again"):
            registry.latest("a-value")
    assert Schema("PROTOBUF", "message A {}").says_the_same(Schema("PROTOBUF", "message  A { }"))
    assert not Schema("AVRO", '"long"').says_the_same(Schema("JSON", '"long"'))
