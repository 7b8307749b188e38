"""OAUTHBEARER: tokens, their cache, and the token endpoint."""

from __future__ import annotations

import base64
import json
import pickle
import socket
import threading
from collections.abc import Callable
from typing import Any

import pytest

from pykafka import KafkaClient, OAuthBearer, OAuthToken, OidcClientCredentials
from pykafka.exceptions import KafkaException, SaslAuthenticationFailed, TokenUnavailableError
from pykafka.handlers import Handler
from pykafka.security import oauth
from pykafka.security.mechanism import redacted
from tests.support.sasl import Refused, SaslBroker
from tests.support.token_endpoint import TokenEndpoint

LIMIT = 20.0


def jwt(name: str = "a", **claims: Any) -> str:
    parts = [json.dumps(part).encode() for part in ({"alg": "none", "typ": name}, claims)]
    return ".".join(base64.urlsafe_b64encode(part).rstrip(b"=").decode() for part in parts) + ".c2lnbmVk"


class Source:
    """Gives tokens, and fails on demand."""

    def __init__(self, lifetime_s: float = 300) -> None:
        self.lifetime_s = lifetime_s
        self.calls = 0
        self.error: Exception | None = None
        self.hold: threading.Event | None = None
        self.threads: set[str] = set()

    def __call__(self) -> OAuthToken:
        self.calls += 1
        if self.hold is not None:
            self.hold.wait(LIMIT)
        if self.error is not None:
            raise self.error
        return OAuthToken(f"token-{self.calls}", lifetime_s=self.lifetime_s)


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(oauth, "PAUSE_FIRST_MS", 5)


def first(credentials: OAuthBearer) -> bytes:
    return credentials.begin("localhost").step(None) or b""


def until(handler: Handler, done: Callable[[], object]) -> None:
    deadline = handler.now() + LIMIT
    while not done():
        assert handler.now() < deadline
        handler.sleep(0.005)


def test_the_message_and_its_extensions(handler: Handler) -> None:
    source = OAuthToken("abc", lifetime_s=60, extensions={"traceId": "1 2"})
    credentials = OAuthBearer(lambda: source, {"logicalCluster": "lkc-1"})
    assert credentials.prepare(handler, LIMIT)
    exchange = credentials.begin("localhost")
    assert exchange.step(None) == b"n,,\x01auth=Bearer abc\x01logicalCluster=lkc-1\x01traceId=1 2\x01\x01"
    assert not exchange.complete
    assert exchange.step(b"") is None
    assert exchange.complete


def test_a_refusal_is_acknowledged_and_tells_its_reason(handler: Handler) -> None:
    source = Source()
    credentials = OAuthBearer(source)
    credentials.prepare(handler, LIMIT)
    exchange = credentials.begin("localhost")
    exchange.step(None)
    assert exchange.step(b'{"status":"invalid_token","scope":"kafka"}') == b"\x01"
    with pytest.raises(SaslAuthenticationFailed, match="status invalid_token, scope kafka"):
        exchange.step(b"")
    assert not exchange.complete
    assert credentials.prepare(handler, LIMIT)  # another token: this one is not used again
    assert source.calls == 2


@pytest.mark.parametrize("nonsense", [b"x", b"[]", b"{}", b"\xff", b'"a"', b"[" * 5_000])
def test_a_refusal_without_a_reason(handler: Handler, nonsense: bytes) -> None:
    credentials = OAuthBearer("abc")
    credentials.prepare(handler, LIMIT)
    exchange = credentials.begin("localhost")
    exchange.step(None)
    assert exchange.step(nonsense) == b"\x01"
    with pytest.raises(SaslAuthenticationFailed):
        exchange.step(b"x")


