"""The consumer, its records and dead letters, as parallel work sees them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, cast

if TYPE_CHECKING:
    from pykafka.common import TopicPartition
    from pykafka.groups.membership import RevocationHooks
    from pykafka.handlers import Handler
    from pykafka.handlers.base import LockType


class Source(Protocol):
    """The consumer that a run reads. One worker calls it, but for `wakeup`; `poll` calls the `RevocationHooks` of the run."""

    @property
    def settled(self) -> bool:
        """Whether the assignment and the start offsets are known."""

    @property
    def turn(self) -> LockType:
        """A lock that the run holds while it reads: however the run ends, others may read then."""

    @property
    def called(self) -> tuple[str, float] | None:
        """The method of the application's listener that `poll` calls, and since when, of the handler's clock (s); else None."""

    def poll(self, max_records: int = ..., timeout: float | None = ...) -> Sequence[Any]: ...
    def pause(self, *partitions: TopicPartition) -> object: ...
    def resume(self, *partitions: TopicPartition) -> object: ...
    def seek(self, partition: TopicPartition, offset: int) -> object: ...
    def position(self, partition: TopicPartition) -> int | None: ...
    def commit(self, what: Mapping[TopicPartition, int], /, *, timeout: float | None = None) -> object: ...
    def follow(self, hooks: RevocationHooks | None) -> object:
        """Set the run to notify of revoked and lost partitions; None for no run."""

    def wakeup(self) -> object:
        """End the `poll` that waits now, or the next one, at once; any worker may call this."""


class Sent(Protocol):
    """A dead letter on its way."""

    def get(self) -> object:
        """Wait for its acknowledgement, until the timeout of the dead letters; raise the error."""


class DeadLetterSink(Protocol):
    """The place for records that could not be handled: `DeadLetters`."""

    def send(self, record: Any, error: BaseException) -> Sent: ...


#: `handle(record)`, which the application gives.
Handle = Callable[[Any], object]


def call(handler: Handler, handle: Handle, record: Any) -> None:
    """Handle one record: the one place where the application's function is called, and awaited if it is asynchronous."""
    result = handle(record)
    if result is not None and hasattr(type(result), "__await__"):
        handler.awaited(cast("Awaitable[object]", result))
