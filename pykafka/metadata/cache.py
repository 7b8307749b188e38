"""`MetadataCache`: the topics of a cluster as its metadata describes them, their ids, leaders and leader epochs. No I/O."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any
from uuid import UUID

from pykafka.exceptions import ForeignClusterError, RebootstrapRequired, UnknownTopicOrPartition, error_for
from pykafka.metadata.elections import NO_BROKERS
from pykafka.metadata.partition import NO_EPOCH, KnownTopic, PartitionMetadata, TopicMetadata
from pykafka.protocol import wire

if TYPE_CHECKING:
    from uuid import UUID

    from pykafka.handlers import Handler
    from pykafka.metadata.brokers import Brokers
    from pykafka.metadata.topics import TopicDict
    from pykafka.network.node import Node
    from pykafka.protocol import wire


log = logging.getLogger(__name__)

_NO_ID = UUID(int=0)


class MetadataCache:
    """The topics, brokers and ids of a cluster, as far as the client knows them.

    State: all of it changes under `_lock`, which is never held across I/O. Readers take no lock: `topics` and `errors` are
    replaced as wholes, and leaders within a topic in place.

    :param handler: supplies the lock
    :param brokers: those of the cluster
    :param topic_objects: the objects that the application has of its topics
    """

    def __init__(self, handler: Handler, brokers: Brokers, topic_objects: TopicDict[Any]) -> None:
        self._handler = handler
        self._lock = handler.Lock()
        self._brokers = brokers
        self._topic_objects = topic_objects
        #: The number of the broker that takes topic changes; None if the brokers do not say (before 0.10).
        self.controller_id: int | None = None
        #: The cluster's own name for itself; None until a broker (since 0.10.1) has given it.
        self.cluster_id: str | None = None
        #: By name.
        self.topics: dict[str, KnownTopic] = {}
        #: The error code that brokers gave about a topic, by name, if they do not describe it.
        self.errors: dict[str, int] = {}

    def take_over_topics(self, response: wire.MetadataResponse, names: list[str] | None) -> dict[str, TopicMetadata]:
        """Take over the topics of fresh metadata and return them; the caller holds the lock.

        Each broker answers as far as it knows: of a partition with a newer leader epoch, what was known stays (KIP-320).

        :param names: the topics that the client asked for; None: all, so that the others are gone
        """
        found = {}
        asked = set(names or ())
        errors = {} if names is None else {name: code for name, code in self.errors.items() if name not in asked}
        for topic in response.topics:
            name = topic.name
            if name is None or topic.error_code == UnknownTopicOrPartition.ERROR_CODE:
                continue
            if topic.error_code and not topic.partitions:  # an error says nothing about the partitions
                errors[name] = topic.error_code
                if name in self.topics:
                    found[name] = self.topics[name]
                continue
            found[name] = _newest(self.topics.get(name), _described(name, topic))
        if names is None:
            self.topics = found
        else:
            kept = {name: known for name, known in self.topics.items() if name not in asked}
            self.topics = {**kept, **found}
        self.errors = errors
        return {name: known.metadata for name, known in found.items()}

    def take_leader(self, topic: str, partition: int, leader_id: int, leader_epoch: int) -> PartitionMetadata | None:
        """Take over the CurrentLeader that a broker has named beside its error (KIP-951); the caller holds the lock.

        :returns: the partition with its new leader; None if a leader of this epoch, or of a later one, is known already, or
            the partition is not
        """
        known = self.topics.get(topic)
        before = None if known is None else known.metadata.partitions.get(partition)
        if known is None or before is None or leader_epoch <= known.epochs.get(partition, NO_EPOCH):
            return None
        found: PartitionMetadata = before._replace(leader=leader_id, err=0)
        # in place: a broker that dies leads thousands of partitions, and each has an error of its own
        known.epochs[partition] = leader_epoch
        partitions: Any = known.metadata.partitions
        partitions[partition] = found
        return found

    def metadata(self, topic: str) -> TopicMetadata | None:
        """Return the partitions of a topic; None for an unknown one."""
        known = self.topics.get(topic)
        return None if known is None else known.metadata

    def topic_id(self, topic: str) -> UUID | None:
        """Return the id of a topic; None for an unknown one, and from brokers that give none."""
        known = self.topics.get(topic)
        return None if known is None else known.id

    def is_led(self, topic: str) -> bool:
        """Return whether each partition of a topic has a leader."""
        metadata = self.metadata(topic)
        return metadata is not None and all(part.leader >= 0 for part in metadata.partitions.values())

    def leader_of(self, topic: str, partition: int) -> int | None:
        """Return the number of the broker that leads a partition; None for an unknown partition, -1 for no leader."""
        metadata = self.metadata(topic)
        found = metadata.partitions.get(partition) if metadata is not None else None
        return None if found is None else found.leader

    def leader_epoch(self, topic: str, partition: int) -> int:
        """Return the leader epoch of a partition; `NO_EPOCH` if none is known."""
        known = self.topics.get(topic)
        return NO_EPOCH if known is None else known.epochs.get(partition, NO_EPOCH)

    def after_fork(self) -> None:
        """Take a new lock: the parent's would stay taken."""
        self._lock = self._handler.Lock()

    def leader(self, topic: str, partition: int) -> Node | None:
        """Return the broker that leads a partition; None if it is unknown."""
        id_ = self.leader_of(topic, partition)
        return None if id_ is None else self._brokers.by_id.get(id_)

    def check(self, broker: Node, response: wire.MetadataResponse) -> None:
        """Check that metadata can be used.

        :raises RebootstrapRequired: the broker asks this client to begin again at the bootstrap addresses
        :raises ForeignClusterError: the broker belongs to another cluster
        """
        if response.error_code:
            if response.error_code == RebootstrapRequired.ERROR_CODE:
                self._brokers.send_back()
            raise error_for(response.error_code, broker=broker.address, api="Metadata")
        if self.cluster_id and response.cluster_id and response.cluster_id != self.cluster_id:
            self._brokers.drop_connections(broker)  # the name is looked up again, and may lead back
            raise ForeignClusterError(
                f"{broker.address} belongs to cluster {response.cluster_id} now, and this client began with "
                f"{self.cluster_id}: nothing is taken over from it; correct addresses or DNS, or make a new KafkaClient if "
                "the new cluster is meant to replace the old one",
                broker=broker.address,
            )
        if response.brokers:
            self._brokers.answered()
            self._brokers.stale.judge(broker.id, response, self.topics)

    def take_over(self, response: wire.MetadataResponse, names: list[str] | None, is_first: bool) -> None:
        """Take over fresh metadata, and part with the brokers that have left.

        :param names: the topics that the client asked for; None: all, so that the others are gone
        :param is_first: whether nothing was taken over before
        """
        addresses = {broker.node_id: (broker.host, broker.port) for broker in response.brokers}
        with self._lock:
            left = self._take_over_brokers(addresses, response.controller_id, is_first)
            found = self.take_over_topics(response, names)
            self._topic_objects._update_topics(found, complete=names is None, gone=set(names or ()) - set(found))
            self.cluster_id = response.cluster_id or self.cluster_id
            self._brokers.belong_to(self.cluster_id)
        if left:
            self._brokers.part_with(left)

    def take_over_brokers(
        self, addresses: Mapping[int, tuple[str, int]], controller_id: int | None, is_first: bool
    ) -> None:
        """Take over brokers alone, as `take_over` does.

        :param addresses: {broker number: (host, port)}
        """
        with self._lock:
            left = self._take_over_brokers(addresses, controller_id, is_first)
        if left:
            self._brokers.part_with(left)

    def _take_over_brokers(
        self, addresses: Mapping[int, tuple[str, int]], controller_id: int | None, is_first: bool
    ) -> list[Node]:
        """Take over the brokers of fresh metadata: those that moved are replaced; return those to part with."""
        self.controller_id = controller_id if controller_id is not None and controller_id >= 0 else None
        left = self._brokers.take_over(addresses)
        if not self._brokers.by_id and is_first:
            log.warning(NO_BROKERS)
        if left:
            self._topic_objects.relink()
        return left

    def take_current_leader(
        self,
        topic: str,
        partition: int,
        leader_id: int,
        leader_epoch: int,
        endpoints: Mapping[int, tuple[str, int]] | None,
        topic_id: UUID | None,
    ) -> bool:
        """Take over a leader that a broker has named beside its error; see `BaseCluster.take_current_leader`."""
        if leader_id < 0 or leader_epoch < 0:
            return False
        left: list[Node] = []
        with self._lock:
            known_id = self.topic_id(topic)
            if topic_id is not None and known_id is not None and topic_id != known_id:
                return False
            address = (endpoints or {}).get(leader_id)
            if leader_epoch > self.leader_epoch(topic, partition) and address is not None:
                left = self._brokers.meet(leader_id, address)
                if left:
                    self._topic_objects.relink()
            if leader_id in self._brokers.by_id:
                found = self.take_leader(topic, partition, leader_id, leader_epoch)
                if found is not None:
                    log.info("%s/%d is led by broker %d now, as a former leader says", topic, partition, leader_id)
                    self._topic_objects.update_partition(topic, found)
        if left:
            self._brokers.part_with(left)
        known = self.leader_of(topic, partition), self.leader_epoch(topic, partition)
        return known == (leader_id, leader_epoch) and leader_id in self._brokers.by_id