def test_all_logins_share_a_token_and_one_call_for_it(handler: Handler) -> None:
    source = Source()
    source.hold = threading.Event()
    credentials = OAuthBearer(source)
    found: list[bytes] = []

    def log_in() -> None:
        credentials.prepare(handler, LIMIT)
        found.append(first(credentials))

    workers = [handler.spawn(log_in) for _ in range(5)]
    until(handler, lambda: source.calls)
    handler.sleep(0.05)
    source.hold.set()
    assert all(worker.join(LIMIT) for worker in workers)
    assert set(found) == {b"n,,\x01auth=Bearer token-1\x01\x01"}
    assert source.calls == 1


def test_a_token_is_renewed_ahead_of_its_end_while_the_old_one_serves(handler: Handler) -> None:
    source = Source()
    credentials = OAuthBearer(source)
    assert not credentials.prepare(handler, 0.0)
    until(handler, lambda: credentials.prepare(handler, 0.0))
    assert credentials._cached is not None
    lifetime = credentials._cached.ends_at - handler.time_ms() / 1000
    assert 0.7 * lifetime < credentials._cached.refresh_at - handler.time_ms() / 1000 < 0.86 * lifetime
    source.hold = threading.Event()
    age(credentials, handler, 0.9)
    assert credentials.prepare(handler, LIMIT)  # it waits for nothing
    assert b"token-1" in first(credentials)
    assert not credentials.prepare(handler, 0.0)
    source.hold.set()
    until(handler, lambda: credentials.prepare(handler, 0.0))
    assert b"token-2" in first(credentials)


def age(credentials: OAuthBearer, handler: Handler, part: float) -> None:
    """Make the token so much older: this part of its life is over."""
    held = credentials._cached
    assert held is not None
    now = handler.time_ms() / 1000
    life = 300.0
    credentials._cached = oauth._CachedToken(held.token, now - 1, now + (1 - part) * life)


def test_a_failing_renewal_keeps_the_old_token_and_warns(handler: Handler, caplog: pytest.LogCaptureFixture) -> None:
    source = Source()
    credentials = OAuthBearer(source)
    credentials.prepare(handler, LIMIT)
    source.error = RuntimeError(f"no service; secret {jwt()}")
    age(credentials, handler, 0.9)
    assert credentials.prepare(handler, LIMIT)
    until(handler, lambda: credentials._failure)
    assert credentials.prepare(handler, LIMIT)
    assert b"token-1" in first(credentials)
    assert "no new token to log in with" in caplog.text
    assert "RuntimeError: no service; secret [token]" in caplog.text
    age(credentials, handler, 1.1)
    with pytest.raises(TokenUnavailableError, match="no service"):
        credentials.prepare(handler, LIMIT)
    source.error = None
    until(handler, lambda: _prepared(credentials, handler))
    assert b"token-1" not in first(credentials)


def _prepared(credentials: OAuthBearer, handler: Handler) -> bool:
    try:
        return credentials.prepare(handler, LIMIT)
    except TokenUnavailableError:
        return False


def test_a_call_that_never_returns_ends_with_the_deadline_and_with_giving_up(handler: Handler) -> None:
    source = Source()
    source.hold = threading.Event()
    credentials = OAuthBearer(source)
    started = handler.now()
    with pytest.raises(TokenUnavailableError, match="no token came within 0.1 s"):
        credentials.prepare(handler, 0.1)
    with pytest.raises(TokenUnavailableError):
        credentials.prepare(handler, LIMIT, lambda: False)
    assert handler.now() - started < 10
    source.hold.set()
    assert credentials.prepare(handler, LIMIT)
    assert source.calls == 1


def test_what_the_function_returns_is_checked(handler: Handler) -> None:
    for wrong in (None, b"abc", 5):
        with pytest.raises(TokenUnavailableError, match="not an OAuthToken or a str"):
            OAuthBearer(lambda wrong=wrong: wrong).prepare(handler, LIMIT)  # type: ignore[misc]
    with pytest.raises(TokenUnavailableError, match="must be letters, digits"):
        OAuthBearer(lambda: "a b secret").prepare(handler, LIMIT)
    with pytest.raises(SaslAuthenticationFailed, match=r"has expired .* s ago"):
        OAuthBearer(lambda: OAuthToken("abc", expires_at=5)).prepare(handler, LIMIT)


