"""The words that the parts of a fetcher speak with: its members and their consumers, and what one request asks for. No I/O."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple, Protocol

from pykafka.common import TopicPartition

if TYPE_CHECKING:
    from uuid import UUID

    from pykafka.consumer.buffers import OwnedPartition
    from pykafka.exceptions import KafkaException


class Subscriber(Protocol):
    """The consumer of a partition, as far as the fetcher knows it."""

    def is_gone(self) -> bool:
        """Return whether the application has dropped the consumer, so that nothing can read its messages."""

    def fetch_failed(self, owned: OwnedPartition, error: KafkaException) -> None:
        """Deal with an error of a partition, which is detached from its fetcher. Must not block."""

    def redirected(self, owned: OwnedPartition, broker_id: int) -> None:
        """Fetch a partition from the replica that its leader has named; it is detached from its fetcher. Must not block."""

    def take_hint(self, owned: OwnedPartition, hint: LeaderHint) -> bool:
        """Fetch a partition from the leader that its former one has named, if that is news; return whether it is.

        The partition is detached from its fetcher. Must not block.
        """

    def arrived(self) -> None:
        """Wake the application: there is something to read."""

    def tick(self) -> None:
        """Do what is due by time; called every second or so. Must not block."""


class LeaderHint(NamedTuple):
    """The leader that a broker has named beside its error (KIP-951).

    :param leader_id: the number of its broker
    :param leader_epoch: its epoch
    :param endpoints: addresses that came with it: {broker number: (host, port)}
    """

    leader_id: int
    leader_epoch: int
    endpoints: Mapping[int, tuple[str, int]]


class Member(NamedTuple):
    """A partition that is attached to a fetcher, and its consumer."""

    owned: OwnedPartition
    subscriber: Subscriber


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
        return (offset, owned.lineage.before(offset), owned.topic_id) == (self.offset, self.log_epoch, self.topic_id)


class Plan(NamedTuple):
    """The next question to the broker.

    :param partitions: those that have room
    :param max_bytes: the largest answer that there is room for (bytes)
    :param held_back: whether partitions were left out that may want to join soon
    """

    partitions: dict[TopicPartition, Asked]
    max_bytes: int = 0
    held_back: bool = False
