"""`Catalogue`: the topics of a cluster as its metadata describes them, and who leads their partitions. No I/O."""

from __future__ import annotations

from typing import Any

from pykafka.exceptions import UnknownTopicOrPartition
from pykafka.protocol import documented, wire


class Catalogue:
    """The description of each topic that the client knows.

    State: `topics` is replaced as a whole, under the cluster's lock; readers take none.
    """

    def __init__(self) -> None:
        #: By name.
        self.topics: dict[str, documented.TopicMetadata] = {}

    def take_over(
        self, response: wire.MetadataResponse, names: list[str] | None
    ) -> dict[str, documented.TopicMetadata]:
        """Take over fresh metadata and return the topics that it describes.

        :param names: the topics that the client asked for; None: all, so that the others are gone
        """
        found = {}
        for topic in response.topics:
            name = topic.name
            if name is None or topic.error_code == UnknownTopicOrPartition.ERROR_CODE:
                continue
            if topic.error_code and not topic.partitions:  # an error tells nothing about the partitions
                if name in self.topics:
                    found[name] = self.topics[name]
                continue
            found[name] = _described(name, topic)
        if names is None:
            self.topics = found
        else:
            kept = {name: metadata for name, metadata in self.topics.items() if name not in names}
            self.topics = {**kept, **found}
        return found

    def is_led(self, topic: str) -> bool:
        """Return whether each partition of a topic has a leader."""
        metadata = self.topics.get(topic)
        return metadata is not None and all(part.leader >= 0 for part in metadata.partitions.values())

    def leader_of(self, topic: str, partition: int) -> int | None:
        """Return the number of the broker that leads a partition; None for an unknown partition, -1 for no leader."""
        metadata = self.topics.get(topic)
        found = metadata.partitions.get(partition) if metadata is not None else None
        return None if found is None else found.leader


def _described(name: str, topic: Any) -> documented.TopicMetadata:
    partitions = {
        part.partition_index: documented.PartitionMetadata(
            part.partition_index, part.leader_id, list(part.replica_nodes), list(part.isr_nodes), part.error_code
        )
        for part in topic.partitions
    }
    return documented.TopicMetadata(name, partitions, topic.error_code)
