"""`Login`: one login by SASL as a table of requests and answers, and `log_in`, which does its I/O on a new connection.

Brokers since 0.10 take ApiVersions before a login, which tells what else they take: SaslHandshake 1 and SaslAuthenticate from
1.0 on; before, SaslHandshake 0 and then the bare tokens, each behind its length.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, ParamSpec, TypeGuard, TypeVar

from pykafka.exceptions import (
    CorrelationIdError,
    IllegalSaslState,
    KafkaException,
    ProtocolClientError,
    SaslAuthenticationFailed,
    SaslRequiredError,
    SocketDisconnectedError,
    TokenUnavailableError,
    UnsupportedSaslMechanism,
    UnsupportedVersion,
    error_for,
)
from pykafka.network.frames import FrameReader
from pykafka.protocol import versions, wire
from pykafka.protocol.schema import Request, decode_response, encode_request
from pykafka.security import explain_refusal
from pykafka.security.mechanism import SAID_MAX, for_host, in_one_line, redacted

if TYPE_CHECKING:
    from pykafka.handlers.base import Handler, Stream
    from pykafka.protocol.versions import ApiRanges
    from pykafka.security import Mechanism

P = ParamSpec("P")
R = TypeVar("R")

#: Errors of a new connection's login. The request that wanted the connection was not sent, and the client may be let in again
#: while it runs. (A client that starts with such credentials is refused at once.)
LOGIN_ERRORS = (
    SaslAuthenticationFailed,
    UnsupportedSaslMechanism,
    IllegalSaslState,
    SaslRequiredError,
    TokenUnavailableError,
)


def is_answer(error: object) -> TypeGuard[ProtocolClientError]:
    """Return whether an error is a broker's answer to a request; that of a login is none, as the request was not sent."""
    return isinstance(error, ProtocolClientError) and not isinstance(error, LOGIN_ERRORS)


#: A mechanism takes two or three tokens; a peer that asks for more than this would keep the client busy for ever.
TOKENS_MAX = 20
#: A re-authentication is due when between these parts of the session have passed; where it lies is drawn for each session.
RENEW_FROM = 0.85
RENEW_TO = 0.95
#: But at least this long before the session's end (s), or this part of it where sessions are short: the broker refuses requests
#: that it reads later.
RENEW_MARGIN_S = 2.0
RENEW_MARGIN = 0.3
#: Brokers refuse a re-authentication that begins within a second of the last one's beginning (s).
RENEW_PAUSE_S = 1.01


#: What a broker is taken to have that closes the connection on the question for its versions.
ASSUMED: ApiRanges = {wire.SaslHandshakeRequest.api_key: (0, 1), wire.SaslAuthenticateRequest.api_key: (0, 0)}


class LowerLogin(Exception):
    """The broker has closed the connection on a request of a login, and takes it perhaps in a lower version.

    :param ranges: the versions of the login's APIs to use instead, over a new connection
    """

    def __init__(self, ranges: ApiRanges) -> None:
        super().__init__("the broker closed the connection on a request of the login")
        self.ranges = ranges


class Peer(NamedTuple):
    """The broker of a login.

    :param host: its name, as the client connects to it
    :param address: host and port, for errors
    :param client_id: how its logs and quotas know this client
    :param origin: the end of errors' sentences where the cluster named this address
    """

    host: str
    address: str
    client_id: str
    origin: str = ""


class Ask:
    """One request of a login, as a RequestHandler sends it.

    :param request: the message; None for a bare token
    :param version: of its API
    :param client_id: how the broker's logs know this client
    :param token: the bare token
    :param has_answer: whether the broker answers it
    """

    __slots__ = ("_client_id", "_token", "has_answer", "request", "version")

    def __init__(
        self, request: Request[Any] | None, version: int, client_id: str, token: bytes = b"", has_answer: bool = True
    ) -> None:
        self.has_answer = has_answer
        self.request = request
        self.version = version
        self._client_id = client_id
        self._token = token

    def encode(self, correlation_id: int) -> Sequence[bytes | bytearray | memoryview]:
        """Return the frame as buffers, its length first."""
        if self.request is None:
            buffers: Sequence[bytes | bytearray | memoryview] = [len(self._token).to_bytes(4, "big"), self._token]
        else:
            buffers = encode_request(self.request, self.version, correlation_id, self._client_id)
        # A view, whose text has no contents: reports of errors show the locals of the functions that send it.
        return [memoryview(b"".join(buffers))]

    def throttle(self, frame: memoryview) -> None:
        """Return None: brokers do not throttle logins by quotas that clients must heed."""


