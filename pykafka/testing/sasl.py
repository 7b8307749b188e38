"""`Sasl`: how brokers ask clients to log in, with the brokers' side of PLAIN, SCRAM and OAUTHBEARER."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple, Protocol

from pykafka.exceptions import KafkaException
from pykafka.security.scram import ALGORITHMS, ITERATIONS_MIN, Scram, fields_of
from pykafka.testing.arguments import function, is_text, whole

#: The mechanisms that brokers offer if a test names none; OAUTHBEARER as well if the test checks tokens.
_BY_PASSWORD = ("PLAIN", *ALGORITHMS)
OAUTHBEARER = "OAUTHBEARER"
#: The latest end of a token that is a time (s since 1970): the largest number of ms in 64 bits.
_LATEST_S = 2**63 / 1000


class LoginRefusedError(Exception):
    """Raised when credentials are wrong; its text is what brokers answer."""


class ScramCredential(NamedTuple):
    """A password as brokers keep it.

    :param salt: of the salted password
    :param iterations: that made it
    :param salted: returns it: making it takes milliseconds, so that is done for users who log in
    """

    salt: bytes
    iterations: int
    salted: Callable[[], bytes]


class Sasl:
    """How brokers ask clients to log in by SASL (KIP-43, KIP-84, KIP-255).

    :param users: names and passwords, for PLAIN and SCRAM
    :param mechanisms: that brokers offer; None: PLAIN and SCRAM, and OAUTHBEARER if there is `check_token`
    :param check_token: of OAUTHBEARER: returns the name of a token's user, or None to refuse the token; None: tokens without a
        signature are taken, as by Kafka's default
    :param max_reauth_ms: how long a session lasts until the client has to log in again (ms); 0: as long as the connection
    :param failure_delay_ms: how long brokers wait before they answer wrong credentials (ms)
    :raises ValueError: there is no such mechanism
    """

    def __init__(
        self,
        users: Mapping[str, str] | None = None,
        *,
        mechanisms: Sequence[str] | None = None,
        check_token: Callable[[str], str | None] | None = None,
        max_reauth_ms: int = 0,
        failure_delay_ms: int = 100,
    ) -> None:
        offered = [*_BY_PASSWORD, *([OAUTHBEARER] if check_token else [])] if mechanisms is None else list(mechanisms)
        known = (*_BY_PASSWORD, OAUTHBEARER)
        if unknown := [name for name in offered if name not in known]:
            raise ValueError(f"fake brokers have no mechanism {unknown[0]}: they have {', '.join(known)}")
        self.mechanisms = offered
        whole("max_reauth_ms", max_reauth_ms)
        whole("failure_delay_ms", failure_delay_ms)
        if check_token is not None:
            function("check_token", check_token)
        self.check_token = check_token
        self.max_reauth_ms = max_reauth_ms
        self.failure_delay_ms = failure_delay_ms
        #: The passwords of PLAIN.
        self.users: dict[str, str] = {}
        #: By user and mechanism.
        self.scram: dict[tuple[str, str], ScramCredential] = {}
        for user, password in (users or {}).items():
            if not (is_text(user) and is_text(password)):
                raise ValueError(f"users has {user!r}: {password!r}: a name and a password")
            self.set_password(user, password)

    def __repr__(self) -> str:
        return f"<Sasl {', '.join(self.mechanisms)}>"

    def set_password(self, user: str, password: str | None) -> None:
        """Set the password of a user, for PLAIN and SCRAM.

        :param password: None removes the user
        """
        self.users.pop(user, None)
        for mechanism in ALGORITHMS:
            self.scram.pop((user, mechanism), None)
            if password is not None:
                salt = hashlib.sha256(f"{user} {mechanism} {password}".encode()).digest()
                salted = partial(Scram(user, password, mechanism).salted, salt, ITERATIONS_MIN)
                self.scram[user, mechanism] = ScramCredential(salt, ITERATIONS_MIN, salted)
        if password is not None:
            self.users[user] = password

    def exchange(self, mechanism: str, nonce: str, now_ms: int) -> Exchange:
        """Return the brokers' side of one login.

        :param mechanism: that is offered
        :param nonce: never used before
        :param now_ms: the cluster's time (ms since 1970): tokens expire
        """
        if mechanism == "PLAIN":
            return _Plain(self.users)
        if mechanism == OAUTHBEARER:
            return _Bearer(self.check_token, now_ms)
        return _Scram(mechanism, self.scram, nonce)


class Exchange(Protocol):
    """The brokers' side of one login."""

    #: Who has logged in; None until then.
    user: str | None
    #: When the credentials end (ms since 1970); None: they do not.
    expires_ms: int | None

    def step(self, token: bytes) -> bytes:
        """Return the answer to a client's token.

        :raises LoginRefusedError: the credentials are wrong
        """


