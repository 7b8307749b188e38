"""`RoundRobinPartitionAssignor`: partitions are dealt out one by one."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from itertools import cycle

from pykafka.coordinator.assignors.abstract import AbstractPartitionAssignor, as_assignments, readers_of
from pykafka.protocol import documented


class RoundRobinPartitionAssignor(AbstractPartitionAssignor):
    """Deal out the partitions of all topics in one go; a member that does not want a topic is passed over."""

    name = "roundrobin"

    @classmethod
    def assign(
        cls, partitions: Mapping[str, Collection[int]], members: Mapping[str, documented.ConsumerGroupProtocolMetadata]
    ) -> dict[str, documented.MemberAssignment]:
        """Return what each member gets; parameters as of `AbstractPartitionAssignor.assign`."""
        shares: dict[tuple[str, str], list[int]] = {}
        turns = cycle(sorted(members))
        for topic, readers in readers_of(members).items():
            for id_ in sorted(partitions.get(topic, ())):
                member = next(member for member in turns if member in readers)
                shares.setdefault((member, topic), []).append(id_)
        return as_assignments(members, shares)
