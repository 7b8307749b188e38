"""`ShareConsumer` for coroutines; written by tools/aio_face.py, do not edit."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykafka.aio.base import Acquires, sync
from pykafka.handlers.bridge import bridged
from pykafka.sharegroups.consumer import POLL_RECORDS, K, V

if TYPE_CHECKING:
    from typing import Any

    from pykafka.common import TopicPartition
    from pykafka.record import Record
    from pykafka.sharegroups.consumer import Committed, OnCommit


class ShareConsumer(Acquires[K, V]):
    """A member of a share group: many members take records of the same partitions, and acknowledge each by itself (KIP-932).

    As `pykafka.sharegroups.consumer.ShareConsumer`, which documents parameters and errors.
    """

    async def subscribe(self, *topics: str, timeout: float | None = None) -> None:
        """Read these topics, instead of those before."""
        return await bridged(self._here.subscribe, *topics, timeout=timeout)

    async def subscription(self) -> list[str]:
        """Return the names of the topics."""
        return await bridged(self._here.subscription)

    async def assignment(self) -> list[TopicPartition]:
        """Return the partitions that this member takes records from at present; others may have them, too."""
        return await bridged(self._here.assignment)

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

    async def accept(self, record: Record[Any, Any]) -> bool:
        """Accept a record: it was handled, and no member gets it again. `record.ack()` does the same."""
        return await bridged(self._here.accept, record)

    async def release(self, record: Record[Any, Any]) -> bool:
        """Release a record: it comes again, to any member, until its deliveries are used up. `record.nack()` does the same."""
        return await bridged(self._here.release, record)

    async def reject(self, record: Record[Any, Any]) -> bool:
        """Reject a record: it cannot be handled, and no member gets it again."""
        return await bridged(self._here.reject, record)

    async def renew(self, record: Record[Any, Any]) -> bool:
        """Renew a record's lock, for work that takes longer than `lock_timeout_ms` (KIP-1222; Kafka 4.2 and later)."""
        return await bridged(self._here.renew, record)

    async def commit(self, timeout: float | None = None) -> Committed:
        """Send all acknowledgements, and wait for their outcome."""
        return await bridged(self._here.commit, timeout)

    async def commit_async(self, on_commit: OnCommit | None = None) -> None:
        """Send all acknowledgements, and return at once."""
        return await bridged(self._here.commit_async, sync(on_commit))

    async def close(self, timeout: float | None = None) -> None:
        """Accept what was returned if acknowledgement is implicit, send all acknowledgements, leave the group, and end."""
        return await bridged(self._here.close, timeout)