def test_the_end_of_a_jwt_is_read_from_it(handler: Handler) -> None:
    end = handler.time_ms() / 1000 + 1000
    assert OAuthBearer(lambda: jwt(exp=end)).get(handler)[1] == end
    odd = (float("nan"), float("inf"), 10**400)
    for opaque in ("abc", "a.b.c", jwt(exp="never"), jwt(), *(jwt(exp=end) for end in odd)):
        credentials = OAuthBearer(lambda opaque=opaque: opaque)  # type: ignore[misc]
        assert credentials.get(handler)[1] <= handler.time_ms() / 1000 + oauth.UNKNOWN_LIFE_S


@pytest.mark.parametrize("seconds", [float("nan"), float("inf")])
def test_a_life_that_is_no_time_is_not_known(handler: Handler, seconds: float) -> None:
    """No number compares with NaN: each login would ask for a token of its own."""
    source = Source(seconds)
    credentials = OAuthBearer(source)
    for _ in range(3):
        assert credentials.prepare(handler, LIMIT)
    assert source.calls == 1
    assert credentials.get(handler)[1] <= handler.time_ms() / 1000 + oauth.UNKNOWN_LIFE_S


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"value": b"abc"}, TypeError),
        ({"value": ""}, ValueError),
        ({"value": "a b-secret"}, ValueError),
        ({"value": "a\x01b-secret"}, ValueError),
        ({"value": "abc", "expires_at": 5.0, "lifetime_s": 5.0}, ValueError),
        ({"value": "abc", "extensions": {"auth": "x"}}, ValueError),
        ({"value": "abc", "extensions": {"a1": "x"}}, ValueError),
        ({"value": "abc", "extensions": {"a": "b-secret\x01"}}, ValueError),
    ],
)
def test_a_token_that_cannot_be_sent_is_refused(arguments: Any, error: type[Exception]) -> None:
    with pytest.raises(error) as refused:
        OAuthToken(**arguments)
    assert "b-secret" not in str(refused.value)


def test_nothing_shows_the_token(handler: Handler) -> None:
    credentials = OAuthBearer("secret-token", {"a": "b-secret"})
    credentials.prepare(handler, LIMIT)
    assert "secret" not in f"{credentials!r} {OAuthToken('secret-token', extensions={'a': 'secret'})!r}"
    with pytest.raises(TypeError, match="a function or a str, not int"):
        OAuthBearer(5)  # type: ignore[arg-type]


def ready_token() -> str:
    return "-".join(["held", "token"])


def test_credentials_travel_without_their_token(handler: Handler) -> None:
    source = OidcClientCredentials("https://idp.test/token", "client", "b-secret")
    credentials = OAuthBearer(source, {"a": "b"})
    copied = pickle.loads(pickle.dumps(credentials))
    assert copied == credentials
    ready = OAuthBearer(ready_token)
    assert ready.prepare(handler, LIMIT)
    assert ready_token().encode() not in pickle.dumps(ready)
    assert "b-secret" not in repr(copied)
    assert repr(copied) == "<OAuthBearer token=<OidcClientCredentials https://idp.test/token client_id='client'>>"


# -- the endpoint ------------------------------------------------------------------------------------------------------


def credentials_of(endpoint: TokenEndpoint, **options: Any) -> OidcClientCredentials:
    return OidcClientCredentials(endpoint.url, endpoint.client_id, endpoint.client_secret, **options)


