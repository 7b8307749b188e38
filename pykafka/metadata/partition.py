"""One partition of a topic, as the cluster's metadata describes it."""

from __future__ import annotations

import copy
import weakref
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from pykafka.common import OffsetType
from pykafka.exceptions import LeaderNotFoundError
from pykafka.utils import get_string

if TYPE_CHECKING:
    import datetime
    from uuid import UUID

    from pykafka.network.node import Node

#: The leader epoch of a partition whose epoch no broker has given (before Kafka 2.1).
NO_EPOCH = -1


class PartitionMetadata(NamedTuple):
    """The leader and the replicas of a partition; leader is -1 while there is none."""

    id: int
    leader: int
    replicas: Sequence[int]
    isr: Sequence[int]
    err: int


class TopicMetadata(NamedTuple):
    """A topic's partitions, by their numbers."""

    name: str
    partitions: Mapping[int, PartitionMetadata]
    err: int


class KnownTopic(NamedTuple):
    """A topic as the client knows it.

    :param metadata: its partitions and their leaders
    :param id: its topic id; None from brokers before Kafka 2.8
    :param epochs: the leader epoch of each partition, by number
    """

    metadata: TopicMetadata
    id: UUID | None
    epochs: dict[int, int]


class OffsetPartitionResponse(NamedTuple):
    """The offsets found in a partition, and an error code."""

    offset: list[int]
    err: int


class TopicView(Protocol):
    """The part of a topic that partitions, consumers and producers use; `pykafka.topic.Topic` documents each member."""

    @property
    def name(self) -> str: ...
    @property
    def partitions(self) -> dict[int, Partition]: ...
    @property
    def changes(self) -> int: ...
    def update(self, metadata: TopicMetadata) -> None: ...
    def unlink(self) -> None: ...
    def fetch_offset_limits(
        self, offsets_before: int | datetime.datetime, max_offsets: int = 1, partitions: Iterable[int] | None = None
    ) -> dict[int, OffsetPartitionResponse]: ...


class Partition:
    """A log of messages in order of offset, on a leader and its replicas.

    The object stays the same while leaders and replicas change: hold on to it, and ask it for its present `leader`.

    :param topic: the partition's topic (held weakly)
    :param id_: its number within the topic
    :param leader: the broker that leads it, or None while there is no leader
    :param replicas: the brokers that have a copy
    :param isr: the replicas that are in sync
    """

    __module__ = "pykafka.partition"  # its documented place

    def __init__(
        self, topic: TopicView, id_: int, leader: Node | None, replicas: Sequence[Node], isr: Sequence[Node]
    ) -> None:
        self._topic = weakref.ref(topic)
        self._topic_name = get_string(topic.name)
        self._id = id_
        self._leader = leader
        self._replicas = list(replicas)
        self._isr = list(isr)

    def __repr__(self) -> str:
        leader = self._leader.id if self._leader is not None else None
        facts = f"id={self._id}, topic={self._topic_name}, leader={leader}"
        return f"<{type(self).__module__}.{type(self).__name__} at {id(self):#x} ({facts})>"

    def __lt__(self, other: Partition) -> bool:
        return self._id < other._id

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Partition):
            return NotImplemented
        return self._topic_name == other._topic_name and self._id == other._id

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash((self._topic_name, self._id))

    @property
    def topic_name(self) -> str:
        """The name of its topic, even if nothing refers to the `Topic` any more."""
        return self._topic_name

    @property
    def id(self) -> int:
        """The number of this partition within its topic."""
        return self._id

    @property
    def leader(self) -> Node | None:
        """The broker that leads this partition now, or None while the cluster elects one."""
        return self._leader

    @property
    def replicas(self) -> list[Node]:
        """The brokers that have a copy."""
        return self._replicas

    @property
    def isr(self) -> list[Node]:
        """The replicas that are in sync with the leader."""
        return self._isr

    @property
    def topic(self) -> TopicView | None:
        """The topic of this partition; None once nothing else refers to it."""
        return self._topic()

    def snapshot(self) -> Partition:
        """Return a copy that keeps the present leader and replicas, and equals this partition."""
        copied = copy.copy(self)
        copied._replicas, copied._isr = list(self._replicas), list(self._isr)
        return copied

    def fetch_offset_limit(self, offsets_before: int | datetime.datetime, max_offsets: int = 1) -> list[int]:
        """Return offsets of this partition by time.

        :param offsets_before: milliseconds since 1970 or a datetime; -1 for the end, -2 for the start
        :param max_offsets: how many offsets to return at most
        :returns: the offsets, as in `Topic.fetch_offset_limits`
        :raises LeaderNotFoundError: nothing refers to the topic any more
        """
        topic = self._topic()
        if topic is None:
            raise LeaderNotFoundError(
                "the topic of this partition was given up; keep a reference to the Topic while you use its partitions",
                topic=self._topic_name,
                partition=self._id,
            )
        return list(topic.fetch_offset_limits(offsets_before, max_offsets, partitions=[self._id])[self._id].offset)

    def latest_available_offset(self) -> int:
        """Return the offset that the next message written here will get."""
        return self.fetch_offset_limit(OffsetType.LATEST)[0]

    def earliest_available_offset(self) -> int:
        """Return the offset of the oldest message still kept here."""
        return self.fetch_offset_limit(OffsetType.EARLIEST)[0]

    def update(self, brokers: Mapping[int, Node], metadata: PartitionMetadata | Any) -> None:
        """Apply fresh metadata of this partition.

        :param brokers: the cluster's brokers by id
        :param metadata: this partition's metadata; the partition leaves out brokers that are not in `brokers`
        """
        self._leader = brokers.get(metadata.leader)
        self._replicas = [brokers[id_] for id_ in metadata.replicas if id_ in brokers]
        self._isr = [brokers[id_] for id_ in metadata.isr if id_ in brokers]

    def relink(self, brokers: Mapping[int, Node]) -> None:
        """Replace brokers by those with the same ids, and drop brokers that are not there.

        :param brokers: the cluster's brokers by id
        """
        self._leader = brokers.get(self._leader.id) if self._leader is not None else None
        self._replicas = [brokers[broker.id] for broker in self._replicas if broker.id in brokers]
        self._isr = [brokers[broker.id] for broker in self._isr if broker.id in brokers]
