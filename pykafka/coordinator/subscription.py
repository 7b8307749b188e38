"""`Subscription`: what a `ConsumerCoordinator` wants of whoever consumes."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Protocol

from pykafka.common import OffsetAndMetadata, TopicPartition

__all__ = ["OffsetAndMetadata", "Subscription", "TopicPartition"]


class Subscription(Protocol):
    """What a `ConsumerCoordinator` asks and tells whoever consumes; it is called by the coordinator's callers' workers.

    `consumed_offsets` is called by the auto-commit worker as well. Nothing but `revoked` and `assigned` may wait.
    """

    def topics(self) -> Collection[str]:
        """Return the topics to read; when they change, the member joins again."""

    def assigned_partitions(self) -> Collection[TopicPartition]:
        """Return the present share."""

    def consumed_offsets(self) -> Mapping[TopicPartition, OffsetAndMetadata]:
        """Return how far each partition of the share was consumed, to be committed."""

    def revoked(self, partitions: Collection[TopicPartition]) -> object:
        """Be told that the share is about to be void; what was consumed has been committed where auto-commit is on."""

    def assigned(self, partitions: Collection[TopicPartition]) -> object:
        """Take a new share: `assigned_partitions` returns it from now on."""

    def committed(self, partition: TopicPartition, offset: OffsetAndMetadata) -> object:
        """Be told what the group has committed for a partition of the share."""
