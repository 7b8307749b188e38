"""`Subscription`: the interface that a program gives to a `ConsumerCoordinator`."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Protocol

from pykafka.common import OffsetAndMetadata, TopicPartition


class Subscription(Protocol):
    """A program's topics and positions; a `ConsumerCoordinator` calls these methods from the workers that call it.

    The auto-commit worker calls `consumed_offsets` as well. Only `revoked` and `assigned` may wait.
    """

    def topics(self) -> Collection[str]:
        """Return the topics to read; when they change, the member joins again."""

    def assigned_partitions(self) -> Collection[TopicPartition]:
        """Return the present share."""

    def consumed_offsets(self) -> Mapping[TopicPartition, OffsetAndMetadata]:
        """Return the offsets to commit: how far each partition of the share was consumed."""

    def revoked(self, partitions: Collection[TopicPartition]) -> object:
        """Stop consuming the share, which the next rebalance takes away; auto-commit, where it is on, has committed before."""

    def assigned(self, partitions: Collection[TopicPartition]) -> object:
        """Take a new share: `assigned_partitions` returns it from now on."""

    def committed(self, partition: TopicPartition, offset: OffsetAndMetadata) -> object:
        """Go on where the group has committed for a partition of the share."""
