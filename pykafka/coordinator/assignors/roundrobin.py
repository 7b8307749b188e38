"""`RoundRobinPartitionAssignor`: partitions are dealt out one by one."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from pykafka.groups.assignors.abstract import AbstractPartitionAssignor, as_assignments

from pykafka.compat import messages
from pykafka.groups.group_topics import in_order, readers_of
from pykafka.membershipprotocol import in_turn


class RoundRobinPartitionAssignor(AbstractPartitionAssignor):
    """The assignor that deals out the partitions of all topics in one go; a turn skips members that do not read the topic.

    `pykafka.membershipprotocol.RoundRobinProtocol`, which has the same name in a group, deals out each topic by itself.
    """

    name = "roundrobin"

    @classmethod
    def assign(
        cls, partitions: Mapping[str, Collection[int]], members: Mapping[str, messages.ConsumerGroupProtocolMetadata]
    ) -> dict[str, messages.MemberAssignment]:
        """Return each member's share; parameters as of `AbstractPartitionAssignor.assign`."""
        readers = readers_of(members)
        ordered = [(topic, id_) for topic in readers for id_ in sorted(partitions.get(topic, ()))]
        shares: dict[tuple[str, str], list[int]] = {}
        for member, dealt in in_turn(in_order(members), ordered, lambda member, one: member in readers[one[0]]).items():
            for topic, id_ in dealt:
                shares.setdefault((member, topic), []).append(id_)
        return as_assignments(members, shares)
