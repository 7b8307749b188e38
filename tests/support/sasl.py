"""A scripted broker that asks for a login by SASL; the broker's side of each mechanism, written from its RFC."""

from __future__ import annotations

import base64
import hashlib
import hmac
import socket
import threading
import time
from collections.abc import Callable
from typing import Any

from pykafka.protocol import wire
from tests.support import scripted

#: How the users of these brokers prove themselves.
USERS = {"alice": "secret,of=alice", "bob": "bob-secret"}
SALT = b"a salt of tests"
ITERATIONS = 4096


class Refused(Exception):
    """The credentials are wrong."""


def plain(users: dict[str, str]) -> Callable[[bytes], bytes]:
    """Return the broker's side of one login by PLAIN."""

    def step(token: bytes) -> bytes:
        _, user, password = token.decode().split("\0")
        if users.get(user) != password:
            raise Refused("Authentication failed: Invalid username or password")
        return b""

    return step


def scram(users: dict[str, str], algorithm: str, iterations: int = ITERATIONS) -> Callable[[bytes], bytes]:
    """Return the broker's side of one login by SCRAM."""
    said: list[str] = []

    def step(token: bytes) -> bytes:
        text = token.decode()
        if not said:
            assert text.startswith("n,,")
            fields = dict(part.split("=", 1) for part in text[3:].split(","))
            said.extend([fields["n"].replace("=2C", ",").replace("=3D", "="), text[3:]])
            first = f"r={fields['r']}of-the-broker,s={base64.b64encode(SALT).decode()},i={iterations}"
            said.append(first)
            return first.encode()
        user, bare, first = said
        without, proof = text.rsplit(",p=", 1)
        message = f"{bare},{first},{without}".encode()
        salted = hashlib.pbkdf2_hmac(algorithm, users.get(user, "?").encode(), SALT, iterations)
        client_key = hmac.digest(salted, b"Client Key", algorithm)
        signature = hmac.digest(hashlib.new(algorithm, client_key).digest(), message, algorithm)
        sent = base64.b64decode(proof)
        if user not in users or bytes(a ^ b for a, b in zip(client_key, signature, strict=True)) != sent:
            raise Refused("Authentication failed during authentication due to invalid credentials")
        server_key = hmac.digest(salted, b"Server Key", algorithm)
        return b"v=" + base64.b64encode(hmac.digest(server_key, message, algorithm))

    return step


#: {mechanism: makes the broker's side of one login}
MECHANISMS: dict[str, Callable[[], Callable[[bytes], bytes]]] = {
    "PLAIN": lambda: plain(USERS),
    "SCRAM-SHA-256": lambda: scram(USERS, "sha256"),
    "SCRAM-SHA-512": lambda: scram(USERS, "sha512"),
}

#: The versions of the login's APIs by the broker's release: SaslHandshake, SaslAuthenticate.
OLD = {wire.SaslHandshakeRequest: 0}
NEW = {wire.SaslHandshakeRequest: 1, wire.SaslAuthenticateRequest: 2}


class Cut(Exception):
    """End the connection behind these bytes.

    :param sent: the bytes
    """

    def __init__(self, sent: bytes) -> None:
        super().__init__()
        self.sent = sent


class SaslBroker(scripted.ScriptedBroker):
    """A scripted broker whose connections must log in first.

    :param mechanisms: those that it offers
    :param apis: the APIs of the login: OLD or NEW
    :param lifetime_ms: of a session
    :param steps: how many tokens a login takes; None: as many as the mechanism wants
    :param bare: the mechanism whose tokens it takes without any request before, as Kafka 0.9 does; "" for none
    :param options: as of ScriptedBroker
    """

    def __init__(
        self,
        mechanisms: dict[str, Callable[[], Callable[[bytes], Any]]] | None = None,
        apis: dict[Any, int] | None = None,
        lifetime_ms: int = 0,
        steps: int | None = None,
        bare: str = "",
        **options: Any,
    ) -> None:
        super().__init__(**options)
        self.steps = steps
        self.bare = bare
        self.mechanisms: dict[str, Callable[[], Callable[[bytes], Any]]] = (
            MECHANISMS if mechanisms is None else mechanisms
        )
        self.apis = NEW if apis is None else apis
        self.lifetime_ms = lifetime_ms
        #: How many logins have succeeded, on whatever connection; and how many of them on a connection that had one.
        self.logins = 0
        self.renewals = 0
        #: How many connections it has ended as their sessions were over.
        self.expired = 0
        #: What is to be sent instead of an answer of the login; None hangs up.
        self.damage_login: Callable[[bytes], bytes | None] = lambda frame: frame
        #: Whether a login never comes to its end.
        self.endless = False
        #: Set when a connection has ended.
        self.left = threading.Event()

    def _serve(self, connection: socket.socket) -> None:
        try:
            self._serve_one(connection)
        finally:
            self.left.set()

    def _serve_one(self, connection: socket.socket) -> None:
        with connection, connection.makefile("rb") as stream:
            login = _ServedLogin(self)
            try:
                while len(size := stream.read(4)) == 4:
                    frame = stream.read(int.from_bytes(size, "big"))
                    key = int.from_bytes(frame[:2], "big")
                    if login.done and login.over and key != wire.SaslHandshakeRequest.api_key:
                        self.expired += 1
                        return
                    if login.done and (key != wire.SaslHandshakeRequest.api_key or login.bare):
                        answer = self._answer(frame)
                    else:
                        login.done = False
                        if not login.takes_token and self.closes_on(key, int.from_bytes(frame[2:4], "big")):
                            return
                        answer = login.answer(frame)
                        answer = None if answer is None else self.damage_login(answer)
                    if answer is not None:
                        connection.sendall(answer)
                    if answer is None or login.refused:
                        return
            except Cut as cut:
                connection.sendall(cut.sent)
            except OSError:
                return


