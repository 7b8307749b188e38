"""Brokers, topics, leaders, and offsets by time: the documented classes."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any, ClassVar

from pykafka.compat.messages.base import (
    BrokerMetadata,
    BrokerMetadataV1,
    OffsetPartitionResponseV1,
    PartitionMetadataV5,
    PartitionOffsetRequest,
    Request,
    Response,
    TopicMetadataV1,
    by_name,
    kept,
)
from pykafka.metadata.partition import OffsetPartitionResponse, PartitionMetadata, TopicMetadata
from pykafka.protocol import wire
from pykafka.utils import get_string
from pykafka.utils.name import Name

_Broker = wire.MetadataResponse.Broker
_Topic = wire.MetadataResponse.Topic

_Partition = wire.ListOffsetsResponse.Topic.Partition


class MetadataRequest(Request, versions=(0,)):
    """A request for brokers, topics and leaders.

    :param topics: names; None asks for all
    """

    API_KEY = 3

    def __init__(self, topics: Iterable[str | bytes] | None = None, *_unused: Any) -> None:
        self.topics: Collection[str | bytes] = kept(topics or [])

    def wire(self, version: int) -> wire.MetadataRequest:
        """Return this as a wire message."""
        wanted = [wire.MetadataRequest.Topic(name=get_string(name)) for name in self.topics]
        return wire.MetadataRequest(topics=wanted or None)


class MetadataRequestV1(MetadataRequest, versions=(1,)):
    """A request for brokers, topics and leaders, version 1."""


class MetadataRequestV2(MetadataRequestV1, versions=(2,)):
    """A request for brokers, topics and leaders, version 2."""


class MetadataRequestV3(MetadataRequestV2, versions=(3,)):
    """A request for brokers, topics and leaders, version 3."""


class MetadataRequestV4(MetadataRequestV3, versions=(4,)):
    """A request for brokers, topics and leaders, version 4.

    :param topics: names; None asks for all
    :param allow_topic_autocreation: whether brokers may create topics that are named and unknown
    """

    def __init__(self, topics: Iterable[str | bytes] | None = None, allow_topic_autocreation: bool = True) -> None:
        super().__init__(topics)
        self.allow_topic_autocreation = allow_topic_autocreation

    def wire(self, version: int) -> wire.MetadataRequest:
        """Return this as a wire message."""
        message = super().wire(version)
        message.allow_auto_topic_creation = self.allow_topic_autocreation
        return message


class MetadataRequestV5(MetadataRequestV4, versions=(5,)):
    """A request for brokers, topics and leaders, version 5."""


class MetadataResponse(Response[wire.MetadataResponse], versions=(0,)):
    """Brokers (`.brokers`, by id) and topics (`.topics`, by name).

    :param buff: the response's body, version 0

    `.controller_id` and `.cluster_id` are None where the version does not have them.
    """

    WIRE = wire.MetadataResponse
    API_KEY: ClassVar[int] = 3

    def _take(self, message: wire.MetadataResponse) -> None:
        self.throttle_time_ms = message.throttle_time_ms
        self.cluster_id = None if message.cluster_id is None else Name.of(message.cluster_id)
        self.controller_id = self._controller(message)
        self.brokers = {broker.node_id: self._broker(broker) for broker in message.brokers}
        self.topics = {Name.of(topic.name or ""): self._topic(topic) for topic in message.topics}

    def _controller(self, message: wire.MetadataResponse) -> int | None:
        # The wire message has -1 in a version without.
        return message.controller_id if message.controller_id >= 0 else None

    def _broker(self, broker: _Broker) -> BrokerMetadata | BrokerMetadataV1:
        return BrokerMetadata(broker.node_id, Name.of(broker.host), broker.port)

    def _topic(self, topic: _Topic) -> TopicMetadata | TopicMetadataV1:
        return TopicMetadata(Name.of(topic.name or ""), self._partitions(topic), topic.error_code)

    def _partitions(self, topic: _Topic) -> dict[int, Any]:
        return {
            part.partition_index: PartitionMetadata(
                part.partition_index, part.leader_id, part.replica_nodes, part.isr_nodes, part.error_code
            )
            for part in topic.partitions
        }


class MetadataResponseV1(MetadataResponse, versions=(1,)):
    """Brokers, with their racks, and topics; the body is of version 1."""

    def _controller(self, message: wire.MetadataResponse) -> int | None:
        return message.controller_id

    def _broker(self, broker: _Broker) -> BrokerMetadata | BrokerMetadataV1:
        rack = None if broker.rack is None else Name.of(broker.rack)
        return BrokerMetadataV1(broker.node_id, Name.of(broker.host), broker.port, rack)

    def _topic(self, topic: _Topic) -> TopicMetadata | TopicMetadataV1:
        return TopicMetadataV1(Name.of(topic.name or ""), topic.is_internal, self._partitions(topic), topic.error_code)


class MetadataResponseV2(MetadataResponseV1, versions=(2,)):
    """Brokers and topics; the body is of version 2, which names the cluster."""


class MetadataResponseV3(MetadataResponseV2, versions=(3,)):
    """Brokers and topics; the body is of version 3, which has a throttle time."""


class MetadataResponseV4(MetadataResponseV3, versions=(4,)):
    """Brokers and topics; the body is of version 4."""


class MetadataResponseV5(MetadataResponseV4, versions=(5,)):
    """Brokers and topics, with replicas that are offline; the body is of version 5."""

    def _partitions(self, topic: _Topic) -> dict[int, Any]:
        return {
            part.partition_index: PartitionMetadataV5(
                part.partition_index,
                part.leader_id,
                part.replica_nodes,
                part.isr_nodes,
                part.offline_replicas,
                part.error_code,
            )
            for part in topic.partitions
        }


class ListOffsetRequest(Request, versions=(0, 1)):
    """A request for offsets by time.

    :param partition_requests: the partitions and times
    """

    API_KEY = 2

    def __init__(self, partition_requests: Iterable[PartitionOffsetRequest]) -> None:
        self._reqs: dict[str, dict[int, PartitionOffsetRequest]] = {}
        for asked in partition_requests:
            self._reqs.setdefault(get_string(asked.topic_name), {})[asked.partition_id] = asked

    def wire(self, version: int) -> wire.ListOffsetsRequest:
        """Return this as a wire message. Only version 0 can ask for several offsets."""
        topics = []
        for name, partitions in self._reqs.items():
            wanted = []
            for id_, asked in partitions.items():
                entry = wire.ListOffsetsRequest.Topic.Partition(partition_index=id_, timestamp=asked.offsets_before)
                if version == 0:
                    entry.max_num_offsets = asked.max_offsets
                wanted.append(entry)
            topics.append(wire.ListOffsetsRequest.Topic(name=name, partitions=wanted))
        return wire.ListOffsetsRequest(replica_id=-1, topics=topics)


class ListOffsetResponse(Response[wire.ListOffsetsResponse], versions=(0, 1)):
    """Offsets by time: `.topics[name][partition id]`.

    :param buff: the response's body, version 0
    """

    WIRE = wire.ListOffsetsResponse
    API_KEY: ClassVar[int] = 2

    def _take(self, message: wire.ListOffsetsResponse) -> None:
        self.topics = by_name(message.topics, self._partition)

    def _partition(self, part: _Partition) -> Any:
        return OffsetPartitionResponse(_offsets(part), part.error_code)


class ListOffsetRequestV1(ListOffsetRequest):
    """A request for one offset by time of each partition, version 1."""

    API_VERSION = 1


class ListOffsetResponseV1(ListOffsetResponse):
    """One offset and the time of its message: `.topics[name][partition id]`; the body is of version 1."""

    API_VERSION = 1

    def _partition(self, part: _Partition) -> Any:
        return OffsetPartitionResponseV1(_offsets(part), part.timestamp, part.error_code)


def _offsets(part: _Partition) -> list[int]:
    # Versions above 0 return one offset, or -1 for none.
    return list(part.old_style_offsets) or ([part.offset] if part.offset >= 0 else [])


#: Earlier names of the same classes.
OffsetRequest = ListOffsetRequest
OffsetResponse = ListOffsetResponse