class Login:
    """One login, without I/O: `first` and `answered` return the request to send; None when the login is complete.

    Both may take long where the mechanism `waits`.

    :param mechanism: the credentials
    :param peer: the broker
    :param ranges: its API versions; None asks for them first
    :param lowered: versions of the login's APIs to use instead, since the broker closes the connection on higher ones
    """

    def __init__(
        self, mechanism: Mechanism, peer: Peer, ranges: ApiRanges | None = None, lowered: ApiRanges | None = None
    ) -> None:
        self._mechanism = mechanism
        self._peer = peer
        self._lowered: ApiRanges = lowered or {}
        if ranges is not None:
            ranges = {**ranges, **self._lowered}
        elif ASSUMED.keys() <= self._lowered.keys():
            ranges = self._lowered
        #: The broker's API versions, once they are known.
        self.ranges = ranges
        #: How long the session lasts (ms); 0: until the connection ends.
        self.lifetime_ms = 0
        #: The step of the login: "versions", "handshake", "tokens" or "bare tokens".
        self.stage = "versions"
        self._authenticate_version = 0
        self._tokens = 0
        self._exchange = mechanism.begin(peer.host)
        self._last: Ask | None = None

    def first(self) -> Ask | None:
        """Return the first request."""
        ranges = self.ranges
        if ranges is not None and wire.SaslHandshakeRequest.api_key in ranges:
            return self._shake_hands(ranges)
        if ranges is not None and wire.ApiVersionsRequest.api_key not in ranges and self._mechanism.name == "GSSAPI":
            self._bare = True  # Kafka 0.9
            return self._say_first()
        # Version 0: a login must not fail because the two sides have no later one in common.
        return self._ask(wire.ApiVersionsRequest(), 0)

    def answered(self, frame: memoryview) -> Ask | None:
        """Take the answer to the last request and return the next one; None: the login is complete.

        :param frame: without its length; with the correlation id, unless the stage is "bare tokens"
        :raises SaslAuthenticationFailed: the broker refuses the credentials, or has not proved itself
        :raises UnsupportedSaslMechanism: the broker offers others
        :raises IllegalSaslState: no login is possible here
        :raises KafkaException: the answer cannot be read
        """
        try:
            return _NEXT[self.stage](self, frame)
        except KafkaException as error:
            raise error.with_context(broker=self._peer.address, api=self.api) from None

    @property
    def api(self) -> str | None:
        """The API of the last request; None for a bare token."""
        request = self._last.request if self._last is not None else None
        return None if request is None else type(request).__name__.removesuffix("Request")

    @property
    def mechanism(self) -> Mechanism:
        """The credentials."""
        return self._mechanism

    def _ask(self, request: Request[Any], version: int) -> Ask:
        self._last = Ask(request, version, self._peer.client_id)
        return self._last

    def _on_versions(self, frame: memoryview) -> Ask | None:
        response = decode_response(wire.ApiVersionsRequest, 0, frame)[1]
        if response.error_code:
            raise error_for(response.error_code)
        self.ranges = {**versions.checked(response, 0), **self._lowered}
        return self._shake_hands(self.ranges)

    def _shake_hands(self, ranges: ApiRanges) -> Ask:
        handshake = versions.common_range(wire.SaslHandshakeRequest, ranges)
        if handshake is None:
            raise UnsupportedVersion(
                "the broker has no login by SASL that this client knows (SaslHandshake); it needs Kafka 0.10 or later",
                broker=self._peer.address,
                api="SaslHandshake",
            )
        authenticate = versions.common_range(wire.SaslAuthenticateRequest, ranges)
        self.stage = "handshake"
        self._bare = handshake[1] < 1 or authenticate is None
        if authenticate is not None:
            self._authenticate_version = authenticate[1]
        request = wire.SaslHandshakeRequest(mechanism=self._mechanism.name)
        return self._ask(request, 0 if self._bare else handshake[1])

    def _on_handshake(self, frame: memoryview) -> Ask | None:
        assert self._last is not None
        response = decode_response(wire.SaslHandshakeRequest, self._last.version, frame)[1]
        if response.error_code:
            raise self._refused(response)
        return self._say_first()

    def _say_first(self) -> Ask | None:
        self.stage = "bare tokens" if self._bare else "tokens"
        return self._send(self._exchange.step(None))

    def _refused(self, response: wire.SaslHandshakeResponse) -> KafkaException:
        name = self._mechanism.name
        if response.error_code == UnsupportedSaslMechanism.ERROR_CODE:
            offered = ", ".join(sorted(response.mechanisms)) or "none"
            return UnsupportedSaslMechanism(
                f"the broker does not offer {name} here; it offers: {in_one_line(offered, SAID_MAX)}{self._peer.origin}"
            )
        if response.error_code == IllegalSaslState.ERROR_CODE:
            return IllegalSaslState(
                f"this listener takes no login by SASL, and {name} was to be used: connect to the broker's SASL "
                f"listener, or leave sasl out{self._peer.origin}"
            )
        return error_for(response.error_code)

    def _send(self, token: bytes | None) -> Ask | None:
        if token is None:
            if not self._exchange.complete:
                raise SaslAuthenticationFailed(
                    f"the login by {self._mechanism.name} came to no end: the broker has not proved itself"
                )
            return None
        self._tokens += 1
        if self._tokens > TOKENS_MAX:
            raise SaslAuthenticationFailed(
                f"this client ends the login by {self._mechanism.name}: the broker asks for more than {TOKENS_MAX} tokens"
            )
        if self._bare:
            silent = self._exchange.complete and self._exchange.ends_silently
            self._last = Ask(None, 0, self._peer.client_id, token, has_answer=not silent)
            return self._last
        return self._ask(wire.SaslAuthenticateRequest(auth_bytes=token), self._authenticate_version)

    def _on_authenticate(self, frame: memoryview) -> Ask | None:
        response = decode_response(wire.SaslAuthenticateRequest, self._authenticate_version, frame)[1]
        if response.error_code == SaslAuthenticationFailed.ERROR_CODE:
            said = self._said(response.error_message) or "without a reason"
            raise SaslAuthenticationFailed(
                f"the broker refuses the login of {self._mechanism!r}: {said}; {self._mechanism.remedy}"
            )
        if response.error_code:
            raise error_for(response.error_code, self._said(response.error_message))
        if response.session_lifetime_ms > 0:
            self.lifetime_ms = response.session_lifetime_ms
        return self._on_bare_token(response.auth_bytes)

    def _said(self, text: str | None) -> str:
        """Return a broker's own words for an error: some repeat what they were sent."""
        return redacted(text or "", *getattr(self._exchange, "secrets", ()))

    def _on_bare_token(self, token: bytes | memoryview) -> Ask | None:
        if self._exchange.complete:
            return None
        return self._send(self._exchange.step(bytes(token)))

    def lower(self) -> ApiRanges | None:
        """Return the versions to try over a new connection if the broker closes this one now; None if there are none left.

        They are few: a broker may close the connection for the credentials, and count the attempts.
        """
        if self.stage == "versions" and self._last is not None:
            return ASSUMED
        if self.stage == "handshake" and not self._bare:
            return {wire.SaslHandshakeRequest.api_key: (0, 0)}
        if self.stage == "tokens" and self._tokens == 1 and self._authenticate_version:
            return {wire.SaslAuthenticateRequest.api_key: (0, 0)}
        return None

    def cut_off(self) -> KafkaException | None:
        """Return what it means that the broker closes the connection now; None if it means nothing special."""
        if self.stage != "bare tokens" or self._lowered:  # a broker since 1.0, which may be stopping
            return None
        return SaslAuthenticationFailed(
            f"the broker closed the connection at the login of {self._mechanism!r}, as brokers before 1.0 refuse credentials; "
            f"{self._mechanism.remedy}",
            broker=self._peer.address,
        )


