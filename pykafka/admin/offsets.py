"""Offsets of partitions, by place or by time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from pykafka.admin.base import TIMEOUT_MS, AdminBase, topic_partition
from pykafka.admin.faults import fault
from pykafka.admin.offsettypes import ListedOffset, OffsetSpec
from pykafka.admin.placement import Leaders
from pykafka.admin.releases import need, version_of
from pykafka.admin.results import Results
from pykafka.admin.routing import Question
from pykafka.common import TopicPartition
from pykafka.exceptions import KafkaException
from pykafka.protocol import wire

if TYPE_CHECKING:
    from pykafka.network.node import Node

READ_UNCOMMITTED, READ_COMMITTED = 0, 1


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
            return {
                TopicPartition(topic.name, part.partition_index): _listed(topic.name, part, broker)
                for topic in response.topics
                for part in topic.partitions
            }

        asked: Question[TopicPartition, ListedOffset] = Question(wire.ListOffsetsRequest, request, read)
        placement: Leaders[TopicPartition] = Leaders(self._cluster, lambda item: item)
        return self._ask(wanted, placement, asked, timeout_ms, raise_errors)


def _listed(topic: str, part: wire.ListOffsetsResponse.Topic.Partition, broker: Node) -> ListedOffset | KafkaException:
    if part.error_code:
        return fault(part.error_code, broker=broker, api="ListOffsets", topic=topic, partition=part.partition_index)
    offset = part.old_style_offsets[0] if part.old_style_offsets else part.offset
    return ListedOffset(
        offset if offset >= 0 else None,
        part.timestamp if part.timestamp >= 0 else None,
        part.leader_epoch if part.leader_epoch >= 0 else None,
    )
