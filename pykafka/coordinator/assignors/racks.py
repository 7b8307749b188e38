"""Which members are in the rack of a replica of which partitions (KIP-881)."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from pykafka.groups.assignors.abstract import Racks

from pykafka.common import TopicPartition
from pykafka.compat import messages


def nearness(
    members: Mapping[str, messages.ConsumerGroupProtocolMetadata], racks: Racks
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
