"""`AbstractPartitionAssignor`: what shares out partitions among the members of a group."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Mapping
from typing import ClassVar

from pykafka.protocol import documented


class AbstractPartitionAssignor(ABC):
    """Share out partitions; what is called on the class as well as on an instance of it."""

    #: The name that all members of a group must know; other clients' assignors of this name must divide alike.
    name: ClassVar[str]

    @classmethod
    @abstractmethod
    def assign(
        cls, partitions: Mapping[str, Collection[int]], members: Mapping[str, documented.ConsumerGroupProtocolMetadata]
    ) -> dict[str, documented.MemberAssignment]:
        """Return what each member gets.

        :param partitions: {topic: partition ids}, of every topic that a member wants; of a missing topic, none
        :param members: {member id: what it said}
        """

    @classmethod
    def metadata(cls, topics: Iterable[str]) -> documented.ConsumerGroupProtocolMetadata:
        """Return what a member of these topics says when it joins."""
        said = documented.ConsumerGroupProtocolMetadata(0, user_data=b"")
        said.topic_names = [*sorted(topics)]  # perhaps none
        return said

    @classmethod  # noqa: B027 - most forget what they have assigned
    def on_assignment(cls, assignment: documented.MemberAssignment) -> None:
        """Be told this member's share."""


def readers_of(members: Mapping[str, documented.ConsumerGroupProtocolMetadata]) -> dict[str, list[str]]:
    """Return {topic: ids of the members that want it, sorted}, sorted by topic."""
    readers: dict[str, list[str]] = {}
    for member in sorted(members):
        for topic in members[member].topic_names:
            readers.setdefault(topic if isinstance(topic, str) else topic.decode(), []).append(member)
    return dict(sorted(readers.items()))


def as_assignments(
    members: Iterable[str], shares: Mapping[tuple[str, str], Iterable[int]]
) -> dict[str, documented.MemberAssignment]:
    """Return what each member gets, given {(member id, topic): partition ids}."""
    return {
        member: documented.MemberAssignment(
            [(topic, sorted(ids)) for (owner, topic), ids in sorted(shares.items()) if owner == member and ids], 0
        )
        for member in members
    }
