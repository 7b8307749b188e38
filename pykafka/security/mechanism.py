"""`Mechanism` and `Exchange`: what a way to log in by SASL consists of, without I/O."""

from __future__ import annotations

from typing import Any, Protocol


class Exchange(Protocol):
    """One login: the tokens that go back and forth. It does no I/O of its own with the broker."""

    @property
    def complete(self) -> bool:
        """Whether this side has all it needs from the broker."""

    def step(self, challenge: bytes | None) -> bytes | None:
        """Return the next token for the broker; None where there is nothing to send.

        :param challenge: the broker's token; None at the beginning
        :raises SaslAuthenticationFailed: the broker's token is not right
        """


class Mechanism(Protocol):
    """The credentials of one kind, and how to log in with them. One object serves all connections of a client."""

    @property
    def name(self) -> str:
        """The name of the mechanism for brokers, such as "SCRAM-SHA-512"."""

    @property
    def waits(self) -> bool:
        """Whether `begin` or a step computes for long, or waits for another service: it then runs by `Handler.offload`."""

    def begin(self, host: str) -> Exchange:
        """Start a login.

        :param host: the broker's name, as the client connects to it
        """


def valid_sasl(value: Any, name: str) -> Mechanism | None:
    """Return a mechanism, or None.

    :raises TypeError: the value is something else
    """
    if value is not None and not (hasattr(value, "begin") and hasattr(value, "name")):
        # Not its text: people put passwords here.
        raise TypeError(f"{name} must be a mechanism, as Scram(user, password), not {type(value).__name__}")
    mechanism: Mechanism | None = value
    return mechanism
