"""`MemberAssignors`: what a member of many topics sends when it joins, and the assignments that it makes as the leader."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING

from pykafka.common import TopicPartition
from pykafka.exceptions import InconsistentGroupProtocol, KafkaException
from pykafka.groups.assignors.abstract import by_topic, readers_of
from pykafka.groups.subscription import GroupTopics
from pykafka.protocol.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    assignment_bytes,
)

if TYPE_CHECKING:
    from pykafka.groups.assignors.abstract import AbstractPartitionAssignor, Racks
    from pykafka.metadata.cluster import BaseCluster

log = logging.getLogger(__name__)

#: The version of a member's metadata that has its owned partitions, their generation, and its rack.
WHOLE_VERSION = 3


class MemberAssignors:
    """The assignors of a member, and the topics that it has assigned as the leader.

    State: belongs to the worker that joins.

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
        self.topics = GroupTopics(cluster)
        #: This member's last assignment, and its generation.
        self._last: tuple[Collection[TopicPartition], int] = ((), -1)

    def protocols(
        self, topics: Iterable[str], rack: str = "", owned: Collection[TopicPartition] = ()
    ) -> Sequence[tuple[str, bytes]]:
        """Return the name of each assignor, the best first, with the metadata that names this member's topics.

        :param rack: of this member; empty for none
        :param owned: the partitions that a cooperative member reads while it joins
        """
        names = frozenset(topics)
        protocols = []
        for name, assignor in self._assignors.items():
            subscription = assignor.metadata(names)
            if (data := assignor.user_data(*self._last)) is not None:
                subscription.user_data = data
            if (
                rack or assignor.cooperative
            ):  # librdkafka, as the leader, crashes if a cooperative member owns "unknown"
                subscription.version, subscription.rack_id = WHOLE_VERSION, rack or None
            if owned and assignor.cooperative:
                subscription.owned_partitions, subscription.generation_id = by_topic(owned), self._last[1]
            protocols.append((name, bytes(subscription.get_bytes())))
        return protocols

    def assign(
        self,
        protocol: str,
        members: Sequence[tuple[str, bytes]],
        timeout_ms: int | None = None,
        instance_ids: Mapping[str, str] = MappingProxyType({}),
    ) -> Mapping[str, bytes]:
        """Return each member's assignment of all topics that members subscribe to.

        :param protocol: the assignor that the coordinator has chosen
        :param members: (member id, metadata) pairs
        :param timeout_ms: for asking about unknown topics (ms); by default each broker has the socket timeout
        :param instance_ids: {member id: `group_instance_id`} of static members
        :raises InconsistentGroupProtocol: this member does not know the assignor
        """
        subscriptions = {member: ConsumerProtocolSubscription.from_bytestring(metadata) for member, metadata in members}
        for member, instance_id in instance_ids.items():
            subscriptions[member].group_instance_id = instance_id
        topics = list(readers_of(subscriptions))
        if any(self._cluster.topic_metadata(name) is None for name in topics):
            self._cluster.update(topics, timeout_ms)
        partitions = {name: self.topics.ids(name) for name in topics}
        self.topics.assigned_topics = {name: len(ids) for name, ids in partitions.items()}
        racks = self._racks(topics, timeout_ms) if any(member.rack_id for member in subscriptions.values()) else {}
        assignments = self._named(protocol).assign_near(partitions, subscriptions, racks)
        return {member: assignment_bytes(assignment) for member, assignment in assignments.items()}

    def _racks(self, topics: list[str], timeout_ms: int | None) -> Racks:
        """Return the racks of the replicas of each partition, also those that are down; nothing if brokers do not answer."""
        try:
            metadata = self._cluster.ask_metadata(topics, timeout_ms)
        except KafkaException as error:
            log.info("group %s: assigns without regard to racks: %s", self._group_id, error)
            return {}
        racks = {broker.node_id: broker.rack for broker in metadata.brokers}
        return {
            TopicPartition(topic.name, part.partition_index): frozenset(
                rack for node in part.replica_nodes if (rack := racks.get(node))
            )
            for topic in metadata.topics
            if topic.name
            for part in topic.partitions
        }

    def accept(
        self, protocol: str, content: bytes, generation: int = -1, topics: Collection[str] | None = None
    ) -> list[TopicPartition]:
        """Return an assignment as partitions, without those of topics that the member does not subscribe to.

        :param protocol: the assignor that has made it, which is called with it
        :param content: of the SyncGroup response
        :param generation: of the group
        :param topics: the subscription that the member joined with; None for any
        """
        assignment = ConsumerProtocolAssignment.from_bytestring(content)
        self._named(protocol).on_assignment(assignment)
        keys = [TopicPartition(topic, id_) for topic, ids in assignment.partition_assignment for id_ in ids]
        if topics is not None and (foreign := {key.topic for key in keys} - set(topics)):
            text = "group %s: the leader assigned topics %s, which this member does not subscribe to; it does not read them"
            self._cluster.limiter.warn(log, self._group_id, text, self._group_id, ", ".join(sorted(foreign)))
            keys = [key for key in keys if key.topic in topics]
        self._last = keys, generation
        return keys

    def _named(self, name: str) -> AbstractPartitionAssignor | type[AbstractPartitionAssignor]:
        assignor = self._assignors.get(name)
        if assignor is None:
            raise InconsistentGroupProtocol(
                f"group {self._group_id} has the assignor {name!r}, and this member knows "
                f"{', '.join(sorted(self._assignors))}; give it that assignor by assignors="
            )
        return assignor
