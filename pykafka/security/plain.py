"""`Plain`: user name and password as they are (RFC 4616)."""

from __future__ import annotations

from typing import Any

from pykafka.security.mechanism import Credentials, credential
from pykafka.utils.redact import concealing


class Plain(Credentials):
    """Log in by SASL PLAIN. The broker gets the password itself: use it over TLS.

    :param username: the user's name
    :param password: the user's password
    :raises ValueError: one of them is empty or has a NUL
    """

    name = "PLAIN"
    waits = False
    remedy = "check user name and password"

    @concealing
    def __init__(self, username: str, password: str) -> None:
        self.username = credential(username, "username")
        self._password = credential(password, "password")

    def __repr__(self) -> str:
        return f"<{type(self).__name__} username={self.username!r}>"

    def __eq__(self, other: Any) -> bool:
        return type(other) is type(self) and vars(other) == vars(self)

    def __hash__(self) -> int:
        return hash((self.name, self.username))

    @property
    def password(self) -> str:
        """The password, for another client that logs in with it."""
        return self._password

    def begin(self, host: str) -> PlainExchange:
        """Start a login; `host` does not matter."""
        return PlainExchange(f"\0{self.username}\0{self._password}".encode(), self._password)


class PlainExchange:
    """One token, which the broker accepts or not.

    :param token: that token
    :param secrets: what no error must repeat
    """

    def __init__(self, token: bytes, *secrets: str) -> None:
        self._token = token
        self.secrets = secrets
        self.complete = False
        self.ends_silently = False

    def step(self, challenge: bytes | None) -> bytes:
        """Return the token."""
        self.complete = True
        return self._token
