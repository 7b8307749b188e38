"""`RecordTracer`: the seam for tracing. The engine calls it for single records; a client has none, unless the application asks.

A tracer raises nothing and never waits.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Collection, Container, Iterator, Mapping
from contextlib import AbstractContextManager
from typing import Any, Protocol, TypeVar

R = TypeVar("R")


Headers = list[tuple[str, bytes | None]]


class SendTrace(Protocol):
    """The trace of one message, from `produce()` to its acknowledgement. It stands in the place of the message's callback."""

    #: The callback of the application, to be called after that; None for none.
    after: Any

    @property
    def reports(self) -> bool:
        """Whether that callback reports the outcome to the application."""

    def delivered(self, batch: Any, traced: list[tuple[Any, int]]) -> None:
        """End the traces of all messages of a completed batch; the first trace is called.

        :param batch: its `topic`, `partition_id`, `offset_of()` and `error_of()` are read
        :param traced: the trace of each message, and the index of the message in the batch
        """

    def failed(self, error: BaseException) -> None:
        """End the trace of a message that `produce()` did not take."""


class RecordTracer(Protocol):
    """The tracer of one client. Groups are names; None without one."""

    @property
    def header_names(self) -> Container[str]:
        """The names of the headers that tracers have written so far."""

    def sending(
        self, topic: Any, value: Any, key: Any, headers: Headers, partition: int | None
    ) -> tuple[Headers, SendTrace | None]:
        """Begin the trace of a message: value and key as the application gave them.

        :returns: the headers to send, and the trace; None if nothing is to be said at the acknowledgement
        """

    def reading(self, read: Callable[..., R], group: str | None) -> Callable[..., R]:
        """Return a function that does what `read` does: it returns a record, several, a table, or nothing."""

    def processing(self, record: Any, group: str | None) -> AbstractContextManager[object]:
        """Return a context in which the application handles a record."""

    def each(self, consumer: Any, records: Iterator[R], group: str | None) -> Iterator[R]:
        """Return an iterator over records that an application handles, each until it asks for the next one."""

    def each_async(self, consumer: Any, records: AsyncIterator[R], group: str | None) -> AsyncIterator[R]:
        """Return the same for `async for`."""

    def left(self, consumer: Any, error: BaseException) -> None:
        """Note the error that has ended the block of a consumer, and perhaps the loop in it."""

    def handling(
        self, handle: Callable[[Any], None], dead_letters: Any, group: str | None
    ) -> tuple[Callable[[Any], None], Any]:
        """Return a function that handles a record, and the place for dead letters, in place of the given ones.

        What a record holds for its acknowledgement by hand has a field `trace`, which is the tracer's.

        :param handle: waits until the record is handled
        """

    def committing(self, offsets: Collection[Any] | Mapping[Any, Any], group: str) -> AbstractContextManager[object]:
        """Return a context in which the offsets of these partitions are committed."""

    def acknowledging(self, acquired: Any, kind: str, group: str) -> None:
        """Note that a record of a share group is acknowledged, which is still to be sent; `acquired.trace` is the tracer's."""

    def acknowledged(self, acquired: Collection[Any], error: BaseException | None) -> None:
        """Note the outcome of acknowledgements."""
