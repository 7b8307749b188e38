"""`AbstractPartitionAssignor`: the interface of assignors, which divide partitions among the members of a group."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import ClassVar

from pykafka.common import TopicPartition
from pykafka.protocol.consumer_protocol import ConsumerProtocolAssignment, ConsumerProtocolSubscription

#: The racks of the replicas of each partition.
Racks = Mapping[TopicPartition, frozenset[str]]


class AbstractPartitionAssignor(ABC):
    """An algorithm that assigns the partitions of any number of topics; members call it on the class or an instance."""

    #: The name that all members of a group must know; other clients' assignors of this name must divide alike.
    name: ClassVar[str]
    #: Whether it assigns no partition to a member while another one claims to own it (KIP-429).
    cooperative: ClassVar[bool] = False

    @classmethod
    @abstractmethod
    def assign(
        cls, partitions: Mapping[str, Collection[int]], members: Mapping[str, ConsumerProtocolSubscription]
    ) -> dict[str, ConsumerProtocolAssignment]:
        """Return each member's assignment.

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
        """Return each member's assignment, in its own rack if that costs no balance (KIP-881); by default racks do not matter.

        :param partitions: as for `assign`
        :param members: as for `assign`
        :param racks: of the replicas of each partition; none if brokers have none
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
        """Return the member's data for the leader's assignor; None for those of `metadata`.

        :param share: the member's last assignment
        :param generation: of that assignment; -1 for none
        """
        return None

    @classmethod  # noqa: B027 - most assignors keep no state
    def on_assignment(cls, assignment: ConsumerProtocolAssignment) -> None:
        """Note this member's assignment; members call it after each rebalance."""


def as_assignments(
    members: Iterable[str], assignments: Mapping[tuple[str, str], Iterable[int]]
) -> dict[str, ConsumerProtocolAssignment]:
    """Return each member's assignment, given {(member id, topic): partition ids}."""
    found: dict[str, ConsumerProtocolAssignment] = {}
    for member in members:
        found[member] = ConsumerProtocolAssignment((), 0)
    for (member, topic), ids in sorted(assignments.items()):
        if ids:
            found[member].partition_assignment.append((topic, sorted(ids)))
    return found


def by_topic(keys: Iterable[TopicPartition]) -> list[tuple[str, list[int]]]:
    """Return partitions as (topic, ids) pairs, sorted."""
    ids: dict[str, list[int]] = {}
    for topic, id_ in sorted(keys):
        ids.setdefault(topic, []).append(id_)
    return list(ids.items())


def nearness(
    members: Mapping[str, ConsumerProtocolSubscription], racks: Racks
) -> Callable[[str, TopicPartition], bool] | None:
    """Return a function (member, partition) -> whether it has a replica in the member's rack; None if racks do not matter.

    :param members: {member id: the metadata that it sent}
    :param racks: of the replicas of each partition
    """
    of_members = {member: subscription.rack_id for member, subscription in members.items() if subscription.rack_id}
    used = frozenset(of_members.values())
    by_key = {key: racks_ & used for key, racks_ in racks.items()}
    if not used or all(racks_ == used for racks_ in by_key.values()) or not any(by_key.values()):
        return None
    nowhere: frozenset[str] = frozenset()
    return lambda member, key: of_members.get(member) in by_key.get(key, nowhere)


def readers_of(members: Mapping[str, ConsumerProtocolSubscription]) -> dict[str, list[str]]:
    """Return {topic: ids of its subscribers, in the order of `in_order`}, sorted by topic.

    :param members: {member id: the metadata that it sent}
    """
    readers: dict[str, list[str]] = {}
    for member in in_order(members):
        for topic in set(members[member].topic_names):  # one may be named twice
            readers.setdefault(topic, []).append(member)
    return dict(sorted(readers.items()))


def in_order(members: Mapping[str, ConsumerProtocolSubscription]) -> list[str]:
    """Return member ids in the order of assignors: static members first, by instance id (KIP-345).

    So a static member that comes back under another member id gets the same partitions.

    :param members: as for `readers_of`
    """

    def place(member: str) -> tuple[bool, str]:
        instance_id = members[member].group_instance_id
        return instance_id is None, member if instance_id is None else instance_id

    return sorted(members, key=place) if len(members) > 1 else list(members)