class _ServedLogin:
    """The login of one connection."""

    def __init__(self, broker: SaslBroker) -> None:
        self._broker = broker
        self._step: Callable[[bytes], Any] | None = None
        self._steps = 0
        self._mechanism = broker.bare
        self.done = False
        self.bare = bool(broker.bare)
        if self.bare:
            self._step = broker.mechanisms[broker.bare]()
        self.refused = False
        self._before = False
        self._since = 0.0

    @property
    def takes_token(self) -> bool:
        """Whether the next frame is a bare token."""
        return self._step is not None and self.bare

    @property
    def over(self) -> bool:
        """Whether the session has ended."""
        lifetime_ms = self._broker.lifetime_ms
        return bool(lifetime_ms) and time.monotonic() > self._since + lifetime_ms / 1000

    def answer(self, frame: bytes) -> bytes | None:
        if self._step is not None and self.bare:
            try:
                token = self._take(frame)
            except Refused:
                return None
            return b"" if token is None else _framed(token)
        key, version = int.from_bytes(frame[:2], "big"), int.from_bytes(frame[2:4], "big")
        client_id = int.from_bytes(frame[8:10], "big")
        self._broker.client_ids.add(frame[10 : 10 + client_id].decode())
        request_cls = next(
            (
                cls
                for cls in (wire.ApiVersionsRequest, wire.SaslHandshakeRequest, wire.SaslAuthenticateRequest)
                if cls.api_key == key
            ),
            None,
        )
        if request_cls is None:
            return None
        if request_cls is wire.ApiVersionsRequest and version > scripted.VERSIONS[request_cls]:
            return _framed(frame[4:8] + wire.ApiVersionsResponse(error_code=35).encode(0))
        flexible = request_cls.is_flexible(version)
        request = request_cls.decode(frame[10 + client_id + flexible :], version)
        # of ApiVersions alone, the answer's header has no tagged fields in any version
        tags = bytes(flexible and request_cls is not wire.ApiVersionsRequest)
        return _framed(frame[4:8] + tags + self._respond(request, version).encode(version))

    def _respond(self, request: Any, version: int) -> Any:
        if isinstance(request, wire.ApiVersionsRequest):
            known = {**scripted.VERSIONS, **self._broker.apis}
            keys = [
                wire.ApiVersionsResponse.ApiVersion(api_key=cls.api_key, min_version=0, max_version=version)
                for cls, version in known.items()
            ]
            return wire.ApiVersionsResponse(api_keys=keys)
        if isinstance(request, wire.SaslHandshakeRequest):
            offered = self._broker.mechanisms
            if request.mechanism not in offered:
                self.refused = True
                return wire.SaslHandshakeResponse(error_code=33, mechanisms=sorted(offered))
            self._step = offered[request.mechanism]()
            self._mechanism = request.mechanism
            self._steps = 0
            self.bare = version == 0
            return wire.SaslHandshakeResponse(mechanisms=sorted(offered))
        if self._step is None:
            self.refused = True
            return wire.SaslAuthenticateResponse(error_code=34)
        try:
            token = self._take(bytes(request.auth_bytes))
        except Refused as error:
            self.refused = True
            return wire.SaslAuthenticateResponse(error_code=58, error_message=str(error))
        lifetime_ms = self._broker.lifetime_ms if self.done else 0
        return wire.SaslAuthenticateResponse(auth_bytes=token or b"", session_lifetime_ms=lifetime_ms)

    def _take(self, token: bytes) -> bytes | None:
        assert self._step is not None
        answer: bytes | None = self._step(token)
        self._steps += 1
        self.done = self._steps == (self._broker.steps or (2 if self._mechanism.startswith("SCRAM") else 1))
        if self._broker.endless:
            self.done = False
        if self.done:
            self._broker.logins += 1
            self._broker.renewals += self._before
            self._before = True
            self._since = time.monotonic()
            self._step = None
        return answer


def _framed(body: bytes) -> bytes:
    return len(body).to_bytes(4, "big") + body
