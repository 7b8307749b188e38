"""`Topic` for coroutines. Written by tools/aio_face.py from the blocking class; do not edit."""

from __future__ import annotations

from typing import TYPE_CHECKING, overload

from pykafka.aio.base import Face, Opening, sync_all
from pykafka.aio.consumers import GroupConsumer, SimpleConsumer
from pykafka.aio.producer import Producer
from pykafka.handlers.bridge import bridged
from pykafka.topic import Topic as _Topic

if TYPE_CHECKING:
    import datetime
    from collections.abc import Iterable
    from typing import Any, Literal, Unpack

    from pykafka.compat import messages
    from pykafka.compat.options import (
        BalancedConsumerArguments,
        GroupConsumerArguments,
        ManagedBalancedConsumerArguments,
        ProducerArguments,
        SimpleConsumerArguments,
    )
    from pykafka.metadata.partition import Partition


class Topic(Face[_Topic]):
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
    ) -> dict[int, messages.OffsetPartitionResponse]:
        """Return the offsets of each partition by time."""
        return await bridged(
            lambda: self._here.fetch_offset_limits(
                offsets_before=offsets_before, max_offsets=max_offsets, partitions=partitions
            )
        )

    async def earliest_available_offsets(self) -> dict[int, messages.OffsetPartitionResponse]:
        """Return the oldest offset kept in each partition, in the form of `fetch_offset_limits`."""
        return await bridged(self._here.earliest_available_offsets)

    async def latest_available_offsets(self) -> dict[int, messages.OffsetPartitionResponse]:
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
