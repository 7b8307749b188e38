"""`Mechanism` and `Exchange`: what a way to log in by SASL consists of, without I/O."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Protocol

from pykafka.utils.redact import concealing

if TYPE_CHECKING:
    from collections.abc import Callable

    from pykafka.handlers.base import Handler


#: How much of other people's words an error repeats (characters).
SAID_MAX = 300
#: What looks like a JWT: JSON in base64, which begins with '{"'.
_LIKE_A_TOKEN = re.compile(r"eyJ[A-Za-z0-9_\-.=]{8,}")

#: What a mechanism must have.
_MEMBERS = ("name", "begin", "prepare", "waits", "remedy")


class Exchange(Protocol):
    """One login: the tokens that go back and forth. It does no I/O of its own with the broker.

    One that sends secrets as they are may name them by `secrets`, a tuple of texts: no error repeats them if a broker does.
    """

    @property
    def complete(self) -> bool:
        """Whether this side needs no further token of the broker, only its consent to the last one."""

    @property
    def ends_silently(self) -> bool:
        """Whether brokers before 1.0 do not answer the last token that they accept."""

    def step(self, challenge: bytes | None) -> bytes | None:
        """Return the next token for the broker; None if there is nothing to send.

        :param challenge: the broker's token; None at the beginning
        :raises SaslAuthenticationFailed: the broker's token is not right
        """


class Mechanism(Protocol):
    """The credentials of one kind, and how to log in with them. One object serves all connections of a client.

    Its `repr` and its errors have no secrets. One that needs others for each broker may have `for_host(host)`, which returns
    the mechanism for the broker of that name.
    """

    @property
    def name(self) -> str:
        """The name of the mechanism for brokers, such as "SCRAM-SHA-512"."""

    @property
    def waits(self) -> bool:
        """Whether `begin` or a step computes for long, or waits for another service: it then runs by `Handler.offload`."""

    @property
    def remedy(self) -> str:
        """The advice for a user if a broker refuses these credentials, the end of the error's sentence."""

    def prepare(self, handler: Handler, timeout: float, wanted: Callable[[], bool] = ...) -> bool:
        """Get ready for a login, as by asking another service for a token; return whether the credentials are ready and fresh.

        :param handler: supplies workers and clock
        :param timeout: how long this may wait (s); 0 does not wait, and has the rest done by another worker
        :param wanted: called now and then during a wait; False ends it
        :raises KafkaException: they cannot be had
        """

    def begin(self, host: str) -> Exchange:
        """Start a login.

        :param host: the broker's name, as the client connects to it
        """


def in_one_line(text: str, most: int) -> str:
    """Return other people's words for an error: on one line, without what would steer a terminal.

    :param most: how many characters of them
    """
    return "".join(one for one in " ".join(text.split()) if one.isprintable())[:most]


def redacted(text: str, *secrets: str) -> str:
    """Return other people's words for an error: short, on one line, without what looks like a token and without secrets."""
    for secret in sorted(filter(None, secrets), key=len, reverse=True):
        text = text.replace(secret, "[secret]")
    return in_one_line(_LIKE_A_TOKEN.sub("[token]", text), SAID_MAX)


def always() -> bool:
    """Return True."""
    return True


class Credentials:
    """Base of mechanisms that have all they need: user names and passwords."""

    def prepare(self, handler: Handler, timeout: float, wanted: Callable[[], bool] = always) -> bool:
        """Return True: nothing is to be done before a login."""
        return True


def for_host(mechanism: Mechanism, host: str) -> Mechanism:
    """Return the credentials for one broker: itself, or what its `for_host` returns.

    :param host: the broker's name, as the client connects to it
    """
    narrow: Callable[[str], Mechanism] | None = getattr(mechanism, "for_host", None)
    return mechanism if narrow is None else narrow(host)


@concealing
def valid_sasl(value: Any, name: str) -> Mechanism | None:
    """Return a mechanism, or None.

    :raises TypeError: the value is something else
    """
    lacking = [] if value is None else [member for member in _MEMBERS if not hasattr(value, member)]
    if isinstance(value, type) or {"begin", "name"} & {*lacking}:
        # Not its text: people put passwords here.
        kind = f"the class {value.__name__}" if isinstance(value, type) else type(value).__name__
        raise TypeError(f"{name} must be a mechanism, as Scram(user, password), not {kind}")
    if lacking:
        raise TypeError(
            f"{name} must be a mechanism, and {type(value).__name__} lacks {lacking[0]!r}: add what pykafka.security.Mechanism "
            "has"
        )
    mechanism: Mechanism | None = value
    return mechanism


@concealing
def credential(value: Any, name: str) -> str:
    """Return a user name or a secret, which must be text without NUL and not empty.

    :param name: of the parameter
    :raises TypeError, ValueError: it is not; the text does not show the value
    """
    if not isinstance(value, str):
        raise TypeError(f"{name} must be a str, not {type(value).__name__}")
    if not value:
        raise ValueError(f"{name} must not be empty")
    if "\0" in value:
        raise ValueError(f"{name} must not contain NUL: SASL separates fields by it")
    try:
        value.encode()
    except UnicodeEncodeError:
        # `from None`: the codec's error shows the whole value.
        raise ValueError(f"{name} cannot be written in UTF-8: it has a lone surrogate") from None
    return value


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