_NEXT: dict[str, Callable[[Login, memoryview], Ask | None]] = {
    "versions": Login._on_versions,
    "handshake": Login._on_handshake,
    "tokens": Login._on_authenticate,
    "bare tokens": Login._on_bare_token,
}


class Session(NamedTuple):
    """A login that holds: what its re-authentication (KIP-368) needs.

    :param mechanism: the credentials
    :param peer: the broker
    :param ranges: its API versions
    :param renew_at: when the login is to be renewed, on the handler's clock (s); infinite: never
    :param ends_at: when the broker ends the session (s)
    :param not_before: until when the broker refuses a re-authentication (s)
    :param took: how long the login took (s)
    """

    mechanism: Mechanism
    peer: Peer
    ranges: ApiRanges
    renew_at: float = math.inf
    ends_at: float = math.inf
    not_before: float = 0.0
    took: float = 0.0


def session_of(login: Login, peer: Peer, handler: Handler, since: float) -> Session:
    """Return the session that a complete login has begun.

    :param since: when its last request was sent, on the handler's clock (s)
    """
    assert login.ranges is not None
    session = Session(login.mechanism, peer, login.ranges)
    if not login.lifetime_ms:
        return session
    seconds = login.lifetime_ms / 1000
    part = handler.random.uniform(RENEW_FROM, RENEW_TO) * seconds
    latest = seconds - min(RENEW_MARGIN_S, RENEW_MARGIN * seconds)
    return session._replace(renew_at=since + min(part, latest), ends_at=since + seconds)


