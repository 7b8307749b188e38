"""`Knowledge`: the brokers, topics and leaders of a cluster as its brokers tell them; what is taken over, and what is not."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pykafka.exceptions import ForeignClusterError, RebootstrapRequired, error_for
from pykafka.metadata.catalogue import Catalogue
from pykafka.metadata.elections import NO_BROKERS

if TYPE_CHECKING:
    from uuid import UUID

    from pykafka.handlers import Handler
    from pykafka.metadata.brokers import Brokers
    from pykafka.metadata.topics import TopicDict
    from pykafka.network.node import Node
    from pykafka.protocol import wire

log = logging.getLogger(__name__)


class Knowledge:
    """The state of a cluster, as far as the client knows it.

    State: the catalogue, the brokers, the topics and the two ids change under `_lock`, which is never held across I/O. Readers
    take no lock.

    :param handler: supplies the lock
    :param brokers: those of the cluster
    :param topics: the objects that the application has of its topics
    """

    def __init__(self, handler: Handler, brokers: Brokers, topics: TopicDict[Any]) -> None:
        self._handler = handler
        self._lock = handler.Lock()
        self._brokers = brokers
        self._topics = topics
        self.catalogue = Catalogue()
        #: The number of the broker that takes topic changes; None where the brokers do not say (before 0.10).
        self.controller_id: int | None = None
        # The cluster's own name for itself; None until a broker has told it.
        self._cluster_id: str | None = None

    def after_fork(self) -> None:
        """Take a new lock: nobody would release the parent's."""
        self._lock = self._handler.Lock()

    def leader(self, topic: str, partition: int) -> Node | None:
        """Return the broker that leads a partition; None where it is unknown."""
        id_ = self.catalogue.leader_of(topic, partition)
        return None if id_ is None else self._brokers.by_id.get(id_)

    def check(self, broker: Node, response: wire.MetadataResponse) -> None:
        """Check that metadata can be used.

        :raises RebootstrapRequired: the broker tells this client to begin again at the bootstrap addresses
        :raises ForeignClusterError: the broker belongs to another cluster
        """
        if response.error_code:
            if response.error_code == RebootstrapRequired.ERROR_CODE:
                self._brokers.send_back()
            raise error_for(response.error_code, broker=broker.address, api="Metadata")
        if self._cluster_id and response.cluster_id and response.cluster_id != self._cluster_id:
            broker.drop_connections()  # the name is looked up anew, and may lead back
            raise ForeignClusterError(
                f"{broker.address} belongs to cluster {response.cluster_id} now, and this client began with "
                f"{self._cluster_id}: nothing is taken over from it; correct addresses or DNS, or make a new KafkaClient if "
                "the new cluster is meant to replace the old one",
                broker=broker.address,
            )
        if response.brokers:
            self._brokers.answered()

    def take_over(self, response: wire.MetadataResponse, names: list[str] | None, is_first: bool) -> None:
        """Take over fresh metadata, and part with the brokers that have left.

        :param names: the topics that the client asked for; None: all, so that the others are gone
        :param is_first: whether nothing was taken over before
        """
        addresses = {broker.node_id: (broker.host, broker.port) for broker in response.brokers}
        with self._lock:
            left = self._take_over_brokers(addresses, response.controller_id, is_first)
            found = self.catalogue.take_over(response, names)
            self._topics._update_topics(found, complete=names is None, gone=set(names or ()) - set(found))
            self._cluster_id = response.cluster_id or self._cluster_id
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
        """Take over the brokers of fresh metadata: those that moved are made anew; return those to part with."""
        self.controller_id = controller_id if controller_id is not None and controller_id >= 0 else None
        left = self._brokers.take_over(addresses)
        if not self._brokers.by_id and is_first:
            log.warning(NO_BROKERS)
        if left:
            self._topics.relink()
        return left

    def take_leader_hint(
        self,
        topic: str,
        partition: int,
        leader_id: int,
        leader_epoch: int,
        endpoints: Mapping[int, tuple[str, int]] | None,
        topic_id: UUID | None,
    ) -> bool:
        """Take over a leader that a broker has named beside its error; see `BaseCluster.take_leader_hint`."""
        if leader_id < 0 or leader_epoch < 0:
            return False
        catalogue = self.catalogue
        left: list[Node] = []
        with self._lock:
            known_id = catalogue.topic_id(topic)
            if topic_id is not None and known_id is not None and topic_id != known_id:
                return False
            address = (endpoints or {}).get(leader_id)
            if leader_epoch > catalogue.leader_epoch(topic, partition) and address is not None:
                left = self._brokers.meet(leader_id, address)
                if left:
                    self._topics.relink()
            if leader_id in self._brokers.by_id:
                found = catalogue.take_leader(topic, partition, leader_id, leader_epoch)
                if found is not None:
                    log.info("%s/%d is led by broker %d now, as a former leader says", topic, partition, leader_id)
                    self._topics.update_partition(topic, found)
        if left:
            self._brokers.part_with(left)
        known = catalogue.leader_of(topic, partition), catalogue.leader_epoch(topic, partition)
        return known == (leader_id, leader_epoch) and leader_id in self._brokers.by_id
