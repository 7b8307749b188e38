"""`DocumentedConsumer`: members that the reference documents of `SimpleConsumer`, for subclasses and old code."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from pykafka.exceptions import (
    GroupCoordinatorNotAvailable,
    GroupLoadInProgress,
    LeaderNotAvailable,
    NotCoordinatorForGroup,
    NotLeaderForPartition,
    OffsetOutOfRangeError,
    UnknownTopicOrPartition,
)
from pykafka.utils import get_string
from pykafka.utils.name import Name

if TYPE_CHECKING:
    from pykafka.compat.blocking_engine import BlockingEngine
    from pykafka.consumer.buffers import OwnedPartition
    from pykafka.metadata.partition import Partition
    from pykafka.network.node import Node


class DocumentedConsumer:
    """The reference's internals, over the engine.

    Calling these works; overriding one has an effect for `_setup_fetch_workers` and `_auto_commit` only.
    """

    _engine: BlockingEngine

    @property
    def _partitions(self) -> dict[Partition, OwnedPartition]:
        """The state of each partition: the usage guide rewinds by its `last_offset_consumed`."""
        return {owned.partition: owned for owned in self._engine.partitions.values()}

    @property
    def generation_id(self) -> int:
        """The generation of the group membership that commits name; -1 for none."""
        return self._engine.membership.generation_id

    @generation_id.setter
    def generation_id(self, value: int) -> None:
        self._engine.membership.generation_id = value

    @property
    def consumer_id(self) -> str:
        """The id of the group member that commits name, a `Name`; empty for none."""
        return Name.of(self._engine.membership.member_id)

    @consumer_id.setter
    def consumer_id(self, value: str | bytes) -> None:
        self._engine.membership.member_id = get_string(value)
        if self._engine.commits is not None:
            self._engine.commits.consumer_id = self._engine.membership.member_id

    def fetch(self) -> None:
        """Fetch every partition that has room in its buffer now, without waiting for the answers.

        Fetch workers do so by themselves; a program need not call this.

        :raises ConsumerStoppedException: the consumer is not running
        """
        if not self._engine.running:
            raise self._engine.stopped()
        for owned in self._engine.partitions.values():
            if owned.wake is not None:
                owned.wake.set()

    def cleanup(self) -> None:
        """Stop fetching this consumer's partitions; commit nothing."""
        self._engine.detach_all()

    def _setup_fetch_workers(self) -> None:
        """Give each partition that is not being fetched to the fetch worker of its leader."""
        self._engine.attach_each()

    def _setup_autocommit_worker(self) -> None:
        """Start the worker that commits regularly.

        :raises KafkaException: there is no consumer group
        """
        self._engine.commits_of("auto_commit_enable").start()

    def _auto_commit(self) -> None:
        """Commit the messages of the calls before the last one, if they are not committed yet.

        `consume()` raises a failure that does not pass by itself, or has lasted for `auto_commit_timeout_ms`.
        """
        self._engine.commits_of("auto_commit_enable").auto_commit()

    def _raise_worker_exceptions(self) -> None:
        """Raise the first error of a worker that was not raised yet."""
        self._engine.raise_errors()

    def _update(self) -> None:
        """Update metadata, and fetch partitions from their present leaders.

        :raises NoBrokersAvailableError: no broker answered
        """
        engine = self._engine
        engine.cluster.update(sorted({key.topic for key in engine.partitions}))
        if engine.running:
            engine.detach_all()
            self._setup_fetch_workers()

    def _discover_group_coordinator(self) -> Node | None:
        """Look for the group's coordinator anew and return it; None without a consumer group."""
        commits = self._engine.commits
        return None if commits is None else commits.group.discover()

    def _discover_offset_manager(self) -> Node | None:
        """Look for the group's coordinator under its name of 2.0; see `_discover_group_coordinator`."""
        return self._discover_group_coordinator()

    def _build_default_error_handlers(self) -> dict[int, Callable[[Iterable[tuple[OwnedPartition, Any]]], None]]:
        """Return handlers for `pykafka.utils.error_handlers.handle_partition_responses`, by error code.

        This client's fetch workers and commits do the same by themselves.
        """

        def out_of_range(parts: Iterable[tuple[OwnedPartition, Any]]) -> None:
            reset = self._engine.options.reset_position()
            self._engine.reset({owned.key: reset for owned, _ in parts})

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
