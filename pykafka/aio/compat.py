"""`Topic`, `Producer`, `SimpleConsumer`, `GroupConsumer` for coroutines; written by tools/aio_face.py, do not edit."""

from __future__ import annotations

from typing import TYPE_CHECKING, overload

from pykafka.aio.base import AsyncFacade, Messages, Opening, Produces, sync_all
from pykafka.compat.group_consumer import GroupConsumer as _GroupConsumer
from pykafka.compat.producer import Producer as _Producer
from pykafka.compat.simple_consumer import BATCH_MESSAGES
from pykafka.consumer.arrow_batches import ARROW_BYTES, ARROW_MESSAGES
from pykafka.handlers.bridge import bridged
from pykafka.simpleconsumer import SimpleConsumer as _SimpleConsumer
from pykafka.topic import Topic as _Topic

if TYPE_CHECKING:
    import datetime
    from collections.abc import Iterable, Sequence
    from typing import Any, Literal, Unpack

    import pyarrow as pa

    from pykafka.compat import messages
    from pykafka.compat.options import (
        BalancedConsumerArguments,
        GroupConsumerArguments,
        ManagedBalancedConsumerArguments,
        ProducerArguments,
        SimpleConsumerArguments,
    )
    from pykafka.consumer.startrules import Position
    from pykafka.exceptions import KafkaException
    from pykafka.metadata.partition import OffsetPartitionResponse, Partition
    from pykafka.protocol.message import Message


class Topic(AsyncFacade[_Topic]):
    """A topic, a named set of partitions. Get one by `client.topics[name]`, and keep a reference while you use it.

    As `pykafka.topic.Topic`, which documents parameters and errors.
    """

    @property
    def name(self) -> str:
        """The topic's name, a `Name` as PyKafka 2 had bytes here."""
        return self._inner.name

    @property
    def partitions(self) -> dict[int, Partition]:
        """The partitions by id. The client updates the dict in place and keeps the same objects."""
        return self._inner.partitions

    async def fetch_offset_limits(
        self, offsets_before: int | datetime.datetime, max_offsets: int = 1, partitions: Iterable[int] | None = None
    ) -> dict[int, OffsetPartitionResponse]:
        """Return the offsets of each partition by time."""
        return await bridged(self._here.fetch_offset_limits, offsets_before, max_offsets, partitions)

    async def earliest_available_offsets(self) -> dict[int, OffsetPartitionResponse]:
        """Return the oldest offset kept in each partition, in the form of `fetch_offset_limits`."""
        return await bridged(self._here.earliest_available_offsets)

    async def latest_available_offsets(self) -> dict[int, OffsetPartitionResponse]:
        """Return the offset of the next message of each partition, in the form of `fetch_offset_limits`."""
        return await bridged(self._here.latest_available_offsets)

    def get_producer(self, **kwargs: Unpack[ProducerArguments]) -> Opening[Producer]:
        """Return a `Producer` for this topic."""
        return Opening(lambda: Producer(self._here.get_producer(**sync_all(kwargs))))

    def get_sync_producer(self, **kwargs: Unpack[ProducerArguments]) -> Opening[Producer]:
        """Return a `Producer` whose `produce()` waits for the broker's acknowledgement; parameters of `get_producer`."""
        return Opening(lambda: Producer(self._here.get_sync_producer(**sync_all(kwargs))))

    def get_simple_consumer(
        self, consumer_group: str | bytes | None = None, **kwargs: Unpack[SimpleConsumerArguments]
    ) -> Opening[SimpleConsumer]:
        """Return a `SimpleConsumer` of this topic."""
        return Opening(
            lambda: SimpleConsumer(self._here.get_simple_consumer(consumer_group=consumer_group, **sync_all(kwargs)))
        )

    @overload
    def get_balanced_consumer(
        self, consumer_group: str | bytes, managed: Literal[False] = False, **kwargs: Unpack[BalancedConsumerArguments]
    ) -> Opening[GroupConsumer]: ...
    @overload
    def get_balanced_consumer(
        self, consumer_group: str | bytes, managed: Literal[True], **kwargs: Unpack[ManagedBalancedConsumerArguments]
    ) -> Opening[GroupConsumer]: ...
    @overload
    def get_balanced_consumer(
        self, consumer_group: str | bytes, managed: bool, **kwargs: Unpack[GroupConsumerArguments]
    ) -> Opening[GroupConsumer]: ...
    def get_balanced_consumer(
        self, consumer_group: str | bytes, managed: bool = False, **kwargs: Any
    ) -> Opening[GroupConsumer]:
        """Return a consumer that shares this topic with the other members of its group."""
        return Opening(
            lambda: GroupConsumer(
                self._here.get_balanced_consumer(consumer_group=consumer_group, managed=managed, **sync_all(kwargs))
            )
        )


