"""`RangePartitionAssignor`: neighbouring partitions stay together."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from pykafka.coordinator.assignors.abstract import AbstractPartitionAssignor, as_assignments, readers_of
from pykafka.protocol import documented


class RangePartitionAssignor(AbstractPartitionAssignor):
    """Cut each topic into runs, one for each member that wants it; the first runs are longer where it must be.

    Partitions of the same number, in topics of the same size with the same readers, go to the same member.
    """

    name = "range"

    @classmethod
    def assign(
        cls, partitions: Mapping[str, Collection[int]], members: Mapping[str, documented.ConsumerGroupProtocolMetadata]
    ) -> dict[str, documented.MemberAssignment]:
        """Return what each member gets; parameters as of `AbstractPartitionAssignor.assign`."""
        shares: dict[tuple[str, str], list[int]] = {}
        for topic, readers in readers_of(members).items():
            ids = sorted(partitions.get(topic, ()))
            share, left_over = divmod(len(ids), len(readers))
            start = 0
            for place, member in enumerate(readers):
                end = start + share + (place < left_over)
                shares[member, topic] = ids[start:end]
                start = end
        return as_assignments(members, shares)
