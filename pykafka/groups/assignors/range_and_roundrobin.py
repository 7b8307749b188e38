"""`RangePartitionAssignor`: neighbouring partitions stay together."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

from pykafka.common import TopicPartition
from pykafka.groups.assignors.abstract import AbstractPartitionAssignor, Racks, as_assignments, nearness
from pykafka.groups.group_topics import in_order, readers_of
from pykafka.membershipprotocol import in_runs, in_turn
from pykafka.protocol.consumer_protocol import ConsumerProtocolAssignment, ConsumerProtocolSubscription


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
        """Return each member's share; parameters as of `AbstractPartitionAssignor.assign`."""
        return cls.assign_near(partitions, members, {})

    @classmethod
    def assign_near(
        cls,
        partitions: Mapping[str, Collection[int]],
        members: Mapping[str, ConsumerProtocolSubscription],
        racks: Racks,
    ) -> dict[str, ConsumerProtocolAssignment]:
        """Return each member's share; parameters as of `AbstractPartitionAssignor.assign_near`."""
        near = nearness(members, racks)
        # topics with the same readers and the same partitions are divided alike
        alike: dict[tuple[tuple[str, ...], tuple[int, ...]], list[str]] = {}
        for topic, readers in readers_of(members).items():
            alike.setdefault((tuple(readers), tuple(sorted(partitions.get(topic, ())))), []).append(topic)
        shares = {}
        for (readers_, ids), topics in alike.items():
            runs = in_runs(readers_, ids) if near is None else _near(readers_, ids, topics, near)
            shares.update({(member, topic): run for member, run in runs.items() for topic in topics})
        return as_assignments(members, shares)


def _near(
    readers: Sequence[str], ids: Sequence[int], topics: Sequence[str], near: Callable[[str, TopicPartition], bool]
) -> dict[str, list[int]]:
    """Return runs of the usual lengths, with partitions that are near in all topics before the others.

    Those that can be given longer runs of near partitions are the ones that get longer runs.
    """
    size, more = divmod(len(ids), len(readers))
    found: dict[str, list[int]] = {member: [] for member in readers}
    left = list(ids)
    for wanted in (True, False):
        for member in readers:
            fits = [
                id_ for id_ in left if not wanted or all(near(member, TopicPartition(topic, id_)) for topic in topics)
            ]
            room = size + (more > 0 or len(found[member]) > size) - len(found[member])
            taken = set(fits[:room])
            found[member] += fits[:room]
            more -= bool(taken) and len(found[member]) > size
            left = [id_ for id_ in left if id_ not in taken]
    return found


class RoundRobinPartitionAssignor(AbstractPartitionAssignor):
    """The assignor that deals out the partitions of all topics in one go; a turn skips members that do not read the topic.

    `pykafka.membershipprotocol.RoundRobinProtocol`, which has the same name in a group, deals out each topic by itself.
    """

    name = "roundrobin"

    @classmethod
    def assign(
        cls, partitions: Mapping[str, Collection[int]], members: Mapping[str, ConsumerProtocolSubscription]
    ) -> dict[str, ConsumerProtocolAssignment]:
        """Return each member's share; parameters as of `AbstractPartitionAssignor.assign`."""
        readers = readers_of(members)
        ordered = [(topic, id_) for topic in readers for id_ in sorted(partitions.get(topic, ()))]
        shares: dict[tuple[str, str], list[int]] = {}
        for member, dealt in in_turn(in_order(members), ordered, lambda member, one: member in readers[one[0]]).items():
            for topic, id_ in dealt:
                shares.setdefault((member, topic), []).append(id_)
        return as_assignments(members, shares)
