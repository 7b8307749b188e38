"""`PendingAnswer`: an answer that a group gives later, and `Client`: who asks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar

if TYPE_CHECKING:
    from pykafka.testing.waiters import Waiters

A = TypeVar("A")


class Client(NamedTuple):
    """The sender of a request.

    :param client_id: as it calls itself
    :param host: as brokers show it
    :param version: of the request
    """

    client_id: str
    host: str
    version: int


class PendingAnswer(Generic[A]):
    """A place for an answer. It is a key of `Waiters`.

    :param waiters: of the cluster
    :param answer: if it is known already
    """

    __slots__ = ("_waiters", "answer")

    def __init__(self, waiters: Waiters, answer: A | None = None) -> None:
        self._waiters = waiters
        self.answer = answer

    @property
    def is_answered(self) -> bool:
        """Whether there is an answer."""
        return self.answer is not None

    def set(self, answer: A) -> None:
        """Give the answer."""
        self.answer = answer
        self._waiters.wake(self)
