"""`TopicIds`: the topics that a producer writes to, distinguished by their ids from others of the same name."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING
from uuid import UUID

from pykafka.exceptions import TopicRecreatedError

if TYPE_CHECKING:
    from pykafka.metadata.cluster import BaseCluster

log = logging.getLogger(__name__)


class TopicIds:
    """The ids of the topics that a producer writes to (KIP-516), and its decision if one was recreated.

    State: `_ids` and `compared` by single stores; senders may both log that a topic was recreated.

    :param cluster: knows the ids from its metadata
    :param fail: whether a recreated topic fails the messages for it, or takes them
    """

    def __init__(self, cluster: BaseCluster, fail: bool = False) -> None:
        self._cluster = cluster
        #: Whether `id_of` raises.
        self.fails = fail
        self._ids: dict[str, UUID] = {}
        #: The id of each topic, and the generation of the metadata with which it was compared last.
        self.compared: dict[str, tuple[int, UUID]] = {}

    def begin(self, topic: str) -> None:
        """Take the topic of this name as it is now."""
        self._ids.pop(topic, None)
        self.compared.pop(topic, None)
        self.id_of(topic)

    def id_of(self, topic: str) -> UUID | None:
        """Return the id of the topic to write to; None if the brokers (before Kafka 2.8) have none.

        A topic that is gone keeps its id until there is another one: so nothing lands in a new one unnoticed.

        :raises TopicRecreatedError: the topic was recreated, and the messages are for the former one
        """
        generation = self._cluster.generation  # before the look: what comes in between is compared again
        known, found = self._ids.get(topic), self._cluster.topic_id(topic)
        if found is None or found == known:
            if known is not None:
                self.compared[topic] = generation, known
            return known
        if known is not None:
            if self.fails:
                raise TopicRecreatedError(
                    f"the topic was deleted and recreated (its id was {known} and is {found} now), and on_topic_recreated is "
                    '"fail": start the producer again, or make a new one, to write to the new topic',
                    known,
                    found,
                    topic=topic,
                    api="Produce",
                )
            log.warning(
                "topic %s was deleted and recreated (its id was %s and is %s now): the producer continues in the new topic; "
                "what the former one had stored went with it",
                *(topic, known, found),
            )
        self._ids[topic] = found
        self.compared[topic] = generation, found
        return found
