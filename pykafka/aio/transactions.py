"""Transactions of a producer, for coroutines."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from pykafka.handlers.bridge import bridged

if TYPE_CHECKING:
    from types import TracebackType

    from pykafka.transactions.calls import Transaction as _Transaction


class ConsumerFace(Protocol):
    """A `pykafka.aio.KafkaConsumer`."""

    @property
    def _inner(self) -> Any: ...


class Transaction:
    """One transaction as an `async with` block: committed on leaving it, aborted on any exception, also a cancellation.

    :param inner: the blocking one
    """

    def __init__(self, inner: _Transaction) -> None:
        self._inner = inner

    async def __aenter__(self) -> Transaction:
        """Begin it; errors as of `begin_transaction()`."""
        await bridged(self._inner.__enter__)
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Commit it, or abort it on an exception; errors as of `commit_transaction()`."""
        await bridged(lambda: self._inner.__exit__(exc_type, exc, traceback))
