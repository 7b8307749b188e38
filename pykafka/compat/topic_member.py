"""`TopicMember`: a consumer of one topic as the member of a group; `ManagedBalancedConsumer` has one."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pykafka.compat import messages
from pykafka.compat.membership_protocol import as_brokers_keep_it
from pykafka.compat.messages.groups import protocol_metadata
from pykafka.exceptions import KafkaException
from pykafka.groups.assignors.abstract import readers_of
from pykafka.groups.classic.coordinator import AbstractCoordinator
from pykafka.groups.subscription import GroupTopics
from pykafka.protocol.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    assignment_bytes,
)
from pykafka.utils import get_string
from pykafka.utils.name import Name

if TYPE_CHECKING:
    from pykafka.compat.messages.groups import MembershipProtocol
    from pykafka.metadata.cluster import BaseCluster
    from pykafka.metadata.partition import Partition, TopicView

log = logging.getLogger(__name__)


class TopicMember(AbstractCoordinator):
    """The membership of a consumer of one topic.

    :param topic: what the consumer reads
    :param cluster: that has it
    :param membership_protocol: how the leader assigns partitions
    :param configs: as for `AbstractCoordinator`
    """

    def __init__(
        self, topic: TopicView, cluster: BaseCluster, membership_protocol: MembershipProtocol, **configs: Any
    ) -> None:
        super().__init__(cluster, **configs)
        self._topic = topic
        self._name = get_string(topic.name)
        self._protocol = membership_protocol
        #: The assignment: ids of the topic's partitions.
        self.assigned: set[int] = set()
        self._topics = GroupTopics(cluster)

    def protocol_type(self) -> str:
        """Return the kind of the group's members."""
        return get_string(self._protocol.protocol_type)

    def group_protocols(self) -> Sequence[tuple[str, bytes]]:
        """Return the name of the membership protocol, with the metadata that names this member's topic."""
        return [(get_string(self._protocol.protocol_name), protocol_metadata(self._protocol, self._name))]

    def _perform_assignment(
        self, leader_id: str, protocol: str, members: Sequence[tuple[str, bytes]]
    ) -> Mapping[str, bytes]:
        return {member: assignment_bytes(assignment) for member, assignment in self.divide(members).items()}

    def divide(self, members: Sequence[tuple[str, bytes]]) -> dict[str, messages.MemberAssignment]:
        """Divide every topic among the members that read it: members may differ in their topics.

        :param members: (member id, metadata) pairs
        """
        subscriptions = {member: ConsumerProtocolSubscription.from_bytestring(metadata) for member, metadata in members}
        pairs: dict[str, list[tuple[str | bytes, list[int]]]] = {member: [] for member in subscriptions}
        self._topics.assigned_topics = {}
        decide = as_brokers_keep_it(self._protocol.decide_partitions)
        for name, ids in readers_of(subscriptions).items():
            # One snapshot for all members: if it changed while this loop runs, a partition could go to none of them, or to two.
            partitions = {id_: partition.snapshot() for id_, partition in list(self._partitions_of(name).items())}
            self._topics.assigned_topics[name] = len(partitions)
            # Functions written for PyKafka 2 may take the ids for bytes.
            for member, named in [(member, Name.of(member)) for member in ids] if partitions else ():
                decided = decide([Name.of(other) for other in ids], partitions, named)
                if decided:
                    pairs[member].append((name, sorted(partition.id for partition in decided)))
        return {member: messages.MemberAssignment(assigned) for member, assigned in pairs.items()}

    def _partitions_of(self, name: str) -> dict[int, Partition]:
        if self._topics.is_deleted(name):
            return {}
        if name == self._name:
            return self._topic.partitions
        topics = self._cluster.topics
        if name not in topics:
            self._cluster.update([name])
        topic = topics.get(name)
        if topic is None:
            log.warning("group %s: a member wants to read topic %s, which does not exist", self.group_id, name)
        return topic.partitions if topic is not None else {}

    def _on_join_complete(self, generation: int, member_id: str, protocol: str, member_assignment: bytes) -> None:
        pairs = ConsumerProtocolAssignment.from_bytestring(member_assignment).partition_assignment
        self.assigned = {id_ for name, ids in pairs if name == self._name for id_ in ids}

    def _refresh(self) -> None:
        # the topics of other members too, which this one has assigned as the leader
        names = [self._name, *self._topics.assigned_topics]
        try:
            self._cluster.refresh_older(self.config["metadata_max_age_ms"] / 1000, names)
        except KafkaException as error:
            log.warning("group %s: no metadata: %s", self.group_id, error)

    def need_rejoin(self) -> bool:
        """Return whether this member has to join again, for example because partitions were added."""
        if self._topics.have_changed([self._name]):
            log.info("group %s: the number of partitions has changed", self.group_id)
            self.request_rejoin()
        return super().need_rejoin()

    @property
    def topic_is_gone(self) -> bool:
        """Whether the topic does not exist any more."""
        return self._topics.is_deleted(self._name)