@pytest.mark.parametrize("urlencode", [False, True])
def test_an_endpoint_gives_a_token(urlencode: bool) -> None:
    with TokenEndpoint(lambda user, seconds: f"{user}-{seconds}") as endpoint:
        token = credentials_of(endpoint, scope="a b", parameters={"audience": "kafka"}, urlencode=urlencode)()
        assert token == OAuthToken("alice-300", lifetime_s=300.0)
        form = {"grant_type": "client_credentials", "scope": "a b", "audience": "kafka"}
        assert [asked.form for asked in endpoint.asked] == [form]


@pytest.mark.parametrize(
    ("status", "error"),
    [
        (302, SaslAuthenticationFailed),
        (400, SaslAuthenticationFailed),
        (401, SaslAuthenticationFailed),
        (429, TokenUnavailableError),
        (503, TokenUnavailableError),
    ],
)
def test_refusals_of_the_endpoint(status: int, error: type[KafkaException]) -> None:
    with TokenEndpoint(lambda user, seconds: "abc") as endpoint:
        said = {"error": "invalid_client", "error_description": f"not {endpoint.client_secret}, {jwt()}"}
        endpoint.fail(status, json.dumps(said).encode())
        with pytest.raises(
            error, match=rf"/token answers {status}: invalid_client: not \[secret\], \[token\]"
        ) as refused:
            credentials_of(endpoint)()
        assert endpoint.client_secret not in str(refused.value)
        assert refused.value.retriable == (error is TokenUnavailableError)


@pytest.mark.parametrize(
    "body",
    [
        *(b"", b"{}", b"[]", b"\xff", b'{"access_token": 5}', b'{"access_token": "a b"}', b"[" * 100_000),
        b'{"access_token": "abc", "expires_in": 1%s}' % (b"0" * 400),
    ],
)
def test_nonsense_of_the_endpoint(body: bytes) -> None:
    with TokenEndpoint(lambda user, seconds: "abc") as endpoint:
        endpoint.fail(200, body)
        with pytest.raises(TokenUnavailableError, match="answers without a token"):
            credentials_of(endpoint)()


def test_an_endpoint_that_is_not_there_or_does_not_answer() -> None:
    with TokenEndpoint(lambda user, seconds: "abc") as endpoint:
        endpoint.hang(LIMIT)
        with pytest.raises(TokenUnavailableError, match="does not answer: timed out"):
            credentials_of(endpoint, timeout_s=0.1)()
        source = credentials_of(endpoint)
    with pytest.raises(TokenUnavailableError, match="does not answer: .*refused"):
        source()


@pytest.mark.parametrize("status", [200, 400])
@pytest.mark.parametrize("part", ["status", "header", "body"])
def test_an_endpoint_that_drips_is_given_up_in_time(status: int, part: str) -> None:
    """Each byte comes in time; all of them never would."""
    begins = {
        "status": "",
        "header": f"HTTP/1.1 {status} No\r\n",
        "body": f"HTTP/1.1 {status} No\r\nContent-Length: 999\r\n\r\n",
    }
    ended = threading.Event()

    def serve() -> None:
        peer, _ = listener.accept()
        with peer:
            peer.recv(65536)
            try:
                peer.sendall(begins[part].encode())
                while not ended.wait(0.02):
                    peer.sendall(b"x")
            except OSError:
                pass

    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = threading.Thread(target=serve)
        server.start()
        source = OidcClientCredentials(f"http://127.0.0.1:{listener.getsockname()[1]}/token", "c", "s", timeout_s=0.3)
        stop = threading.Timer(LIMIT, ended.set)
        stop.start()
        try:
            with pytest.raises(KafkaException):
                source()
            assert not ended.is_set()
        finally:
            stop.cancel()
            stop.join()
            ended.set()
            server.join(LIMIT)


