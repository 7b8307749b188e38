"""`Assigning`: what a member of many topics says when it joins, and how it shares them out where it leads the group."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from pykafka.common import TopicPartition
from pykafka.coordinator.topics import SharedTopics, readers_of
from pykafka.exceptions import InconsistentGroupProtocol
from pykafka.protocol import documented

if TYPE_CHECKING:
    from pykafka.coordinator.assignors.abstract import AbstractPartitionAssignor
    from pykafka.metadata.cluster import BaseCluster


class Assigning:
    """The assignors of a member, and the topics that it has shared out by them as the leader.

    State: belongs to the worker that looks after the membership.

    :param cluster: that has the topics
    :param group_id: the group, for errors
    :param assignors: those that the member knows, the best first
    :raises ValueError: there are none
    """

    def __init__(
        self,
        cluster: BaseCluster,
        group_id: str,
        assignors: Iterable[AbstractPartitionAssignor | type[AbstractPartitionAssignor]],
    ) -> None:
        self._cluster = cluster
        self._group_id = group_id
        self._assignors = {one.name: one for one in assignors}
        if not self._assignors:
            raise ValueError("assignors must name one at least, such as RangePartitionAssignor")
        self.topics = SharedTopics(cluster)

    def protocols(self, topics: Iterable[str]) -> Sequence[tuple[str, bytes]]:
        """Return the name of each assignor, the best first, with the metadata that names this member's topics."""
        wanted = frozenset(topics)
        return [(name, bytes(one.metadata(wanted).get_bytes())) for name, one in self._assignors.items()]

    def share_out(
        self, protocol: str, members: Sequence[tuple[str, bytes]], timeout_ms: int | None = None
    ) -> Mapping[str, bytes]:
        """Return each member's share of all topics that members read.

        :param protocol: the assignor that the coordinator has chosen
        :param members: (member id, metadata) pairs
        :param timeout_ms: for asking about topics that are not known yet; by default each broker has the socket timeout
        :raises InconsistentGroupProtocol: this member does not know the assignor
        """
        wanted = {
            member: documented.ConsumerGroupProtocolMetadata.from_bytestring(metadata) for member, metadata in members
        }
        topics = list(readers_of(wanted))
        if any(self._cluster.topic_metadata(name) is None for name in topics):
            self._cluster.update(topics, timeout_ms)
        partitions = {name: self.topics.ids(name) for name in topics}
        self.topics.divided = {name: len(ids) for name, ids in partitions.items()}
        shares = self._named(protocol).assign(partitions, wanted)
        return {member: bytes(share.get_bytes()) for member, share in shares.items()}

    def taken(self, protocol: str, share: bytes) -> list[TopicPartition]:
        """Return a share as partitions, and tell it to the assignor.

        :param protocol: the assignor that has made it
        :param share: as it came from the leader
        """
        assignment = documented.MemberAssignment.from_bytestring(share)
        self._named(protocol).on_assignment(assignment)
        return [TopicPartition(topic, id_) for topic, ids in assignment.partition_assignment for id_ in ids]

    def _named(self, name: str) -> AbstractPartitionAssignor | type[AbstractPartitionAssignor]:
        found = self._assignors.get(name)
        if found is None:
            raise InconsistentGroupProtocol(
                f"group {self._group_id} shares out by {name!r}, and this member knows "
                f"{', '.join(sorted(self._assignors))}; give it that assignor by assignors="
            )
        return found
