"""`TopicIds`: the names of the topics in assignments, which have their ids alone (KIP-848)."""

from __future__ import annotations

import logging
from collections.abc import Collection
from typing import TYPE_CHECKING
from uuid import UUID

from pykafka.common import TopicPartition
from pykafka.exceptions import KafkaException
from pykafka.protocol import wire

if TYPE_CHECKING:
    from pykafka.groups.kip848.heartbeats import Assignment
    from pykafka.metadata.cluster import BaseCluster

log = logging.getLogger(__name__)

#: How often the cluster is asked about an id that it did not know (s).
ASK_S = 1.0


class TopicIds:
    """The ids and names of the topics of one member.

    State: belongs to the worker that serves.

    :param cluster: that has them
    """

    def __init__(self, cluster: BaseCluster) -> None:
        self._cluster = cluster
        self._names: dict[UUID, str] = {}
        self._ids: dict[str, UUID] = {}
        self._ask_at = 0.0
        #: Whether the last assignment had topics that the cluster does not know (yet).
        self.unknown = False

    def keys(self, assignment: Assignment, timeout_ms: int | None) -> tuple[frozenset[TopicPartition], set[str]]:
        """Return the partitions of an assignment, but for topics unknown; and topics that have another id than before.

        :param timeout_ms: for asking the cluster; by default each broker has the socket timeout
        """
        lacking = [id_ for id_ in assignment if id_ not in self._names]
        if lacking:
            self._ask(lacking, timeout_ms)
        self.unknown = any(id_ not in self._names for id_ in assignment)
        found = {self._names[id_]: (id_, parts) for id_, parts in assignment.items() if id_ in self._names}
        remade = {name for name, (id_, _) in found.items() if self._ids.get(name, id_) != id_}
        self._ids |= {name: id_ for name, (id_, _) in found.items()}
        return frozenset(TopicPartition(name, part) for name, (_, parts) in found.items() for part in parts), remade

    def assignment(self, share: Collection[TopicPartition]) -> Assignment:
        """Return partitions as heartbeats tell them."""
        found: dict[UUID, list[int]] = {}
        for topic, part in sorted(share):
            found.setdefault(self._ids[topic], []).append(part)
        return {id_: tuple(parts) for id_, parts in found.items()}

    def _ask(self, ids: Collection[UUID], timeout_ms: int | None) -> None:
        now = self._cluster.handler.now()
        if self.unknown and now < self._ask_at:
            return
        self._ask_at = now + ASK_S
        of = wire.MetadataRequest.Topic
        topics = [of(topic_id=id_, name=None) for id_ in ids]
        request = wire.MetadataRequest(topics=topics, allow_auto_topic_creation=False)
        try:
            response = self._cluster.call(request, within_ms=timeout_ms)
        except KafkaException as error:
            log.info("the names of topics %s cannot be asked for: %s", ", ".join(map(str, ids)), error)
            return
        self._names |= {one.topic_id: one.name for one in response.topics if one.name and not one.error_code}
