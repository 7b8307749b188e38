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
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, NamedTuple
from urllib.parse import parse_qs, quote_plus

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature
from cryptography.hazmat.primitives.serialization import load_pem_public_key

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
        #: The key that assertions must be signed by (PEM); None: it takes none.
        self.public_key: bytes | None = None
        #: The claims and headers of the assertions that it has taken.
        self.assertions: list[dict[str, Any]] = []
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
        refused = self._refused(asked)
        if refused is not None:
            return refused
        token = self._token(self.subject, self.lifetime_s)
        self.given.append(token)
        told = {"access_token": token, "token_type": "Bearer", "expires_in": int(self.lifetime_s)}
        if scope := asked.form.get("scope"):
            told["scope"] = scope
        return Answer(200, json.dumps(told).encode())

    def _refused(self, asked: Asked) -> Answer | None:
        """Return why a request gets no token; None: it gets one."""
        grant, form = asked.form.get("grant_type"), asked.form
        if grant == JWT_BEARER:
            return None if self._takes(form.get("assertion", "")) else _refusal(400, "invalid_grant")
        if grant != "client_credentials":
            return _refusal(400, "unsupported_grant_type")
        if form.get("client_assertion_type") == CLIENT_ASSERTION and "authorization" not in asked.headers:
            is_client = form.get("client_id", self.client_id) == self.client_id and self._takes(
                form["client_assertion"]
            )
        else:
            is_client = _is_client(asked, self.client_id, self.client_secret)
        return None if is_client else _refusal(401, "invalid_client")

    def _takes(self, assertion: str) -> bool:
        """Return whether an assertion is of this client, for this endpoint, signed, of now, and new."""
        try:
            header, claims = verified(assertion, self.public_key or b"")
        except (ValueError, InvalidSignature):
            return False
        now = time.time()
        used = [one.get("jti") for one in self.assertions if "jti" in one]
        if (claims["sub"], claims["aud"]) != (self.client_id, self.url) or claims.get("jti") in used:
            return False
        self.assertions.append({**header, **claims})
        return bool(claims["nbf"] <= now < claims["exp"])


#: The names of RFC 7523.
JWT_BEARER = "urn:ietf:params:oauth:grant-type:jwt-bearer"
CLIENT_ASSERTION = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"


def verified(jwt: str, public_key: bytes) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return header and claims of a JWT.

    :param public_key: PEM
    :raises InvalidSignature: another key has signed it
    :raises ValueError: it is no JWT
    """
    signed, _, signature = jwt.rpartition(".")
    header, claims = (json.loads(_decoded(part)) for part in signed.split("."))
    key, raw, algorithm = load_pem_public_key(public_key), _decoded(signature), header["alg"]
    digest = {"256": hashes.SHA256(), "384": hashes.SHA384(), "512": hashes.SHA512()}[algorithm[2:]]
    if algorithm.startswith("ES"):
        assert isinstance(key, ec.EllipticCurvePublicKey)
        half = len(raw) // 2
        numbers = int.from_bytes(raw[:half], "big"), int.from_bytes(raw[half:], "big")
        key.verify(encode_dss_signature(*numbers), signed.encode(), ec.ECDSA(digest))
    else:
        assert isinstance(key, rsa.RSAPublicKey)
        pss = padding.PSS(padding.MGF1(digest), digest.digest_size)
        key.verify(raw, signed.encode(), pss if algorithm.startswith("PS") else padding.PKCS1v15(), digest)
    return header, claims


def _decoded(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


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
