"""`ShareConsumer` for coroutines; written by tools/aio_face.py, do not edit."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykafka.aio.base import Acquires, coroutine, sync
from pykafka.handlers.bridge import bridged
from pykafka.record import K, V
from pykafka.sharegroups.consumer import POLL_RECORDS
from pykafka.sharegroups.consumer import ShareConsumer as _ShareConsumer

if TYPE_CHECKING:
    from pykafka.metrics.metric import Metrics
    from pykafka.record import Record
    from pykafka.sharegroups.consumer import OnCommit


class ShareConsumer(Acquires[K, V]):
    """A member of a share group: many members take records of the same partitions, and acknowledge each by itself (KIP-932).

    As `pykafka.sharegroups.consumer.ShareConsumer`, which documents parameters and errors.
    """

    subscribe = coroutine(_ShareConsumer.subscribe)
    subscription = coroutine(_ShareConsumer.subscription)
    assignment = coroutine(_ShareConsumer.assignment)

    @property
    def member_id(self) -> str:
        """The id of this member, for its life."""
        return self._inner.member_id

    @property
    def lock_timeout_ms(self) -> int | None:
        """How long acquired records are locked for this member (ms); None before the first ones."""
        return self._inner.lock_timeout_ms

    async def one(self, timeout: float | None = None) -> Record[K, V] | None:
        """Return the next record."""
        return await bridged(self._here.one, timeout)

    async def poll(self, max_records: int = POLL_RECORDS, timeout: float | None = None) -> list[Record[K, V]]:
        """Return the next records; wait only for the first."""
        return await bridged(self._here.poll, max_records, timeout)

    accept = coroutine(_ShareConsumer.accept)
    release = coroutine(_ShareConsumer.release)
    reject = coroutine(_ShareConsumer.reject)
    renew = coroutine(_ShareConsumer.renew)
    commit = coroutine(_ShareConsumer.commit)

    async def commit_async(self, on_commit: OnCommit | None = None) -> None:
        """Send all acknowledgements, and return at once."""
        return await bridged(self._here.commit_async, sync(on_commit))

    def metrics(self) -> Metrics:
        """Return the metrics of this consumer now, with Java's names; docs/metrics.md lists them. No broker is asked."""
        return self._inner.metrics()

    health = coroutine(_ShareConsumer.health)
    explain = coroutine(_ShareConsumer.explain)
    close = coroutine(_ShareConsumer.close)
