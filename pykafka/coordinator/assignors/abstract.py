"""`AbstractPartitionAssignor`: the interface of what shares out partitions among the members of a group."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Mapping
from typing import ClassVar

from pykafka.protocol import documented


class AbstractPartitionAssignor(ABC):
    """A way to share out partitions of any number of topics; `ConsumerCoordinator` calls it on the class or an instance."""

    #: The name that all members of a group must know; other clients' assignors of this name must divide alike.
    name: ClassVar[str]

    @classmethod
    @abstractmethod
    def assign(
        cls, partitions: Mapping[str, Collection[int]], members: Mapping[str, documented.ConsumerGroupProtocolMetadata]
    ) -> dict[str, documented.MemberAssignment]:
        """Return each member's share.

        :param partitions: {topic: partition ids}, of every topic that a member reads; no ids for a missing topic
        :param members: {member id: the metadata that it sent}
        """

    @classmethod
    def metadata(cls, topics: Iterable[str]) -> documented.ConsumerGroupProtocolMetadata:
        """Return the metadata that a member sends when it joins.

        :param topics: those that it reads
        """
        said = documented.ConsumerGroupProtocolMetadata(0, user_data=b"")
        said.topic_names = [*sorted(topics)]  # perhaps none
        return said

    @classmethod  # noqa: B027 - most forget what they have assigned
    def on_assignment(cls, assignment: documented.MemberAssignment) -> None:
        """Note this member's share; `ConsumerCoordinator` calls it after each rebalance."""


def as_assignments(
    members: Iterable[str], shares: Mapping[tuple[str, str], Iterable[int]]
) -> dict[str, documented.MemberAssignment]:
    """Return each member's share, given {(member id, topic): partition ids}."""
    return {
        member: documented.MemberAssignment(
            [(topic, sorted(ids)) for (owner, topic), ids in sorted(shares.items()) if owner == member and ids], 0
        )
        for member in members
    }
