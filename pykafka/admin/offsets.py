"""Offsets of partitions, by place or by time, and the types of calls about offsets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum
from typing import TYPE_CHECKING

from pykafka.admin.base import TIMEOUT_MS, AdminBase, topic_partition
from pykafka.admin.releases import need, version_of
from pykafka.admin.results import Results, partition_error, partitions_in
from pykafka.admin.routing import Leaders, RequestFactory
from pykafka.common import TopicPartition
from pykafka.exceptions import KafkaException
from pykafka.protocol import wire
from pykafka.utils import milliseconds

if TYPE_CHECKING:
    from pykafka.network.node import Node

READ_UNCOMMITTED, READ_COMMITTED = 0, 1


class _Kind(Enum):
    EARLIEST = -2
    LATEST = -1
    MAX_TIMESTAMP = -3
    EARLIEST_LOCAL = -4
    LATEST_TIERED = -5
    TIME = "time"
    AGO = "ago"
    SHIFT = "shift"
    OFFSET = "offset"


@dataclass(frozen=True)
class OffsetSpec:
    """A place in a partition; make it by its class methods.

    :param kind: the kind of place
    :param value: its number: ms since 1970, ms, or offsets
    """

    kind: _Kind
    value: int = 0

    @classmethod
    def earliest(cls) -> OffsetSpec:
        """Return the place of the first message."""
        return cls(_Kind.EARLIEST)

    @classmethod
    def latest(cls) -> OffsetSpec:
        """Return the place where the next message will be written."""
        return cls(_Kind.LATEST)

    @classmethod
    def max_timestamp(cls) -> OffsetSpec:
        """Return the place of the message with the latest time (since Kafka 3.0)."""
        return cls(_Kind.MAX_TIMESTAMP)

    @classmethod
    def earliest_local(cls) -> OffsetSpec:
        """Return the place of the first message on the broker's own disk, with tiered storage (since Kafka 3.4)."""
        return cls(_Kind.EARLIEST_LOCAL)

    @classmethod
    def latest_tiered(cls) -> OffsetSpec:
        """Return the place of the last message in remote storage, with tiered storage (since Kafka 3.9)."""
        return cls(_Kind.LATEST_TIERED)

    @classmethod
    def at(cls, moment: datetime | int) -> OffsetSpec:
        """Return the place of the first message that is not older than a time.

        :param moment: a datetime (a naive one is UTC), or ms since 1970
        """
        return cls(_Kind.TIME, max(0, milliseconds(moment, "moment")))

    @classmethod
    def ago(cls, duration: timedelta | float) -> OffsetSpec:
        """Return the place of the first message that is not older than this.

        :param duration: a timedelta, or seconds
        """
        span = duration if isinstance(duration, timedelta) else timedelta(seconds=duration)
        if span < timedelta(0):
            raise ValueError(f"a duration must not be negative: {duration!r}")
        return cls(_Kind.AGO, span // timedelta(milliseconds=1))

    @classmethod
    def shift(cls, by: int) -> OffsetSpec:
        """Return the place so many messages behind the committed offset; before it if negative. For groups alone."""
        return cls(_Kind.SHIFT, by)

    @classmethod
    def offset(cls, offset: int) -> OffsetSpec:
        """Return the place of this offset. For groups alone."""
        if offset < 0:
            raise ValueError(f"an offset must not be negative: {offset}")
        return cls(_Kind.OFFSET, offset)

    @property
    def is_listed(self) -> bool:
        """Whether brokers can be asked for it."""
        return self.kind not in (_Kind.SHIFT, _Kind.OFFSET)

    @property
    def is_shift(self) -> bool:
        """Whether it is counted from a committed offset."""
        return self.kind == _Kind.SHIFT

    @property
    def since_version(self) -> tuple[int, str]:
        """The version of ListOffsets that it needs, and the release that has it."""
        return {
            _Kind.MAX_TIMESTAMP: (7, "3.0"),
            _Kind.EARLIEST_LOCAL: (8, "3.4"),
            _Kind.LATEST_TIERED: (9, "3.9"),
            _Kind.TIME: (1, "0.10.1"),
            _Kind.AGO: (1, "0.10.1"),
        }.get(self.kind, (0, "0.8.2"))

    def timestamp(self, now_ms: int) -> int:
        """Return the number that a request has for it.

        :param now_ms: the present time, ms since 1970
        """
        if self.kind == _Kind.TIME:
            return self.value
        if self.kind == _Kind.AGO:
            return max(0, now_ms - self.value)
        return int(self.kind.value)


@dataclass(frozen=True)
class ListedOffset:
    """An offset that a broker has found.

    :param offset: None if all messages are older than the time that was asked about
    :param timestamp: of the message there (ms since 1970); None if the broker does not report it
    :param leader_epoch: of the message there; None if the broker does not report it
    """

    offset: int | None
    timestamp: int | None
    leader_epoch: int | None


@dataclass(frozen=True)
class OffsetChange:
    """The offset of a group in a partition, before and after a change.

    :param before: None if there was none
    :param after: that of the next message to consume
    """

    before: int | None
    after: int


@dataclass(frozen=True)
class ShareGroupOffset:
    """How far a share group has come in a partition.

    :param start_offset: the first offset that the group may still get; None if there is none yet
    :param lag: messages that it has not done with; None if the broker does not report it (before Kafka 4.2)
    :param leader_epoch: of the partition
    """

    start_offset: int | None
    lag: int | None
    leader_epoch: int


class OffsetsAdmin(AdminBase):
    """The offsets of partitions."""

    def list_offsets(
        self,
        places: Mapping[tuple[str, int], OffsetSpec],
        *,
        read_committed: bool = False,
        timeout_ms: int = TIMEOUT_MS,
        raise_errors: bool = True,
    ) -> Results[TopicPartition, ListedOffset]:
        """Return the offset at a place, in each partition.

        :param places: {(topic, partition): place}
        :param read_committed: take the first open transaction for the end (since Kafka 0.11)
        :param timeout_ms: of the whole call
        :param raise_errors: whether to raise for partitions that failed, see `Results`
        :raises UnknownTopicOrPartition: there is no such partition
        """
        now_ms = self._cluster.handler.time_ms()
        wanted = {topic_partition(key): spec for key, spec in places.items()}
        for spec in wanted.values():
            if not spec.is_listed:
                raise ValueError(f"{spec.kind.value} is a place for groups: use reset_group_offsets")

        def request(items: Sequence[TopicPartition], broker: Node, left: int) -> wire.ListOffsetsRequest:
            topic = wire.ListOffsetsRequest.Topic
            by_topic: dict[str, list[wire.ListOffsetsRequest.Topic.Partition]] = {}
            for item in items:
                spec = wanted[item]
                version, since = spec.since_version
                need(broker, wire.ListOffsetsRequest, version, f"the place {spec.kind.name.lower()}", since)
                part = topic.Partition(
                    partition_index=item.partition,
                    current_leader_epoch=self._cluster.leader_epoch(item.topic, item.partition),
                    timestamp=spec.timestamp(now_ms),
                )
                by_topic.setdefault(item.topic, []).append(part)
            made = wire.ListOffsetsRequest(
                replica_id=-1, topics=[topic(name=name, partitions=parts) for name, parts in by_topic.items()]
            )
            if read_committed:
                need(broker, wire.ListOffsetsRequest, 2, "read_committed", "0.11")
                made.isolation_level = READ_COMMITTED
            if version_of(broker, wire.ListOffsetsRequest) >= 10:
                made.timeout_ms = left
            return made

        def read(
            response: wire.ListOffsetsResponse, items: Sequence[TopicPartition], broker: Node
        ) -> Mapping[TopicPartition, ListedOffset | KafkaException]:
            return {key: partition_error(key, part) or _listed(part) for key, part in partitions_in(response.topics)}

        factory = RequestFactory(wire.ListOffsetsRequest, request, read)
        return self._ask(wanted, Leaders(self._cluster), factory, timeout_ms, raise_errors)


def _listed(part: wire.ListOffsetsResponse.Topic.Partition) -> ListedOffset:
    offset = part.old_style_offsets[0] if part.old_style_offsets else part.offset
    return ListedOffset(
        offset if offset >= 0 else None,
        part.timestamp if part.timestamp >= 0 else None,
        part.leader_epoch if part.leader_epoch >= 0 else None,
    )