class Producer(Produces[_Producer]):
    """Send messages to a topic.

    As `pykafka.compat.producer.Producer`, which documents parameters and errors.
    """

    async def start(self) -> None:
        """Take messages, for whose leaders senders start; a stopped producer starts afresh."""
        return await bridged(self._here.start)

    async def stop(self) -> None:
        """Deliver what is queued and end the senders; does nothing when it is stopped. Takes no messages from its start on."""
        return await bridged(self._here.stop)

    async def flush(self, timeout_ms: int | None = None) -> None:
        """Send what is queued without lingering, and wait until each message is acknowledged or has failed."""
        return await bridged(self._here.flush, timeout_ms)

    async def get_delivery_report(
        self, block: bool = True, timeout: float | None = None
    ) -> tuple[Message, KafkaException | None]:
        """Return the next report on a message that this thread, greenlet or task produced."""
        return await bridged(self._here.get_delivery_report, block, timeout)


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
        return await bridged(self._here.consume_batch, max_messages, block, unblock_event)

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
            self._here.consume_arrow,
            max_messages,
            columns,
            max_bytes=max_bytes,
            block=block,
            unblock_event=unblock_event,
        )

    async def reset_offsets(self, partition_offsets: Iterable[tuple[Partition, Position]] | None = None) -> None:
        """Move partitions, and commit the new positions if there is a consumer group."""
        return await bridged(self._here.reset_offsets, partition_offsets)

    async def seek(self, partition: Partition, offset: int) -> None:
        """Go to the message at `offset`, or the next one that exists."""
        return await bridged(self._here.seek, partition, offset)

    async def commit_offsets(self, partition_offsets: Iterable[tuple[Partition, int]] | None = None) -> None:
        """Commit how far messages were consumed: all that was returned, whether the application is done with it or not."""
        return await bridged(self._here.commit_offsets, partition_offsets)

    async def fetch_offsets(self) -> list[tuple[int, messages.OffsetFetchPartitionResponse]]:
        """Return what the group has committed for each partition, and go there, unless `reset_offset_on_fetch` is False."""
        return await bridged(self._here.fetch_offsets)


class GroupConsumer(Messages[_GroupConsumer]):
    """A consumer that shares a topic with its group: the base of `BalancedConsumer` and `ManagedBalancedConsumer`.

    As `pykafka.compat.group_consumer.GroupConsumer`, which documents parameters and errors.
    """

    async def stop_midway(self) -> None:
        """Stop as `stop()` does, but commit nothing of what the last call returned: the application may still process it."""
        return await bridged(self._here.stop_midway)

    async def start(self) -> None:
        """Join the group and read the assigned partitions; a worker follows the assignment from then on."""
        return await bridged(self._here.start)

    async def stop(self) -> None:
        """Stop consuming, committing first if auto-commit is on; then leave the group, so that others can take over."""
        return await bridged(self._here.stop)

    async def consume_batch(
        self, max_messages: int = BATCH_MESSAGES, block: bool = True, unblock_event: Any = None
    ) -> list[Message]:
        """Return the next messages of the assigned partitions: those that are buffered; wait only for the first."""
        return await bridged(self._here.consume_batch, max_messages, block, unblock_event)

    async def consume_arrow(
        self,
        max_messages: int = ARROW_MESSAGES,
        columns: Sequence[str] | None = None,
        *,
        max_bytes: int = ARROW_BYTES,
        block: bool = True,
        unblock_event: Any = None,
    ) -> pa.RecordBatch | None:
        """Return the next messages of the assigned partitions as Arrow columns; wait only for the first."""
        return await bridged(
            self._here.consume_arrow,
            max_messages,
            columns,
            max_bytes=max_bytes,
            block=block,
            unblock_event=unblock_event,
        )

    @property
    def partitions(self) -> dict[int, Partition]:
        """The partitions this consumer reads at present, by id."""
        return self._inner.partitions

    @property
    def held_offsets(self) -> dict[int, int]:
        """The offset last consumed of each partition, by id; -2 if nothing was consumed from its start on."""
        return self._inner.held_offsets

    async def commit_offsets(self, partition_offsets: Iterable[tuple[Partition, int]] | None = None) -> None:
        """Commit how far this consumer has consumed its partitions; in a rebalance, those that are still its own."""
        return await bridged(self._here.commit_offsets, partition_offsets)

    async def reset_offsets(self, partition_offsets: Iterable[tuple[Partition, Position]] | None = None) -> None:
        """Move partitions of this consumer, and commit the new positions."""
        return await bridged(self._here.reset_offsets, partition_offsets)
