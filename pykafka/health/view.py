"""`View`: a producer or consumer as reports and the watch see it; `Stalled` and `Held`, which the watch reports."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from pykafka.health.explanation import Reason, Why
    from pykafka.health.report import Report


class Stalled(NamedTuple):
    """A stall: of a partition of a consumer, of the oldest message of a producer, or a consumer or producer as a whole.

    :param subject: the consumer or producer, as logs name it
    :param topic: its topic; "" if it stands still as a whole
    :param partition: its number; -1 likewise
    :param seconds: for how long
    :param why: the reason's kind
    :param text: the reason, in one sentence
    """

    subject: str
    topic: str
    partition: int
    seconds: float
    why: Why
    text: str

    @property
    def about(self) -> str:
        """The subject and the partition, for logs."""
        return f"{self.subject}: {self.topic}-{self.partition}" if self.topic else self.subject


class Held(NamedTuple):
    """A hub or event loop that one call holds.

    :param seconds: for how long at least
    :param stack: the calls that hold it, the outermost first
    """

    seconds: float
    stack: str


class View(ABC):
    """The state of one producer or consumer at one moment. It takes no lock of the handler's: a native thread may use it.

    :param subject: the producer or consumer
    :param asking: what stands for the worker that asks, whose own stack says nothing; None for none
    """

    @abstractmethod
    def __init__(self, subject: Any, asking: object = None) -> None: ...

    @property
    @abstractmethod
    def name(self) -> str:
        """How logs name it."""

    @abstractmethod
    def report(self) -> Report:
        """Return the report, as `health()` does."""

    @abstractmethod
    def whole(self) -> Reason | None:
        """Return why it stands still as a whole, also if that is no problem before it lasts; None if it does not."""

    def stalls(self, threshold_s: float) -> Iterable[tuple[object, Stalled]]:
        """Return the partitions, or the oldest messages, that have stood still for so long (s), each under a key."""
        return ()
