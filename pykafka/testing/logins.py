"""`Login`: how far one connection is with its login by SASL, and what it may ask meanwhile."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykafka.protocol import wire
from pykafka.testing.sasl import LoginRefusedError

if TYPE_CHECKING:
    from pykafka.testing.sasl import Exchange, Sasl
    from pykafka.testing.state import ClusterState

_HANDSHAKE = wire.SaslHandshakeRequest.api_key
_AUTHENTICATE = wire.SaslAuthenticateRequest.api_key
#: How soon a client may log in again (ms).
_LEAST_MS = 1000


class Login:
    """The login of one connection. The holder of the state's lock calls its methods.

    :param state: of the cluster
    :param sasl: how its brokers ask for logins
    """

    def __init__(self, state: ClusterState, sasl: Sasl) -> None:
        self.sasl = sasl
        #: Who has logged in; None until then.
        self.user: str | None = None
        #: How long the session lasts (ms), from the login on; 0: as long as the connection.
        self.lifetime_ms = 0
        self._state = state
        self._exchange: Exchange | None = None
        self._is_bare = False
        self._mechanism = ""
        self._is_changed = False
        self._ends_ms: int | None = None
        self._renewed_ms: int | None = None
        self._has_versions = False

    @property
    def awaits_token(self) -> bool:
        """Whether the next frame is a token, without a request around it, as in Kafka 0.10."""
        return self._exchange is not None and self._is_bare

    @property
    def is_under_way(self) -> bool:
        """Whether the next request has to be SaslAuthenticate."""
        return self._exchange is not None

    def admits(self, key: int) -> bool:
        """Return whether the next request may have an API; False: it is refused, and ends the connection.

        :param key: of the API
        :raises LoginRefusedError: the broker ends the connection without an answer
        """
        if self._is_changed:
            raise LoginRefusedError("another mechanism than that of the login before is not possible")
        if self._exchange is not None:
            return key == _AUTHENTICATE
        if key == _HANDSHAKE:
            return True
        if self.user is not None:
            if self._ends_ms is not None and self._state.now_ms() > self._ends_ms:
                raise LoginRefusedError("the session has ended")
        elif key != wire.ApiVersionsRequest.api_key or self._has_versions:
            raise LoginRefusedError("a login has to come first")
        self._has_versions = True
        return True

    def may_begin(self) -> bool:
        """Return whether the client may log in now: for the first time, or again while its session ends some time."""
        now_ms = self._state.now_ms()
        if self.user is None:
            return True
        if self._ends_ms is None or (self._renewed_ms is not None and now_ms < self._renewed_ms + _LEAST_MS):
            return False
        self._renewed_ms = now_ms
        return True

    def begin(self, mechanism: str, *, is_bare: bool) -> None:
        """Begin a login.

        :param mechanism: that is offered
        :param is_bare: whether tokens follow without requests around them
        """
        nonce = self._state.new_uuid().hex
        self._exchange = self.sasl.exchange(mechanism, nonce, self._state.now_ms())
        self._is_bare = is_bare
        if self.user is None:
            self._mechanism = mechanism
        elif mechanism != self._mechanism:
            self._is_changed = True

    def step(self, token: bytes) -> bytes:
        """Return the answer to a token.

        :raises LoginRefusedError: the credentials are wrong
        """
        exchange = self._exchange
        if exchange is None:
            raise ValueError("no login is under way: ask `is_under_way` first")
        answer = exchange.step(token)
        if exchange.user is not None:
            self._end(exchange.user, exchange.expires_ms)
        return answer

    def _end(self, user: str, expires_ms: int | None) -> None:
        if self.user not in (None, user):
            raise LoginRefusedError(f"Cannot change principals during re-authentication from {self.user} to {user}")
        now_ms = self._state.now_ms()
        ends = [] if expires_ms is None else [expires_ms]
        if self.sasl.max_reauth_ms:
            ends.append(now_ms + self.sasl.max_reauth_ms)
        self._ends_ms = min(ends, default=None)
        self.lifetime_ms = 0 if self._ends_ms is None else self._ends_ms - now_ms
        self.user, self._exchange = user, None
