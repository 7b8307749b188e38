"""Types shared by the parts of a fetcher: its members and their consumers, and what one request asks for. No I/O."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, NamedTuple

from pykafka.common import TopicPartition

if TYPE_CHECKING:
    from uuid import UUID

    from pykafka.consumer.buffers import OwnedPartition
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
    :param topic_id: of the topic
    """

    offset: int
    log_epoch: int
    leader_epoch: int
    topic_id: UUID | None
    members: list[tuple[Member, int]]

    @property
    def max_bytes(self) -> int:
        """How much to fetch (bytes)."""
        if len(self.members) == 1:
            return self.members[0][0].owned.max_bytes
        return max(member.owned.max_bytes for member, _ in self.members)

    def is_shared_by(self, owned: OwnedPartition, offset: int) -> bool:
        """Return whether the answer serves another consumer of the partition, too."""
        return (offset, owned.leader_epochs.before(offset), owned.topic_id) == (
            self.offset,
            self.log_epoch,
            self.topic_id,
        )


class Plan(NamedTuple):
    """The next question to the broker.

    :param partitions: those that have room
    :param max_bytes: the largest answer that there is room for (bytes)
    :param held_back: whether partitions were left out that may want to join soon
    """

    partitions: dict[TopicPartition, Asked]
    max_bytes: int = 0
    held_back: bool = False
