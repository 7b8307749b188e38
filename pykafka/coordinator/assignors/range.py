"""`RangePartitionAssignor`: neighbouring partitions stay together."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from pykafka.coordinator.assignors.abstract import AbstractPartitionAssignor, as_assignments
from pykafka.coordinator.topics import readers_of
from pykafka.membershipprotocol import in_runs
from pykafka.protocol import documented


class RangePartitionAssignor(AbstractPartitionAssignor):
    """The assignor that cuts each topic into runs, one for each member that reads it; the first runs may be longer by one.

    Partitions of the same number, in topics of the same size with the same readers, go to the same member.
    """

    name = "range"

    @classmethod
    def assign(
        cls, partitions: Mapping[str, Collection[int]], members: Mapping[str, documented.ConsumerGroupProtocolMetadata]
    ) -> dict[str, documented.MemberAssignment]:
        """Return each member's share; parameters as of `AbstractPartitionAssignor.assign`."""
        return as_assignments(
            members,
            {
                (member, topic): ids
                for topic, readers in readers_of(members).items()
                for member, ids in in_runs(readers, sorted(partitions.get(topic, ()))).items()
            },
        )
