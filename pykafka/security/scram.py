"""`Scram` and `DelegationToken`: logins that never send the password (RFC 5802, RFC 7677).

Kafka uses names and passwords in UTF-8 as they are, without the preparation of RFC 4013 (SASLprep); so does this module: a
password that the preparation would change could not log in.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import secrets
from collections.abc import Callable
from typing import Any

from pykafka.exceptions import SaslAuthenticationFailed
from pykafka.security.mechanism import Credentials, credential, in_one_line
from pykafka.utils.redact import concealing

#: {mechanism: hash algorithm}
ALGORITHMS = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
#: Kafka's own least number of iterations: with fewer, a recorded login gives the password away too cheaply.
ITERATIONS_MIN = 4096
#: More would only keep this process busy (about a second); Kafka's tools allow 16384.
ITERATIONS_MAX = 1_000_000
#: Entropy of a nonce (bytes).
NONCE_BYTES = 24
#: The salted passwords that are kept: each broker of a cluster has the same salt, until the password is changed.
SALTS_KEPT = 8
#: How much of a broker's own words an error repeats (characters).
SAID_MAX = 100


class Scram(Credentials):
    """Log in by SCRAM: the broker and this client prove to each other that they know the password.

    :param username: the user's name
    :param password: the user's password
    :param mechanism: "SCRAM-SHA-512" or "SCRAM-SHA-256": the one that the user was made for
    :raises ValueError: name or password is empty or has a NUL, or there is no such mechanism
    """

    waits = True  # the salted password takes milliseconds

    @concealing
    def __init__(self, username: str, password: str, mechanism: str = "SCRAM-SHA-512") -> None:
        if mechanism not in ALGORITHMS:
            raise ValueError(
                f"mechanism must be one of {', '.join(ALGORITHMS)}"
            )  # not its value: a password may stand there
        self.username = credential(username, "username")
        self._password = credential(password, "password")
        self.name = mechanism
        self._extensions = ""
        # {(salt, iterations): salted password}; changed by single steps, as any worker may log in.
        self._salted: dict[tuple[bytes, int], bytes] = {}

    def __repr__(self) -> str:
        return f"<{type(self).__name__} username={self.username!r} mechanism={self.name!r}>"

    def __eq__(self, other: Any) -> bool:
        return type(other) is type(self) and self._identity() == other._identity()

    def __hash__(self) -> int:
        return hash((self.name, self.username))

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_salted": {}}

    def _identity(self) -> tuple[str, ...]:
        return self.name, self.username, self._password, self._extensions

    @property
    def remedy(self) -> str:
        """The advice for a user if a broker refuses these credentials."""
        return f"check user name and password, and that the user has a {self.name} password"

    @property
    def password(self) -> str:
        """The password, for another client that logs in with it."""
        return self._password

    def begin(self, host: str) -> ScramExchange:
        """Start a login; `host` does not matter."""
        return ScramExchange(self, secrets.token_urlsafe(NONCE_BYTES))

    @property
    def first(self) -> str:
        """The user's name and extensions, as the first message has them."""
        return f"n={self.username.replace('=', '=3D').replace(',', '=2C')}"

    @property
    def extensions(self) -> str:
        """The extensions of the first message: "" or ",name=value"."""
        return self._extensions

    def salted(self, salt: bytes, iterations: int) -> bytes:
        """Return the salted password, computing it at the first use of this salt."""
        key = (salt, iterations)
        found = self._salted.get(key)
        if found is None:
            found = hashlib.pbkdf2_hmac(ALGORITHMS[self.name], self._password.encode(), salt, iterations)
            if len(self._salted) >= SALTS_KEPT:
                self._salted = {}
            self._salted[key] = found
        return found


class DelegationToken(Scram):
    """Log in with a delegation token that the cluster has issued (KIP-48).

    :param token_id: its id
    :param hmac: its HMAC in base64, as Kafka's tools print it, or as bytes
    :param mechanism: "SCRAM-SHA-512" or "SCRAM-SHA-256": one that the broker offers
    """

    @concealing
    def __init__(self, token_id: str, hmac: str | bytes, mechanism: str = "SCRAM-SHA-512") -> None:
        if isinstance(hmac, (bytes, bytearray, memoryview)):
            hmac = base64.b64encode(hmac).decode()
        super().__init__(credential(token_id, "token_id"), credential(hmac, "hmac"), mechanism)
        self._extensions = ",tokenauth=true"

    def __repr__(self) -> str:
        return f"<{type(self).__name__} token_id={self.username!r} mechanism={self.name!r}>"

    @property
    def remedy(self) -> str:
        """The advice for a user if a broker refuses the token."""
        return "the delegation token may have expired or been revoked, or id and HMAC do not belong together: make a new one"