def run_step(handler: Handler, mechanism: Mechanism, fn: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """Call a step of a login, off the hub where the mechanism needs long."""
    return handler.offload(fn, *args, **kwargs) if mechanism.waits else fn(*args, **kwargs)


def log_in(
    stream: Stream,
    is_tls: bool,
    mechanism: Mechanism,
    peer: Peer,
    handler: Handler,
    timeout: float,
    ranges: ApiRanges | None = None,
    wanted: Callable[[], bool] = lambda: True,
    lowered: ApiRanges | None = None,
) -> Session:
    """Log in over a new connection, on which nothing else is under way.

    :param stream: connected
    :param is_tls: whether it is encrypted
    :param mechanism: the credentials
    :param peer: the broker
    :param handler: supplies the clock, and runs what takes long
    :param timeout: for all of it (s)
    :param ranges: the broker's API versions, if they are certain; else it is asked
    :param wanted: called now and then while the credentials are waited for; False ends that
    :param lowered: versions of the login's APIs to use instead of the broker's
    :raises LowerLogin: the broker closed the connection, and lower versions are left to try over a new one
    :raises SaslAuthenticationFailed: the broker refuses the credentials, or has not proved itself
    :raises UnsupportedSaslMechanism: the broker offers others
    :raises IllegalSaslState: no login is possible here
    :raises TimeoutError, OSError, KafkaException: the connection ended, or an answer cannot be read
    """
    deadline = handler.now() + timeout
    mechanism = for_host(mechanism, peer.host)
    mechanism.prepare(handler, timeout, wanted)
    frames = FrameReader(stream, handler, 0, is_tls)
    login = run_step(handler, mechanism, Login, mechanism, peer, ranges, lowered)
    ask = run_step(handler, mechanism, login.first)
    number = 0
    since = handler.now()
    while ask is not None:
        number += 1
        since = handler.now()
        left = deadline - since
        if left <= 0:
            raise TimeoutError("timed out")
        bare = ask.request is None
        try:
            stream.send(ask.encode(number), left)
            if not ask.has_answer:
                break
            frame = frames.next(max(deadline - handler.now(), 0.0))
        except TimeoutError:
            raise
        except (OSError, SocketDisconnectedError) as error:
            named = isinstance(error, SocketDisconnectedError) and type(error) is not SocketDisconnectedError
            if named or explain_refusal(error) is not None:
                raise
            lower = None if frames.is_within_frame else login.lower()
            if lower is not None:
                raise LowerLogin(lower) from error
            meaning = login.cut_off()
            if meaning is None:
                raise
            raise meaning from error
        if not bare and int.from_bytes(frame[:4], "big", signed=True) != number:
            raise CorrelationIdError(
                "the peer answers a request of the login that this client did not send: is it a Kafka port?",
                broker=peer.address,
            )
        ask = run_step(handler, mechanism, login.answered, frame)
    return session_of(login, peer, handler, since)
