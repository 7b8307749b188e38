"""Reassignments of partitions to other brokers, and elections of leaders."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING

from pykafka.admin.base import TIMEOUT_MS, AdminBase, ids_by_topic, topic_partition
from pykafka.admin.releases import need
from pykafka.admin.results import Results, checked, partition_error, partition_errors, partitions_in
from pykafka.admin.routing import Controller, RequestFactory
from pykafka.common import TopicPartition
from pykafka.exceptions import ElectionNotNeeded, KafkaException
from pykafka.metadata.group_offsets import by_topic
from pykafka.protocol import wire

if TYPE_CHECKING:
    from pykafka.network.node import Node


class ElectionType(IntEnum):
    """A kind of election; the numbers are the protocol's. UNCLEAN may lose messages."""

    PREFERRED = 0
    UNCLEAN = 1


@dataclass(frozen=True)
class PartitionReassignment:
    """A reassignment that is under way; brokers by id.

    :param replicas: the present ones, those to come included
    :param adding: those to come
    :param removing: those to go
    """

    replicas: tuple[int, ...]
    adding: tuple[int, ...]
    removing: tuple[int, ...]


Elected = dict[TopicPartition, bool | KafkaException]


class ReassignmentsAdmin(AdminBase):
    """The brokers that keep and lead partitions."""

    def alter_partition_reassignments(
        self,
        replicas: Mapping[tuple[str, int], Sequence[int] | None],
        *,
        timeout_ms: int = TIMEOUT_MS,
        raise_errors: bool = True,
    ) -> Results[TopicPartition, None]:
        """Begin to reassign partitions to other brokers, or cancel reassignments (since Kafka 2.4).

        :param replicas: {(topic, partition): broker ids, the preferred leader first; None cancels the reassignment}
        :param timeout_ms: of the whole call; reassignments take longer
        :param raise_errors: whether to raise for partitions that failed, see `Results`
        :raises InvalidReplicaAssignment: a broker does not exist, or is named twice
        :raises NoReassignmentInProgress: there is no reassignment to cancel
        """
        wanted = {topic_partition(key): value for key, value in replicas.items()}

        def request(
            items: Sequence[TopicPartition], broker: Node, left: int
        ) -> wire.AlterPartitionReassignmentsRequest:
            topic = wire.AlterPartitionReassignmentsRequest.Topic
            topics = [
                topic(
                    name=name,
                    partitions=[
                        topic.Partition(partition_index=id_, replicas=None if brokers is None else list(brokers))
                        for id_, brokers in parts.items()
                    ],
                )
                for name, parts in by_topic({item: wanted[item] for item in items}).items()
            ]
            return wire.AlterPartitionReassignmentsRequest(topics=topics, timeout_ms=left)

        factory: RequestFactory[TopicPartition, None] = RequestFactory(
            wire.AlterPartitionReassignmentsRequest,
            request,
            lambda response, items, broker: partition_errors(response, response.responses, items),
            waits=True,
        )
        return self._ask(wanted, Controller(self._cluster), factory, timeout_ms, raise_errors)

    def list_partition_reassignments(
        self, partitions: Iterable[tuple[str, int]] | None = None, *, timeout_ms: int = TIMEOUT_MS
    ) -> dict[TopicPartition, PartitionReassignment]:
        """Return the reassignments that are under way (since Kafka 2.4).

        :param partitions: (topic, partition) pairs; by default all
        :param timeout_ms: of the whole call
        """
        topic = wire.ListPartitionReassignmentsRequest.Topic
        topics = None
        if partitions is not None:
            topics = [topic(name=name, partition_indexes=ids) for name, ids in ids_by_topic(partitions).items()]

        def read(response: wire.ListPartitionReassignmentsResponse) -> dict[TopicPartition, PartitionReassignment]:
            found = {
                key: PartitionReassignment(
                    tuple(part.replicas), tuple(part.adding_replicas), tuple(part.removing_replicas)
                )
                for key, part in partitions_in(response.topics)
            }
            return dict(sorted(found.items()))

        return self._ask_one(
            wire.ListPartitionReassignmentsRequest,
            lambda broker, left: wire.ListPartitionReassignmentsRequest(topics=topics, timeout_ms=left),
            read,
            timeout_ms,
            Controller(self._cluster),
            waits=True,
        )

    def elect_leaders(
        self,
        partitions: Iterable[tuple[str, int]] | None = None,
        election: ElectionType = ElectionType.PREFERRED,
        *,
        timeout_ms: int = TIMEOUT_MS,
        raise_errors: bool = True,
    ) -> Results[TopicPartition, bool]:
        """Elect leaders of partitions (since Kafka 2.2).

        :param partitions: (topic, partition) pairs; by default all of the cluster
        :param election: PREFERRED, the first of the replicas; or UNCLEAN, any, if none leads (since Kafka 2.4)
        :param timeout_ms: of the whole call
        :param raise_errors: whether to raise for partitions that failed, see `Results`
        :return: whether there was an election: False if the right leader leads already
        :raises PreferredLeaderNotAvailable: the preferred leader is not up, or not in sync
        """
        topic = wire.ElectLeadersRequest.TopicPartition
        topics = None
        if partitions is not None:
            topics = [topic(topic=name, partitions=ids) for name, ids in ids_by_topic(partitions).items()]

        def request(broker: Node, left: int) -> wire.ElectLeadersRequest:
            made = wire.ElectLeadersRequest(topic_partitions=topics, timeout_ms=left)
            if election != ElectionType.PREFERRED:
                need(broker, wire.ElectLeadersRequest, 1, "an unclean election", "2.4")
                made.election_type = int(election)
            return made

        def read(response: wire.ElectLeadersResponse) -> Elected:
            found: Elected = {}
            for result in response.replica_election_results:
                for part in result.partition_result:
                    key = TopicPartition(result.topic, part.partition_id)
                    error = partition_error(key, part)
                    needless = isinstance(error, ElectionNotNeeded)
                    found[key] = not needless if error is None or needless else error
            return dict(sorted(found.items()))

        controller = Controller(self._cluster)
        found = self._ask_one(wire.ElectLeadersRequest, request, read, timeout_ms, controller, waits=True)
        return checked(Results(found), raise_errors)