class ScramExchange:
    """One login by SCRAM, as a table: which message comes next.

    :param credentials: whose they are
    :param nonce: this client's, never used before
    """

    def __init__(self, credentials: Scram, nonce: str) -> None:
        self._credentials = credentials
        self._nonce = nonce
        self._algorithm = ALGORITHMS[credentials.name]
        self._first = f"{credentials.first},r={nonce}{credentials.extensions}"
        self._signature = b""
        self._next: Callable[[bytes], bytes | None] = self._say_who
        #: Whether the broker has proved itself.
        self.complete = False
        self.ends_silently = False

    def step(self, challenge: bytes | None) -> bytes | None:
        """Return the next message; None once the broker has proved itself.

        :raises SaslAuthenticationFailed: the broker's message is not right
        """
        return self._next(challenge or b"")

    def _say_who(self, _: bytes) -> bytes:
        self._next = self._prove
        return f"n,,{self._first}".encode()

    def _prove(self, challenge: bytes) -> bytes:
        fields = fields_of(challenge)
        nonce = fields.get("r", "")
        if "m" in fields:
            raise _wrong("asks for an extension that this client does not have")
        if not nonce.startswith(self._nonce) or nonce == self._nonce:
            raise _wrong("answers with another nonce than it was sent; the answer may be a recorded one")
        salt = _bytes(fields, "s")
        text = fields.get("i", "")
        if not text.isascii() or not text.isdigit() or len(text) > 9 or not salt:
            raise _wrong("names no salt, or no number of iterations")
        iterations = int(text)
        if not ITERATIONS_MIN <= iterations <= ITERATIONS_MAX:
            raise _wrong(
                f"wants {iterations} iterations; {ITERATIONS_MIN} to {ITERATIONS_MAX} are safe; "
                "set the user's password again with such a number"
            )
        salted = self._credentials.salted(salt, iterations)
        client_key = self._hmac(salted, b"Client Key")
        final = f"c=biws,r={nonce}"
        message = f"{self._first},{challenge.decode()},{final}".encode()
        proof = self._hmac(hashlib.new(self._algorithm, client_key).digest(), message)
        self._signature = self._hmac(self._hmac(salted, b"Server Key"), message)
        self._next = self._judge
        mixed = bytes(one ^ other for one, other in zip(client_key, proof, strict=True))
        return f"{final},p={base64.b64encode(mixed).decode()}".encode()

    def _judge(self, challenge: bytes) -> None:
        fields = fields_of(challenge)
        if "e" in fields:
            raise SaslAuthenticationFailed(
                f"the broker refuses the login ({in_one_line(fields['e'], SAID_MAX)}); {self._credentials.remedy}"
            )
        if not hmac.compare_digest(_bytes(fields, "v"), self._signature):
            raise _wrong("does not know the password itself, so it may be another one than you mean; check hosts=")
        self.complete = True

    def _hmac(self, key: bytes, message: bytes) -> bytes:
        return hmac.digest(key, message, self._algorithm)


def _wrong(what: str) -> SaslAuthenticationFailed:
    return SaslAuthenticationFailed(f"this client ends the login by SCRAM: the broker {what}")


def fields_of(message: bytes) -> dict[str, str]:
    """Return the fields of a message: "r=...,s=...,i=...".

    :raises SaslAuthenticationFailed: it is no message of SCRAM
    """
    try:
        text = message.decode()
    except UnicodeDecodeError:
        raise _wrong("answers something that is no text") from None
    fields: dict[str, str] = {}
    for part in text.split(","):
        name, equals, value = part.partition("=")
        if not equals or not name or name in fields:
            raise _wrong("answers something that is no message of SCRAM")
        fields[name] = value
    return fields


def _bytes(fields: dict[str, str], name: str) -> bytes:
    try:
        return base64.b64decode(fields.get(name, "").encode("ascii"), validate=True)
    except (binascii.Error, UnicodeEncodeError):
        raise _wrong(f"has a field {name!r} that is not in base64") from None
