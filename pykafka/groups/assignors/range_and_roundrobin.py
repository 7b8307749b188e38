"""The algorithms `range` and `roundrobin`: for one topic, and as assignors for all topics of a group."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import cycle, islice
from typing import Any, Protocol, TypeVar

from pykafka.common import TopicPartition
from pykafka.groups.assignors.abstract import (
    AbstractPartitionAssignor,
    Racks,
    as_assignments,
    in_order,
    nearness,
    readers_of,
)
from pykafka.protocol.consumer_protocol import ConsumerProtocolAssignment, ConsumerProtocolSubscription


class Divisible(Protocol):
    """A partition, as these algorithms read it, such as `pykafka.metadata.partition.Partition`."""

    @property
    def id(self) -> int: ...
    @property
    def leader(self) -> Any: ...
    @property
    def topic(self) -> Any: ...


P = TypeVar("P", bound=Divisible)
M = TypeVar("M")
T = TypeVar("T")


def in_runs(members: Sequence[M], ordered: Sequence[T]) -> dict[M, list[T]]:
    """Assign runs of neighbours: the algorithm named `range`.

    :param members: in the order that all members agree on, at least one
    :param ordered: the partitions, in the order that all members agree on
    :returns: {member: its run}; the first members get one more if the division has a rest
    """
    size, left_over = divmod(len(ordered), len(members))
    assignments: dict[M, list[T]] = {}
    start = 0
    for place, member in enumerate(members):
        end = start + size + (place < left_over)
        assignments[member] = list(ordered[start:end])
        start = end
    return assignments


def in_turn(
    members: Sequence[M], ordered: Iterable[T], wants: Callable[[M, T], bool] | None = None
) -> dict[M, list[T]]:
    """Assign one by one, as cards are dealt: the algorithm named `roundrobin`.

    :param members: in the order that all members agree on, at least one
    :param ordered: the partitions, in the order that all members agree on
    :param wants: returns whether a member takes this partition; None if each member takes all. Otherwise the next member
        has its turn.
    :returns: {member: its partitions}
    """
    assignments: dict[M, list[T]] = {member: [] for member in members}
    turns = cycle(members)
    for partition in ordered:
        for member in islice(turns, len(members)):
            if wants is None or wants(member, partition):
                assignments[member].append(partition)
                break
    return assignments


def _by_leader(partitions: Mapping[int, P]) -> list[P]:
    # As text, leader first: consumers of PyKafka 2.x use this order, and may be in one ZooKeeper group with ours.
    def place(partition: Divisible) -> str:
        leader, topic = partition.leader, partition.topic
        return f"{topic.name if topic else ''}-{leader.id if leader else -1}-{partition.id}"

    return sorted(partitions.values(), key=place)


def decide_partitions(
    divide: Callable[..., dict[Any, list[P]]],
    order: Callable[[Mapping[int, P]], list[P]],
    participants: Iterable[Any],
    partitions: Mapping[int, P],
    consumer_id: Any,
) -> set[P]:
    """Return the partitions of one member by an algorithm, and an order of partitions that all members agree on."""
    members = sorted(participants)
    if consumer_id not in members:
        raise ValueError(f"consumer {consumer_id!r} is not among the members of the group: {members}")
    return set(divide(members, order(partitions))[consumer_id])


def decide_partitions_range(participants: Iterable[Any], partitions: Mapping[int, P], consumer_id: Any) -> set[P]:
    """Return one member's partitions if each member gets a run of neighbouring ones.

    The first members get one more if the division has a rest. Neighbours have the same leader, as members of groups
    in ZooKeeper order them; in a group that the brokers keep they have neighbouring numbers, whatever their leaders.

    :param participants: ids of all members
    :param partitions: of the topic, by id
    :param consumer_id: the member whose partitions to return
    :raises ValueError: `consumer_id` is not among the members
    """
    return decide_partitions(in_runs, _by_leader, participants, partitions, consumer_id)


def decide_partitions_roundrobin(participants: Iterable[Any], partitions: Mapping[int, P], consumer_id: Any) -> set[P]:
    """Return one member's partitions if these are dealt out one by one, as cards.

    Order, parameters and errors are those of `decide_partitions_range`. Each topic is dealt out by itself, so the first
    member gets the first partition of each.
    """
    return decide_partitions(in_turn, _by_leader, participants, partitions, consumer_id)


class RangePartitionAssignor(AbstractPartitionAssignor):
    """The assignor that cuts each topic into runs, one for each member that reads it; the first runs may be longer by one.

    Partitions of the same number, in topics of the same size with the same readers, go to the same member. With racks a member
    gets partitions that have a replica in its rack first, as many as its run is long (KIP-881).
    """

    name = "range"

    @classmethod
    def assign(
        cls, partitions: Mapping[str, Collection[int]], members: Mapping[str, ConsumerProtocolSubscription]
    ) -> dict[str, ConsumerProtocolAssignment]:
        """Return each member's assignment; see `AbstractPartitionAssignor.assign`."""
        return cls.assign_near(partitions, members, {})

    @classmethod
    def assign_near(
        cls,
        partitions: Mapping[str, Collection[int]],
        members: Mapping[str, ConsumerProtocolSubscription],
        racks: Racks,
    ) -> dict[str, ConsumerProtocolAssignment]:
        """Return each member's assignment; see `AbstractPartitionAssignor.assign_near`."""
        near = nearness(members, racks) if racks else None
        # topics with the same readers and the same partitions are divided alike
        alike: dict[tuple[tuple[str, ...], tuple[int, ...]], list[str]] = {}
        for topic, readers in readers_of(members).items():
            alike.setdefault((tuple(readers), tuple(sorted(partitions.get(topic, ())))), []).append(topic)
        assignments = {}
        for (readers_, ids), topics in alike.items():
            runs = in_runs(readers_, ids) if near is None else _near(readers_, ids, topics, near)
            for member, run in runs.items():
                for topic in topics:
                    assignments[member, topic] = run
        return as_assignments(members, assignments)


