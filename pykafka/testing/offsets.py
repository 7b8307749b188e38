"""`Offsets`: the committed offsets of all groups, and those of transactions under way."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING, Final, NamedTuple
from uuid import UUID

from pykafka.exceptions import InvalidProducerEpoch

if TYPE_CHECKING:
    from pykafka.testing.topics import Topic
    from pykafka.testing.waiters import Waiters

#: Topic and number of a partition.
Key = tuple[str, int]
#: How many partitions __consumer_offsets has.
_PARTITIONS: Final = 50


def partition_of(group: str) -> int:
    """Return the partition of __consumer_offsets that has the offsets of a group."""
    # Kafka: Utils.abs(group.hashCode).
    number = 0
    for unit in memoryview(group.encode("utf-16-le")).cast("H"):
        number = (31 * number + unit) & 0xFFFFFFFF
    return (number & 0x7FFFFFFF) % _PARTITIONS


class Committed(NamedTuple):
    """A committed offset.

    :param offset: of the next record to read
    :param leader_epoch: of the record before; -1: not known
    :param metadata: what the member notes with it
    :param topic_id: offsets end with their topic
    :param commit_ms: when (ms since 1970)
    :param keep_ms: how long it is kept (ms), by a request before version 5; None: as the brokers are configured
    :param number: counts commits: a transaction's offset does not replace a later one
    """

    offset: int
    leader_epoch: int
    metadata: str
    topic_id: UUID
    commit_ms: int
    keep_ms: int | None
    number: int


class Offsets:
    """The offsets of a cluster's groups, by group, topic and partition.

    :param waiters: have the cluster's clock
    :param topics: of the cluster, by name
    """

    def __init__(self, waiters: Waiters, topics: dict[str, Topic]) -> None:
        self._waiters = waiters
        self._topics = topics
        self._committed: defaultdict[str, dict[Key, Committed]] = defaultdict(dict)
        #: By producer id, then group.
        self._pending: defaultdict[int, defaultdict[str, dict[Key, Committed]]] = defaultdict(lambda: defaultdict(dict))
        #: The latest epochs that offsets or markers had, by producer id and partition of __consumer_offsets.
        self._epochs: dict[tuple[int, int], int] = {}
        self._number = 0

    def _made(self, topic: str, offset: int, leader_epoch: int, metadata: str | None, keep_ms: int | None) -> Committed:
        self._number += 1
        topic_id = self._topics[topic].id
        now_ms = self._waiters.now_ms()
        return Committed(offset, leader_epoch, metadata or "", topic_id, now_ms, keep_ms, self._number)

    def commit(
        self,
        group: str,
        topic: str,
        partition: int,
        offset: int,
        leader_epoch: int = -1,
        metadata: str | None = None,
        keep_ms: int | None = None,
    ) -> None:
        """Store an offset of a partition that there is.

        :param keep_ms: how long it is kept (ms); None: as the brokers are configured
        """
        made = self._made(topic, offset, leader_epoch, metadata, keep_ms)
        self._committed[group][topic, partition] = made

    def commit_pending(
        self,
        producer_id: int,
        group: str,
        topic: str,
        partition: int,
        offset: int,
        leader_epoch: int = -1,
        metadata: str | None = None,
    ) -> None:
        """Store an offset that becomes valid when the producer commits its transaction."""
        made = self._made(topic, offset, leader_epoch, metadata, None)
        self._pending[producer_id][group][topic, partition] = made

    def is_open(self, producer_id: int, epoch: int, group: str) -> bool:
        """Return whether a transaction has offsets in the group's partition of __consumer_offsets: no one asks for it again."""
        partition = partition_of(group)
        is_here = any(partition_of(one) == partition for one in self._pending.get(producer_id, ()))
        return is_here and self._epochs.get((producer_id, partition)) == epoch

    def check_epoch(self, producer_id: int, epoch: int, group: str) -> None:
        """Check the epoch of a producer that commits offsets of a group, and note it.

        :raises InvalidProducerEpoch: the group's partition of __consumer_offsets has had a later one
        """
        key = producer_id, partition_of(group)
        if epoch < self._epochs.get(key, epoch):
            raise InvalidProducerEpoch
        self._epochs[key] = epoch

    def end_transaction(self, producer_id: int, epoch: int, groups: Collection[str], is_commit: bool) -> None:
        """Make the offsets of a producer's transaction valid, or forget them.

        :param epoch: of the markers
        :param groups: of the transaction; a marker ends the offsets of all groups in its partition of __consumer_offsets
        """
        marked = {partition_of(group) for group in groups}
        for partition in marked:
            self._epochs[producer_id, partition] = epoch
        pending = self._pending[producer_id]
        for group in [group for group in pending if partition_of(group) in marked]:
            committed = self._committed[group]
            for key, made in pending.pop(group).items():
                before = committed.get(key)
                if is_commit and (before is None or before.number < made.number):
                    committed[key] = made
        if not pending:
            self._pending.pop(producer_id, None)

    def get(self, group: str, topic: str, partition: int) -> Committed | None:
        """Return the committed offset of a partition; None: there is none, or its topic was deleted since."""
        return self.of_group(group).get((topic, partition))

    def of_group(self, group: str) -> dict[Key, Committed]:
        """Return all offsets of a group; those of deleted topics go."""
        committed = self._committed.get(group)
        if committed is None:
            return {}
        for key in [key for key, made in committed.items() if not self._has_topic(key, made)]:
            del committed[key]
        return committed

    def _has_topic(self, key: Key, made: Committed) -> bool:
        topic = self._topics.get(key[0])
        return topic is not None and topic.id == made.topic_id

    def is_pending(self, group: str, topic: str, partition: int) -> bool:
        """Return whether a transaction under way has an offset for a partition."""
        return any((topic, partition) in groups[group] for groups in self._pending.values() if group in groups)

    def pending_groups(self) -> Iterator[str]:
        """Yield the groups that transactions under way have offsets for."""
        for groups in self._pending.values():
            yield from groups

    def delete(self, group: str, topic: str, partition: int) -> None:
        """Forget the offsets of one partition, also those of transactions under way."""
        for offsets in self._of(group):
            offsets.pop((topic, partition), None)

    def delete_group(self, group: str) -> None:
        """Forget all offsets of a group."""
        for offsets in self._of(group):
            offsets.clear()
        self._committed.pop(group, None)

    def _of(self, group: str) -> Iterator[dict[Key, Committed]]:
        for by_group in (self._committed, *self._pending.values()):
            if group in by_group:
                yield by_group[group]

    def expire(self, group: str, since_ms: int, retention_ms: int) -> None:
        """Forget the offsets of an empty group that are too old.

        :param since_ms: when it became empty (ms since 1970); offsets count from then on, or from their commit
        :param retention_ms: how long they are kept (ms)
        """
        committed, now_ms = self.of_group(group), self._waiters.now_ms()
        for key, made in list(committed.items()):
            if made.keep_ms is None:
                until_ms = max(made.commit_ms, since_ms) + retention_ms
            else:
                until_ms = made.commit_ms + made.keep_ms
            if until_ms <= now_ms:
                del committed[key]
