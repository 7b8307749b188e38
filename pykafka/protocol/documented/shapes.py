"""The tuples inside of documented requests and responses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple


class BrokerMetadata(NamedTuple):
    """The address of a broker."""

    id: int
    host: str
    port: int


class BrokerMetadataV1(NamedTuple):
    """The address of a broker, and its rack or None."""

    id: int
    host: str
    port: int
    rack: str | None


class PartitionMetadata(NamedTuple):
    """The leader and the replicas of a partition; leader is -1 while there is none."""

    id: int
    leader: int
    replicas: Sequence[int]
    isr: Sequence[int]
    err: int


class PartitionMetadataV5(NamedTuple):
    """The leader and the replicas of a partition, and the offline ones."""

    id: int
    leader: int
    replicas: Sequence[int]
    isr: Sequence[int]
    offline_replicas: Sequence[int]
    err: int


class TopicMetadata(NamedTuple):
    """A topic's partitions, by their numbers."""

    name: str
    partitions: Mapping[int, PartitionMetadata]
    err: int


class TopicMetadataV1(NamedTuple):
    """A topic's partitions, by their numbers, and whether the topic is internal to Kafka."""

    name: str
    is_internal: bool
    partitions: Mapping[int, PartitionMetadata | PartitionMetadataV5]
    err: int


class _PartitionFetchRequest(NamedTuple):
    topic_name: str | bytes
    partition_id: int
    offset: int
    max_bytes: int


class PartitionFetchRequest(_PartitionFetchRequest):
    """A partition to fetch, from an offset on: `.topic_name`, `.partition_id`, `.offset`, `.max_bytes`.

    :param topic: name of the topic
    :param partition: number of the partition
    :param offset: of the first message
    :param max_bytes: how much at most
    """

    __slots__ = ()

    def __new__(
        cls, topic: str | bytes, partition: int, offset: int, max_bytes: int = 1024 * 1024
    ) -> PartitionFetchRequest:
        """Name the parameters as PyKafka 2 does, which differ from the attributes."""
        return super().__new__(cls, topic, partition, offset, max_bytes)


class PartitionOffsetRequest(NamedTuple):
    """A partition, and the time to return offsets for.

    :param topic_name: name of the topic
    :param partition_id: number of the partition
    :param offsets_before: ms since 1970; -1 is the latest, -2 the earliest offset
    :param max_offsets: how many at most; brokers since 0.10.1 answer one
    """

    topic_name: str | bytes
    partition_id: int
    offsets_before: int
    max_offsets: int


class PartitionOffsetCommitRequest(NamedTuple):
    """An offset to commit for a partition.

    :param topic_name: name of the topic
    :param partition_id: number of the partition
    :param offset: to commit
    :param timestamp: ms since 1970; only brokers before 0.9 keep it
    :param metadata: kept with the offset
    """

    topic_name: str | bytes
    partition_id: int
    offset: int
    timestamp: int
    metadata: str | bytes


class PartitionOffsetFetchRequest(NamedTuple):
    """A partition to return the committed offset of."""

    topic_name: str | bytes
    partition_id: int


class OffsetPartitionResponse(NamedTuple):
    """The offsets found in a partition, and an error code."""

    offset: list[int]
    err: int


class OffsetPartitionResponseV1(NamedTuple):
    """The offset found in a partition, the time of its message (ms; -1: unknown), and an error code."""

    offset: list[int]
    timestamp: int
    err: int


class OffsetCommitPartitionResponse(NamedTuple):
    """The error code of a commit."""

    err: int


class OffsetFetchPartitionResponse(NamedTuple):
    """The committed offset of a partition (-1: none), its metadata (None: null), and an error code."""

    offset: int
    metadata: str | None
    err: int
