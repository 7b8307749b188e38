"""`TopicMember`: a consumer of one topic as the member of a group."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pykafka.coordinator.base import BaseCoordinator
from pykafka.coordinator.topics import SharedTopics
from pykafka.exceptions import KafkaException
from pykafka.membershipprotocol import as_brokers_keep_it
from pykafka.protocol import documented
from pykafka.protocol.documented.groups import protocol_metadata
from pykafka.utils import get_string

if TYPE_CHECKING:
    from pykafka.metadata.cluster import BaseCluster
    from pykafka.partition import Partition, TopicView
    from pykafka.protocol.documented.groups import MembershipProtocol

log = logging.getLogger(__name__)


class TopicMember(BaseCoordinator):
    """Deal with the coordinator for a consumer of one topic.

    :param topic: what the consumer reads
    :param cluster: that has it
    :param membership_protocol: how partitions are shared out
    :param configs: as for `BaseCoordinator`
    """

    def __init__(
        self, topic: TopicView, cluster: BaseCluster, membership_protocol: MembershipProtocol, **configs: Any
    ) -> None:
        super().__init__(cluster, None, **configs)
        self._topic = topic
        self._protocol = membership_protocol
        #: The share: ids of the topic's partitions.
        self.assigned: set[int] = set()
        #: What was shared out by this member as the leader: {topic: number of partitions}.
        self._divided: dict[str, int] = {}
        self._topics = SharedTopics(cluster)

    def protocol_type(self) -> str:
        """Return the kind of the group's members."""
        return get_string(self._protocol.protocol_type)

    def group_protocols(self) -> Sequence[tuple[str, bytes]]:
        """Return the one way to share out that this member was given, and the topic it reads."""
        return [(get_string(self._protocol.protocol_name), protocol_metadata(self._protocol, self._topic.name))]

    def _perform_assignment(
        self, leader_id: str, protocol: str, members: Sequence[tuple[str, bytes]]
    ) -> Mapping[str, bytes]:
        return {member: bytes(share.get_bytes()) for member, share in self.divide(members).items()}

    def divide(self, members: Sequence[tuple[str, bytes]]) -> dict[str, documented.MemberAssignment]:
        """Share out every topic that a member wants among those that want it: members may differ in their topics.

        :param members: (member id, metadata) pairs
        """
        readers: dict[str, list[str]] = {}
        for member, metadata in members:
            for name in documented.ConsumerGroupProtocolMetadata.from_bytestring(metadata).topic_names:
                readers.setdefault(get_string(name), []).append(member)
        shares: dict[str, list[tuple[str | bytes, list[int]]]] = {member: [] for member, _ in members}
        self._divided = {}
        decide = as_brokers_keep_it(self._protocol.decide_partitions)
        for name, ids in sorted(readers.items()):
            # One picture for all members: what changes while they are gone through would leave a partition to nobody, or
            # give it to two.
            partitions = {id_: partition.snapshot() for id_, partition in list(self._partitions_of(name).items())}
            self._divided[name] = len(partitions)
            for member in ids if partitions else ():
                share = decide(ids, partitions, member)
                if share:
                    shares[member].append((name, sorted(partition.id for partition in share)))
        return {member: documented.MemberAssignment(share) for member, share in shares.items()}

    def _partitions_of(self, name: str) -> dict[int, Partition]:
        if self._topics.is_gone(name):
            return {}
        if name == self._topic.name:
            return self._topic.partitions
        topics = self._cluster.topics
        if name not in topics:
            self._cluster.update([name])
        topic = topics.get(name)
        if topic is None:
            log.warning("group %s: a member wants topic %s, which is not there", self.group_id, name)
        return topic.partitions if topic is not None else {}

    def _on_join_complete(self, generation: int, member_id: str, protocol: str, member_assignment: bytes) -> None:
        shares = documented.MemberAssignment.from_bytestring(member_assignment).partition_assignment
        self.assigned = {id_ for name, ids in shares if name == self._topic.name for id_ in ids}

    def _refresh(self) -> None:
        # the topics of other members, too, which this one has divided as the leader
        try:
            self._cluster.refresh_older(self.config["metadata_max_age_ms"] / 1000, [self._topic.name, *self._divided])
        except KafkaException as error:
            log.warning("group %s: no metadata: %s", self.group_id, error)

    def need_rejoin(self) -> bool:
        """Return whether there is a share to be had that this member has not, as of partitions that have been added."""
        self._topics.look({self._topic.name, *self._divided})
        if any(self._topics.count(name, count) != count for name, count in self._divided.items()):
            log.info("group %s: the number of partitions has changed", self.group_id)
            self._divided = {}
            self.request_rejoin()
        return super().need_rejoin()

    @property
    def topic_is_gone(self) -> bool:
        """Whether the cluster has not got the topic any more."""
        return self._topics.is_gone(self._topic.name)