def _described(name: str, topic: Any) -> KnownTopic:
    partitions = {
        part.partition_index: PartitionMetadata(
            part.partition_index, part.leader_id, list(part.replica_nodes), list(part.isr_nodes), part.error_code
        )
        for part in topic.partitions
    }
    epochs = {part.partition_index: part.leader_epoch for part in topic.partitions if part.leader_epoch > NO_EPOCH}
    id_ = None if topic.topic_id == _NO_ID else topic.topic_id
    return KnownTopic(TopicMetadata(name, partitions, topic.error_code), id_, epochs)


def _newest(known: KnownTopic | None, described: KnownTopic) -> KnownTopic:
    """Return the topic as a broker describes it, except partitions with a newer known leader epoch.

    Without ids an old answer looks like a topic that was recreated, whose epochs begin at 0: then the answer counts.
    """
    if known is None or known.id is None:
        return described
    if described.id is not None and described.id != known.id:
        log.info(  # producers and consumers of it warn
            "topic %s was deleted and recreated: its id was %s and is %s now",
            described.metadata.name,
            known.id,
            described.id,
        )
        return described
    newer = [id_ for id_, epoch in described.epochs.items() if epoch < known.epochs.get(id_, NO_EPOCH)]
    if not newer:
        return described._replace(id=known.id)
    log.debug(
        "metadata of %s tells of older leaders of partitions %s; those known stay", described.metadata.name, newer
    )
    partitions = dict(described.metadata.partitions)
    epochs = dict(described.epochs)
    for id_ in newer:
        partitions[id_] = known.metadata.partitions[id_]
        epochs[id_] = known.epochs[id_]
    return KnownTopic(described.metadata._replace(partitions=partitions), known.id, epochs)
