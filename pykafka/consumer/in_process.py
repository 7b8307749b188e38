"""`InProcess`: the records that an application has, and whose offsets are not committed yet. No I/O."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pykafka.common import TopicPartition
    from pykafka.consumer.buffers import OwnedPartition


class InProcess:
    """The uncommitted records of one consumer, by partition: a transaction must not commit results of lost ones.

    A record is in process from the call that returns it until an offset behind it is committed, or the partition is put back
    to its commit. The cursor of a partition says what was returned, so that reading costs nothing here.

    State: single stores of sets and dictionaries, by any worker.
    """

    def __init__(self) -> None:
        # The offset below which nothing of a partition is in process, and how often the partition had been moved by then.
        self._processed: dict[TopicPartition, tuple[int, int]] = {}
        # The partitions that were moved while records were in process: their cursors no longer show it.
        self._moved: set[TopicPartition] = set()
        #: The partitions that went while records were in process: other consumers may read these again.
        self.lost: set[TopicPartition] = set()

    def has(self, owned: OwnedPartition) -> bool:
        """Return whether records of a partition are in process."""
        key = owned.key
        offset, moves = self._processed.get(key, (0, owned.moves))
        if key in self._moved or owned.last_offset_consumed >= offset:
            return True
        return (
            owned.moves != moves and owned.taken_in >= 0
        )  # recovery has moved it back, and something was returned since

    def processed(self, owned: OwnedPartition, offset: int) -> None:
        """Note where reading of a partition begins, or its commit: what lies below it is processed."""
        self.moved(owned, offset)
        self._moved.discard(owned.key)

    def move(self, owned: OwnedPartition) -> None:
        """Note that a partition is about to continue elsewhere, because the application says so."""
        if self.has(owned):
            self._moved.add(owned.key)

    def moved(self, owned: OwnedPartition, offset: int) -> None:
        """Note where it continues."""
        self._processed[owned.key] = offset, owned.moves

    def give_up(self, owned: OwnedPartition) -> None:
        """Note that a partition is about to be given up."""
        if self.has(owned):
            self.lost.add(owned.key)
        self._processed.pop(owned.key, None)
        self._moved.discard(owned.key)

    def put_back(self) -> None:
        """Note that all partitions go back to their commits: the application drops what it has."""
        self.lost.clear()
        self._moved.clear()