def _near(
    readers: Sequence[str], ids: Sequence[int], topics: Sequence[str], near: Callable[[str, TopicPartition], bool]
) -> dict[str, list[int]]:
    """Return runs of the usual lengths, with partitions that are near in all topics before the others.

    Members that can get longer runs of near partitions get the longer runs.
    """
    size, more = divmod(len(ids), len(readers))
    runs: dict[str, list[int]] = {member: [] for member in readers}
    left = list(ids)
    for only_near in (True, False):
        for member in readers:
            fits = [
                id_
                for id_ in left
                if not only_near or all(near(member, TopicPartition(topic, id_)) for topic in topics)
            ]
            room = size + (more > 0 or len(runs[member]) > size) - len(runs[member])
            taken = set(fits[:room])
            runs[member] += fits[:room]
            more -= bool(taken) and len(runs[member]) > size
            left = [id_ for id_ in left if id_ not in taken]
    return runs


class RoundRobinPartitionAssignor(AbstractPartitionAssignor):
    """The assignor that deals out the partitions of all topics in one go; a turn skips members that do not read the topic.

    `pykafka.membershipprotocol.RoundRobinProtocol`, which has the same name in a group, deals out each topic by itself.
    """

    name = "roundrobin"

    @classmethod
    def assign(
        cls, partitions: Mapping[str, Collection[int]], members: Mapping[str, ConsumerProtocolSubscription]
    ) -> dict[str, ConsumerProtocolAssignment]:
        """Return each member's assignment; see `AbstractPartitionAssignor.assign`."""
        readers = readers_of(members)
        ordered = [(topic, id_) for topic in readers for id_ in sorted(partitions.get(topic, ()))]
        assignments: dict[tuple[str, str], list[int]] = {}
        for member, dealt in in_turn(
            in_order(members), ordered, lambda member, partition: member in readers[partition[0]]
        ).items():
            for topic, id_ in dealt:
                assignments.setdefault((member, topic), []).append(id_)
        return as_assignments(members, assignments)
