"""`SimpleConsumer`, `GroupConsumer` for coroutines. Written by tools/aio_face.py from the blocking class; do not edit."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykafka.aio.base import Messages
from pykafka.compat.group_consumer import GroupConsumer as _GroupConsumer
from pykafka.compat.simple_consumer import BATCH_MESSAGES
from pykafka.consumer.arrow_batches import ARROW_BYTES, ARROW_MESSAGES
from pykafka.handlers.bridge import bridged
from pykafka.simpleconsumer import SimpleConsumer as _SimpleConsumer

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Any

    import pyarrow as pa

    from pykafka.compat import messages
    from pykafka.consumer.startrules import Position
    from pykafka.metadata.partition import Partition
    from pykafka.protocol.message import Message


class SimpleConsumer(Messages[_SimpleConsumer]):
    """A consumer that does not share its topic: each of several such consumers gets every message.

    As `pykafka.simpleconsumer.SimpleConsumer`, which documents parameters and errors.
    """

    @property
    def partitions(self) -> dict[int, Partition]:
        """The partitions this consumer reads, by id."""
        return self._inner.partitions

    @property
    def held_offsets(self) -> dict[int, int]:
        """The offset last consumed of each partition, by id; -2 where nothing was consumed from its start on."""
        return self._inner.held_offsets

    async def start(self) -> None:
        """Ask the brokers where to begin, then start fetching; a stopped consumer goes on behind the last message consumed."""
        return await bridged(self._here.start)

    async def stop(self) -> None:
        """Stop fetching; if auto-commit is on, commit all that was returned. Do nothing if the consumer is stopped."""
        return await bridged(self._here.stop)

    async def stop_midway(self) -> None:
        """Stop as `stop()` does, but commit nothing of what the last call returned: the application may not be done with it."""
        return await bridged(self._here.stop_midway)

    async def consume_batch(
        self, max_messages: int = BATCH_MESSAGES, block: bool = True, unblock_event: Any = None
    ) -> list[Message]:
        """Return the next messages: those that are buffered; wait only for the first."""
        return await bridged(
            lambda: self._here.consume_batch(max_messages=max_messages, block=block, unblock_event=unblock_event)
        )

    async def consume_arrow(
        self,
        max_messages: int = ARROW_MESSAGES,
        columns: Sequence[str] | None = None,
        *,
        max_bytes: int = ARROW_BYTES,
        block: bool = True,
        unblock_event: Any = None,
    ) -> pa.RecordBatch | None:
        """Return the next messages as Arrow columns, with no Python object for each message; wait only for the first."""
        return await bridged(
            lambda: self._here.consume_arrow(
                max_messages=max_messages,
                columns=columns,
                max_bytes=max_bytes,
                block=block,
                unblock_event=unblock_event,
            )
        )

    async def reset_offsets(self, partition_offsets: Iterable[tuple[Partition, Position]] | None = None) -> None:
        """Move partitions, and commit the new positions if there is a consumer group."""
        return await bridged(lambda: self._here.reset_offsets(partition_offsets=partition_offsets))

    async def seek(self, partition: Partition, offset: int) -> None:
        """Go to the message at `offset`, or the next one that exists."""
        return await bridged(lambda: self._here.seek(partition=partition, offset=offset))

    async def commit_offsets(self, partition_offsets: Iterable[tuple[Partition, int]] | None = None) -> None:
        """Commit how far messages were consumed: all that was returned, whether the application is done with it or not."""
        return await bridged(lambda: self._here.commit_offsets(partition_offsets=partition_offsets))

    async def fetch_offsets(self) -> list[tuple[int, messages.OffsetFetchPartitionResponse]]:
        """Return what the group has committed for each partition, and go there, unless `reset_offset_on_fetch` is False."""
        return await bridged(self._here.fetch_offsets)


class GroupConsumer(Messages[_GroupConsumer]):
    """A consumer of a share of a topic: the base of `BalancedConsumer` and `ManagedBalancedConsumer`.

    As `pykafka.compat.group_consumer.GroupConsumer`, which documents parameters and errors.
    """

    async def stop_midway(self) -> None:
        """Stop as `stop()` does, but commit nothing of what the last call returned: the application may not be done with it."""
        return await bridged(self._here.stop_midway)

    async def start(self) -> None:
        """Join the group and take a share; a worker looks after it from then on."""
        return await bridged(self._here.start)

    async def stop(self) -> None:
        """Stop consuming, committing first where auto-commit is on; then leave the group, so that others can take over."""
        return await bridged(self._here.stop)

    @property
    def partitions(self) -> dict[int, Partition]:
        """The partitions this consumer reads at present, by id."""
        return self._inner.partitions

    @property
    def held_offsets(self) -> dict[int, int]:
        """The offset last consumed of each partition, by id; -2 where nothing was consumed from its start on."""
        return self._inner.held_offsets

    async def consume_batch(
        self, max_messages: int = BATCH_MESSAGES, block: bool = True, unblock_event: Any = None
    ) -> list[Message]:
        """Return the next messages of this consumer's share: those that are buffered; wait only for the first."""
        return await bridged(
            lambda: self._here.consume_batch(max_messages=max_messages, block=block, unblock_event=unblock_event)
        )

    async def consume_arrow(
        self,
        max_messages: int = ARROW_MESSAGES,
        columns: Sequence[str] | None = None,
        *,
        max_bytes: int = ARROW_BYTES,
        block: bool = True,
        unblock_event: Any = None,
    ) -> pa.RecordBatch | None:
        """Return the next messages of this consumer's share as Arrow columns; wait only for the first."""
        return await bridged(
            lambda: self._here.consume_arrow(
                max_messages=max_messages,
                columns=columns,
                max_bytes=max_bytes,
                block=block,
                unblock_event=unblock_event,
            )
        )

    async def commit_offsets(self, partition_offsets: Iterable[tuple[Partition, int]] | None = None) -> None:
        """Commit how far this consumer's share was consumed; in a rebalance, what of it is still this consumer's."""
        return await bridged(lambda: self._here.commit_offsets(partition_offsets=partition_offsets))

    async def reset_offsets(self, partition_offsets: Iterable[tuple[Partition, Position]] | None = None) -> None:
        """Move partitions of this consumer's share, and commit the new positions."""
        return await bridged(lambda: self._here.reset_offsets(partition_offsets=partition_offsets))
