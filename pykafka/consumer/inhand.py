"""`InHand`: the partitions whose records the application was given since their last commit, and those that it lost. No I/O."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pykafka.common import TopicPartition
    from pykafka.consumer.buffers import OwnedPartition


class InHand:
    """The uncommitted records of one consumer, by partition: a transaction must not commit results of lost ones.

    A record is in hand from the call that returns it until an offset behind it is committed, or the partition is put back to
    its commit. The cursor of a partition says what was returned, so that reading costs nothing here.

    State: single stores of sets and dictionaries, by any worker.
    """

    def __init__(self) -> None:
        # The offset below which nothing of a partition is in hand, and how often the partition had been moved by then.
        self._settled: dict[TopicPartition, tuple[int, int]] = {}
        # The partitions that were moved while records were in hand: their cursors no longer show it.
        self._moved: set[TopicPartition] = set()
        #: The partitions that went while records were in hand: other consumers may read these again.
        self.lost: set[TopicPartition] = set()

    def has(self, owned: OwnedPartition) -> bool:
        """Return whether records of a partition are in hand."""
        key = owned.key
        offset, moves = self._settled.get(key, (0, owned.moves))
        if key in self._moved or owned.last_offset_consumed >= offset:
            return True
        return (
            owned.moves != moves and owned.taken_in >= 0
        )  # recovery has moved it back, and something was returned since

    def settle(self, owned: OwnedPartition, offset: int) -> None:
        """Note where reading of a partition begins, or its commit: what lies below it is in hand no longer."""
        self._settled[owned.key] = offset, owned.moves
        self._moved.discard(owned.key)

    def move(self, owned: OwnedPartition) -> None:
        """Note that a partition is about to continue elsewhere, because the application says so."""
        if self.has(owned):
            self._moved.add(owned.key)

    def moved(self, owned: OwnedPartition, offset: int) -> None:
        """Note where it continues."""
        self._settled[owned.key] = offset, owned.moves

    def go(self, owned: OwnedPartition) -> None:
        """Note that a partition is about to be given up."""
        if self.has(owned):
            self.lost.add(owned.key)
        self._settled.pop(owned.key, None)
        self._moved.discard(owned.key)

    def put_back(self) -> None:
        """Note that all partitions go back to their commits: the application drops what it has."""
        self.lost.clear()
        self._moved.clear()
