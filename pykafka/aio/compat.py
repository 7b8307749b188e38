"""`Topic`, `Producer`, `SimpleConsumer`, `GroupConsumer` for coroutines; written by tools/aio_face.py, do not edit."""

from __future__ import annotations

from typing import TYPE_CHECKING, overload

from pykafka.aio.base import AsyncFacade, Messages, Opening, Produces, coroutine, sync_all
from pykafka.compat.group_consumer import GroupConsumer as _GroupConsumer
from pykafka.compat.producer import Producer as _Producer
from pykafka.simpleconsumer import SimpleConsumer as _SimpleConsumer
from pykafka.topic import Topic as _Topic

if TYPE_CHECKING:
    from typing import Any, Literal, Unpack

    from pykafka.compat.options import (
        BalancedConsumerArguments,
        GroupConsumerArguments,
        ManagedBalancedConsumerArguments,
        ProducerArguments,
        SimpleConsumerArguments,
    )
    from pykafka.metadata.partition import Partition


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

    fetch_offset_limits = coroutine(_Topic.fetch_offset_limits)
    earliest_available_offsets = coroutine(_Topic.earliest_available_offsets)
    latest_available_offsets = coroutine(_Topic.latest_available_offsets)

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

    start = coroutine(_Producer.start)
    stop = coroutine(_Producer.stop)
    flush = coroutine(_Producer.flush)
    get_delivery_report = coroutine(_Producer.get_delivery_report)


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

    start = coroutine(_SimpleConsumer.start)
    stop = coroutine(_SimpleConsumer.stop)
    stop_midway = coroutine(_SimpleConsumer.stop_midway)
    consume_batch = coroutine(_SimpleConsumer.consume_batch)
    consume_arrow = coroutine(_SimpleConsumer.consume_arrow)
    reset_offsets = coroutine(_SimpleConsumer.reset_offsets)
    seek = coroutine(_SimpleConsumer.seek)
    commit_offsets = coroutine(_SimpleConsumer.commit_offsets)
    fetch_offsets = coroutine(_SimpleConsumer.fetch_offsets)


class GroupConsumer(Messages[_GroupConsumer]):
    """A consumer that shares a topic with its group: the base of `BalancedConsumer` and `ManagedBalancedConsumer`.

    As `pykafka.compat.group_consumer.GroupConsumer`, which documents parameters and errors.
    """

    stop_midway = coroutine(_GroupConsumer.stop_midway)
    start = coroutine(_GroupConsumer.start)
    stop = coroutine(_GroupConsumer.stop)
    consume_batch = coroutine(_GroupConsumer.consume_batch)
    consume_arrow = coroutine(_GroupConsumer.consume_arrow)

    @property
    def partitions(self) -> dict[int, Partition]:
        """The partitions this consumer reads at present, by id."""
        return self._inner.partitions

    @property
    def held_offsets(self) -> dict[int, int]:
        """The offset last consumed of each partition, by id; -2 if nothing was consumed from its start on."""
        return self._inner.held_offsets

    commit_offsets = coroutine(_GroupConsumer.commit_offsets)
    reset_offsets = coroutine(_GroupConsumer.reset_offsets)
