"""`PositionTransfer`: the positions of a member, from one internal consumer to the next."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import TYPE_CHECKING, NamedTuple

from pykafka.common import TopicPartition
from pykafka.exceptions import OffsetsNotCommitted
from pykafka.utils import get_string

if TYPE_CHECKING:
    from uuid import UUID

    from pykafka.compat.simple_consumer import SimpleConsumer
    from pykafka.consumer.leader_epochs import LeaderEpochs
    from pykafka.metadata.partition import Partition, TopicView


class _Position(NamedTuple):
    """The positions of an internal consumer in one partition when it stopped."""

    position: int
    #: The offset consumed last; -1 for none.
    held: int
    #: The position without what the last call returned, which the application may still process.
    processed: int
    #: The topic that the position is of, and the leader epochs of the records before it.
    topic_id: UUID | None
    leader_epochs: LeaderEpochs


class PositionTransfer:
    """The positions of a member in its partitions, and those in partitions that it has lost.

    Partitions that stay assigned continue where they were; one that comes back continues where the group has committed.

    State: guarded by the `_rebalancing_lock` of the group consumer.

    :param topic: the topic of the group
    """

    def __init__(self, topic: TopicView) -> None:
        self._topic = topic
        #: What the callback gets as the old offsets: {partition id: offset held}.
        self.old_offsets: dict[int, int] = {}
        self._carried: dict[int, _Position] = {}
        #: The partitions that the topic had at this member's first assignment; others were added since.
        self._known: frozenset[int] | None = None
        #: Where the present assignment began, and the positions in partitions that were lost: {partition id: offset}.
        self._begun: dict[int, int] = {}
        self._lost: dict[int, int] = {}

    def take_from(self, consumer: SimpleConsumer) -> None:
        """Note the positions of an internal consumer that has stopped."""
        engine = consumer._engine
        self.old_offsets = consumer.held_offsets
        processed = engine.processed_at_stop
        self._carried = {
            key.partition: _Position(
                owned.position,
                owned.last_offset_consumed,
                processed.get(key, owned.position),
                owned.topic_id,
                owned.leader_epochs,
            )
            for key, owned in engine.partitions.items()
            if owned.position >= 0
        }

    def give_to(self, consumer: SimpleConsumer) -> None:
        """Set the positions of an internal consumer, which is not started yet, to those of the one before."""
        if self._known is None:
            self._known = frozenset(self._topic.partitions)
        engine = consumer._engine
        engine.added = frozenset(key for key in engine.partitions if key.partition not in self._known)
        for id_, carried in self._carried.items():
            key = TopicPartition(get_string(self._topic.name), id_)
            if key in engine.partitions:
                engine.move(key, carried.position, carried.held)
                owned = engine.partitions[key]
                owned.topic_id, owned.leader_epochs = carried.topic_id, carried.leader_epochs
                if carried.processed != carried.position:  # the application still processes the last messages
                    engine.buffers.hold(owned, carried.processed)

    def commit_midway(
        self,
        group: str,
        pairs: Collection[tuple[Partition, int]] | None,
        make: Callable[[Collection[Partition]], SimpleConsumer],
    ) -> None:
        """Commit in a rebalance, while there is no internal consumer, in those partitions that are still this member's.

        :param group: its name
        :param pairs: (Partition, offset) pairs; None for the noted positions: perhaps there are none
        :param make: returns an internal consumer of partitions, not started
        :raises OffsetsNotCommitted: the commit failed, or pairs are of partitions that other members may have by now
        """
        kept = [self._topic.partitions[id_] for id_ in sorted(self._carried) if id_ in self._topic.partitions]
        mine = None if pairs is None else [(partition, offset) for partition, offset in pairs if partition in kept]
        if kept and (mine is None or mine):
            consumer = make(kept)
            try:
                self.give_to(consumer)
                consumer.commit_offsets(mine)
            finally:
                consumer._engine.discard()
        left = {
            (get_string(self._topic.name), partition.id): offset
            for partition, offset in pairs or ()
            if partition not in kept
        }
        if left:
            raise OffsetsNotCommitted(
                f"group {group}: amid a rebalance, other members may have these partitions by now; their next owner consumes "
                "these messages again",
                left,
            )

    def begin(self, consumer: SimpleConsumer) -> None:
        """Note that an assignment begins at the positions of its internal consumer; forget the noted ones."""
        self._carried, self.old_offsets = {}, {}
        self._begun = {key.partition: owned.position for key, owned in consumer._engine.partitions.items()}

    def forget(self, kept: Iterable[int] = ()) -> None:
        """Keep only the positions of some partitions: other members may have consumed the rest meanwhile.

        :param kept: ids of those that were this member's all the time
        """
        wanted = set(kept)
        self._lost |= {id_: carried.position for id_, carried in self._carried.items() if id_ not in wanted}
        self._carried = {id_: carried for id_, carried in self._carried.items() if id_ in wanted}

    def forget_lost(self, ids: Collection[int] | None = None) -> None:
        """Forget the positions in partitions that this member has lost.

        :param ids: of the partitions; None for all
        """
        self._lost = {} if ids is None else {id_: offset for id_, offset in self._lost.items() if id_ not in ids}

    def check_not_stale(self, group: str, pairs: Iterable[tuple[Partition, int]]) -> None:
        """Check that a commit does not put the group back to the position at which this member lost a partition.

        :param group: its name
        :param pairs: (Partition, offset) pairs to commit
        :raises OffsetsNotCommitted: it does
        """
        stale = {
            (get_string(self._topic.name), partition.id): offset
            for partition, offset in pairs
            if offset <= self._lost.get(partition.id, -1) < self._begun.get(partition.id, -1)
        }
        if stale:
            raise OffsetsNotCommitted(
                f"group {group}: this member consumed these offsets before it lost the partitions, and other members have "
                "continued from there; commit_offsets() takes what is consumed now, and reset_offsets() goes back on purpose",
                stale,
            )
