"""`AbstractPartitionAssignor`: the interface of what shares out partitions among the members of a group."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import ClassVar

from pykafka.common import TopicPartition
from pykafka.protocol.consumer_protocol import ConsumerProtocolAssignment, ConsumerProtocolSubscription

#: The racks of the replicas of each partition.
Racks = Mapping[TopicPartition, frozenset[str]]


class AbstractPartitionAssignor(ABC):
    """A way to share out partitions of any number of topics; members call it on the class or an instance."""

    #: The name that all members of a group must know; other clients' assignors of this name must divide alike.
    name: ClassVar[str]
    #: Whether it gives no partition to a member while another one says that it owns it (KIP-429).
    cooperative: ClassVar[bool] = False

    @classmethod
    @abstractmethod
    def assign(
        cls, partitions: Mapping[str, Collection[int]], members: Mapping[str, ConsumerProtocolSubscription]
    ) -> dict[str, ConsumerProtocolAssignment]:
        """Return each member's share.

        :param partitions: {topic: partition ids}, of every topic that a member reads; no ids for a missing topic
        :param members: {member id: the metadata that it sent}
        """

    @classmethod
    def assign_near(
        cls,
        partitions: Mapping[str, Collection[int]],
        members: Mapping[str, ConsumerProtocolSubscription],
        racks: Racks,
    ) -> dict[str, ConsumerProtocolAssignment]:
        """Return each member's share, in its own rack where that costs no balance (KIP-881); by default racks do not matter.

        :param partitions: as of `assign`
        :param members: as of `assign`
        :param racks: of the replicas of each partition; none where brokers have none
        """
        return cls.assign(partitions, members)

    @classmethod
    def metadata(cls, topics: Iterable[str]) -> ConsumerProtocolSubscription:
        """Return the metadata that a member sends when it joins.

        :param topics: those that it reads
        """
        return ConsumerProtocolSubscription(0, sorted(topics))

    @classmethod
    def user_data(cls, share: Iterable[TopicPartition], generation: int) -> bytes | None:
        """Return what the member tells the leader's assignor; None to leave what `metadata` says.

        :param share: what the member was given last
        :param generation: the generation that gave it; -1 for none
        """
        return None

    @classmethod  # noqa: B027 - most forget what they have assigned
    def on_assignment(cls, assignment: ConsumerProtocolAssignment) -> None:
        """Note this member's share; members call it after each rebalance."""


def as_assignments(
    members: Iterable[str], shares: Mapping[tuple[str, str], Iterable[int]]
) -> dict[str, ConsumerProtocolAssignment]:
    """Return each member's share, given {(member id, topic): partition ids}."""
    found: dict[str, list[tuple[str, list[int]]]] = {member: [] for member in members}
    for (member, topic), ids in sorted(shares.items()):
        if ids:
            found[member].append((topic, sorted(ids)))
    return {member: ConsumerProtocolAssignment(share, 0) for member, share in found.items()}


def by_topic(keys: Iterable[TopicPartition]) -> list[tuple[str, list[int]]]:
    """Return partitions as (topic, ids) pairs, sorted."""
    found: dict[str, list[int]] = {}
    for topic, id_ in sorted(keys):
        found.setdefault(topic, []).append(id_)
    return list(found.items())


def nearness(
    members: Mapping[str, ConsumerProtocolSubscription], racks: Racks
) -> Callable[[str, TopicPartition], bool] | None:
    """Return a function that tells whether a partition has a replica in a member's rack; None where racks make no difference.

    :param members: {member id: the metadata that it sent}
    :param racks: of the replicas of each partition
    """
    of_members = {member: said.rack_id for member, said in members.items() if said.rack_id}
    theirs = frozenset(of_members.values())
    here = {key: found & theirs for key, found in racks.items()}
    if not theirs or all(found == theirs for found in here.values()) or not any(here.values()):
        return None
    nowhere: frozenset[str] = frozenset()
    return lambda member, key: of_members.get(member) in here.get(key, nowhere)
