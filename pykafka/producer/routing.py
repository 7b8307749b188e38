"""`Routing`: which sender has which partition's batches, kept up with the leaders."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from pykafka.exceptions import KafkaException, LeaderNotFoundError
from pykafka.producer.accumulator import Owner, PartitionQueue

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pykafka.broker import Broker
    from pykafka.partition import Partition
    from pykafka.producer.accumulator import MessageBatch
    from pykafka.producer.core import ProducerCore

log = logging.getLogger(__name__)


class Routing:
    """A queue for each partition, a sender for each leader, and the sender of each queue.

    State: changes under the producer's lock.

    :param core: of the producer whose messages these are
    """

    def __init__(self, core: ProducerCore) -> None:
        self._core = core
        self.queues: dict[int, PartitionQueue] = {}
        self.partitions: list[Partition] = []
        self.owned_brokers: dict[int, Owner] = {}
        #: Whether a sender has found that leaders have moved.
        self.stale = False
        #: Whether the cluster knows leaders that were not taken over yet: no metadata is needed for them.
        self.moved = False
        #: Whether the producer was stopped; it routes anew when it starts again.
        self.ended = False
        #: The topic's `changes` that were taken over last.
        self.seen_changes = -1
        self._seen_generation = -1

    @property
    def behind(self) -> bool:
        """Whether the topic has other partitions since, or the cluster has asked about all topics: leaders may have moved."""
        if self.ended:
            return False
        return self.outgrown or self._core.cluster.complete_generation > self._seen_generation

    @property
    def outgrown(self) -> bool:
        """Whether partitions have come or gone since, as any part of this client has noticed."""
        return self._core.topic.changes != self.seen_changes

    def leader_of(self, queue: PartitionQueue) -> Broker | None:
        """Return the broker that leads a partition; None while there is none."""
        partition = self._core.topic.partitions.get(queue.partition_id)
        return partition.leader if partition is not None else None

    def refresh(self) -> bool:
        """Ask where the leaders are now, and hand each queue to the right sender; False where that failed."""
        core = self._core
        self.stale = self.moved = False
        if self.ended:
            return True
        try:
            core.cluster.refresh(self._seen_generation, [core.topic.name])
            core.hooks._setup_owned_brokers()
        except KafkaException as error:
            self._warn(error)
            self.stale = True
        return not self.stale

    def catch_up(self) -> None:
        """Take over what others have had the cluster say since, and leaders that brokers have named."""
        self.moved = False
        try:
            self._core.hooks._setup_owned_brokers()
        except KafkaException as error:
            self._warn(error)
            self.stale = True

    def _warn(self, error: KafkaException) -> None:
        core = self._core
        # one a reason: where no broker can be reached, every producer of the client says so
        about = type(error).__name__
        core.cluster.limiter.warn(log, about, "no leaders for %s: %s", core.topic.name, error)

    def set_up(self) -> None:
        """Give each leader a sender, and each partition's queue to its leader's.

        :raises LeaderNotFoundError: no partition has had a leader yet
        """
        core = self._core
        self._seen_generation = core.cluster.generation
        self.seen_changes = core.topic.changes
        partitions = [partition for _, partition in sorted(core.topic.partitions.items())]
        with core.lock:
            if self.ended:
                return
            fallback = next(iter(self.owned_brokers.values()), None)
            for partition in partitions:
                queue = self.queues.get(partition.id)
                if queue is None:
                    queue = self.queues[partition.id] = PartitionQueue(partition.id)
                    queue.armed = core.options.sync  # the worker that produces also sends
                self._hand_over(queue, self._owner_for(partition.leader) or queue.owner or fallback)
            self.partitions = partitions
            led = [queue for partition in partitions if (queue := self.queues[partition.id]).owner is not None]
            core.accumulator.queues = led
        for owned in list(self.owned_brokers.values()):
            owned.wake.set()
        if not led:
            raise LeaderNotFoundError(
                "no partition of the topic has a leader; check that its brokers are up", topic=core.topic.name
            )

    def wake_owners(self, batches: Iterable[MessageBatch]) -> None:
        """Wake the senders that own the partitions of these batches now, where there is something to send."""
        for batch in batches:
            queue = self.queues.get(batch.partition_id)
            if queue is None or queue.owner is None:
                continue
            # in this order: a message that comes in between wakes the sender itself
            queue.armed = self._core.options.sync
            if queue.waiting:
                queue.owner.wake.set()

    def _owner_for(self, broker: Broker | None) -> Owner | None:
        if broker is None:
            return None
        owned = self.owned_brokers.get(broker.id)
        if owned is None:
            owned = self.owned_brokers[broker.id] = self._core.make_sender(broker)
        owned.broker = broker  # a broker that moved to another address is another object
        return owned

    def _hand_over(self, queue: PartitionQueue, owner: Owner | None) -> None:
        if queue.owner is owner:
            return
        if queue.owner is not None:
            queue.owner.queues.pop(queue.partition_id, None)
            batch = self._core.accumulator.take_open(queue)
            if batch is not None:
                queue.sealed.append(batch)
            queue.open = None
        for flight in queue.lane.window:
            flight.item.retry_at = 0.0  # what it waited for has come
        if owner is not None:
            owner.queues[queue.partition_id] = queue
        queue.owner = owner
