"""Types shared by the parts of a fetcher: its members and their consumers, and what one request asks for. No I/O."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, NamedTuple

from pykafka.common import TopicPartition

if TYPE_CHECKING:
    from uuid import UUID

    from pykafka.consumer.buffers import Buffers, OwnedPartition
    from pykafka.consumer.fetching_consumer import FetchingConsumer


class Member(NamedTuple):
    """A partition that is attached to a fetcher, and its consumer, which the fetcher does not keep alive."""

    owned: OwnedPartition
    consumer: weakref.ref[FetchingConsumer]


class Asked(NamedTuple):
    """A partition of a request, and the members that want it, each with its epoch.

    :param offset: to fetch from
    :param log_epoch: the leader epoch of the record before that
    :param leader_epoch: of the leader that the client knows
    :param max_bytes: how much to fetch (bytes)
    :param topic_id: of the topic
    """

    offset: int
    log_epoch: int
    leader_epoch: int
    max_bytes: int
    topic_id: UUID | None
    members: list[tuple[Member, int]]

    def is_shared_by(self, owned: OwnedPartition, offset: int) -> bool:
        """Return whether the answer serves another consumer of the partition, too."""
        place = offset, owned.leader_epochs.before(offset), owned.topic_id
        return place == (self.offset, self.log_epoch, self.topic_id)


class Plan(NamedTuple):
    """The next question to the broker.

    :param partitions: those that have room
    :param max_bytes: the largest answer that there is room for (bytes)
    :param held_back: whether partitions were left out that may want to join soon
    :param has_ids: whether the ids of all topics are known
    :param buffered: how much each consumer had buffered (bytes)
    """

    partitions: dict[TopicPartition, Asked]
    max_bytes: int = 0
    held_back: bool = False
    has_ids: bool = True
    buffered: tuple[tuple[Buffers, int], ...] = ()

    def is_current(self) -> bool:
        """Return whether the next question is the same: nothing was read, moved or enlarged, and all consumers are there."""
        for buffers, nbytes in self.buffered:
            if buffers.nbytes != nbytes:
                return False
        for offset, _, leader_epoch, max_bytes, topic_id, members in self.partitions.values():
            for (owned, consumer), epoch in members:
                if (
                    owned.epoch != epoch
                    or owned.fetch_offset != offset
                    or owned.paused
                    or owned.leader_epoch != leader_epoch
                    or owned.max_bytes > max_bytes
                    or owned.topic_id is not topic_id
                    or consumer() is None
                ):
                    return False
        return True
