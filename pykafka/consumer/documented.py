"""`DocumentedConsumer`: what the reference documents of `SimpleConsumer` for subclasses and old code."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from pykafka.exceptions import (
    ConsumerStoppedException,
    GroupCoordinatorNotAvailable,
    GroupLoadInProgress,
    LeaderNotAvailable,
    NotCoordinatorForGroup,
    NotLeaderForPartition,
    OffsetOutOfRangeError,
    UnknownTopicOrPartition,
)
from pykafka.utils import get_bytes, get_string

if TYPE_CHECKING:
    from pykafka.broker import Broker
    from pykafka.consumer.buffers import OwnedPartition
    from pykafka.consumer.offsets import GroupOffsets
    from pykafka.consumer.options import ConsumerOptions
    from pykafka.consumer.recovery import Recovery
    from pykafka.metadata.cluster import BaseCluster
    from pykafka.partition import Partition, TopicView


class DocumentedConsumer(ABC):
    """Be the part of `SimpleConsumer` that this client itself has no use for.

    Calling these works; overriding one changes nothing but for `_setup_fetch_workers` and `_auto_commit`.
    """

    _cluster: BaseCluster
    _topic: TopicView
    _options: ConsumerOptions
    _partitions_by_id: dict[int, OwnedPartition]
    _recovery: Recovery
    _group_offsets: GroupOffsets | None
    _generation_id: int
    _consumer_id: str
    _running: bool

    @abstractmethod
    def _reset(self, wanted: Mapping[int, Any]) -> None:
        """Move partitions to where an OffsetType or a time says."""

    @property
    def _partitions(self) -> dict[Partition, OwnedPartition]:
        """What is known of each partition: the usage guide rewinds by its `last_offset_consumed`."""
        return {owned.partition: owned for owned in self._partitions_by_id.values()}

    @property
    def generation_id(self) -> int:
        """The generation of the group membership that commits name; -1 for none."""
        return self._generation_id

    @generation_id.setter
    def generation_id(self, value: int) -> None:
        self._generation_id = value
        if self._group_offsets is not None:
            self._group_offsets.generation_id = value

    @property
    def consumer_id(self) -> bytes:
        """The id of the group member that commits name; empty for none."""
        return get_bytes(self._consumer_id)

    @consumer_id.setter
    def consumer_id(self, value: str | bytes) -> None:
        self._consumer_id = get_string(value)
        if self._group_offsets is not None:
            self._group_offsets.member_id = self._consumer_id

    def fetch(self) -> None:
        """Have every partition fetched now that has room in its buffer, without waiting for the answers.

        Fetch workers do so by themselves; nobody needs to call this.

        :raises ConsumerStoppedException: the consumer is not running
        """
        if not self._running:
            raise ConsumerStoppedException(
                "the consumer is not running; call start(), or make another", topic=self._topic.name
            )
        for owned in self._partitions_by_id.values():
            if owned.wake is not None:
                owned.wake.set()

    def cleanup(self) -> None:
        """Have the fetch workers leave this consumer's partitions alone; commits nothing."""
        for owned in self._partitions_by_id.values():
            fetcher = owned.fetcher
            if fetcher is not None:
                fetcher.detach(owned)

    def _setup_fetch_workers(self) -> None:
        """Have the fetch workers of the leaders fetch each partition that is not being fetched."""
        for owned in self._partitions_by_id.values():
            if owned.fetcher is None:
                self._recovery.attach(owned)

    def _update(self) -> None:
        """Bring metadata up to date, and have partitions fetched from where they are led now.

        :raises NoBrokersAvailableError: no broker answered
        """
        self._cluster.update([self._topic.name])
        if self._running:
            self.cleanup()
            self._setup_fetch_workers()

    def _discover_group_coordinator(self) -> Broker | None:
        """Look for the group's coordinator anew and return it; None without a consumer group."""
        if self._group_offsets is None:
            return None
        return self._group_offsets.discover()

    def _discover_offset_manager(self) -> Broker | None:
        """Look for the group's coordinator under its name of 2.0; see `_discover_group_coordinator`."""
        return self._discover_group_coordinator()

    def _build_default_error_handlers(self) -> dict[int, Callable[[Iterable[tuple[OwnedPartition, Any]]], None]]:
        """Return handlers for `pykafka.utils.error_handlers.handle_partition_responses`, by error code.

        They do what fetch workers and commits of this client do by themselves.
        """

        def out_of_range(parts: Iterable[tuple[OwnedPartition, Any]]) -> None:
            self._reset({owned.partition_id: self._options.reset_position() for owned, _ in parts})

        def moved(parts: Iterable[tuple[OwnedPartition, Any]]) -> None:
            self._update()

        def coordinator_moved(parts: Iterable[tuple[OwnedPartition, Any]]) -> None:
            self._discover_group_coordinator()

        return {
            OffsetOutOfRangeError.ERROR_CODE: out_of_range,
            **{
                error.ERROR_CODE: moved
                for error in (UnknownTopicOrPartition, LeaderNotAvailable, NotLeaderForPartition)
            },
            **{
                error.ERROR_CODE: coordinator_moved
                for error in (GroupLoadInProgress, GroupCoordinatorNotAvailable, NotCoordinatorForGroup)
            },
        }
