"""The internal consumers of a member: how they are made, a new one for each share."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pykafka.compat.simple_consumer import SimpleConsumer

if TYPE_CHECKING:
    from pykafka.compat.deserializing import Deserializer
    from pykafka.consumer.options import ConsumerOptions
    from pykafka.handlers.base import EventType
    from pykafka.metadata.cluster import BaseCluster
    from pykafka.metadata.partition import Partition, TopicView


@dataclass
class InternalConsumers:
    """A maker of internal consumers, with what all of a member have in common.

    State: `start_over` is guarded by the `_rebalancing_lock` of the group consumer.

    :param start_over: whether the next one begins at `auto_offset_reset`, whatever the group has committed; that is for the
        first share alone: later ones go on where the group has committed
    """

    topic: TopicView
    cluster: BaseCluster
    options: ConsumerOptions
    deserializer: Deserializer | None
    use_rdkafka: bool
    start_over: bool

    def make(self, partitions: Iterable[Partition], stopping: EventType) -> SimpleConsumer:
        """Return a consumer of these partitions, not started; its owner stops it, not the cluster's `close()`.

        :param stopping: set when the owner stops
        """
        kind = SimpleConsumer
        if self.use_rdkafka:
            from pykafka.rdkafka import RdKafkaSimpleConsumer

            kind = RdKafkaSimpleConsumer
        options = replace(self.options, reset_offset_on_start=self.start_over)
        consumer = kind._of(self.topic, self.cluster, options, sorted(partitions), self.deserializer)
        consumer._engine.owner_stopping = stopping
        # its last commit needs the membership, so closing the client must not stop it by itself
        self.cluster.leave_to_owner(consumer)
        return consumer


def discard(consumer: SimpleConsumer) -> None:
    """Stop an internal consumer without committing anything."""
    consumer._engine.never_commit()
    consumer.stop()