@pytest.mark.parametrize(
    "answer", [b"no http at all\r\n\r\n", b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"]
)
def test_an_endpoint_that_speaks_no_http_is_named(answer: bytes) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            peer, _ = listener.accept()
            with peer:
                peer.recv(65536)
                peer.sendall(answer)

        server = threading.Thread(target=serve)
        server.start()
        source = OidcClientCredentials(f"http://127.0.0.1:{listener.getsockname()[1]}/token", "c", "s", timeout_s=LIMIT)
        with pytest.raises(TokenUnavailableError, match="does not answer"):
            source()
        server.join(LIMIT)


@pytest.mark.parametrize("urlencode", [False, True])
def test_an_endpoint_that_repeats_the_request_shows_no_secret(urlencode: bool) -> None:
    with TokenEndpoint(lambda user, seconds: "abc") as endpoint:
        source = credentials_of(endpoint, urlencode=urlencode)
        source()
        sent = endpoint.asked[-1].headers["authorization"].removeprefix("Basic ")
        endpoint.fail(400, json.dumps({"error": "invalid_client", "error_description": f"not {sent} here"}).encode())
        with pytest.raises(SaslAuthenticationFailed, match=r"not \[secret\] here") as caught:
            source()
    assert sent not in str(caught.value)


def test_a_moment_s_failure_of_the_endpoint_is_got_over(handler: Handler) -> None:
    with TokenEndpoint(lambda user, seconds: "abc") as endpoint:
        endpoint.fail(503, times=oauth.ATTEMPTS - 1)
        assert OAuthBearer(credentials_of(endpoint)).prepare(handler, LIMIT)
        assert len(endpoint.asked) == oauth.ATTEMPTS
        endpoint.fail(401)
        with pytest.raises(SaslAuthenticationFailed):
            OAuthBearer(credentials_of(endpoint)).prepare(handler, LIMIT)
        assert len(endpoint.asked) == oauth.ATTEMPTS + 1  # a refusal is not tried again


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("idp.test/token", "begins with https"),
        ("file:///etc/passwd", "begins with https"),
        ("https://me:secret@idp.test/", "must not contain a user"),
    ],
)
def test_an_address_that_is_none_is_refused(url: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason) as refused:
        OidcClientCredentials(url, "client", "b-secret")
    assert "secret" not in str(refused.value).replace("client_secret", "")


# -- over connections --------------------------------------------------------------------------------------------------


def served(accepted: Callable[[str], bool]) -> dict[str, Callable[[], Callable[[bytes], bytes]]]:
    """Return a broker's OAUTHBEARER: it takes these tokens."""

    def begin() -> Callable[[bytes], bytes]:
        def step(message: bytes) -> bytes:
            token = message.partition(b"Bearer ")[2].partition(b"\x01")[0].decode()
            if not accepted(token):
                raise Refused('{"status":"invalid_token"}')
            return b""

        return step

    return {"OAUTHBEARER": begin}


def test_a_client_logs_in_with_the_endpoint_s_token(handler: Handler) -> None:
    with (
        TokenEndpoint(lambda user, seconds: user) as endpoint,
        SaslBroker(served(lambda token: token == "alice")) as broker,
    ):
        with KafkaClient(broker.hosts, handler=handler, sasl=OAuthBearer(credentials_of(endpoint))) as client:
            assert client.brokers
        assert len(endpoint.given) == 1


def test_a_client_says_at_once_that_there_is_no_token(handler: Handler) -> None:
    with SaslBroker(served(lambda token: False)) as broker:
        with pytest.raises(SaslAuthenticationFailed, match="invalid_token"):
            KafkaClient(broker.hosts, handler=handler, sasl=OAuthBearer("abc"))

        def fail() -> str:
            raise OSError("no route")

        with pytest.raises(TokenUnavailableError, match=r"fail\(\) gave no token: OSError: no route"):
            KafkaClient(broker.hosts, handler=handler, sasl=OAuthBearer(fail))


def test_other_people_s_words_steer_no_terminal() -> None:
    assert redacted("no\x1b[2J\r\n way\u202e\x00 eyJ" + "a" * 20) == "no[2J way [token]"
