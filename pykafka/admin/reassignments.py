"""Moves of partitions to other brokers, and elections of leaders."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING

from pykafka.admin.base import TIMEOUT_MS, AdminBase, topic_partition
from pykafka.admin.releases import need
from pykafka.admin.results import Results, fault, outcome
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
    """A move that is under way; brokers by id.

    :param replicas: the present ones, those to come included
    :param adding: those to come
    :param removing: those to go
    """

    replicas: tuple[int, ...]
    adding: tuple[int, ...]
    removing: tuple[int, ...]


Elected = dict[TopicPartition, bool | KafkaException]


class MovesAdmin(AdminBase):
    """The brokers that keep and lead partitions."""

    def alter_partition_reassignments(
        self,
        replicas: Mapping[tuple[str, int], Sequence[int] | None],
        *,
        timeout_ms: int = TIMEOUT_MS,
        raise_errors: bool = True,
    ) -> Results[TopicPartition, None]:
        """Begin to move partitions to other brokers, or cancel moves (since Kafka 2.4).

        :param replicas: {(topic, partition): broker ids, the preferred leader first; None cancels the move}
        :param timeout_ms: of the whole call; moves take longer
        :param raise_errors: whether to raise for partitions that failed, see `Results`
        :raises InvalidReplicaAssignment: a broker does not exist, or is named twice
        :raises NoReassignmentInProgress: there is no move to cancel
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

        def read(
            response: wire.AlterPartitionReassignmentsResponse, items: Sequence[TopicPartition], broker: Node
        ) -> Mapping[TopicPartition, KafkaException | None]:
            api = "AlterPartitionReassignments"
            if response.error_code:
                return dict.fromkeys(items, fault(response.error_code, response.error_message, broker=broker, api=api))
            return {
                TopicPartition(topic.name, part.partition_index): outcome(
                    part.error_code,
                    part.error_message,
                    broker=broker,
                    api=api,
                    topic=topic.name,
                    partition=part.partition_index,
                )
                for topic in response.responses
                for part in topic.partitions
            }

        asked: RequestFactory[TopicPartition, None] = RequestFactory(
            wire.AlterPartitionReassignmentsRequest, request, read, waits=True
        )
        return self._ask(wanted, Controller(self._cluster), asked, timeout_ms, raise_errors)

    def list_partition_reassignments(
        self, partitions: Iterable[tuple[str, int]] | None = None, *, timeout_ms: int = TIMEOUT_MS
    ) -> dict[TopicPartition, PartitionReassignment]:
        """Return the moves that are under way (since Kafka 2.4).

        :param partitions: (topic, partition) pairs; by default all
        :param timeout_ms: of the whole call
        """
        wanted = None if partitions is None else _named(partitions)

        def request(items: Sequence[str], broker: Node, left: int) -> wire.ListPartitionReassignmentsRequest:
            topic = wire.ListPartitionReassignmentsRequest.Topic
            topics = None
            if wanted is not None:
                topics = [topic(name=name, partition_indexes=ids) for name, ids in wanted.items()]
            return wire.ListPartitionReassignmentsRequest(topics=topics, timeout_ms=left)

        def read(
            response: wire.ListPartitionReassignmentsResponse, items: Sequence[str], broker: Node
        ) -> Mapping[str, dict[TopicPartition, PartitionReassignment] | KafkaException]:
            api = "ListPartitionReassignments"
            error = outcome(response.error_code, response.error_message, broker=broker, api=api)
            found = {
                TopicPartition(topic.name, part.partition_index): PartitionReassignment(
                    tuple(part.replicas), tuple(part.adding_replicas), tuple(part.removing_replicas)
                )
                for topic in response.topics
                for part in topic.partitions
            }
            return {"": error or dict(sorted(found.items()))}

        asked: RequestFactory[str, dict[TopicPartition, PartitionReassignment]] = RequestFactory(
            wire.ListPartitionReassignmentsRequest, request, read, waits=True
        )
        return self._ask([""], Controller(self._cluster), asked, timeout_ms, True)[""]

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
        :param election: PREFERRED, the first of the replicas; or UNCLEAN, any, where none leads (since Kafka 2.4)
        :param timeout_ms: of the whole call
        :param raise_errors: whether to raise for partitions that failed, see `Results`
        :return: whether there was an election: False where the right leader leads already
        :raises PreferredLeaderNotAvailable: the preferred leader is not up, or not in sync
        """
        wanted = None if partitions is None else _named(partitions)

        def request(items: Sequence[str], broker: Node, left: int) -> wire.ElectLeadersRequest:
            topic = wire.ElectLeadersRequest.TopicPartition
            topics = None
            if wanted is not None:
                topics = [topic(topic=name, partitions=ids) for name, ids in wanted.items()]
            made = wire.ElectLeadersRequest(topic_partitions=topics, timeout_ms=left)
            if election != ElectionType.PREFERRED:
                need(broker, wire.ElectLeadersRequest, 1, "an unclean election", "2.4")
                made.election_type = int(election)
            return made

        def read(
            response: wire.ElectLeadersResponse, items: Sequence[str], broker: Node
        ) -> Mapping[str, Elected | KafkaException]:
            error = outcome(response.error_code, broker=broker, api="ElectLeaders")
            found: Elected = {}
            for topic in response.replica_election_results:
                for part in topic.partition_result:
                    problem = outcome(
                        part.error_code,
                        part.error_message,
                        broker=broker,
                        api="ElectLeaders",
                        topic=topic.topic,
                        partition=part.partition_id,
                    )
                    needless = isinstance(problem, ElectionNotNeeded)
                    found[TopicPartition(topic.topic, part.partition_id)] = (
                        problem if problem is not None and not needless else not needless
                    )
            return {"": error or dict(sorted(found.items()))}

        asked: RequestFactory[str, Elected] = RequestFactory(wire.ElectLeadersRequest, request, read, waits=True)
        results = Results(self._ask([""], Controller(self._cluster), asked, timeout_ms, True)[""])
        if raise_errors:
            results.raise_errors()
        return results


def _named(partitions: Iterable[tuple[str, int]]) -> dict[str, list[int]]:
    return {
        name: list(ids)
        for name, ids in by_topic(dict.fromkeys((topic_partition(one) for one in partitions), 0)).items()
    }