class _Plain:
    expires_ms: int | None = None

    def __init__(self, users: Mapping[str, str]) -> None:
        self.user: str | None = None
        self._users = users

    def step(self, token: bytes) -> bytes:
        parts = _text(token).split("\0")
        if len(parts) != 3:
            raise LoginRefusedError(f"Invalid SASL/PLAIN response: expected 3 tokens, got {len(parts)}")
        authorization, user, password = parts
        if not password or self._users.get(user) != password:
            raise LoginRefusedError("Authentication failed: Invalid username or password")
        if authorization not in ("", user):
            raise LoginRefusedError(
                "Authentication failed: Client requested an authorization id that is different from username"
            )
        self.user = user
        return b""


class _Scram:
    # RFC 5802, the server's side: a nonce and the salt first, then the proof that the server knows the password, too.
    expires_ms: int | None = None

    def __init__(self, mechanism: str, credentials: Mapping[tuple[str, str], ScramCredential], nonce: str) -> None:
        self.user: str | None = None
        self._mechanism = mechanism
        self._algorithm = ALGORITHMS[mechanism]
        self._credentials = credentials
        self._nonce = nonce
        self._name = ""
        self._said: list[str] = []

    def step(self, token: bytes) -> bytes:
        try:
            return self._last(_text(token)) if self._said else self._first(_text(token))
        except (KafkaException, KeyError, ValueError):
            raise LoginRefusedError(
                f"Authentication failed during authentication due to invalid credentials with SASL mechanism {self._mechanism}"
            ) from None

    def _first(self, text: str) -> bytes:
        _, wanted, bare = text.split(",", 2)
        fields = fields_of(bare.encode())
        if wanted not in ("", f"a={fields['n']}"):
            raise ValueError("another user is wanted than the one that logs in")
        self._name = fields["n"].replace("=2C", ",").replace("=3D", "=")
        known = self._credentials[self._name, self._mechanism]
        self._nonce = fields["r"] + self._nonce
        salt = base64.b64encode(known.salt).decode()
        self._said = [bare, f"r={self._nonce},s={salt},i={known.iterations}"]
        return self._said[1].encode()

    def _last(self, text: str) -> bytes:
        without, _, proof = text.rpartition(",p=")
        salted = self._credentials[self._name, self._mechanism].salted()
        message = ",".join([*self._said, without]).encode()
        client_key = self._hmac(salted, b"Client Key")
        signature = self._hmac(hashlib.new(self._algorithm, client_key).digest(), message)
        wanted = bytes(one ^ other for one, other in zip(client_key, signature, strict=True))
        if fields_of(without.encode())["r"] != self._nonce or base64.b64decode(proof) != wanted:
            raise ValueError("the client does not know the password")
        self.user = self._name
        return b"v=" + base64.b64encode(self._hmac(self._hmac(salted, b"Server Key"), message))

    def _hmac(self, key: bytes, message: bytes) -> bytes:
        return hmac.digest(key, message, self._algorithm)


class _Bearer:
    # RFC 7628: who sends a wrong token is told so by a status, and answers that with one byte.
    def __init__(self, check: Callable[[str], str | None] | None, now_ms: int) -> None:
        self.user: str | None = None
        self.expires_ms: int | None = None
        self._check = check
        self._now_ms = now_ms
        self._status = b""

    def step(self, token: bytes) -> bytes:
        if self._status:
            raise LoginRefusedError(self._status.decode())
        begins, _, bearer = _text(token).partition("\1auth=Bearer ")
        text = bearer.partition("\1")[0]
        claims = _claims(text)
        expires = claims.get("exp")
        # Infinity is no number of JSON, and Python takes it, and 1e999 for it.
        if isinstance(expires, (int, float)) and abs(expires) < _LATEST_S:
            self.expires_ms = int(expires * 1000)
        user = claims.get("sub") if self._check is None else self._check(text)
        is_over = self.expires_ms is not None and self.expires_ms <= self._now_ms
        # Kafka's default takes no token with a signature, as it cannot look at that, and none that does not end.
        is_signed = self._check is None and (not text.endswith(".") or self.expires_ms is None)
        if not isinstance(user, str) or is_over or is_signed or not begins.startswith("n,"):
            self._status = b'{"status":"invalid_token"}'
            return self._status
        self.user = user
        return b""


def _text(token: bytes) -> str:
    try:
        return token.decode()
    except UnicodeDecodeError:
        raise LoginRefusedError("Authentication failed: the client's message is no text") from None


def _claims(token: str) -> dict[str, Any]:
    # What a token says about itself, if it is one of RFC 7519.
    try:
        claims = json.loads(base64.urlsafe_b64decode(token.split(".")[1] + "=="))
    except (IndexError, ValueError, RecursionError):
        return {}
    return claims if isinstance(claims, dict) else {}
