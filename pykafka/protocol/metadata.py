"""Brokers, topics and leaders: the documented classes."""

from __future__ import annotations

from collections.abc import Sequence

from pykafka.protocol import messages
from pykafka.protocol.base import Request, Response
from pykafka.protocol.shapes import BrokerMetadata, PartitionMetadata, TopicMetadata
from pykafka.utils import get_string


class MetadataRequest(Request):
    """Ask for brokers, topics and leaders.

    :param topics: names; None asks for all
    """

    API_KEY = 3

    def __init__(self, topics: Sequence[str | bytes] | None = None) -> None:
        self.topics = [get_string(topic) for topic in topics or ()]

    def wire(self, version: int) -> messages.MetadataRequest:
        """Return this as a wire message."""
        wanted = [messages.MetadataRequest.Topic(name=name) for name in self.topics]
        return messages.MetadataRequest(topics=wanted or None)


class MetadataResponse(Response[messages.MetadataResponse]):
    """Tell of brokers (`.brokers`, by id) and topics (`.topics`, by name).

    :param buff: the response's body, version 0
    """

    WIRE = messages.MetadataResponse

    def _take(self, message: messages.MetadataResponse) -> None:
        self.brokers = {
            broker.node_id: BrokerMetadata(broker.node_id, broker.host, broker.port) for broker in message.brokers
        }
        self.topics = {}
        for topic in message.topics:
            partitions = {
                part.partition_index: PartitionMetadata(
                    part.partition_index, part.leader_id, part.replica_nodes, part.isr_nodes, part.error_code
                )
                for part in topic.partitions
            }
            name = topic.name or ""
            self.topics[name] = TopicMetadata(name, partitions, topic.error_code)
