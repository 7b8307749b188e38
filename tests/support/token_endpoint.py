"""A token endpoint on 127.0.0.1, as OAUTHBEARER's client credentials grant wants one, with failures on demand.

with TokenEndpoint(secure_kafka.token) as endpoint:
    endpoint.url, endpoint.client_id, endpoint.client_secret
    endpoint.fail(500, times=2)
"""

from __future__ import annotations

import base64
import json
import ssl
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import NamedTuple
from urllib.parse import parse_qs, quote_plus

#: Makes the token of a user: its name, and seconds until it expires.
MakeToken = Callable[[str, float], str]


class Asked(NamedTuple):
    """One request to the endpoint.

    :param method: GET or POST
    :param form: the fields of its body
    :param headers: by name in lower case
    """

    method: str
    path: str
    form: dict[str, str]
    headers: dict[str, str]


class Answer(NamedTuple):
    """An answer that is given in the place of a token.

    :param after_s: seconds until it is given
    """

    status: int
    body: bytes
    after_s: float = 0


class TokenEndpoint:
    """Give tokens to one client, by POST to `/token`, and the public key of their issuer, by GET of `/jwks`.

    :param token: makes a token; `KafkaCluster.token`, for brokers that take it
    :param subject: name of the user whom the tokens are for
    :param lifetime_s: of each token
    :param jwks: what `/jwks` gives; None: it is not found
    :param tls: speak https
    """

    def __init__(
        self,
        token: MakeToken,
        subject: str = "alice",
        lifetime_s: float = 300,
        jwks: str | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self.client_id = "client-of-tests"
        self.client_secret = "Secret/of+the client=9d3a"
        self.subject = subject
        self.lifetime_s = lifetime_s
        #: Requests so far.
        self.asked: list[Asked] = []
        #: Tokens given so far.
        self.given: list[str] = []
        self.scheme = "http" if tls is None else "https"
        self._token = token
        self._jwks = jwks
        self._failures: list[Answer] = []
        self._lock = threading.Lock()
        self._closing = threading.Event()
        self._server = _Server(self)
        if tls is not None:
            self._server.socket = tls.wrap_socket(self._server.socket, server_side=True, do_handshake_on_connect=False)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), name="token-endpoint")

    @property
    def url(self) -> str:
        """Return the address of the token endpoint."""
        return f"{self.scheme}://127.0.0.1:{self._server.server_port}/token"

    @property
    def jwks_url(self) -> str:
        """Return the address of the issuer's public key."""
        return f"{self.scheme}://127.0.0.1:{self._server.server_port}/jwks"

    def __enter__(self) -> TokenEndpoint:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._closing.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(10)

    def fail(self, status: int = 500, body: bytes = b'{"error": "server_error"}', times: int = 1) -> None:
        """Answer the next requests for a token with an error.

        :param status: of HTTP; 200 with a body of nonsense is an error, too
        :param times: how many requests
        """
        self._failures += [Answer(status, body)] * times

    def hang(self, after_s: float = 60, times: int = 1) -> None:
        """Answer the next requests for a token after some seconds only, or never, if the endpoint closes before."""
        self._failures += [Answer(503, b"", after_s)] * times

    def work(self) -> None:
        """Answer as it should again."""
        self._failures.clear()

    def answer(self, asked: Asked) -> Answer:
        """Return the answer to a request."""
        with self._lock:
            self.asked.append(asked)
            if asked.path == "/jwks" and self._jwks is not None:
                return Answer(200, self._jwks.encode())
            if asked.path != "/token" or asked.method != "POST":
                return Answer(404, b"")
            failure = self._failures.pop(0) if self._failures else None
        if failure is not None:
            if failure.after_s:
                self._closing.wait(failure.after_s)
            return failure
        if asked.form.get("grant_type") != "client_credentials":
            return _refusal(400, "unsupported_grant_type")
        if not _is_client(asked, self.client_id, self.client_secret):
            return _refusal(401, "invalid_client")
        token = self._token(self.subject, self.lifetime_s)
        self.given.append(token)
        told = {"access_token": token, "token_type": "Bearer", "expires_in": int(self.lifetime_s)}
        if scope := asked.form.get("scope"):
            told["scope"] = scope
        return Answer(200, json.dumps(told).encode())


class _Server(ThreadingHTTPServer):
    # Closing waits for the threads of requests: none is left behind.
    daemon_threads = False

    def __init__(self, endpoint: TokenEndpoint) -> None:
        self.endpoint = endpoint
        super().__init__(("127.0.0.1", 0), _Request)

    def handle_error(self, request: object, client_address: object) -> None:
        # A client that gave up, or does not trust the certificate, is what the tests want.
        del request, client_address


class _Request(BaseHTTPRequestHandler):
    server: _Server
    # A client that sends nothing holds up no closing.
    timeout = 5

    def do_POST(self) -> None:
        self._answer("POST")

    def do_GET(self) -> None:
        self._answer("GET")

    def log_message(self, format: str, *args: object) -> None:
        del format, args

    def _answer(self, method: str) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0))).decode()
        form = {name: values[0] for name, values in parse_qs(body).items()}
        headers = {name.lower(): value for name, value in self.headers.items()}
        answer = self.server.endpoint.answer(Asked(method, self.path, form, headers))
        self.send_response(answer.status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(answer.body)))
        self.end_headers()
        self.wfile.write(answer.body)


def _refusal(status: int, error: str) -> Answer:
    return Answer(status, json.dumps({"error": error, "error_description": f"refused: {error}"}).encode())


def _is_client(asked: Asked, name: str, secret: str) -> bool:
    scheme, _, encoded = asked.headers.get("authorization", "").partition(" ")
    if scheme.lower() != "basic":
        return (asked.form.get("client_id"), asked.form.get("client_secret")) == (name, secret)
    # RFC 6749, 2.3.1, encodes both as form fields first; many clients do not, and many endpoints take either.
    told = base64.b64decode(encoded).decode()
    return told in (f"{name}:{secret}", f"{quote_plus(name)}:{quote_plus(secret)}")
